"""``minibert vocab``: learn a vocabulary from text."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from minibert.cli.options import ForceFlag, check_output
from minibert.cli.screen import Progress, duration, progress


def vocab(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILES",
            show_default=False,
            help="Texts or folders of them; default: the documentation of Python and NumPy.",
        ),
    ] = None,
    size: Annotated[
        int, typer.Option("--size", min=6, metavar="N", help="Pieces at most, specials included.")
    ] = 8192,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="Where the vocabulary goes.")
    ] = Path("vocab.txt"),
    cased: Annotated[
        bool, typer.Option("--cased", help="Keep capitals and accents; default: drop them.")
    ] = False,
    force: ForceFlag = False,
) -> None:
    """Learn a WordPiece vocabulary: the pieces that occur most, one a line.

    Example:  minibert vocab books/*.txt --size 8192 --out vocab.txt
    """  # fmt: skip
    check_output(out, force)
    from minibert.data.documents import read_documents
    from minibert.data.embedded import embedded_documents
    from minibert.tokenizer import train_vocabulary

    start = time.monotonic()
    documents = read_documents(files) if files else embedded_documents()
    with progress("reading documents") as show:
        vocabulary = train_vocabulary(
            counted(documents, show),
            size,
            lowercase=not cased,
            progress=lambda done, total: show(done, total, "joining pieces"),
        )
    vocabulary.save(out)
    kind = "cased" if cased else "uncased"
    print(f"{out}: {len(vocabulary):,} pieces, {kind}, in {duration(time.monotonic() - start)}")
    if len(vocabulary) < size:
        print(f"The text has no more pieces that occur twice, so fewer than {size:,}.")


def counted(documents: Iterable[list[str]], show: Progress) -> Iterator[str]:
    """Yield the sentences of all documents, and show how many documents were read."""
    for number, document in enumerate(documents, start=1):
        show(number, 0)
        yield from document
