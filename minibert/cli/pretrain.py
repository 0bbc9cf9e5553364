"""``minibert pretrain``: from text to a model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from minibert.cli.errors import INTERRUPTED
from minibert.cli.launch import (
    DEFAULT_MINUTES,
    check_place,
    latest_run,
    next_free_run,
    resumed,
    started,
    train_and_report,
)
from minibert.cli.options import (
    Backend,
    BackendFlag,
    Matmul,
    MatmulFlag,
    Precision,
    PrecisionFlag,
    ThreadsFlag,
    flag,
    limit_threads,
    ops_name,
    refuse_flags,
)
from minibert.config import FRESH, TrainConfig

DEFAULT = TrainConfig(minutes=DEFAULT_MINUTES)
RUN, MODEL, SIZE, STEPS, TASKS, WATCH = (
    "Run", "Model", "A fresh model's", "Optimisation", "Tasks", "Watching"
)  # fmt: skip


def pretrain(
    context: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILES",
            show_default=False,
            help="Texts or folders of them; default: the documentation of Python and NumPy.",
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        flag("--minutes", RUN, "Train so long, by the clock.", show_default=f"{DEFAULT_MINUTES:g}"),
    ] = None,
    steps: Annotated[
        int | None,
        flag("--steps", RUN, "Train so many steps; the same bytes every time.", metavar="N"),
    ] = None,
    out: Annotated[
        Path | None,
        flag("--out", RUN, "The run's folder.", metavar="DIR", show_default="runs/1, runs/2 ..."),
    ] = None,
    resume: Annotated[
        bool, flag("--resume", RUN, "Go on with the run in --out, or with the latest.")
    ] = False,
    model: Annotated[
        str,
        flag(
            "--model",
            MODEL,
            "A folder with a BERT to go on from, or fresh for random numbers.",
            metavar="DIR",
        ),
    ] = FRESH,
    dropout: Annotated[
        float | None,
        flag(
            "--dropout",
            MODEL,
            "Share of activations dropped; 0.1 where text repeats often.",
            show_default="0; a folder's own",
        ),
    ] = None,
    preset: Annotated[
        str,
        flag("--preset", SIZE, "tiny, mini, small, medium, base or large.", metavar="NAME"),
    ] = "tiny",
    layers: Annotated[
        int | None, flag("--layers", SIZE, "Layers, if not the preset's.", metavar="N")
    ] = None,
    width: Annotated[
        int | None, flag("--width", SIZE, "Hidden width, if not the preset's.", metavar="N")
    ] = None,
    heads: Annotated[
        int | None,
        flag("--heads", SIZE, "Attention heads; they divide the width.", metavar="N"),
    ] = None,
    activation: Annotated[
        str, flag("--activation", SIZE, "gelu, gelu_new (by tanh) or relu.", metavar="NAME")
    ] = "gelu",
    vocab_size: Annotated[
        int, flag("--vocab-size", SIZE, "Pieces to learn from the text.", metavar="N")
    ] = 4096,
    vocab: Annotated[
        Path | None,
        flag("--vocab", SIZE, "A vocab.txt to use instead.", metavar="FILE", show_default=False),
    ] = None,
    cased: Annotated[bool, flag("--cased", SIZE, "Keep capitals and accents.")] = False,
    batch_size: Annotated[
        int, flag("--batch-size", STEPS, "Rows in one forward pass.", metavar="N")
    ] = DEFAULT.batch_size,
    accumulation: Annotated[
        int, flag("--accumulation", STEPS, "Forward passes in one step.", metavar="N")
    ] = DEFAULT.accumulation,
    max_length: Annotated[
        int, flag("--max-length", STEPS, "Tokens in a row, 8 to 512.", metavar="N")
    ] = DEFAULT.max_length,
    learning_rate: Annotated[
        float, flag("--learning-rate", STEPS, "The rate at its peak.")
    ] = DEFAULT.learning_rate,
    warmup: Annotated[
        float, flag("--warmup", STEPS, "Share of the run until the peak, 0 to 1.")
    ] = DEFAULT.warmup,
    weight_decay: Annotated[
        float, flag("--weight-decay", STEPS, "Pull of the weights towards 0.")
    ] = DEFAULT.weight_decay,
    beta2: Annotated[
        float, flag("--beta2", STEPS, "Memory of AdamW's mean of squared gradients.")
    ] = DEFAULT.beta2,
    clip_norm: Annotated[
        float, flag("--clip-norm", STEPS, "The gradient's largest norm.")
    ] = DEFAULT.clip_norm,
    optimizer: Annotated[
        str, flag("--optimizer", STEPS, "muon, adamw, or bertadam: AdamW without bias correction.")
    ] = DEFAULT.optimizer,
    masked_weight: Annotated[
        float, flag("--masked-weight", TASKS, "Weight of the masked words' loss.")
    ] = DEFAULT.masked_weight,
    next_weight: Annotated[
        float, flag("--next-weight", TASKS, "Weight of next sentence's loss; 0: without it.")
    ] = DEFAULT.next_weight,
    mask_probability: Annotated[
        float, flag("--mask-probability", TASKS, "Share of the tokens to predict.")
    ] = DEFAULT.mask_probability,
    whole_word: Annotated[
        bool, flag("--whole-word", TASKS, "Mask all pieces of a word together.")
    ] = DEFAULT.whole_word,
    short_probability: Annotated[
        float, flag("--short-probability", TASKS, "Share of rows cut short at random.")
    ] = DEFAULT.short_probability,
    held_out: Annotated[
        float, flag("--held-out", WATCH, "Share of the documents kept for evaluation.")
    ] = DEFAULT.held_out,
    evaluations: Annotated[
        int, flag("--evaluations", WATCH, "How many, evenly spread.", metavar="N")
    ] = DEFAULT.evaluations,
    save_minutes: Annotated[
        float, flag("--save-minutes", WATCH, "Minutes between two checkpoints.")
    ] = DEFAULT.save_minutes,
    log_every: Annotated[
        int, flag("--log-every", WATCH, "Steps behind one line of metrics.jsonl.", metavar="N")
    ] = DEFAULT.log_every,
    seed: Annotated[
        int, flag("--seed", RUN, "Decides everything random.", metavar="N")
    ] = DEFAULT.seed,
    backend: BackendFlag = Backend.numba,
    matmul: MatmulFlag = Matmul.own,
    precision: PrecisionFlag = Precision.float32,
    threads: ThreadsFlag = None,
) -> None:
    """Train a BERT on text: fill in masked words, and tell whether a sentence follows another.

    Without arguments it trains a small one, for five minutes, on the documentation of Python and
    NumPy that is on this computer.  Ctrl-C saves, and --resume goes on.

    Example:  minibert pretrain --minutes 5 --out runs/first

    Example:  minibert pretrain books/*.txt --preset mini --steps 20000

    Example:  minibert pretrain letters.txt --model runs/first --minutes 2
    """  # fmt: skip
    limit_threads(threads)
    folder = latest_run() if resume and out is None else out or next_free_run()
    if resume:
        refuse_flags(context, set(context.params) - KEPT, "--resume goes on as the run began")
        run = resumed(folder, ops_name(backend, matmul, precision))
    else:
        if model != FRESH:
            refuse_flags(context, OF_FRESH_MODELS, f"{model} has its own")
        check_place(folder)
        run = started(folder, context.params, ops_name(backend, matmul, precision))
    if not train_and_report(run):
        sys.exit(INTERRUPTED)  # all is said: see errors.run on KeyboardInterrupt


KEPT = {"resume", "out", "backend", "matmul", "precision", "threads"}
"""Flags that say where and how a run is computed, not what."""

OF_FRESH_MODELS = {
    "preset", "layers", "width", "heads", "activation", "vocab_size", "vocab", "cased",
}  # fmt: skip
"""Flags that a model from a folder has its own answers to."""
