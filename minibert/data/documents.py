"""Read documents, each a list of sentences, from the user's files.

Three forms are understood; any of them may be gzipped (``.gz``):

    prose              sentences run on over the lines; blank lines lie between documents
    one sentence a line        ...                      blank lines lie between documents
    JSON lines         .jsonl, .ndjson, .json: each line an object whose "text" is a document

The first two are told apart by how lines end, in the first 500 lines of each file.  A line break
inside a block is *chosen* where the line ends a sentence, or where it is one unended sentence and
the next word would not have made it longer than the file's lines are (their 95th percentile).
Where at least half are chosen, the file has one sentence a line; but where such lines hold two
sentences or more on average, each is a paragraph, and the file is prose.  ``form=`` overrules this.

Files are read as a stream.  A document longer than 8 MiB of text is cut into several there, and so
is a line of that length, so memory stays bounded; only a JSON line is held whole.
"""

from __future__ import annotations

import codecs
import glob
import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import BinaryIO, Literal

from minibert.data.sentences import ends_sentence, split_sentences

Form = Literal["auto", "prose", "lines"]

LONGEST_DOCUMENT = 8 << 20  # characters of text, and bytes in a line
_SAMPLED_LINES = 500
_JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")
_FOLDER_SUFFIXES = (".txt", ".text", ".jsonl", ".ndjson")


def read_documents(
    paths: Sequence[str | os.PathLike[str]], *, form: Form = "auto"
) -> Iterator[list[str]]:
    """Yield the documents of files, of folders (searched through) and of patterns like ``*.txt``.

    The order is that of ``expand_paths``.  Documents without a sentence are left out.

    Raises FileNotFoundError or ValueError at once where a path leads to no text, and ValueError
    while reading where bytes are not UTF-8, JSON or gzip, or where no file holds any text.
    """
    if form not in ("auto", "prose", "lines"):
        raise ValueError(f"form is {form!r}, expected 'auto', 'prose' or 'lines'")
    return _documents(expand_paths(paths), form)


def expand_paths(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the files that ``paths`` lead to, each once, sorted by their absolute path.

    Folders are searched for .txt, .text, .jsonl and .ndjson, plain or .gz; hidden ones are passed
    over.
    """
    if isinstance(paths, (str, os.PathLike)):
        paths = [paths]
    found = {
        file.resolve() for path in paths for file in _files_at(Path(path).expanduser(), str(path))
    }
    if not found:
        raise ValueError("no files were named: name text files, folders or patterns")
    return sorted(found)


def _files_at(path: Path, given: str) -> list[Path]:
    if path.is_dir():
        files = []
        for folder, folders, names in os.walk(path):
            folders[:] = [folder for folder in folders if not folder.startswith(".")]
            files += [
                Path(folder, name)
                for name in names
                if not name.startswith(".") and _plain_name(name).endswith(_FOLDER_SUFFIXES)
            ]
        if not files:
            raise ValueError(
                f"{given} is a folder without text: expected files named "
                f"*{', *'.join(_FOLDER_SUFFIXES)}, or these with .gz, in it or below it"
            )
        return files
    if path.is_file():
        return [path]
    if path.exists():
        raise ValueError(f"{given} is no regular file: text is read twice, so save it to a file")
    matches = map(Path, glob.glob(str(path), recursive=True))  # noqa: PTH207
    files = [match for match in matches if match.is_file()]
    if not files:
        hint = "no file matches it" if glob.has_magic(given) else "no such file or folder"
        raise FileNotFoundError(f"{given}: {hint}")
    return files


def _plain_name(name: str) -> str:
    return name.lower().removesuffix(".gz")


def _documents(files: list[Path], form: Form) -> Iterator[list[str]]:
    empty = True
    for file in files:
        try:
            with _open(file) as stream:
                if _plain_name(file.name).endswith(_JSON_SUFFIXES):
                    documents = _json_documents(file, stream)
                else:
                    documents = _text_documents(_lines(file, stream), form)
                for document in documents:
                    empty = False
                    yield document
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{file} is damaged or not gzip: {error}") from None
    if empty:
        names = ", ".join(map(str, files[:3])) + (", …" if len(files) > 3 else "")
        raise ValueError(f"no text in {names}: blank files cannot be trained on")


def _open(file: Path) -> BinaryIO:
    if file.name.lower().endswith(".gz"):
        return gzip.open(file, "rb")  # type: ignore[return-value]
    return file.open("rb")


def _lines(file: Path, stream: BinaryIO) -> Iterator[str]:
    """Yield the decoded lines of a file; one above the limit comes in parts."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    taken = position = 0  # bytes read, and bytes decoded: a part may end within a character
    while raw := stream.readline(LONGEST_DOCUMENT):
        line = _decoded(decoder, raw, file, position)
        if position == 0:
            line = line.removeprefix("\ufeff")
        taken += len(raw)
        position = taken - len(decoder.getstate()[0])
        # \r\n, and the lone \r of old Macintosh files; U+2028 and its like are not line ends here.
        yield from line.removesuffix("\n").removesuffix("\r").split("\r")
    _decoded(decoder, b"", file, position, final=True)


def _decoded(
    decoder: codecs.IncrementalDecoder, raw: bytes, file: Path, position: int, final: bool = False
) -> str:
    try:
        return decoder.decode(raw, final)
    except UnicodeDecodeError as error:
        at, byte = position + error.start, error.object[error.start]
        where = f"{file} is not UTF-8: byte {byte:#04x} at position {at}"
        raise ValueError(
            f"{where}; convert it, for example: iconv -f {_likely_encoding(at, byte)} -t UTF-8"
        ) from None


def _likely_encoding(position: int, byte: int) -> str:
    return "UTF-16" if position == 0 and byte in (0xFE, 0xFF) else "WINDOWS-1252"


def _text_documents(lines: Iterator[str], form: Form) -> Iterator[list[str]]:
    sample = list(islice(lines, _SAMPLED_LINES))
    if form == "auto":
        form = detect_form(sample)
    for block, continued in _blocks(chain(sample, lines)):
        if form == "lines":
            sentences = [" ".join(line.split()) for line in block]
        else:
            sentences = split_sentences("\n".join(block))
        if continued:
            # No document may begin with the true continuation of the one before: next-sentence
            # prediction could draw it as a random sentence.
            del sentences[0]
        if sentences:
            yield sentences


def _blocks(lines: Iterable[str]) -> Iterator[tuple[list[str], bool]]:
    """Yield the runs of lines between blank ones, cut above the limit, and if they were cut off."""
    block: list[str] = []
    size = 0
    continued = False
    for line in chain(lines, [""]):
        blank = not line or line.isspace()
        if block and (blank or size + len(line) > LONGEST_DOCUMENT):
            yield block, continued
            block, size, continued = [], 0, not blank
        if not blank:
            block.append(line)
            size += len(line)


def detect_form(lines: Sequence[str]) -> Literal["prose", "lines"]:
    """Say which form of text the first lines of a file have; see the top of this module.

    >>> detect_form(["A fox. It", "ran away.", "", "The end."])
    'prose'
    >>> detect_form(["hello", "tom sawyer", "how are you"])
    'lines'
    """
    stripped = [line.strip() for line in lines]
    lengths = sorted(len(line) for line in stripped if line)
    breaks = [(line, below) for line, below in pairwise(stripped) if line and below]
    if not breaks:
        return "prose"
    width = lengths[int(0.95 * len(lengths))]
    chosen = sentences = 0
    for line, below in breaks:
        count = len(split_sentences(line))
        fits = count == 1 and len(line) + 1 + len(_first_word(below)) <= width
        chosen += ends_sentence(line) or fits
        sentences += count
    return "lines" if 2 * chosen >= len(breaks) and sentences < 2 * len(breaks) else "prose"


def _first_word(line: str) -> str:
    word = line.split(maxsplit=1)[0]
    return word if word.isascii() else word[:1]  # Chinese lines break between any two characters


def _json_documents(file: Path, stream: BinaryIO) -> Iterator[list[str]]:
    position = 0
    for number, raw in enumerate(stream, start=1):
        decoder = codecs.getincrementaldecoder("utf-8")()
        line = _decoded(decoder, raw, file, position, final=True)
        if position == 0:
            line = line.removeprefix("\ufeff")
        position += len(raw)
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(
                f"{file}, line {number} is not JSON ({error}): expected one object a line"
            ) from None
        if not isinstance(record, dict) or not isinstance(record.get("text"), str):
            raise ValueError(
                f"{file}, line {number}: expected an object with the document's text, "
                f'such as {{"text": "One sentence. Another."}}'
            )
        if sentences := split_sentences(record["text"]):
            yield sentences
