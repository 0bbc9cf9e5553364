"""Do both programs learn alike?  python benchmarks/trajectory.py [--quick] [--check]

One training run, made three times from the same weights, batches and learning rates: by minibert
with each of its backends, and by transformers' BertForPreTraining with PyTorch's autograd, its
AdamW, and Muon written again for it (twin.py).  The run is that of ``minibert pretrain`` without
arguments (2 layers of width 128, 32 rows of 64 tokens of the embedded corpus, float32, no dropout),
made 300 steps long.  minibert's steps are those of its own training loop.

Rounding alone sets the runs apart: by 1e-7 of the loss at first, and by a few 1e-6 later on.  A
wrong gradient, a forgotten bias correction or a decayed bias shows within a few steps.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from report import need, refuse_files

from minibert.config import BertConfig, TrainConfig
from minibert.training.loop import training_step
from minibert.training.run import Run, TextConfig, start_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from minibert.arrays import Array

LIMIT = 0.01
STEPS, QUICK_STEPS = 300, 30
SIDES = ("PyTorch", "numba", "numpy")
ZOOMED = 20  # steps in the inset, so that the three curves can be told apart
PICTURE = Path(".readme/trajectory.png")


def prepare(steps: int, backend: str) -> Run:
    """Return a fresh run with the command line's defaults; nothing is written for it."""
    model = BertConfig.fresh(
        "tiny", vocab_size=4096, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    folder = Path(tempfile.gettempdir(), "minibert-trajectory-is-not-saved")
    config = TrainConfig(steps=steps)
    return start_run(folder, config, model, TextConfig(files=[]), ops=backend)


def train(steps: int) -> tuple[dict[str, Any], Array, Array]:
    """Train all three side by side, printing the table.

    Returns the settings, the losses (3, steps) in the order of SIDES, and how far apart the three
    are at each step, as a share of PyTorch's loss.
    """
    from twin import Twin

    ours = [prepare(steps, backend) for backend in SIDES[1:]]
    model, config = ours[0].model, ours[0].config
    assert all(np.array_equal(run.model.params.value, model.params.value) for run in ours)
    twin = Twin(model, ours[0].optimizer, clip_norm=config.clip_norm)
    print(describe(ours[0]))
    print(
        f"{'step':>5} " + " ".join(f"{side:>10}" for side in SIDES) + "  largest difference so far"
    )
    losses, apart = np.empty((len(SIDES), steps)), np.empty(steps)
    for step in range(steps):
        batch = ours[0].source.batch(step)
        records = [training_step(run, (step + 1) / (steps + 1)) for run in ours]
        theirs = twin.step(batch, records[0]["learning_rate"])
        losses[:, step] = [theirs, *(record["loss"] for record in records)]
        apart[step] = np.ptp(losses[:, step]) / losses[0, step]
        if step == 0 or (step + 1) % max(1, steps // 30) == 0:
            values = " ".join(f"{loss:10.6f}" for loss in losses[:, step])
            print(f"{step + 1:5} {values}  {apart[: step + 1].max():.1e}", flush=True)
    settings = {"model": asdict(model.config), "training": asdict(config), "versions": versions()}
    return settings, losses, apart


def versions() -> dict[str, str]:
    import torch
    import transformers

    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def describe(run: Run) -> str:
    model, config = run.model.config, run.config
    return (
        f"{model.num_hidden_layers} layers of width {model.hidden_size}, vocabulary "
        f"{model.vocab_size:,}, {config.batch_size} rows of {config.max_length} tokens, "
        f"{config.steps} steps, peak learning rate {config.learning_rate:g}, float32; "
        f"torch {versions()['torch']}, transformers {versions()['transformers']}"
    )


def draw(losses: Array, apart: Array, out: Path) -> None:
    """Draw the losses over one another, and below how far apart they are."""
    from matplotlib.ticker import MaxNLocator

    from minibert.plots.figure import GREEN, GREY, new_figure, save

    steps = np.arange(1, losses.shape[1] + 1)
    digits, exponent = f"{apart.max():.1e}".split("e")
    with new_figure(8, 5.4) as figure:
        figure.suptitle(
            "One training run, made by three programs from the same weights and batches.\n"
            f"In {len(steps):,} steps their losses are never further apart than "
            f"{digits} · 10$^{{{int(exponent)}}}$ of the loss.",
            x=0.01, ha="left", fontsize=10,
        )  # fmt: skip
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1])
        above.set_title("Loss of each step, nats")
        draw_losses(above, steps, losses)
        above.legend(loc="upper right", handlelength=3)
        if len(steps) >= 10 * ZOOMED:
            first = len(steps) // 2
            part = slice(first, first + ZOOMED)
            inset = above.inset_axes((0.2, 0.5, 0.42, 0.48))
            draw_losses(inset, steps[part], losses[:, part])
            inset.spines[:].set(visible=True, color=GREY)
            inset.tick_params(labelsize=8, length=2)
            inset.xaxis.set_major_locator(MaxNLocator(4, integer=True, steps=[1, 2, 5, 10]))
            inset.yaxis.set_major_locator(MaxNLocator(4))
            above.indicate_inset_zoom(inset, edgecolor=GREY)
        below.set_title("Largest difference between the three, share of the loss")
        below.plot(steps, np.where(apart > 0, apart, np.nan), color=GREEN, linewidth=1)
        below.axhline(LIMIT, color=GREY, linestyle="--", linewidth=1)
        below.annotate(
            "1 %, the limit", (1, LIMIT), xycoords=("axes fraction", "data"), xytext=(0, -3),
            textcoords="offset points", ha="right", va="top", fontsize=8.5, color=GREY,
        )  # fmt: skip
        below.set_yscale("log")
        below.set_ylim(1e-9, max(0.1, 2 * apart.max()))
        below.set_yticks([1e-8, 1e-6, 1e-4, 1e-2])
        below.minorticks_off()
        below.set_xlim(0, len(steps) * 1.01)
        below.set_xlabel("step")
        below.xaxis.set_major_locator(MaxNLocator(7, integer=True))
        save(figure, out)
    if out.suffix.lower() == ".png":
        reduce_colours(out)


def draw_losses(axes: Axes, steps: Array, losses: Array) -> None:
    """Draw three curves that coincide so that all show: a broad line, a narrow one, dots."""
    from minibert.plots.figure import BLUE, ORANGE

    looks: tuple[dict[str, Any], ...] = (
        {"color": ORANGE, "linewidth": 5.5, "alpha": 0.4, "solid_capstyle": "butt"},
        {"color": BLUE, "linewidth": 1.6},
        {"color": "black", "linewidth": 1.0, "linestyle": (0, (1.5, 4))},
    )
    for side, values, look in zip(SIDES, losses, looks, strict=True):
        label = "transformers, PyTorch" if side == "PyTorch" else f"minibert, {side}"
        axes.plot(steps, values, label=label, **look)


def reduce_colours(picture: Path) -> None:
    """Keep the 64 colours that matter: a quarter of the bytes, and nothing to be seen of it."""
    from PIL import Image  # matplotlib brings it

    with Image.open(picture) as image:
        image.convert("RGB").quantize(64).save(picture, optimize=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Do minibert and PyTorch learn alike?")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_STEPS} steps, not {STEPS}")
    parser.add_argument("--check", action="store_true", help="exit with 1 if over 1 %% apart")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write settings and all losses")
    parser.add_argument(
        "--plot", type=Path, nargs="?", const=PICTURE, metavar="FILE",
        help=f"draw the curves, into {PICTURE} if no file is given",
    )  # fmt: skip
    options = parser.parse_args()
    refuse_files(parser, options.json, options.plot)  # now, and not after the training
    need("torch", "transformers")

    settings, losses, apart = train(QUICK_STEPS if options.quick else STEPS)
    worst = int(apart.argmax())
    print(f"largest difference over all steps: {apart[worst]:.1e} of the loss, at step {worst + 1}")
    if options.json:
        record = {
            **settings,
            "losses": dict(zip(SIDES, losses.tolist(), strict=True)),
            "difference": apart.tolist(),
            "largest_difference": float(apart[worst]),
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        draw(losses, apart, options.plot)
    if options.check and not apart[worst] <= LIMIT:  # a loss that is no number is no pass
        print("over the limit of 1 %", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
