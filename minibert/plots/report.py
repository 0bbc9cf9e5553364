"""The report of a training run: how loss, accuracy, rate and speed went, on one page."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator, PercentFormatter

from minibert.plots.figure import BLUE, GREEN, GREY, ORANGE, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from minibert.arrays import Array

Record = dict[str, Any]

HELD_OUT: dict[str, Any] = {
    "linestyle": "--",
    "linewidth": 1,
    "marker": "o",
    "markersize": 5,
    "markerfacecolor": "white",
    "markeredgewidth": 1.5,
}


def plot_report(metrics: Path, out: Path) -> None:
    """Draw the curves of a ``metrics.jsonl``, and write them to ``out``.

    Raises ValueError where the file has no step of training yet.
    """
    start, train, held_out = read_metrics(metrics)
    with new_figure(10, 6.2) as figure:
        mosaic: list[Any] = [
            ["loss"] * 3 + ["accuracy"] * 3,
            ["rate"] * 2 + ["norm"] * 2 + ["speed"] * 2,
        ]
        panels = figure.subplot_mosaic(mosaic, height_ratios=[2.2, 1])
        figure.suptitle(headline(start, train, held_out), x=0.01, ha="left", fontsize=10)
        draw_loss(panels["loss"], start, train, held_out)
        draw_accuracy(panels["accuracy"], train, held_out)
        for panel, title, name in (
            ("rate", "Learning rate", "learning_rate"),
            ("norm", "Gradient norm, before clipping", "grad_norm"),
            ("speed", "Tokens per second", "tokens_per_second"),
        ):
            axes = panels[panel]
            axes.set_title(title)
            draw_curve(axes, train, name, BLUE, smooth=panel != "rate")
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
        for axes in panels.values():
            axes.set_xlim(0, last_step(train, held_out) * 1.02)
            axes.set_xlabel("step")
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, steps=[1, 2, 2.5, 5, 10]))
        save(figure, out)


def read_metrics(path: Path) -> tuple[Record, list[Record], list[Record]]:
    """Return the last start record, and all train and eval records.

    A line that is cut short, as by a killed run, is passed over.
    """
    kinds: dict[str, list[Record]] = {"start": [], "train": [], "eval": []}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(record, dict) and record.get("type") in kinds:
            kinds[record["type"]].append(record)
    if not kinds["train"] and not kinds["eval"]:
        raise ValueError(f"{path} has no step of training yet: run minibert pretrain first")
    return (kinds["start"] or [{}])[-1], kinds["train"], kinds["eval"]


def headline(start: Record, train: list[Record], held_out: list[Record]) -> str:
    """Say in two lines what was trained, and what came of it."""
    last = max((*train, *held_out), key=lambda record: record.get("step", 0))
    what = [f"{start[name]:,} {unit}" for name, unit in UNITS.items() if name in start]
    what.append(f"{last_step(train, held_out):,} steps")
    if "elapsed" in last:
        minutes, seconds = divmod(round(last["elapsed"]), 60)
        what.append(f"{minutes}:{seconds:02d} minutes")
    lines = "A BERT in training: " + ", ".join(what)
    if held_out:
        end = held_out[-1]
        lines += (
            f"\nIn the end, on held-out text: masked-word loss {end['eval_mlm_loss']:.2f}, "
            f"accuracy {end['eval_mlm_accuracy']:.1%}"
        )
        if "eval_nsp_accuracy" in end:
            lines += f"; next-sentence accuracy {end['eval_nsp_accuracy']:.1%}"
    return lines


UNITS = {"parameters": "parameters", "vocab_size": "tokens in the vocabulary"}


def last_step(train: list[Record], held_out: list[Record]) -> int:
    return max(record.get("step", 0) for record in (*train, *held_out)) or 1


def draw_loss(axes: Axes, start: Record, train: list[Record], held_out: list[Record]) -> None:
    axes.set_title("Loss of masked words, nats")
    draw_curve(axes, train, "mlm_loss", BLUE, "training")
    draw_points(axes, held_out, "eval_mlm_loss", ORANGE, "held-out")
    low, high = axes.get_ylim()
    levels = []
    if {"ln_vocab", "vocab_size"} <= start.keys():
        guess, V = start["ln_vocab"], start["vocab_size"]
        levels.append((guess, f"knowing nothing: ln {V:,} = {guess:.2f}"))
    if "unigram_entropy" in start:
        entropy = start["unigram_entropy"]
        levels.append((entropy, f"knowing how often each word occurs: {entropy:.2f}"))
    heights = [height for height, _ in levels]
    low, high = min([low, *heights]), max([high, *heights])
    room = high - low
    axes.set_ylim(low - 0.03 * room, high + 0.08 * room)
    crowded = len(levels) == 2 and heights[0] - heights[1] < 0.07 * room
    for number, (height, text) in enumerate(levels):
        draw_level(axes, height, text, above=not (crowded and number == 1))
    legend_above(axes)


def draw_accuracy(axes: Axes, train: list[Record], held_out: list[Record]) -> None:
    axes.set_title("Accuracy")
    for task, color, text in (("nsp", GREEN, "next sentence"), ("mlm", BLUE, "masked words")):
        draw_curve(axes, train, f"{task}_accuracy", color, text)
        draw_points(axes, held_out, f"eval_{task}_accuracy", color)
    axes.plot([], [], color=GREY, label="held-out", **HELD_OUT)
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1))
    if any({"nsp_accuracy", "eval_nsp_accuracy"} & record.keys() for record in (*train, *held_out)):
        draw_level(axes, 0.5, "chance, for next sentence", above=False)
    legend_above(axes)


def legend_above(axes: Axes) -> None:
    """Put the legend in the title's line, where it hides no curve."""
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1.02, 0.98),
        ncols=3,
        columnspacing=0.9,
        handlelength=1.3,
        handletextpad=0.4,
        fontsize=8.5,
    )


def draw_level(axes: Axes, height: float, text: str, *, above: bool = True) -> None:
    """Draw a dashed line across, with its meaning written along it, at the right."""
    axes.axhline(height, color=GREY, linestyle="--", linewidth=1)
    note = axes.annotate(
        text,
        (1, height),
        xycoords=("axes fraction", "data"),
        xytext=(0, 2 if above else -3),
        textcoords="offset points",
        ha="right",
        va="bottom" if above else "top",
        fontsize=8.5,
        color=GREY,
        zorder=1.5,  # under the curves
    )
    note.set_path_effects([withStroke(linewidth=2.5, foreground="white")])


def draw_curve(
    axes: Axes,
    records: Sequence[Record],
    name: str,
    color: str,
    label: str | None = None,
    *,
    smooth: bool = True,
) -> None:
    """Draw a noisy curve faintly, and its running mean on top."""
    x, y = finite(records, name)
    if not len(x):
        return
    if not smooth or len(x) < 10:
        axes.plot(x, y, color=color, label=label, marker="." if len(x) < 10 else None)
        return
    axes.plot(x, y, color=color, alpha=0.25, linewidth=0.8)
    axes.plot(x, running_mean(y, max(3, len(y) // 25)), color=color, linewidth=1.8, label=label)


def draw_points(
    axes: Axes, records: Sequence[Record], name: str, color: str, label: str | None = None
) -> None:
    x, y = finite(records, name)
    if len(x):
        axes.plot(x, y, color=color, label=label, zorder=3, **HELD_OUT)


def finite(records: Sequence[Record], name: str) -> tuple[Array, Array]:
    """Return the steps and values of the records that have a finite ``name``."""
    pairs = [(record["step"], record[name]) for record in records if name in record]
    pairs = [(x, y) for x, y in pairs if y is not None and math.isfinite(y)]
    table = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def running_mean(y: Array, width: int) -> Array:
    """Return the mean of each value and its neighbours, up to ``width`` of them on each side.

    Near the start as many on both sides, so that a steep fall stays in its place; near the end
    all that there are, so that the last value is no more noisy than the others.

    >>> running_mean(np.array([0.0, 3.0, 0.0, 9.0]), 1).tolist()
    [0.0, 1.0, 4.0, 4.5]
    """
    sums = np.concatenate([[0.0], np.cumsum(y)])
    places = np.arange(len(y))
    sides = np.minimum(width, places)
    low, high = places - sides, np.minimum(places + sides + 1, len(y))
    return (sums[high] - sums[low]) / (high - low)
