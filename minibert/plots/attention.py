"""Maps of attention: how much each token takes from every other."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minibert.plots.figure import new_figure, save
from minibert.plots.labels import Labels, drawable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from minibert.arrays import Array
    from minibert.inference import AttentionMaps

LABEL_POINTS = 7.5
POINTS_PER_INCH = 72
WIDEST = 11.0  # inches of all squares side by side


def plot_attention(
    maps: AttentionMaps,  # weights (L, H, T, T)
    out: Path,
    layer: int | None = None,  # from 0; None: the last
    head: int | None = None,  # from 0; None: all of them, side by side
) -> None:
    """Draw the attention of one layer as squares, one per head, and write it to ``out``.

    Row t shows where token t looks: its weights, which sum to 1.  All heads share one colour
    scale, so that they can be compared.

    Raises ValueError where the model has no such layer or head.
    """
    L, H, T, _ = maps.weights.shape
    chosen: int = L - 1 if layer is None else layer
    check_number("layer", chosen, L)
    heads: list[int] = list(range(H)) if head is None else [head]
    for number in heads:
        check_number("head", number, H)
    weights = maps.weights[chosen]
    largest = float(weights[heads].max())

    columns = math.ceil(math.sqrt(len(heads)))
    rows = math.ceil(len(heads) / columns)
    side = min(max(0.17 * T, 2.2), WIDEST / columns, 6.0)  # inches of one square
    labels = drawable(maps.tokens)
    margin = 0.085 * max(map(len, labels.texts))  # inches for the labels
    with new_figure(columns * side + margin + 1.2, rows * (side + 0.3) + margin + 0.7) as figure:
        grid = figure.subplots(rows, columns, squeeze=False)
        image: Any = None
        for place, axes in enumerate(grid.flat):
            if place >= len(heads):
                axes.set_visible(False)
                continue
            image = draw_head(axes, weights[heads[place]], largest, f"head {heads[place]}")
            label_axes(axes, labels, side, top=place < columns, left=place % columns == 0)
        bar = figure.colorbar(image, ax=grid, shrink=0.75, aspect=30, pad=0.02)
        bar.outline.set_visible(False)
        bar.ax.tick_params(labelsize=8)
        figure.suptitle(
            f"Attention weights in layer {chosen} (of 0 to {L - 1}):\n"
            "how much each row's token takes from each column's",
            x=0.01, ha="left",
        )  # fmt: skip
        save(figure, out)


def draw_head(axes: Axes, weights: Array, largest: float, title: str) -> Any:
    """Draw one head's (T, T) weights, white for 0."""
    axes.set_title(title, loc="center", fontsize=9, fontweight="normal")
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(True)
        spine.set_color("#B0B0B0")
    axes.tick_params(length=0)
    return axes.imshow(weights, cmap="Blues", vmin=0, vmax=largest, interpolation="nearest")


def label_axes(axes: Axes, labels: Labels, side: float, *, top: bool, left: bool) -> None:
    """Write the tokens beside the rows and above the columns, as many as fit."""
    T = len(labels.texts)
    fit = side * POINTS_PER_INCH / (LABEL_POINTS * 1.15)
    shown = range(0, T, max(1, math.ceil(T / fit)))
    texts = [labels.texts[number] for number in shown]
    axes.xaxis.tick_top()
    axes.set_xticks(shown, texts if top else [""] * len(texts), rotation=90)
    axes.set_yticks(shown, texts if left else [""] * len(texts))
    for text in (*axes.get_xticklabels(), *axes.get_yticklabels()):
        text.set_fontsize(LABEL_POINTS)
        labels.style(text)


def check_number(name: str, number: int, count: int) -> None:
    if not 0 <= number < count:
        raise ValueError(f"{name} is {number}, but the model has {count}: 0 to {count - 1}")
