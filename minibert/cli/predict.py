"""``minibert predict``: what a fine-tuned model says about texts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minibert.cli.options import (
    Backend,
    BackendFlag,
    Folder,
    JsonFlag,
    PairColumn,
    TextColumn,
    limit_threads,
)
from minibert.cli.screen import on_terminal, print_json, print_rows, progress

if TYPE_CHECKING:
    from minibert.tasks.finetuned import FineTuned

PAIRED = ("similarity", "answer")


def predict(
    folder: Folder,
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="A text, or a question; default: stdin.")
    ] = None,
    pair: Annotated[
        str | None, typer.Option("--pair", metavar="TEXT", help="The second text, or the passage.")
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="FILE", help="Texts in any form that finetune reads."),
    ] = None,
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    json: JsonFlag = False,
    backend: BackendFlag = Backend.numba,
) -> None:
    """Let a fine-tuned model answer: a text, a file, or the lines of stdin.

    A line of stdin is one text; a pair has a tab between its two.  A model that others fine-tuned
    works too.

    Example:  minibert predict runs/reviews "A gripping film."

    Example:  minibert predict runs/answers "Where is it?" --pair "It is in the box."
    """  # fmt: skip
    limit_threads(None)
    if text is not None and file is not None:
        raise ValueError("TEXT and --file are both given: leave out one of them")
    if pair is not None and text is None:
        raise ValueError("--pair is given without a TEXT to pair it with")
    from minibert.tasks.base import Columns
    from minibert.tasks.finetuned import load_finetuned
    from minibert.tasks.predict import predict as predict_examples

    model = load_finetuned(folder, ops=backend)
    task = model.task
    if file is not None:
        examples = task.read(file, Columns(text_column, pair_column), known=False)
    else:
        inputs = [(text, pair) if pair is not None else text] if text is not None else lines()
        check_inputs(inputs, task.name, typed=text is not None)
        examples = task.examples(inputs)
    with progress("predicting") as show:
        predictions = predict_examples(task, model.model, examples, show)
    show_predictions(model, examples, predictions, json=json)


def lines() -> list[Any]:
    """Return the lines of stdin; one with a tab in it is a pair."""
    if sys.stdin.isatty():
        print("Type texts, one a line; Ctrl-D ends.", file=sys.stderr)
    data = sys.stdin.buffer.read().decode("utf-8-sig", errors="replace")
    found: list[Any] = []
    for line in data.splitlines():
        if line.strip():
            first, tab, second = line.partition("\t")
            found.append((first.strip(), second.strip()) if tab else line.strip())
    if not found:
        raise ValueError("stdin holds no text: write one a line, or give a TEXT or --file")
    return found


def check_inputs(inputs: Sequence[Any], task: str, *, typed: bool) -> None:
    """Raise ValueError where a task is not given what it needs: one text, or two."""
    for row, given in enumerate(inputs, start=1):
        paired = not isinstance(given, str)
        where = "" if typed else f"line {row} of stdin: "
        if task in PAIRED and not paired:
            way = 'give the second with --pair "TEXT"' if typed else "put a tab between the two"
            raise ValueError(f"{where}this model reads two texts: {way}")
        if task == "tag" and paired:
            way = "leave out --pair" if typed else "remove the tab"
            raise ValueError(f"{where}this model reads one text: {way}")


def show_predictions(
    model: FineTuned, examples: Sequence[Any], predictions: Sequence[Any], *, json: bool
) -> None:
    rows = zip(examples, predictions, strict=True)
    if json:
        for example, prediction in rows:
            print_json(JSON[model.task.name](example, prediction))
        return
    headers, numbers = HEADERS[model.task.name]
    table = [row for pair in rows for row in ROWS[model.task.name](*pair)]
    if not table and on_terminal():
        print("no entity was found")
        return
    print_rows(headers, table, numbers=numbers)


def text_of(example: Any) -> str:
    return example.text if example.pair is None else f"{example.text} | {example.pair}"


HEADERS = {
    "classify": (("label", "probability", "text"), ("probability",)),
    "similarity": (("score", "first", "second"), ("score",)),
    "tag": (("sentence", "kind", "entity"), ("sentence",)),
    "answer": (("answer", "probability", "question"), ("probability",)),
}
ROWS: dict[str, Any] = {
    "classify": lambda e, p: [(p.label, f"{p.probability:.4f}", text_of(e))],
    "similarity": lambda e, p: [(f"{p.score:.3f}", e.first, e.second)],
    "tag": lambda e, p: [
        (str(e.row), x.kind, " ".join(p.words[x.start : x.stop])) for x in p.entities
    ],
    "answer": lambda e, p: [(p.text, f"{p.probability:.4f}", e.question)],
}
JSON: dict[str, Any] = {
    "classify": lambda e, p: {"text": e.text, "pair": e.pair, **p._asdict()},
    "similarity": lambda e, p: {"first": e.first, "second": e.second, **p._asdict()},
    "tag": lambda e, p: {
        "words": p.words,
        "tags": p.tags,
        "probabilities": p.probabilities,
        "entities": [
            {**x._asdict(), "text": " ".join(p.words[x.start : x.stop])} for x in p.entities
        ],
    },
    "answer": lambda e, p: {"id": e.id, "question": e.question, **p._asdict()},
}
