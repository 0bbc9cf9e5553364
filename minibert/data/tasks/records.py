"""Read JSON: one object a line, or one array of objects; each comes with the line it begins on."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minibert.data.tasks.text import line_number, shown, split_lines

JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")
_BLANKS = re.compile(r"[ \t\r\n]*")
_EXPECTED = "expected one object a line, or one array of objects"


def json_records(
    path: Path, text: str, decoder: json.JSONDecoder | None = None
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects in the text of a file and the lines they begin on.

    Raises ValueError with the line where the text is cut off, not JSON, or another kind of value.
    """
    decoder = decoder or json.JSONDecoder()
    if text.lstrip(" \t\r\n").startswith("["):
        yield from _array(path, text, decoder)
        return
    for number, line in enumerate(split_lines(text), start=1):
        if line.strip():
            yield number, _object(path, number, _whole(path, number, line, decoder))


def not_json(
    path: Path,
    text: str,
    error: json.JSONDecodeError,
    *,
    first_line: int = 1,
    expected: str = _EXPECTED,
) -> ValueError:
    """Return an error that says where ``text``, which begins on ``first_line``, breaks."""
    row = first_line + line_number(text, error.pos) - 1
    reason = error.msg[0].lower() + error.msg[1:].removesuffix(" at").removesuffix(" starting")
    return ValueError(
        f"{path}, line {row}, column {error.colno}: not JSON ({reason}), the file is cut off or "
        f"damaged here: {expected}"
    )


def too_deep(path: Path, line: int) -> ValueError:
    """Return the error for brackets within brackets within brackets."""
    return ValueError(f"{path}, line {line}: not data, brackets are nested too deeply: {_EXPECTED}")


def _whole(path: Path, number: int, line: str, decoder: json.JSONDecoder) -> Any:
    try:
        return decoder.decode(line)
    except json.JSONDecodeError as error:
        raise not_json(path, line, error, first_line=number) from None
    except RecursionError:
        raise too_deep(path, number) from None


def _array(
    path: Path, text: str, decoder: json.JSONDecoder
) -> Iterator[tuple[int, dict[str, Any]]]:
    # The array is not decoded at once: only here is it known on which line an object begins.
    counted, number = 0, 1
    position = _skip(text, _skip(text, 0) + 1)
    if text.startswith("]", position):
        raise ValueError(f"{path}, line 1: the array is empty, expected at least one object")
    while True:
        number += line_number(text[counted:position], position - counted) - 1
        counted = position
        try:
            value, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise not_json(path, text, error) from None
        except RecursionError:
            raise too_deep(path, number) from None
        yield number, _object(path, number, value)
        position = _skip(text, position)
        if text.startswith(",", position):
            position = _skip(text, position + 1)
            continue
        if not text.startswith("]", position):
            error = json.JSONDecodeError("Expecting ',' or ']'", text, position)
            raise not_json(path, text, error)
        position = _skip(text, position + 1)
        if position < len(text):
            raise not_json(path, text, json.JSONDecodeError("Extra data", text, position))
        return


def _skip(text: str, position: int) -> int:
    match = _BLANKS.match(text, position)
    return match.end() if match else position


def _object(path: Path, number: int, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise ValueError(
        f"{path}, line {number}: found {shown(value)}, {_EXPECTED}, such as "
        '{"text": "A fine film.", "label": "positive"}'
    )
