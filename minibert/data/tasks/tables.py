"""Read a table: tab-separated, comma-separated or JSON lines, any of them gzipped (``.gz``).

    .tsv .tab .txt           cells between tabs, taken literally: a quote is a character
    .csv                     quotes around cells with delimiters, quotes ("") or line breaks in
                             them; the delimiter , or ; is found from the first row
    .jsonl .ndjson .json     one object a line, or one array of objects; the keys name the columns

The first row of a tab- or comma-separated file is a header exactly where one of its cells is a
known name, see ``columns.KNOWN_NAMES``, or a name that the user chose.  In JSON, numbers and
booleans become their text, and null and missing keys the empty text; a column with a list or an
object is refused when it is used.  Blank lines, and rows whose cells are all blank, are skipped.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from minibert.data.tasks.columns import is_header
from minibert.data.tasks.records import json_records
from minibert.data.tasks.text import read_text, split_lines, without_surrogates

TSV_SUFFIXES = (".tsv", ".tab", ".txt")
JSON_SUFFIXES = (".jsonl", ".ndjson", ".json")


class Table(NamedTuple):
    """Rows of equal length, and where each began in its file."""

    columns: list[str] | None  # names, None without a header
    rows: list[list[str]]
    lines: list[int]  # as many as rows, counted from 1
    path: Path
    first_line: int = 1  # of the header, or of the first row
    nested: Mapping[int, int] = MappingProxyType({})  # columns with lists or objects: first line

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.rows[0])

    @property
    def where(self) -> str:
        """The file and its first row, for messages about columns."""
        return f"{self.path}, line {self.first_line}"


def plain_suffix(path: Path) -> str:
    """Return how a name ends, without .gz."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def read_table(path: str | os.PathLike[str], *, names: Sequence[str | None] = ()) -> Table:
    """Return the table in a file; ``names`` are columns that the user chose, None among them.

    Raises ValueError with the file and the row where it is empty, cut off or damaged, or where a
    row has another number of columns than the first.
    """
    path = Path(path)
    suffix = plain_suffix(path)
    if suffix not in (*TSV_SUFFIXES, ".csv", *JSON_SUFFIXES):
        raise ValueError(
            f"{path}: a table's name ends in {', '.join((*TSV_SUFFIXES, '.csv', *JSON_SUFFIXES))}, "
            "or one of these and .gz: rename it, or save it in one of these forms"
        )
    text = read_text(path)
    if suffix in JSON_SUFFIXES:
        return _from_records(path, text)
    if suffix == ".csv":
        lines = split_lines(text, ends=True)
        delimiter = _delimiter(lines, names)
        rows = list(_csv_rows(path, lines, delimiter))
        hint = f"a {delimiter} or a quote too many or too few? a cell with {delimiter} needs quotes"
    else:
        rows = [(i, line.split("\t")) for i, line in enumerate(split_lines(text), start=1)]
        hint = "a tab too many or too few?"
    rows = [(line, row) for line, row in rows if not _blank(row)]
    if not rows:
        raise ValueError(f"{path}, line 1: all cells are empty, expected at least one row")
    first_line, first = rows[0]
    if suffix == ".csv" and "\t" in first[0]:
        hint = "its cells seem to stand between tabs, so let its name end in .tsv"
    for line, row in rows:
        if len(row) != len(first):
            raise ValueError(
                f"{path}, line {line}: {_counted(row)}, but the first row (line {first_line}) has "
                f"{len(first)}: {hint}"
            )
    columns = [cell.strip() for cell in first] if is_header(first, names) else None
    if columns is not None and not rows[1:]:
        raise ValueError(f"{path}, line {first_line}: a header, but no row below it: add examples")
    rows = rows if columns is None else rows[1:]
    return Table(columns, [row for _, row in rows], [line for line, _ in rows], path, first_line)


def _blank(row: list[str]) -> bool:
    return not any(cell and not cell.isspace() for cell in row)


def _counted(row: list[str]) -> str:
    return "1 column" if len(row) == 1 else f"{len(row)} columns"


def _delimiter(lines: list[str], names: Sequence[str | None]) -> str:
    """Return the delimiter that splits the first row.

    Where both do, it is the one that gives a header, or else the same number of cells in all rows,
    or else more cells in the first.
    """
    firsts = {delimiter: next(_loose_rows(lines, delimiter), []) for delimiter in ",;"}
    fit = [delimiter for delimiter, first in firsts.items() if len(first) > 1]
    if len(fit) > 1:
        headed = [delimiter for delimiter in fit if is_header(firsts[delimiter], names)]
        even = [d for d in fit if len({len(row) for row in _loose_rows(lines, d)}) == 1]
        fit = headed if len(headed) == 1 else even or fit
    return max(fit, key=lambda delimiter: len(firsts[delimiter]), default=",")


def _loose_rows(lines: list[str], delimiter: str) -> Iterator[list[str]]:
    try:
        yield from (row for row in csv.reader(lines, delimiter=delimiter) if not _blank(row))
    except csv.Error:  # reported where the delimiter is known
        return


def _csv_rows(path: Path, lines: list[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1  # the next row's first; a row may have several
        try:
            yield line, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            if "end of data" in str(error):
                problem = "the row has a quote that is never closed: close or remove it"
            elif "expected after" in str(error):
                problem = (
                    f"the row has text behind a closing quote, expected {delimiter} there: "
                    'write quotes inside a cell twice, "He said ""no""."'
                )
            else:
                problem = f"the row is not CSV ({error}): is a quote not closed?"
            raise ValueError(f"{path}, line {line}: {problem}") from None


def _from_records(path: Path, text: str) -> Table:
    decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
    records = list(json_records(path, text, decoder))
    columns = list(dict.fromkeys(key for _, record in records for key in record))
    if not columns:
        raise ValueError(
            f"{path}, line {records[0][0]}: an object without keys, expected the columns"
        )
    nested: dict[int, int] = {}
    for line, record in records:
        for column, key in enumerate(columns):
            if isinstance(record.get(key), (list, dict)):
                nested.setdefault(column, line)
    rows = [[_as_text(record.get(key)) for key in columns] for _, record in records]
    lines = [line for line, _ in records]
    return Table(list(map(without_surrogates, columns)), rows, lines, path, lines[0], nested)


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return without_surrogates(value)
    return json.dumps(value, ensure_ascii=False)  # true, false; and nested values, never used
