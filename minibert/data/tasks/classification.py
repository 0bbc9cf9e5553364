"""Read texts, or pairs of texts, and their classes."""

from __future__ import annotations

import os

from minibert.data.tasks.columns import (
    LABEL_NAMES,
    SECOND_NAMES,
    TEXT_NAMES,
    cell,
    check_columns,
    chosen_column,
    named_column,
    named_pair,
    needed_column,
)
from minibert.data.tasks.examples import TextExample
from minibert.data.tasks.tables import Table, read_table

_WAY_OUT = "name the columns with --text-column, --pair-column, --label-column"


def read_texts(
    path: str | os.PathLike[str],
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    labelled: bool = True,
) -> list[TextExample]:
    """Return the examples of a table, see ``tables``, for classification.

    ``text``, ``pair`` and ``label`` choose columns by name or by number from 1; what is not chosen
    is found by the known names of ``columns``.  Where ``text`` is chosen and ``pair`` is not,
    there is no pair.  Without a header, and without a choice:

        1 column     the text, only where ``labelled`` is False
        2 columns    the text and the label: the label is the column with fewer distinct values,
                     the last where both have equally many
        3 columns    text, pair, label; refused where, in 20 rows or more, the last is no label:
                     most rows differ in it, and another column has fewer distinct values

    With ``labelled=False`` the labels are read where there are any; else they are None.  Labels
    lose blanks around them, texts stay as they are.

    Raises ValueError with the file and the row where a text, pair or needed label is empty, where
    the columns cannot be told, or where ``read_table`` does.
    """
    table = read_table(path, names=(text, pair, label))
    columns = _columns(table, text, pair, label, labelled)
    flags = ("--text-column", "--pair-column", "--label-column")
    check_columns(table, zip(flags, columns, strict=True))
    first, second, third = columns
    examples = []
    for i, (row, line) in enumerate(zip(table.rows, table.lines, strict=True)):
        name = None
        if third is not None:
            name = cell(table, i, third, "label").strip() if labelled else row[third].strip()
        other = None if second is None else cell(table, i, second, "second text")
        examples.append(TextExample(cell(table, i, first, "text"), other, name or None, line))
    return examples


def _columns(
    table: Table, text: str | None, pair: str | None, label: str | None, labelled: bool
) -> tuple[int, int | None, int | None]:
    """Return the columns of the text, the pair and the label."""
    first = chosen_column(table, text, "--text-column") if text else None
    second = chosen_column(table, pair, "--pair-column") if pair else None
    third = chosen_column(table, label, "--label-column") if label else None
    if table.columns is None:
        if first is second is third is None:
            return _by_position(table, labelled)
    else:
        if first is second is None and (both := named_pair(table)) and third not in both:
            first, second = both
        taken = {column for column in (first, second, third) if column is not None}
        if first is None:
            first = named_column(table, TEXT_NAMES, taken)
            if second is None:
                second = named_column(table, SECOND_NAMES, taken)
        if third is None:
            third = named_column(table, LABEL_NAMES, taken)
    first = needed_column(table, first, "text", TEXT_NAMES[:5])
    if labelled:
        third = needed_column(table, third, "label", LABEL_NAMES[:5])
    return first, second, third


def _by_position(table: Table, labelled: bool) -> tuple[int, int | None, int | None]:
    distinct = [len({row[column].strip() for row in table.rows}) for column in range(table.width)]
    if table.width == 1 and not labelled:
        return 0, None, None
    if table.width == 2:
        return (1, None, 0) if distinct[0] < distinct[1] else (0, None, 1)
    few = len(table.rows) < 20 or 2 * distinct[-1] <= len(table.rows)
    if table.width == 3 and (few or distinct[2] <= min(distinct)):
        return 0, 1, 2
    if table.width == 1:
        problem = "1 column, expected texts and labels (tabs between them; in .csv , or ;)"
    elif table.width == 3:
        problem = "3 columns without a header, and the last does not look like labels"
    else:
        problem = f"{table.width} columns without a header"
    raise ValueError(f"{table.where}: {problem}: {_WAY_OUT}, or add a first row with names")
