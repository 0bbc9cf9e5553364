"""Read a file as text: gzip, UTF-8 with or without a mark, line ends of all systems.

Files for fine-tuning fit into memory, so each is read whole.  That makes every error one line
with the file and the row, where rows are counted as an editor shows them: a line ends with
``\\n``, ``\\r\\n`` or ``\\r``, and with no other character, such as U+2028.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from pathlib import Path

_LINE_END = re.compile(r"\r\n|\n|\r")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_JSON_KINDS = {
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
    list: "a list",
    dict: "an object",
}
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_text(path: str | os.PathLike[str]) -> str:
    """Return the text of a UTF-8 file, plain or named .gz, without a byte-order mark.

    Raises ValueError where the file is no UTF-8, damaged gzip, or holds NUL characters or nothing,
    and OSError where it cannot be opened.
    """
    path = Path(path)
    data = _read_bytes(path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # error.start counts in error.object, which is the file without its byte-order mark
        row = _row(error.object[: error.start])
        raise ValueError(
            f"{path}, line {row}: byte {error.object[error.start]:#04x} is not UTF-8: "
            f"{_remedy(data)}"
        ) from None
    if (position := text.find("\0")) >= 0:
        raise ValueError(
            f"{path}, line {line_number(text, position)}: a NUL character, this is no UTF-8 text: "
            "if it is UTF-16, convert it: iconv -f UTF-16 -t UTF-8"
        )
    if not text or text.isspace():
        raise ValueError(f"{path}, line 1: the file is empty, expected at least one row")
    return text


def _read_bytes(path: Path) -> bytes:
    if not path.name.lower().endswith(".gz"):
        return path.read_bytes()
    data = bytearray()
    try:
        with gzip.open(path, "rb") as stream:
            while chunk := stream.read1(1 << 16):
                data += chunk
    except (gzip.BadGzipFile, EOFError, zlib.error):
        if not data:
            problem = "damaged or not gzip: rename it if it is plain text, or else fetch it again"
        else:
            problem = "the gzip file is cut off or damaged from here on: fetch or write it again"
        raise ValueError(f"{path}, line {_row(data)}: {problem}") from None
    return bytes(data)


def _row(data: bytes | bytearray) -> int:
    """Return the number of the line that follows after ``data``."""
    return 1 + data.count(b"\n") + data.count(b"\r") - data.count(b"\r\n")


def _remedy(data: bytes) -> str:
    if data.startswith(b"\x1f\x8b"):
        return "it is gzip, so let its name end in .gz"
    if data.startswith(b"PK"):
        return "it is a zip file or a spreadsheet, save it as CSV or TSV in UTF-8"
    likely = "UTF-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "WINDOWS-1252"
    return f"convert the file, for example: iconv -f {likely} -t UTF-8"


def split_lines(text: str, *, ends: bool = False) -> list[str]:
    """Return the lines of a text, with their line ends where ``ends``.

    >>> split_lines("a\\r\\n\\nb\\u2028c")
    ['a', '', 'b\\u2028c']
    """
    if ends:
        return _LINE.findall(text)
    lines = _LINE_END.split(text)
    return lines if lines[-1] else lines[:-1]


def line_number(text: str, position: int) -> int:
    """Return the line, from 1, on which the character at ``position`` stands."""
    return 1 + len(_LINE_END.findall(text, 0, position))


def without_surrogates(text: str) -> str:
    """Put U+FFFD for each half character that an escape of JSON left; the length stays."""
    return _SURROGATE.sub("\ufffd", text)


def shown(text: object) -> str:
    """Return a text for an error message: quoted, on one line and short; else the kind of value.

    >>> shown("a\\nb" * 30)
    "'a\\\\nba\\\\nba\\\\nba\\\\nba\\\\nba\\\\nba\\\\nba\\\\nba\\\\nba\\\\n…'"
    """
    if not isinstance(text, str):
        return _JSON_KINDS.get(type(text), type(text).__name__)
    return repr(text if len(text) <= 30 else text[:29] + "…")
