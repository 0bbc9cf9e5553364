"""What all pictures share: a look of their own, and being written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

# Okabe and Ito's colours, which people with any colour vision tell apart.
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#5F5F5F"
DOTS_PER_INCH = 150

LOOK: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.titlesize": 10,
}


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """Lend a figure of so many inches, whatever style the user's own matplotlibrc asks for."""
    with matplotlib.style.context(["default", LOOK]):
        layout = ConstrainedLayoutEngine(h_pad=0.08, w_pad=0.06)
        figure = Figure(figsize=(width, height), layout=layout, dpi=DOTS_PER_INCH)
        FigureCanvasAgg(figure)
        yield figure


def save(figure: Figure, out: Path) -> None:
    """Write the picture under a temporary name beside ``out``, then rename it.

    The name's ending decides the format: .png, .svg or .pdf.
    """
    kind = out.suffix.lower().removeprefix(".")
    if kind not in ("png", "svg", "pdf"):
        raise ValueError(f"{out} ends in {out.suffix!r}, expected .png, .svg or .pdf")
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        figure.savefig(temporary, format=kind, facecolor="white", bbox_inches="tight")
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
