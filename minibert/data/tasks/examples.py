"""What the readers of task files return: one example a row, nothing tokenised yet."""

from __future__ import annotations

from typing import NamedTuple


class TextExample(NamedTuple):
    """A text, or a pair of texts, and the class it belongs to."""

    text: str
    pair: str | None  # the second text of a pair
    label: str | None  # None: not known
    row: int  # the line of the file it begins on, counted from 1


class ScoredExample(NamedTuple):
    """Two texts and how similar they are, on the scale of the file."""

    first: str
    second: str
    score: float | None  # None: not known
    row: int  # the line of the file it begins on, counted from 1


class TaggedExample(NamedTuple):
    """The words of a sentence and one tag a word, such as B-PER."""

    words: list[str]
    tags: list[str] | None  # as many as words; None: not known
    row: int  # the line of its first word, counted from 1


class Answer(NamedTuple):
    """A span of the passage: ``passage[start : start + len(text)] == text``."""

    text: str
    start: int  # in characters (code points) of the passage


class QuestionExample(NamedTuple):
    """A question about a passage and the spans that answer it."""

    id: str
    question: str
    passage: str
    answers: list[Answer] | None  # [] where the passage has no answer; None: not known
    row: int  # SQuAD: the running number of the question; JSON lines: the line; both from 1
