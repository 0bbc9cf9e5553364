"""Read questions about passages and their answers: SQuAD 1.1 and 2.0, or one question a line.

    SQuAD     {"data": [{"paragraphs": [{"context": ..., "qas": [{"id": ..., "question": ...,
              "answers": [{"text": ..., "answer_start": ...}], "is_impossible": false}]}]}]}
    flat      {"id": ..., "question": ..., "context": ...,
              "answers": {"text": [...], "answer_start": [...]}}

The flat form is one object a line, an array of objects, or an object with such an array under
"data"; "passage" may stand for "context", the answers may be a list as in SQuAD, and a missing id
is the number of the line.  No answers mean that the passage has none (SQuAD 2.0).

``answer_start`` counts the characters (code points) of the context.  Where the answer does not
stand there word for word, it is reported and left out: the model would learn a wrong span.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from minibert.data.tasks.examples import Answer, QuestionExample
from minibert.data.tasks.records import JSON_LINES_SUFFIXES, json_records, not_json, too_deep
from minibert.data.tasks.tables import plain_suffix
from minibert.data.tasks.text import read_text, shown, without_surrogates

Report = Callable[[str], object]
_EXPECTED = "expected SQuAD JSON, or one object a line with question, context and answers"


def read_questions(
    path: str | os.PathLike[str], *, answered: bool = True, report: Report | None = None
) -> list[QuestionExample]:
    """Return the questions of a file, plain or gzipped (``.gz``).

    ``report`` is called with a line for each answer that is left out, because it does not stand
    at its place, and for each question that is left out, because none of its answers does.  With
    ``answered=False`` no question is left out, and answers may be missing: they are then None.

    Raises ValueError with the file and the row, or the number of the question and its id, where
    the JSON is cut off, something is missing or an id comes twice, and where no question is left.
    """
    path = Path(path)
    examples: list[QuestionExample] = []
    places: dict[str, str] = {}
    for record in _records(path, read_text(path)):
        identifier = record.identifier()
        where = f"{record.where} (id {shown(identifier)})"
        if identifier in places:
            raise ValueError(f"{where}: the id is also that of {places[identifier]}: give each one")
        places[identifier] = record.where.removeprefix(f"{path}, ")
        question, passage = record.text("question"), record.text("context", "passage")
        answers = _answers(record.fields, where, answered)
        if answers:
            answers = _verbatim(answers, passage, where, report)
            if not answers and answered:
                if report:
                    report(f"{where}: left out, none of its answers stands in the passage")
                continue
            answers = answers or None  # not []: that would say that there is no answer
        examples.append(QuestionExample(identifier, question, passage, answers, record.row))
    if not places:
        raise ValueError(f"{path}, line 1: no questions in it, {_EXPECTED}")
    if not examples:
        raise ValueError(
            f"{path}: none of the {len(places)} questions has an answer that stands in its passage "
            "at answer_start, expected characters counted from 0: were bytes or tokens counted?"
        )
    return examples


class _Record(NamedTuple):
    where: str  # for messages
    row: int
    fields: dict[str, Any]  # of the flat form, or of SQuAD's qas with the context

    def identifier(self) -> str:
        value = self.fields.get("id", str(self.row))
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str):
            raise ValueError(f"{self.where}: the id is {shown(value)}, expected a text")
        return without_surrogates(value)

    def text(self, *names: str) -> str:
        value = next((self.fields[name] for name in names if name in self.fields), None)
        if not isinstance(value, str) or not value.strip():
            found = "missing" if value is None else shown(value)
            raise ValueError(
                f"{self.where} (id {shown(self.identifier())}): the {names[0]} is {found}, "
                f"{_EXPECTED}"
            )
        return without_surrogates(value)


def _records(path: Path, text: str) -> Iterator[_Record]:
    if plain_suffix(path) not in JSON_LINES_SUFFIXES:
        try:
            document = json.loads(text)
        except json.JSONDecodeError as error:
            if not error.msg.startswith("Extra data"):
                raise not_json(path, text, error, expected=_EXPECTED) from None
            document = None  # more than one object: JSON lines
        except RecursionError:
            raise too_deep(path, 1) from None
        if isinstance(document, dict) and "question" not in document:
            yield from _squad(path, document)
            return
    for line, fields in json_records(path, text):
        yield _Record(f"{path}, line {line}", line, fields)


def _squad(path: Path, document: dict[str, Any]) -> Iterator[_Record]:
    row = 0
    for i, article in enumerate(_list(document, "data", f"{path}, line 1")):
        place = f"{path}, data[{i}]"
        if isinstance(article, dict) and "question" in article:
            row += 1
            yield _Record(f"{path}, question {row}", row, article)
            continue
        for j, paragraph in enumerate(_list(article, "paragraphs", place)):
            for fields in _list(paragraph, "qas", f"{place}.paragraphs[{j}]"):
                row += 1
                where = f"{path}, question {row}"
                if not isinstance(fields, dict):
                    raise ValueError(f"{where}: found {shown(fields)}, {_EXPECTED}")
                yield _Record(where, row, {**fields, "context": paragraph.get("context")})


def _list(parent: Any, name: str, where: str) -> list[Any]:
    value = parent.get(name) if isinstance(parent, dict) else None
    if not isinstance(value, list):
        raise ValueError(f"{where}: no list {name!r}, {_EXPECTED}")
    return value


def _answers(fields: dict[str, Any], where: str, answered: bool) -> list[Answer] | None:
    """Return the answers as the file has them: [] for no answer, None for not known."""
    given, impossible = fields.get("answers"), fields.get("is_impossible")
    if given is None and not impossible:
        if answered:
            raise ValueError(
                f"{where}: no answers, expected text and answer_start: add them, or an empty list "
                "where the passage has no answer"
            )
        return None
    if isinstance(given, dict):
        texts, starts = (given.get(name) for name in ("text", "answer_start"))
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise ValueError(
                f"{where}: the answers are no two lists of one length, expected "
                '{"text": ["Paris"], "answer_start": [12]}'
            )
        given = [{"text": a, "answer_start": b} for a, b in zip(texts, starts, strict=True)]
    given = [] if given is None else given
    if not isinstance(given, list):
        raise ValueError(f"{where}: the answers are {shown(given)}, expected a list of them")
    answers = [_answer(answer, where) for answer in given]
    if impossible and answers:
        raise ValueError(f"{where}: is_impossible, but it has answers: remove one or the other")
    if impossible is False and not answers:
        if answered:
            raise ValueError(f"{where}: no answers, but is_impossible is false: correct one")
        return None
    return answers


def _answer(answer: Any, where: str) -> Answer:
    text, start = (
        (answer.get("text"), answer.get("answer_start")) if isinstance(answer, dict) else (0, 0)
    )
    if not isinstance(text, str) or not isinstance(start, int) or isinstance(start, bool):
        raise ValueError(
            f"{where}: an answer without a text and a whole number answer_start, expected "
            '{"text": "Paris", "answer_start": 12}'
        )
    return Answer(without_surrogates(text), start)


def _verbatim(
    answers: list[Answer], passage: str, where: str, report: Report | None
) -> list[Answer]:
    """Return the answers that stand in the passage at their place."""
    kept = []
    for answer in answers:
        end = answer.start + len(answer.text)
        if answer.text.strip() and answer.start >= 0 and passage[answer.start : end] == answer.text:
            kept.append(answer)
        elif report:
            there = shown(passage[answer.start : end]) if answer.start >= 0 else "nothing"
            report(
                f"{where}: the answer {shown(answer.text)} is left out, at character "
                f"{answer.start} of the passage stands {there}"
            )
    return kept
