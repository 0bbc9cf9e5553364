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
    FineTunedFolder,
    JsonFlag,
    PairColumn,
    TextColumn,
    limit_threads,
)
from minibert.cli.screen import on_terminal, print_json, print_rows, progress

if TYPE_CHECKING:
    from minibert.tasks.finetuned import FineTuned


def predict(
    folder: FineTunedFolder,
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
    if file is None and (text_column or pair_column):
        raise ValueError("columns are those of a --file: give one, or leave them out")
    from minibert.tasks.base import Columns
    from minibert.tasks.finetuned import load_finetuned
    from minibert.tasks.predict import predict as predict_examples

    model = load_finetuned(folder, ops=backend)
    task = model.task
    if file is not None:
        examples = task.read(file, Columns(text_column, pair_column), known=False)
    else:
        given = text if pair is None else (text, pair)
        inputs = lines() if text is None else {"": given}
        for place, texts in inputs.items():
            check_input(texts, task.pairs, place)
        examples = task.examples(list(inputs.values()))
    with progress("predicting") as show:
        predictions = predict_examples(task, model.model, examples, show)
    show_predictions(model, examples, predictions, json=json)


def lines() -> dict[str, Any]:
    """Return the lines of stdin by their place, blank ones left out; one with a tab is a pair."""
    from minibert.data.tasks.text import split_lines

    if sys.stdin.isatty():
        print("Type texts, one a line; Ctrl-D ends.", file=sys.stderr)
    data = sys.stdin.buffer.read().decode("utf-8-sig", errors="replace")
    found: dict[str, Any] = {}
    for number, line in enumerate(split_lines(data), start=1):
        first, tab, second = line.partition("\t")
        if line.strip():
            pair = first.strip(), second.strip()
            found[f"line {number} of stdin: "] = pair if tab else line.strip()
    if not found:
        raise ValueError("stdin holds no text: write one a line, or give a TEXT or --file")
    return found


def check_input(given: Any, pairs: bool | None, place: str) -> None:
    """Raise ValueError where a model that reads one text is given two, or the other way round."""
    paired = not isinstance(given, str)
    if pairs is True and not paired:
        way = "put a tab between the two" if place else 'give the second with --pair "TEXT"'
        raise ValueError(f"{place}this model reads two texts: {way}")
    if pairs is False and paired:
        way = "remove the tab" if place else "leave out --pair"
        raise ValueError(f"{place}this model reads one text: {way}")
    if paired and not all(map(str.strip, given)):
        raise ValueError(f"{place}one of the two texts is empty")


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
    "tag": (("row", "kind", "entity"), ("row",)),
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
        "row": e.row,
        "words": p.words,
        "tags": p.tags,
        "probabilities": p.probabilities,
        "entities": [
            {**x._asdict(), "text": " ".join(p.words[x.start : x.stop])} for x in p.entities
        ],
    },
    "answer": lambda e, p: {"id": e.id, "question": e.question, **p._asdict()},
}
