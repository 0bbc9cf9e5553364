"""``minibert finetune``: from a pretrained model and examples to a model for one task."""

from __future__ import annotations

import sys
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from minibert.cli.errors import INTERRUPTED
from minibert.cli.launch import check_place, compile_kernels, next_free_run
from minibert.cli.options import (
    Backend,
    BackendFlag,
    JsonFlag,
    LabelColumn,
    Matmul,
    MatmulFlag,
    PairColumn,
    Precision,
    PrecisionFlag,
    TextColumn,
    ThreadsFlag,
    flag,
    limit_threads,
    ops_name,
    refuse_flags,
    typed,
)
from minibert.cli.seeds import measure, report, train_seeds
from minibert.config import FRESH, FineTuneConfig
from minibert.files import is_free

DEFAULT = FineTuneConfig()
FILES, MODEL, STEPS, TASKS, MORE = (
    "Files", "Model", "Optimisation", "One task's own", "Less to train, more to learn from"
)  # fmt: skip


class TaskName(StrEnum):
    classify = "classify"
    similarity = "similarity"
    tag = "tag"
    answer = "answer"


class ClassWeights(StrEnum):
    equal = "equal"
    balanced = "balanced"


class Compare(StrEnum):
    pair = "pair"
    cosine = "cosine"


def finetune(
    context: typer.Context,
    task: Annotated[
        TaskName,
        typer.Argument(
            metavar="TASK",
            help="classify texts or pairs; similarity of two texts; tag words; answer questions.",
        ),
    ],
    model: Annotated[
        str, flag("--model", MODEL, "A folder with a BERT, or fresh for random numbers.")
    ],
    train: Annotated[
        Path,
        flag(
            "--train", FILES, "Examples: TSV, CSV, JSON lines; CoNLL; SQuAD JSON.", metavar="FILE"
        ),
    ],
    dev: Annotated[
        Path | None,
        flag("--dev", FILES, "To choose the best epoch by; else 10% of --train.", metavar="FILE"),
    ] = None,
    test: Annotated[
        Path | None, flag("--test", FILES, "To measure the result on.", metavar="FILE")
    ] = None,
    out: Annotated[
        Path | None,
        flag("--out", FILES, "The model's folder.", metavar="DIR", show_default="runs/TASK-1 ..."),
    ] = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    preset: Annotated[
        str, flag("--preset", MODEL, "Of a fresh model: tiny, mini, small ...", metavar="NAME")
    ] = "tiny",
    vocab: Annotated[
        Path | None,
        flag("--vocab", MODEL, "Of a fresh model; else learned from --train.", metavar="FILE"),
    ] = None,
    max_length: Annotated[
        int | None,
        flag(
            "--max-length", STEPS, "Tokens in a row.", metavar="N", show_default="128, answer: 256"
        ),
    ] = None,
    epochs: Annotated[
        int, flag("--epochs", STEPS, "How often all examples are seen.", metavar="N")
    ] = DEFAULT.epochs,
    batch_size: Annotated[
        int, flag("--batch-size", STEPS, "Rows in one forward pass.", metavar="N")
    ] = DEFAULT.batch_size,
    accumulation: Annotated[
        int, flag("--accumulation", STEPS, "Forward passes in one step.", metavar="N")
    ] = DEFAULT.accumulation,
    learning_rate: Annotated[
        float, flag("--learning-rate", STEPS, "At its peak; small models take 1e-4 and more.")
    ] = DEFAULT.learning_rate,
    warmup: Annotated[
        float, flag("--warmup", STEPS, "Share of the steps until the peak.")
    ] = DEFAULT.warmup,
    weight_decay: Annotated[
        float, flag("--weight-decay", STEPS, "Pull of the weights towards 0.")
    ] = DEFAULT.weight_decay,
    clip_norm: Annotated[
        float, flag("--clip-norm", STEPS, "The gradient's largest norm.")
    ] = DEFAULT.clip_norm,
    dropout: Annotated[
        float, flag("--dropout", STEPS, "Share of activations dropped.")
    ] = DEFAULT.dropout,
    patience: Annotated[
        int,
        flag("--patience", STEPS, "Stop after so many epochs without gain; 0: never.", metavar="N"),
    ] = DEFAULT.patience,
    seed: Annotated[
        int, flag("--seed", STEPS, "Decides everything random.", metavar="N")
    ] = DEFAULT.seed,
    seeds: Annotated[
        int,
        flag(
            "--seeds", STEPS, "Train so many times; median, spread, best kept.", min=1, metavar="N"
        ),
    ] = 1,
    freeze_embeddings: Annotated[
        bool, flag("--freeze-embeddings", MORE, "Leave the embeddings as they are.")
    ] = DEFAULT.freeze_embeddings,
    freeze_layers: Annotated[
        int,
        flag("--freeze-layers", MORE, "Leave the embeddings and the first K layers.", metavar="K"),
    ] = DEFAULT.freeze_layers,
    layer_decay: Annotated[
        float, flag("--layer-decay", MORE, "Each layer's rate, as a share of the one above it.")
    ] = DEFAULT.layer_decay,
    synonyms: Annotated[
        float, flag("--synonyms", MORE, "Share of words exchanged for near ones, each epoch anew.")
    ] = DEFAULT.synonyms,
    reorder: Annotated[
        float, flag("--reorder", MORE, "Share of texts whose sentences change places.")
    ] = DEFAULT.reorder,
    class_weights: Annotated[
        ClassWeights,
        flag("--class-weights", TASKS, "classify, tag: balanced lets rare classes count as much."),
    ] = ClassWeights.equal,
    compare: Annotated[
        Compare,
        flag("--compare", TASKS, "similarity: read both together, or compare their vectors."),
    ] = Compare.pair,
    stride: Annotated[
        int | None,
        flag(
            "--stride",
            TASKS,
            "answer: tokens from one window of a passage to the next.",
            metavar="N",
            show_default="half a window",
        ),
    ] = None,
    json: JsonFlag = False,
    backend: BackendFlag = Backend.numba,
    matmul: MatmulFlag = Matmul.own,
    precision: PrecisionFlag = Precision.float32,
    threads: ThreadsFlag = None,
) -> None:
    """Train a pretrained BERT for a task: classify, similarity, tag or answer.

    After every epoch the model is measured on --dev, and the best epoch is kept.  Ctrl-C keeps
    the best one so far.

    Example:  minibert finetune classify --model bert --train reviews.tsv --out runs/reviews

    Example:  minibert finetune tag --model bert --train train.conll --dev dev.conll
    """  # fmt: skip
    limit_threads(threads)
    config = FineTuneConfig(**{f.name: context.params[f.name] for f in fields(FineTuneConfig)})
    settings = task_settings(context)
    if model != FRESH:
        refuse_flags(context, ("preset", "vocab"), f"{model} has its own")
    folder = out or next_free_run(f"{task.value}-")
    check_place(folder)
    refuse_used(folder)
    from minibert.tasks.base import Columns
    from minibert.training.finetune import Start, prepare

    ops = ops_name(backend, matmul, precision)
    columns = Columns(text_column, pair_column, label_column)
    start = Start(None if model == FRESH else Path(model), preset, vocab)
    prepared = prepare(task.value, start, train, dev, columns, settings, config, ops=ops)
    test_examples = prepared.task.read(test, columns) if test is not None else None
    from minibert.cli.display import preparing

    with preparing() as status:
        status("starting")
        compile_kernels(ops, status)
    histories = train_seeds(prepared, config, seeds, folder, quiet=json)
    if not any(history.best for history in histories):
        if not any(history.stopped for history in histories):
            raise ValueError("all seeds diverged: lower --learning-rate, or raise --warmup")
        print("Stopped before the first epoch was over: nothing was saved.", file=sys.stderr)
        sys.exit(INTERRUPTED)
    test_scores = measure(folder, ops, test_examples) if test_examples is not None else None
    report(prepared, histories, folder, config.seed, test_scores, json=json)
    if any(history.stopped for history in histories):
        sys.exit(INTERRUPTED)


OWN_SETTINGS = {  # flag: the tasks it is for
    "class_weights": ("classify", "tag"),
    "compare": ("similarity",),
    "stride": ("answer",),
    "text_column": ("classify", "similarity"),
    "pair_column": ("classify", "similarity"),
    "label_column": ("classify", "similarity"),
}


def task_settings(context: typer.Context) -> dict[str, Any]:
    """Return the task's settings; ValueError where a flag was typed that is for another task."""
    task = context.params["task"].value
    for name, tasks in OWN_SETTINGS.items():
        if typed(context, name) and task not in tasks:
            raise ValueError(
                f"--{name.replace('_', '-')} is for {' and '.join(tasks)}: leave it out of {task}"
            )
    settings: dict[str, Any] = {}
    if context.params["max_length"] is not None:
        settings["max_length"] = context.params["max_length"]
    if task in OWN_SETTINGS["class_weights"]:
        settings["balanced"] = context.params["class_weights"] == ClassWeights.balanced
    if task == "similarity":
        settings["compare"] = context.params["compare"].value
    if task == "answer":
        settings["stride"] = context.params["stride"]
    return settings


def refuse_used(folder: Path) -> None:
    """Raise ValueError where a folder holds something already."""
    if not is_free(folder):
        raise ValueError(f"{folder} exists already: choose another --out")
