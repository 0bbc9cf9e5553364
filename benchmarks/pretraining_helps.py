"""Does pretraining help?  python benchmarks/pretraining_helps.py [--model DIR] [--plot FILE]

Two models of one size and vocabulary learn a task, from few rows and from many: one pretrained by
``minibert pretrain`` on the documentation of Python, and one that starts from random numbers.
Without --model a model is pretrained first, for --minutes.  Two tasks, and two answers:

    pairs     how alike are two sentences, 1 to 5?   (SICK relatedness)
    reviews   is a film review good or bad?          (sentence polarity)

Pairs it helps: probably since a model that can tell whether one sentence follows another has
learned to look from one to the other, whatever they speak of.  Reviews it does not: there words
have to be told apart that fill the same blanks, such as "good" and "bad", and half a million tokens
of documentation hardly have them.  Only the pairs have a limit.

Both models get the same chances.  For every number of rows the learning rate is chosen for each of
the two by itself: the one that is best on the dev rows, with seeds that are not used again.  Epochs
are many where rows are few, and the best of them is kept, by the dev rows, as ``minibert finetune``
does.  Each seed draws other rows, another order and another head, or a whole fresh model; what is
drawn is the same for both.  Only the test rows, which decide nothing, are in the table.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import taskdata
from programs import Calls, Program
from report import NOT_FIT, Figure, add_plot, finish, new_parser, parse, positive

from minibert.config import FineTuneConfig, initial_std
from minibert.keys import Key
from minibert.tasks.base import TaskModel
from minibert.tasks.predict import predict
from minibert.training.finetune import Preparation, Quiet, train_seed

RATES = (1e-4, 3e-4, 1e-3, 3e-3)
SEEDS, QUICK_SEEDS = 5, 1
CHOOSING_SEEDS = (1000, 1001)  # the learning rate is chosen with them
CHOSEN_BY = 500  # dev rows
SIDES = ("pretrained", "fresh")
CHECKED = 500  # rows, where pretraining has to show


class Job(NamedTuple):
    """A task, its data, and how often its rows are seen."""

    task: str
    source: taskdata.Source
    score: str
    chance: float  # the score of guessing
    title: str
    epochs: dict[int, int]  # by rows
    label: str | None = None  # the column
    limit: bool = False  # whether pretraining has to show


JOBS = {
    "pairs": Job(
        "similarity", taskdata.sick, "pearson", 0.0, "How alike are two sentences?",
        {250: 16, 500: 16, 1000: 12, 2000: 8}, "relatedness_score", limit=True,
    ),
    "reviews": Job(
        "classify", taskdata.polarity, "accuracy", 0.5, "Is a film review good or bad?",
        {250: 12, 500: 10, 1000: 8, 2000: 6},
    ),
}  # fmt: skip
QUICK_EPOCHS = {100: 3}


class Setting(NamedTuple):
    side: str
    rows: int
    epochs: int
    rate: float
    seed: int


class Trainer:
    """Both models, and a task's rows; a process of its own holds it."""

    def __init__(self, folder: Path, name: str, data: Path) -> None:
        job = JOBS[name]
        self.prepared, test = taskdata.read_task(
            job.task, job.source, data, folder, job.label, FineTuneConfig()
        )
        assert test is not None
        self.test, self.score = test, job.score

    def dev_score(self, setting: Setting) -> float:
        return self.train(setting)[1]

    def test_score(self, setting: Setting) -> float:
        model, _ = self.train(setting)
        task = self.prepared.task
        return task.scores(predict(task, model, self.test), self.test)[self.score]

    def train(self, setting: Setting) -> tuple[TaskModel, float]:
        """Train once; return the best epoch's model and its score on dev rows."""
        config = FineTuneConfig(
            epochs=setting.epochs, learning_rate=setting.rate, seed=setting.seed
        )
        found, history = train_seed(self.part(setting), config, Quiet(), None)
        if history.stopped or history.best is None:  # by Ctrl-C
            raise KeyboardInterrupt
        return found.model, history.best.scores[self.score]

    def part(self, setting: Setting) -> Preparation:
        """Return the rows and the first weights of one training."""
        training = self.prepared.training
        order = Key(setting.seed).child("rows").generator().permutation(len(training))
        return replace(
            self.prepared,
            training=[training[number] for number in order[: setting.rows]],
            dev=self.prepared.dev[:CHOSEN_BY],
            make_model=self.prepared.make_model if setting.side == "pretrained" else self.fresh,
        )

    def fresh(self, seed: int) -> TaskModel:
        """Return a model of the same size whose weights are random, as loud as its width wants."""
        model = self.prepared.make_model(seed)
        model.params.initialize(Key(seed).child("weights"), initial_std(model.config.hidden_size))
        self.prepared.task.prepare(model, fresh=True)
        return model


def program(folder: Path, name: str, data: Path) -> Calls:
    trainer = Trainer(folder, name, data)
    return {"dev": trainer.dev_score, "test": trainer.test_score}


class Found(NamedTuple):
    """What one side came to with so many rows."""

    rate: float
    scores: list[float]  # on the test rows, by seed

    @property
    def median(self) -> float:
        return median(self.scores)


Results = dict[str, dict[int, Found]]  # by side and rows


def measure(trainer: Any, side: str, rows: int, epochs: int, seeds: int) -> Found:
    """Choose the learning rate, then train with every seed."""

    def dev(rate: float) -> float:
        settings = [Setting(side, rows, epochs, rate, seed) for seed in CHOOSING_SEEDS]
        return sum(trainer.result("dev", setting) for setting in settings)

    rate = max(RATES, key=dev)
    settings = [Setting(side, rows, epochs, rate, seed) for seed in range(seeds)]
    return Found(rate, [trainer.result("test", setting) for setting in settings])


def pretrain(minutes: float, preset: str, out: Path) -> Path:
    """Pretrain a model on the embedded text, as the command does it; return its folder."""
    command = [
        sys.executable, "-m", "minibert", "pretrain", "--minutes", f"{minutes:g}",
        "--preset", preset, "--out", str(out),
    ]  # fmt: skip
    if status := subprocess.run(command, check=False).returncode:
        raise SystemExit(f"minibert pretrain failed, exit status {status}")
    return out


def draw(results: dict[str, Results], out: Path) -> None:
    """Draw score against rows, a panel for each task."""
    from minibert.plots.figure import new_figure, save

    with new_figure(4.7 * len(results), 3.9) as figure:
        panels = figure.subplots(1, len(results), squeeze=False)[0]
        for axes, (name, found) in zip(panels, results.items(), strict=True):
            draw_panel(axes, JOBS[name], found)
        found = next(iter(results.values()))[SIDES[0]]
        seeds = len(next(iter(found.values())).scores)
        figure.supxlabel(
            f"rows to learn from; lines are medians, bands hold all {seeds} seeds", fontsize=10
        )
        save(figure, out)


def draw_panel(axes: Any, job: Job, found: Results) -> None:
    """Draw the median of the seeds, and a band that holds them all."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    from minibert.plots.figure import BLUE, GREY, ORANGE

    counts = np.array(list(found[SIDES[0]]))
    values = {side: np.array([result.scores for result in found[side].values()]) for side in SIDES}
    ahead = max(SIDES, key=lambda side: float(np.median(values[side][-1])))
    for side, colour in zip(SIDES, (BLUE, ORANGE), strict=True):
        low, middle, high = (f(values[side], axis=1) for f in (np.min, np.median, np.max))
        axes.fill_between(counts, low, high, color=colour, alpha=0.18, linewidth=0)
        axes.plot(counts, middle, color=colour, marker="o", markersize=5, linewidth=2)
        axes.annotate(  # above or below its end, so that two that meet can be read
            side, (counts[-1], middle[-1]), xytext=(8, 5 if side == ahead else -5),
            textcoords="offset points", va="bottom" if side == ahead else "top",
            color=colour, fontweight="bold", annotation_clip=False,
        )  # fmt: skip
    axes.axhline(job.chance, color=GREY, linestyle="--", linewidth=1)
    axes.annotate(
        "guessing", (counts[0], job.chance), xytext=(0, 4), textcoords="offset points",
        color=GREY, fontsize=9,
    )  # fmt: skip
    axes.set_title(job.title)
    axes.set_xscale("log")
    axes.set_xticks(counts, [f"{rows:,}" for rows in counts])
    axes.minorticks_off()
    axes.set_ylabel(f"{job.score.capitalize()}, test rows")
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    if job.score == "accuracy":
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def figures_of(name: str, found: Results) -> list[Figure]:
    """Return all medians, and at ``CHECKED`` rows how far pretraining is ahead."""
    job = JOBS[name]
    figures = [
        Figure(f"{name}, {side}, {rows:,} rows: {job.score}", result.median)
        for side in SIDES
        for rows, result in found[side].items()
    ]
    if CHECKED not in found[SIDES[0]]:
        return figures
    pretrained, fresh = (found[side][CHECKED] for side in SIDES)
    least = float(np.nextafter(0.0, 1.0)) if job.limit else None
    where = f"{name}, {CHECKED:,} rows: pretrained - median fresh"
    return [
        *figures,
        Figure(f"{where}, median", pretrained.median - fresh.median, at_least=least),
        Figure(f"{where}, worst seed", min(pretrained.scores) - fresh.median, at_least=least),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser("Does pretraining help?")
    parser.add_argument(
        "--task", action="append", choices=list(JOBS), help="may be given again; default: both"
    )
    parser.add_argument(
        "--model", type=Path, metavar="DIR", help="a pretrained model; default: train one"
    )
    parser.add_argument(
        "--minutes", type=float, default=5.0, metavar="M",
        help="of pretraining, without --model (default: 5, quick: 0.2)",
    )  # fmt: skip
    parser.add_argument("--preset", default="tiny", help="its size (default: tiny)")
    parser.add_argument(
        "--data", type=Path, default=taskdata.DATA, metavar="DIR", help="of both tasks"
    )
    parser.add_argument("--seeds", type=positive, metavar="N", help="default: 5, quick: 1")
    add_plot(parser)
    options = parse(parser, arguments)
    if not options.minutes > 0:
        parser.error(f"--minutes is {options.minutes}, expected a number above 0")
    minutes = min(options.minutes, 0.2) if options.quick else options.minutes
    results: dict[str, Results] = {}
    with tempfile.TemporaryDirectory() as made:
        try:
            for name in options.task or JOBS:
                JOBS[name].source(options.data, Path(made))
        except FileNotFoundError as error:
            print(error, file=sys.stderr)
            return NOT_FIT
        folder = options.model or pretrain(minutes, options.preset, Path(made, "pretrained"))
        for name in options.task or JOBS:
            results[name] = run(name, folder, options)
    if options.plot:
        draw(results, options.plot)
    headers = [
        "task", "rows", "epochs", "pretrained, rate", "score", "all seeds", "fresh, rate",
        "score ", "all seeds ", "gain",
    ]  # fmt: skip
    rows = [
        row_of(name, count, epochs, *(found[side][count] for side in SIDES))
        for name, found in results.items()
        for count, epochs in epochs_of(name, options.quick).items()
    ]
    figures = [figure for name, found in results.items() for figure in figures_of(name, found)]
    scores = {
        name: {side: {count: r._asdict() for count, r in found[side].items()} for side in SIDES}
        for name, found in results.items()
    }
    return finish(options, headers, rows, figures, scores=scores)


def epochs_of(name: str, quick: bool) -> dict[int, int]:
    return QUICK_EPOCHS if quick else JOBS[name].epochs


def run(name: str, folder: Path, options: Any) -> Results:
    """Measure both sides of a task at every number of rows."""
    seeds = options.seeds or (QUICK_SEEDS if options.quick else SEEDS)
    found: Results = {side: {} for side in SIDES}
    started = perf_counter()
    with Program(program, folder, name, options.data, threads=options.threads) as trainer:
        for count, epochs in epochs_of(name, options.quick).items():
            for side in SIDES:
                found[side][count] = measure(trainer, side, count, epochs, seeds)
            print(f"{name}, {count:,} rows: {perf_counter() - started:.0f} s", file=sys.stderr)
    return found


def row_of(name: str, count: int, epochs: int, pretrained: Found, fresh: Found) -> list[str]:
    cells = [name, f"{count:,}", f"{epochs}"]
    for found in (pretrained, fresh):
        low, high = min(found.scores), max(found.scores)
        cells += [f"{found.rate:g}", f"{found.median:.3f}", f"{low:.3f}-{high:.3f}"]
    return [*cells, f"{pretrained.median - fresh.median:+.3f}"]


if __name__ == "__main__":
    sys.exit(main())
