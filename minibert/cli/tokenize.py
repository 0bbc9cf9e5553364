"""``minibert tokenize``: how a text is cut into pieces."""

from __future__ import annotations

from typing import Annotated

import typer

from minibert.cli.options import JsonFlag
from minibert.cli.screen import print_json, print_rows


def tokenize(
    folder: Annotated[
        str,
        typer.Argument(
            metavar="DIR", help="A folder with a model, or its vocab.txt or tokenizer.json alone."
        ),
    ],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The text, in quotes.")],
    pair: Annotated[
        str | None, typer.Option("--pair", metavar="TEXT", help="A second text, after [SEP].")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Take a [MASK] in the text for five characters.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Cut a text into word pieces: print their ids, and where in the text each one stands.

    Example:  minibert tokenize runs/first "Unbelievably simple."
    """
    from minibert.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(folder)
    encoding = tokenizer.encode(text, pair, special_tokens="plain" if plain else "allowed")
    if json:
        print_json(encoding._asdict())
        return
    rows = []
    pieces = zip(
        encoding.ids, encoding.tokens, encoding.offsets, encoding.token_type_ids, strict=True
    )
    for number, (index, token, (start, end), segment) in enumerate(pieces):
        source = pair if segment and pair is not None else text
        span = "" if start == end else f"{start}-{end}"
        rows.append((str(number), str(index), token, str(segment), span, source[start:end]))
    print_rows(
        ("position", "id", "piece", "segment", "offsets", "text"),
        rows,
        numbers=("position", "id", "segment"),
    )
