"""Who learns more in the same time?  python benchmarks/time_to_quality.py [--minutes M]

One training run, made by minibert and by its double in PyTorch (best effort, see twin.py): the same
text, model, first weights, batches and settings, those of ``minibert pretrain`` without arguments.
Both follow the learning rate by their own clock, and have the same minutes of training.  They take
turns, a slice of the run at a time, each in a process of its own; after every slice the loss on
held-out text is measured, which does not count as training.

--check holds a run of 5 minutes, with all else as it is by default, to its limits.

Before the clock starts, both must find the same held-out loss, and the same loss in a first step.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from programs import Calls, Program, check_equal
from report import Figure, add_plot, finish, need, new_parser, parse, positive

from minibert.config import BertConfig, TrainConfig
from minibert.training.evaluate import evaluate
from minibert.training.loop import training_step
from minibert.training.run import Run, TextConfig, start_run
from minibert.training.schedule import warmup_linear

MINUTES, QUICK_MINUTES = 2.0, 0.15
SLICES, QUICK_SLICES = 12, 3
SIDES = ("minibert", "PyTorch")
CLOSE = 1e-4  # of the loss
WHOLE = 5.0  # minutes of ``minibert pretrain``, after which these limits hold:
BELOW = 0.3  # held-out loss, at least so far below PyTorch's
ACCURACY = 0.28  # of masked words, at least

Curve = list[tuple[float, int, float]]  # seconds trained, steps, held-out loss


def prepare(minutes: float, preset: str, files: Sequence[str]) -> Run:
    """Return a fresh run with the command line's defaults; nothing is written for it."""
    model = BertConfig.fresh(
        preset, vocab_size=4096, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    folder = Path(tempfile.gettempdir(), "minibert-race-is-not-saved")
    text = TextConfig(files=list(files))
    return start_run(folder, TrainConfig(minutes=minutes), model, text)


class Ours:
    """minibert's own training step."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def step(self, progress: float) -> float:
        return training_step(self.run, progress)["loss"]

    def held_out(self) -> float:
        return evaluate(self.run.model, self.run.eval_batches)["eval_mlm_loss"]

    def accuracy(self) -> float:
        return evaluate(self.run.model, self.run.eval_batches)["eval_mlm_accuracy"]


class Theirs:
    """The same step in PyTorch."""

    def __init__(self, run: Run) -> None:
        from twin import Twin

        self.run, self.number = run, 0
        self.twin = Twin(run.model, run.optimizer, clip_norm=run.config.clip_norm, best_effort=True)

    def step(self, progress: float) -> float:
        config = self.run.config
        rate = config.learning_rate * warmup_linear(progress, config.warmup)
        loss = self.twin.step(self.run.source.batch(self.number), rate)
        self.number += 1
        return loss

    def held_out(self) -> float:
        return self.twin.masked_loss(self.run.eval_batches)


class Clocked:
    """A run by the clock: it stands still while the other side trains, and during evaluation."""

    def __init__(self, side: str, minutes: float, preset: str, files: Sequence[str]) -> None:
        self.make = Ours if side == "minibert" else Theirs
        self.arguments = minutes, preset, files
        self.trainer = self.make(prepare(*self.arguments))
        self.length, self.passed, self.steps = 60 * minutes, 0.0, 0

    def first_losses(self) -> list[float]:
        """Return the held-out loss, and the loss of a step that is then forgotten.

        The step also brings code and data into memory; in PyTorch, too, the first one is slow.
        """
        before = self.trainer.held_out()
        loss = self.trainer.step(0.5)
        self.trainer = self.make(prepare(*self.arguments))
        return [before, loss]

    def train_until(self, share: float) -> tuple[float, int, float]:
        """Go on until a share of the minutes is over; return a point of the curve."""
        before, start = self.passed, perf_counter()
        while self.passed < share * self.length:
            self.trainer.step(self.passed / self.length)
            self.steps += 1
            self.passed = before + perf_counter() - start
        return self.passed, self.steps, self.trainer.held_out()


def program(side: str, minutes: float, preset: str, files: Sequence[str]) -> Calls:
    run = Clocked(side, minutes, preset, files)
    calls: Calls = {"first losses": run.first_losses, "train until": run.train_until}
    if side == "minibert":
        calls["accuracy"] = lambda: run.trainer.accuracy()
    return calls


def train(options: Any, minutes: float, slices: int) -> tuple[dict[str, Curve], float]:
    """Let both train in turns; return their curves, and minibert's accuracy at the end."""
    programs = {
        side: Program(
            program, side, minutes, options.preset, options.files, threads=options.threads
        )
        for side in SIDES
    }
    ours, theirs = (programs[side].result("first losses") for side in SIDES)
    check_equal("losses before training", ours, theirs, CLOSE)
    curves: dict[str, Curve] = {side: [(0.0, 0, ours[0])] for side in SIDES}
    for number in range(slices):
        for side in SIDES:
            curves[side].append(programs[side].result("train until", (number + 1) / slices))
    accuracy = programs["minibert"].result("accuracy")
    for side in programs.values():
        side.close()
    return curves, accuracy


def seconds_until(curve: Curve, loss: float) -> float:
    """Return when a curve first comes down to a loss, between two points on a straight line."""
    for (before, _, higher), (after, _, lower) in pairwise(curve):
        if lower <= loss:
            share = 0.0 if higher <= loss else (higher - loss) / (higher - lower)
            return before + share * (after - before)
    return float("nan")


def draw(curves: dict[str, Curve], out: Path) -> None:
    """Draw both curves over the seconds of training."""
    from minibert.plots.figure import BLUE, ORANGE, new_figure, save

    with new_figure(7, 4) as figure:
        axes = figure.subplots()
        axes.set_title("Held-out loss of masked words, nats")
        for side, colour in zip(SIDES, (BLUE, ORANGE), strict=True):
            seconds, steps, losses = np.array(curves[side]).T
            label = f"{side}, {int(steps[-1]):,} steps"
            axes.plot(seconds, losses, color=colour, marker="o", markersize=4, label=label)
        axes.set_xlabel("seconds of training")
        axes.set_xlim(left=0)
        axes.legend()
        save(figure, out)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser("Who learns more in the same time?")
    parser.add_argument("files", nargs="*", help="texts; default: the documentation of Python")
    parser.add_argument(
        "--minutes", type=float, metavar="M", help=f"for each (default: {MINUTES:g})"
    )
    parser.add_argument(
        "--slices", type=positive, metavar="N", help="turns (default: 12, quick: 3)"
    )
    parser.add_argument("--preset", default="tiny", help="default: tiny")
    add_plot(parser)
    options = parse(parser, arguments)
    minutes = options.minutes or (QUICK_MINUTES if options.quick else MINUTES)
    slices = options.slices or (QUICK_SLICES if options.quick else SLICES)
    if not minutes > 0:
        parser.error(f"--minutes is {minutes}, expected a number above 0")
    need("torch", "transformers")
    curves, accuracy = train(options, minutes, slices)
    rows = []
    for ours, theirs in zip(*(curves[side] for side in SIDES), strict=True):
        rows.append([
            f"{ours[0]:.0f}", f"{ours[1]:,}", f"{ours[2]:.3f}", f"{theirs[1]:,}", f"{theirs[2]:.3f}"
        ])  # fmt: skip
    last = {side: curves[side][-1] for side in SIDES}
    reached = seconds_until(curves["minibert"], last["PyTorch"][2])
    sooner = last["PyTorch"][0] / reached if reached else float("nan")
    print(f"minibert reaches PyTorch's last loss after {reached:.0f} s: {sooner:.2f} times sooner")
    figures = [Figure(f"{side}: last held-out loss", last[side][2]) for side in SIDES]
    figures.append(Figure("minibert reaches PyTorch's last loss, times sooner", sooner))
    usual = minutes == WHOLE and options.preset == "tiny" and not options.files
    below = last["PyTorch"][2] - last["minibert"][2]
    figures += [
        Figure("last held-out loss below PyTorch's", below, BELOW if usual else None),
        Figure("minibert: masked words right", accuracy, ACCURACY if usual else None),
    ]
    if options.plot:
        draw(curves, options.plot)
    headers = ["seconds", "minibert steps", "minibert loss", "PyTorch steps", "PyTorch loss"]
    return finish(options, headers, rows, figures, curves=curves)


if __name__ == "__main__":
    sys.exit(main())
