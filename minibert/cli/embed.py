"""``minibert embed``: one vector for each sentence of a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minibert.cli.options import (
    Backend,
    BackendFlag,
    Folder,
    ForceFlag,
    JsonFlag,
    check_output,
    limit_threads,
)
from minibert.cli.screen import print_json, progress

if TYPE_CHECKING:
    from minibert.arrays import Array

CHUNK = 128  # sentences embedded at a time


class Pooling(StrEnum):
    mean = "mean"
    cls = "cls"


def embed(
    folder: Folder,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A text with one sentence a line; - reads stdin.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE.npy",
            show_default=False,
            help="Save as NumPy array, one row a sentence; default: print the numbers.",
        ),
    ] = None,
    pooling: Annotated[
        Pooling,
        typer.Option("--pooling", help="The mean of all tokens' vectors, or that of [CLS]."),
    ] = Pooling.mean,
    force: ForceFlag = False,
    json: JsonFlag = False,
    backend: BackendFlag = Backend.numba,
) -> None:
    """Turn sentences into vectors: one line in, one row out.

    Printed are numbers between tabs, or with --json one object a line.

    Example:  minibert embed runs/first sentences.txt --out vectors.npy
    """  # fmt: skip
    limit_threads(None)
    if out is not None:
        if out.suffix != ".npy":
            raise ValueError(f"--out is {out}, expected a name that ends in .npy")
        check_output(out, force)
    sentences = read_sentences(file)
    from minibert.checkpoint.huggingface import load_pretrained
    from minibert.inference import embed as embed_sentences

    model, tokenizer = load_pretrained(folder, ops=backend)

    def chunks() -> Iterator[tuple[list[str], Array]]:
        for start in range(0, len(sentences), CHUNK):
            chunk = sentences[start : start + CHUNK]
            yield chunk, embed_sentences(model, tokenizer, chunk, pooling=pooling.value)

    if out is not None:
        save(out, chunks(), len(sentences))
        return
    for chunk, vectors in chunks():
        for sentence, vector in zip(chunk, vectors, strict=True):
            numbers = [float(f"{x:.7g}") for x in vector.tolist()]
            if json:
                print_json({"text": sentence, "vector": numbers})
            else:
                print("\t".join(map(repr, numbers)))


def read_sentences(file: str) -> list[str]:
    """Return the lines of a file, or of stdin for ``-``.

    Raises ValueError on a blank line between others: it would have no vector, and the rows after
    it would no longer be those of their lines.
    """
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    lines = data.decode("utf-8-sig", errors="replace").rstrip().split("\n")
    lines = [line.strip() for line in lines]
    where = "stdin" if file == "-" else file
    if lines == [""]:
        raise ValueError(f"{where} holds no sentence: write one a line")
    if "" in lines:
        raise ValueError(
            f"{where}: line {lines.index('') + 1} is blank: remove it, every line becomes one row"
        )
    return lines


def save(out: Path, chunks: Iterator[tuple[list[str], Any]], total: int) -> None:
    """Write all vectors as one array; the file appears whole or not at all."""
    import os

    import numpy as np

    rows, done = [], 0
    with progress("embedding") as show:
        for chunk, vectors in chunks:
            rows.append(vectors)
            done += len(chunk)
            show(done, total)
    vectors = np.concatenate(rows)
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            # np.save does the same, but tells of a full disk in words that nobody understands
            np.lib.format.write_array_header_1_0(
                file, np.lib.format.header_data_from_array_1_0(vectors)
            )
            file.write(vectors.data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(out)
    finally:
        temporary.unlink(missing_ok=True)
    print(f"{out}: {vectors.shape[0]} vectors of {vectors.shape[1]} numbers, {vectors.dtype}")
