"""Read words and their tags, one word a line, as CoNLL's shared tasks write them.

    EU      NNP  B-NP  B-ORG        columns between tabs or blanks: the word is the first, the tag
    rejects VBZ  B-VP  O            the last; a line with a tab in it is split at tabs only
                                    a blank line, also one of blanks and tabs, ends the sentence
    -DOCSTART- -X- -X- O            skipped, and so are comments ...
    # sent_id = 12                  ... before a sentence, a # without a tab and a tag behind it

A ``#`` or ``#hashtag`` with a tag, or in a file of one column, is a word.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from minibert.data.tasks.examples import TaggedExample
from minibert.data.tasks.text import read_text, shown, split_lines

_TAG = re.compile(r"O|[BISE]-\S+")
_TAGS = "expected O, B-… or I-… (S-… and E-… as well), such as B-PER"


def read_tagged(path: str | os.PathLike[str], *, tagged: bool = True) -> list[TaggedExample]:
    """Return the sentences of a CoNLL file, plain or gzipped (``.gz``).

    With ``tagged=False`` a file may hold one column, the words; the tags are then None.  Files of
    several columns have tags in the last one in any case.

    Raises ValueError with the file and the row where a tag is missing or none of O, B-…, I-…,
    S-…, E-…, where lines have unequal numbers of columns, or where ``read_text`` does.
    """
    path = Path(path)
    lines = [_Line(line) for line in split_lines(read_text(path))]
    width = _width(lines)
    examples: list[TaggedExample] = []
    words: list[str] = []
    tags: list[str] = []
    start = 0

    def end_sentence() -> None:
        if words:
            examples.append(TaggedExample(words.copy(), tags.copy() if width > 1 else None, start))
        words.clear()
        tags.clear()

    for row, line in enumerate(lines, start=1):
        if not line.columns or line.columns[0] == "-DOCSTART-":
            end_sentence()
        elif not (not words and line.is_comment(width)):
            _check(path, row, line.columns, width, tagged)
            start = start if words else row
            words.append(line.columns[0])
            tags.append(line.columns[-1])
    end_sentence()
    if not examples:
        raise ValueError(f"{path}, line 1: no words, expected lines such as 'Paris B-LOC'")
    _check_numbers(path, examples)
    return examples


class _Line:
    """A line and its columns, none where it is blank."""

    def __init__(self, line: str) -> None:
        # some files end in a byte-order mark, left there by whoever joined two
        line = "" if not line.replace("\ufeff", "").strip() else line.strip(" \t")
        self.tabbed = "\t" in line
        self.hash = line.startswith("#")
        cells = [cell.strip(" ") for cell in line.split("\t" if self.tabbed else " ")]
        self.columns = [cell for cell in cells if cell]

    def is_comment(self, width: int) -> bool:
        """Say if the line, before the first word of a sentence, is a comment in this file."""
        if not self.hash or self.tabbed:
            return False
        if len(self.columns) != width:
            return True
        return self.columns[0] == "#" and width > 1 and not _TAG.fullmatch(self.columns[-1])


def _width(lines: list[_Line]) -> int:
    """Return how many columns the first line with a word has."""
    filled = [line for line in lines if line.columns and line.columns[0] != "-DOCSTART-"]
    sure = (line for line in filled if line.tabbed or not line.hash)
    likely = (line for line in filled if _TAG.fullmatch(line.columns[-1]))
    first = next(sure, None) or next(likely, None)
    return len(first.columns) if first else 1


def _check(path: Path, row: int, columns: list[str], width: int, tagged: bool) -> None:
    where = f"{path}, line {row}"
    last = columns[-1]
    if len(columns) == 1 and (tagged or width > 1):
        raise ValueError(
            f"{where}: {shown(last)} has no tag, {_TAGS}, behind a tab or a blank: add the tag"
        )
    if len(columns) != width:
        raise ValueError(
            f"{where}: {len(columns)} columns, but the first line with a word has {width}: is a "
            "separator missing, or a blank in a word? (words with blanks need tabs)"
        )
    if width > 1 and not _TAG.fullmatch(last):
        wayout = "correct it" if tagged else "correct it, or leave only the column of the words"
        raise ValueError(
            f"{where}: the tag of {shown(columns[0])} is {shown(last)}, {_TAGS}: {wayout}"
        )


def _check_numbers(path: Path, examples: list[TaggedExample]) -> None:
    """Refuse a file whose first column numbers the words: they would be learnt as the words."""
    if all(words == [str(i + 1) for i in range(len(words))] for words, _, _ in examples) and any(
        len(words) > 1 for words, _, _ in examples
    ):
        raise ValueError(
            f"{path}, line {examples[0].row}: the first column numbers the words, expected the "
            "words themselves there: remove that column, for example: cut -f 2-"
        )
