"""Which column of a table is which: by known names, or as the user says.

Names are compared without regard to case, ``_``, ``-`` and blanks: ``Sentence_A``, ``sentence a``
and ``sentenceA`` are one name.  Where several columns bear known names, the lists below decide:
whoever stands first.  The first columns of well-known pairs are looked for together with their
second, so that a premise is never paired with another sentence than its hypothesis.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from minibert.data.tasks.tables import Table

PAIR_NAMES = (
    ("sentence1", "sentence2"),
    ("sentencea", "sentenceb"),
    ("premise", "hypothesis"),
    ("question1", "question2"),
    ("text1", "text2"),
    ("texta", "textb"),
    ("#1string", "#2string"),
    ("question", "sentence"),
    ("question", "passage"),
    ("text", "pair"),
    ("text", "textpair"),
    ("first", "second"),
)
TEXT_NAMES = (
    *("text", "sentence", "review", "content", "comment", "tweet", "document", "utterance"),
    *dict.fromkeys(first for first, _ in PAIR_NAMES),
)
SECOND_NAMES = tuple(second for _, second in PAIR_NAMES if second not in TEXT_NAMES)
LABEL_NAMES = (
    *("label", "labels", "class", "category", "sentiment", "target", "goldlabel"),
    *("entailmentjudgment", "entailmentlabel", "isduplicate", "quality", "intent", "polarity"),
)
SCORE_NAMES = (
    *("score", "similarity", "similarityscore", "relatednessscore", "relatedness"),
    *("goldscore", "gold", "label"),
)
KNOWN_NAMES = frozenset((*TEXT_NAMES, *SECOND_NAMES, *LABEL_NAMES, *SCORE_NAMES))


def plain(name: str) -> str:
    """Return a name as it is compared.

    >>> plain("Sentence_A ")
    'sentencea'
    """
    return re.sub(r"[\s_-]+", "", name).casefold()


def is_header(row: Sequence[str], chosen: Iterable[str | None] = ()) -> bool:
    """Say if the first row of a table names its columns.

    It does where one of its cells is a known name, or a name that the user chose; a chosen number,
    such as "2", is none: it might as well be a label.
    """
    names = {plain(name) for name in chosen if name and not _is_number(name)}
    return any(plain(cell) in KNOWN_NAMES or plain(cell) in names for cell in row)


def _is_number(choice: str) -> bool:
    return choice.isascii() and choice.isdecimal()


def chosen_column(table: Table, choice: str, flag: str) -> int:
    """Return the index of the column with the name, or the number from 1, that the user chose."""
    columns = table.columns or []
    matches = [i for i, name in enumerate(columns) if name == choice]
    matches = matches or [i for i, name in enumerate(columns) if plain(name) == plain(choice)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ValueError(
            f"{table.where}: {flag} is {choice!r}, but {len(matches)} columns have that name: "
            f"give a number, {' or '.join(str(i + 1) for i in matches)}"
        )
    if _is_number(choice) and 1 <= int(choice[:9]) <= table.width:
        return int(choice) - 1
    numbers = "1" if table.width == 1 else f"1 to {table.width}"
    if table.columns is None:
        raise ValueError(
            f"{table.where}: {flag} is {choice!r}, but the first row does not have that name: "
            f"give a number, {numbers}, or add a first row with names"
        )
    raise ValueError(
        f"{table.where}: {flag} is {choice!r}, but the columns are {listed(table)}: "
        f"give one of these names, or a number, {numbers}"
    )


def named_column(table: Table, names: Sequence[str], taken: Iterable[int] = ()) -> int | None:
    """Return the index of the column that has the first of these names, or None."""
    columns = [plain(name) for name in table.columns or []]
    for name in names:
        matches = [i for i, column in enumerate(columns) if column == name and i not in taken]
        if len(matches) > 1:
            raise ValueError(
                f"{table.where}: {len(matches)} columns are named {table.columns[matches[0]]!r}: "  # pyright: ignore[reportOptionalSubscript]
                "expected each name once, rename or remove one"
            )
        if matches:
            return matches[0]
    return None


def named_pair(table: Table) -> tuple[int, int] | None:
    """Return the two columns of the first well-known pair, or None."""
    for first, second in PAIR_NAMES:
        found = named_column(table, [first]), named_column(table, [second])
        if found[0] is not None and found[1] is not None:
            return found[0], found[1]
    return None


def needed_column(table: Table, column: int | None, what: str, known: Sequence[str]) -> int:
    """Return the column, or raise ValueError where neither a flag nor a known name led to one."""
    if column is not None:
        return column
    found = f"there are {table.width} columns without names"
    if table.columns is not None:
        found = f"none of the names, {listed(table)}, is a known one ({', '.join(known)} …)"
    raise ValueError(
        f"{table.where}: which column is the {what}? {found}: name it with --{what}-column"
    )


def check_columns(table: Table, columns: Iterable[tuple[str, int | None]]) -> None:
    """Raise ValueError where two flags lead to one column, or one to lists or objects."""
    flags: dict[int, str] = {}
    for flag, column in columns:
        if column is None:
            continue
        if column in flags:
            raise ValueError(
                f"{table.where}: {flags[column]} and {flag} are both "
                f"{shown_name(table, column)}: name two different columns"
            )
        flags[column] = flag
        if column in table.nested:
            raise ValueError(
                f"{table.path}, line {table.nested[column]}: {shown_name(table, column)} holds a "
                "list or an object, expected a text, a number or true/false: flatten it, or name "
                f"another column with {flag}"
            )


def shown_name(table: Table, column: int) -> str:
    """Return a column as a message shows it."""
    return f"column {column + 1}" if table.columns is None else f"column {table.columns[column]!r}"


def listed(table: Table) -> str:
    """Return the names of the columns as a message shows them."""
    names = [name if len(name) <= 30 else name[:29] + "…" for name in table.columns or []]
    return ", ".join(map(repr, names[:12])) + (", …" if len(names) > 12 else "")


def cell(table: Table, index: int, column: int, what: str) -> str:
    """Return one cell; raise ValueError with its line where it is blank."""
    value = table.rows[index][column]
    if not value or value.isspace():
        raise ValueError(
            f"{table.path}, line {table.lines[index]}: the {what} ({shown_name(table, column)}) "
            "is empty: fill it in or remove the row"
        )
    return value
