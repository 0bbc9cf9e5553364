"""Does pretraining help?  python benchmarks/pretraining_helps.py [--model DIR] [--plot FILE]

Two models of one size and vocabulary learn to tell good film reviews from bad ones, from 100 to
4,000 of them: one pretrained by ``minibert pretrain`` on text that has nothing to do with films,
the documentation of Python, and one that starts from random numbers.  Without --model a model is
pretrained first, for --minutes.

Both get the same chances.  For every number of rows the learning rate is chosen for each of the two
by itself: the one that is best on the dev reviews with a seed that is not used again.  Epochs are
many where rows are few, and the best of them is kept, by the dev reviews, as ``minibert finetune``
does.  Each seed draws other rows, another order and another head, or a whole fresh model; what is
drawn is the same for both.  Only the test reviews, which decide nothing, are in the table.
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
from measure import (
    NOT_FIT,
    Calls,
    Figure,
    Program,
    add_plot,
    finish,
    new_parser,
    parse,
    positive,
)
from taskdata import DATA, Files, polarity

from minibert.config import FineTuneConfig, initial_std
from minibert.keys import Key
from minibert.tasks.base import ANY_COLUMNS, TaskModel
from minibert.tasks.predict import predict
from minibert.training.finetune import Preparation, Quiet, Start, prepare, train_seed

EPOCHS = {100: 20, 250: 12, 500: 10, 1000: 8, 2000: 6, 4000: 4}  # by rows
QUICK_EPOCHS = {100: 5, 500: 3}
RATES = (3e-4, 1e-3, 3e-3)
SEEDS, QUICK_SEEDS = 5, 2
CHOOSING_SEED = 1000  # the learning rate is chosen with it
CHOSEN_BY = 500  # dev reviews
SIDES = ("pretrained", "fresh")
CHECKED = 500  # rows, where pretraining has to show


class Setting(NamedTuple):
    side: str
    rows: int
    epochs: int
    rate: float
    seed: int


class Trainer:
    """Both models, and the reviews; a process of its own holds it."""

    def __init__(self, folder: Path, files: Files) -> None:
        self.prepared = prepare(
            "classify", Start(folder), files.train, files.dev, ANY_COLUMNS, {}, FineTuneConfig()
        )
        assert files.test is not None
        self.test = self.prepared.task.read(files.test, ANY_COLUMNS)

    def accuracies(self, setting: Setting) -> tuple[float, float]:  # dev, test
        """Train once; return how good the best epoch is."""
        config = FineTuneConfig(
            epochs=setting.epochs, learning_rate=setting.rate, seed=setting.seed
        )
        found, history = train_seed(self.part(setting), config, Quiet(), None)
        if history.stopped or history.best is None:  # by Ctrl-C
            raise KeyboardInterrupt
        task = self.prepared.task
        scores = task.scores(predict(task, found.model, self.test), self.test)
        return history.best.scores[task.metric], scores[task.metric]

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


def program(folder: Path, files: Files) -> Calls:
    return {"accuracies": Trainer(folder, files).accuracies}


class Found(NamedTuple):
    """What one side came to with so many rows."""

    rate: float
    accuracies: list[float]  # on the test reviews, by seed

    @property
    def median(self) -> float:
        return median(self.accuracies)


def measure(trainer: Any, side: str, rows: int, epochs: int, seeds: int) -> Found:
    """Choose the learning rate, then train with every seed."""
    settings = [Setting(side, rows, epochs, rate, CHOOSING_SEED) for rate in RATES]
    dev = [trainer.result("accuracies", setting)[0] for setting in settings]
    rate = RATES[int(np.argmax(dev))]
    settings = [Setting(side, rows, epochs, rate, seed) for seed in range(seeds)]
    return Found(rate, [trainer.result("accuracies", setting)[1] for setting in settings])


def pretrain(minutes: float, preset: str, out: Path) -> Path:
    """Pretrain a model on the embedded text, as the command does it; return its folder."""
    command = [
        sys.executable, "-m", "minibert", "pretrain", "--minutes", f"{minutes:g}",
        "--preset", preset, "--out", str(out),
    ]  # fmt: skip
    if status := subprocess.run(command, check=False).returncode:
        raise SystemExit(f"minibert pretrain failed, exit status {status}")
    return out


def draw(found: dict[str, dict[int, Found]], out: Path) -> None:
    """Draw accuracy against rows: the median of the seeds, and a band that holds them all."""
    from matplotlib.ticker import MultipleLocator, PercentFormatter

    from minibert.plots.figure import BLUE, GREY, ORANGE, new_figure, save

    counts = np.array(list(found[SIDES[0]]))
    values = {side: np.array([r.accuracies for r in found[side].values()]) for side in SIDES}
    ahead = max(SIDES, key=lambda side: float(np.median(values[side][-1])))
    with new_figure(8, 4.2) as figure:
        axes = figure.subplots()
        axes.set_title("Accuracy on film reviews that were never seen")
        for side, colour in zip(SIDES, (BLUE, ORANGE), strict=True):
            low, middle, high = (f(values[side], axis=1) for f in (np.min, np.median, np.max))
            axes.fill_between(counts, low, high, color=colour, alpha=0.18, linewidth=0)
            axes.plot(counts, middle, color=colour, marker="o", markersize=5, linewidth=2)
            axes.annotate(  # above or below its end, so that two that meet can be read
                side, (counts[-1], middle[-1]), xytext=(10, 5 if side == ahead else -5),
                textcoords="offset points", va="bottom" if side == ahead else "top",
                color=colour, fontweight="bold", fontsize=11, annotation_clip=False,
            )  # fmt: skip
        axes.axhline(0.5, color=GREY, linestyle="--", linewidth=1)
        axes.annotate(
            "guessing", (counts[0], 0.5), xytext=(0, 4), textcoords="offset points",
            color=GREY, fontsize=9,
        )  # fmt: skip
        axes.set_xscale("log")
        axes.set_xticks(counts, [f"{rows:,}" for rows in counts])
        axes.minorticks_off()
        seeds = values[SIDES[0]].shape[1]
        axes.set_xlabel(f"reviews to learn from; lines are medians, bands all {seeds} seeds")
        axes.yaxis.set_major_locator(MultipleLocator(0.05))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        save(figure, out)


def figures_of(found: dict[str, dict[int, Found]]) -> list[Figure]:
    """Return all medians, and at ``CHECKED`` rows how far pretraining is ahead."""
    figures = [
        Figure(f"{side}, {rows:,} rows: accuracy", result.median)
        for side in SIDES
        for rows, result in found[side].items()
    ]
    pretrained, fresh = (found[side][CHECKED] for side in SIDES)
    least = float(np.nextafter(0.0, 1.0))
    where = f"{CHECKED:,} rows: pretrained - median fresh"
    return [
        *figures,
        Figure(f"{where}, median", pretrained.median - fresh.median, at_least=least),
        Figure(f"{where}, worst seed", min(pretrained.accuracies) - fresh.median, at_least=least),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser("Does pretraining help?")
    parser.add_argument(
        "--model", type=Path, metavar="DIR", help="a pretrained model; default: train one"
    )
    parser.add_argument(
        "--minutes", type=float, default=5.0, metavar="M",
        help="of pretraining, without --model (default: 5, quick: 0.2)",
    )  # fmt: skip
    parser.add_argument("--preset", default="tiny", help="its size (default: tiny)")
    parser.add_argument("--data", type=Path, default=DATA, metavar="DIR", help="of the reviews")
    parser.add_argument("--seeds", type=positive, metavar="N", help="default: 5, quick: 2")
    add_plot(parser)
    options = parse(parser, arguments)
    if not options.minutes > 0:
        parser.error(f"--minutes is {options.minutes}, expected a number above 0")
    seeds = options.seeds or (QUICK_SEEDS if options.quick else SEEDS)
    minutes = min(options.minutes, 0.2) if options.quick else options.minutes
    found: dict[str, dict[int, Found]] = {side: {} for side in SIDES}
    rows = []
    with tempfile.TemporaryDirectory() as name:
        try:
            files = polarity(options.data, Path(name))
        except FileNotFoundError as error:
            print(error, file=sys.stderr)
            return NOT_FIT
        folder = options.model or pretrain(minutes, options.preset, Path(name, "pretrained"))
        started = perf_counter()
        with Program(program, folder, files, threads=options.threads) as trainer:
            for count, epochs in (QUICK_EPOCHS if options.quick else EPOCHS).items():
                for side in SIDES:
                    found[side][count] = measure(trainer, side, count, epochs, seeds)
                print(f"{count:,} rows: {perf_counter() - started:.0f} s", file=sys.stderr)
                rows.append(row_of(count, epochs, *(found[side][count] for side in SIDES)))
    if options.plot:
        draw(found, options.plot)
    headers = [
        "rows", "epochs", "pretrained, rate", "accuracy", "all seeds", "fresh, rate",
        "accuracy ", "all seeds ", "gain",
    ]  # fmt: skip
    accuracies = {
        side: {count: found[side][count]._asdict() for count in found[side]} for side in SIDES
    }
    return finish(options, headers, rows, figures_of(found), accuracies=accuracies)


def row_of(count: int, epochs: int, pretrained: Found, fresh: Found) -> list[str]:
    cells = [f"{count:,}", f"{epochs}"]
    for found in (pretrained, fresh):
        low, high = min(found.accuracies), max(found.accuracies)
        cells += [f"{found.rate:g}", f"{found.median:.3f}", f"{low:.3f}-{high:.3f}"]
    return [*cells, f"{pretrained.median - fresh.median:+.3f}"]


if __name__ == "__main__":
    sys.exit(main())
