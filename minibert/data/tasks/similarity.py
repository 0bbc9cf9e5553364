"""Read pairs of texts and how similar they are."""

from __future__ import annotations

import math
import os

from minibert.data.tasks.columns import (
    SCORE_NAMES,
    SECOND_NAMES,
    TEXT_NAMES,
    cell,
    check_columns,
    chosen_column,
    named_column,
    named_pair,
    needed_column,
    shown_name,
)
from minibert.data.tasks.examples import ScoredExample
from minibert.data.tasks.tables import Table, read_table
from minibert.data.tasks.text import shown

_WAY_OUT = "name the columns with --first-column, --second-column, --score-column"


def read_pairs(
    path: str | os.PathLike[str],
    *,
    first: str | None = None,
    second: str | None = None,
    score: str | None = None,
    scored: bool = True,
) -> list[ScoredExample]:
    """Return the pairs of a table, see ``tables``, for sentence similarity.

    ``first``, ``second`` and ``score`` choose columns by name or by number from 1; what is not
    chosen is found by the known names of ``columns``.  Without a header, and without a choice,
    three columns are first, second, score, and two are first, second, where ``scored`` is False.
    With ``scored=False`` the scores are read where there are any; else they are None.

    Raises ValueError with the file and the row where a text or needed score is empty, a score is
    no finite number, where the columns cannot be told, or where ``read_table`` does.
    """
    table = read_table(path, names=(first, second, score))
    columns = _columns(table, first, second, score, scored)
    flags = ("--first-column", "--second-column", "--score-column")
    check_columns(table, zip(flags, columns, strict=True))
    one, two, three = columns
    examples = []
    for i, (row, line) in enumerate(zip(table.rows, table.lines, strict=True)):
        number = None
        if three is not None and (scored or row[three].strip()):
            number = _number(table, i, three)
        texts = cell(table, i, one, "first text"), cell(table, i, two, "second text")
        examples.append(ScoredExample(*texts, number, line))
    return examples


def _columns(
    table: Table, first: str | None, second: str | None, score: str | None, scored: bool
) -> tuple[int, int, int | None]:
    one = chosen_column(table, first, "--first-column") if first else None
    two = chosen_column(table, second, "--second-column") if second else None
    three = chosen_column(table, score, "--score-column") if score else None
    if table.columns is None:
        if one is two is three is None:
            if table.width == 3:
                return 0, 1, 2
            if table.width == 2 and not scored:
                return 0, 1, None
            raise ValueError(
                f"{table.where}: columns without a header, {table.width} of them, expected "
                f"{'first, second, score' if scored else 'first, second'}: {_WAY_OUT}, "
                "or add a first row with names"
            )
    else:
        if one is two is None and (both := named_pair(table)) and three not in both:
            one, two = both
        taken = {column for column in (one, two, three) if column is not None}
        if one is None:
            one = named_column(table, TEXT_NAMES, taken)
            taken |= set() if one is None else {one}
        if two is None:
            two = named_column(table, (*SECOND_NAMES, *TEXT_NAMES), taken)
        if three is None:
            three = named_column(table, SCORE_NAMES, taken)
    known = ("sentence1", "sentence2", "score")
    one = needed_column(table, one, "first", known)
    two = needed_column(table, two, "second", known)
    if scored:
        three = needed_column(table, three, "score", known)
    return one, two, three


def _number(table: Table, index: int, column: int) -> float:
    text = cell(table, index, column, "score").strip()
    try:
        number = math.nan if "_" in text else float(text)
    except ValueError:
        number = math.nan
    if math.isfinite(number):
        return number
    hint = "write a point for the comma" if "," in text else _WAY_OUT.replace("name", "or name")
    raise ValueError(
        f"{table.path}, line {table.lines[index]}: the score ({shown_name(table, column)}) is "
        f"{shown(text)}, expected a finite number such as 3.5: correct it, {hint}"
    )
