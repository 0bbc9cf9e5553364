"""``minibert fill``: the likeliest words for each [MASK]."""

from __future__ import annotations

from typing import Annotated

import typer

from minibert.cli.options import Backend, BackendFlag, Folder, JsonFlag, limit_threads
from minibert.cli.screen import on_terminal, print_json, print_rows


def fill(
    folder: Folder,
    text: Annotated[
        str, typer.Argument(metavar="TEXT", help="A text with one [MASK] or more, in quotes.")
    ],
    top: Annotated[int, typer.Option("--top", min=1, metavar="N", help="How many for each.")] = 5,
    json: JsonFlag = False,
    backend: BackendFlag = Backend.numpy,
) -> None:
    """Fill in blanks: print the likeliest tokens for each [MASK], with their probabilities.

    Example:  minibert fill runs/first "The [MASK] statement is used to exit a loop."
    """
    limit_threads(None)
    from minibert.checkpoint.huggingface import load_pretrained
    from minibert.inference import fill_mask

    model, tokenizer = load_pretrained(folder, ops=backend)
    blanks = fill_mask(model, tokenizer, text, top=top)
    if json:
        print_json(
            [
                [{"token": p.token, "probability": p.probability, "text": p.text} for p in blank]
                for blank in blanks
            ]
        )
        return
    headers = ("mask", "token", "probability", "text")
    rows = [
        (str(number), p.token, f"{p.probability:.4f}", p.text)
        for number, blank in enumerate(blanks, start=1)
        for p in blank
    ]
    if len(blanks) == 1 and on_terminal():  # a program always finds the same columns
        headers, rows = headers[1:], [row[1:] for row in rows]
    print_rows(headers, rows, numbers=("mask", "probability"))
