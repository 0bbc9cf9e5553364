"""Answering: the slice of a passage that answers a question.

A passage that does not fit into one row is read in windows that overlap.  Every answer is a slice
of the passage as it was given, character by character; nothing is put together from pieces.
Source: Devlin et al., BERT (2019), sections 4.2 and 4.3; google-research/bert, run_squad.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from minibert.arrays import Array
from minibert.config import BertConfig
from minibert.data.tasks import Answer as GoldAnswer
from minibert.data.tasks import QuestionExample, read_questions
from minibert.models.answering import BertForQuestionAnswering
from minibert.models.classifier import TaskBatch
from minibert.scores import answer_scores
from minibert.tasks.base import Columns, Task, check_length, refuse_columns, two_texts
from minibert.tasks.rows import Row, Tokens, pad_rows
from minibert.tokenizer import Tokenizer

if TYPE_CHECKING:
    from minibert.ops import Ops

LONGEST_QUESTION = 64  # tokens
LONGEST_ANSWER = 30  # tokens
CANDIDATES = 20  # slices of each window that are compared with those of others

Offsets = list[tuple[int, int]]


class Answered(NamedTuple):
    """A slice of the passage; an empty one says that the passage has no answer."""

    text: str
    start: int  # characters: text == passage[start:stop]
    stop: int
    probability: float  # among the candidates


class Window(NamedTuple):
    """Which part of the passage a row holds."""

    place: int  # of its first passage token in the row
    offsets: Offsets  # in the passage, of the tokens from there on


class Candidate(NamedTuple):
    score: float
    start: int
    stop: int


class Answer(Task):
    """[CLS] question [SEP] window of the passage [SEP] → start and end of the answer.

    ``stride`` is how many tokens after one window the next begins; by default half a window.
    ``impossible`` says that some questions have no answer, and that this may be the answer.
    """

    name: ClassVar[str] = "answer"
    metric: ClassVar[str] = "f1"
    pairs = True

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_length: int = 256,
        stride: int | None = None,
        impossible: bool = False,
    ) -> None:
        check_length(max_length, 16, "[CLS] question [SEP] passage [SEP]")
        self.longest_question = min(LONGEST_QUESTION, max_length // 2)
        narrowest = max_length - self.longest_question - 3
        if stride is not None and not 1 <= stride <= narrowest:
            raise ValueError(
                f"stride is {stride}, but a window beside a long question holds {narrowest} "
                f"tokens, so some would never be read: give --stride from 1 to {narrowest}"
            )
        self.tokenizer, self.max_length = tokenizer, max_length
        self.stride, self.impossible = stride, impossible

    def fitted(self, examples: Sequence[QuestionExample]) -> Answer:
        impossible = any(example.answers == [] for example in examples)
        return Answer(self.tokenizer, self.max_length, self.stride, impossible)

    def read(self, path: Path, columns: Columns, *, known: bool = True) -> list[QuestionExample]:
        refuse_columns(columns)
        return read_questions(path, answered=known, report=report)

    def examples(self, inputs: Sequence[Any]) -> list[QuestionExample]:
        return [
            QuestionExample(str(n + 1), *two_texts(given, n), None, n + 1)
            for n, given in enumerate(inputs)
        ]

    def model(self, config: BertConfig, ops: str | Ops) -> BertForQuestionAnswering:
        return BertForQuestionAnswering(config, ops)

    def rows(self, examples: Sequence[QuestionExample]) -> list[Row]:
        rows: list[Row] = []
        passages: dict[str, tuple[list[int], Offsets]] = {}
        for number, example in enumerate(examples):
            if example.passage not in passages:
                encoded = self.tokenizer.encode(example.passage, add_special_tokens=False)
                passages[example.passage] = encoded.ids, encoded.offsets
            rows += self.windows(number, example, *passages[example.passage])
        return rows

    def windows(
        self, number: int, example: QuestionExample, ids: list[int], offsets: Offsets
    ) -> list[Row]:
        """Return one row for each window of the passage; together they hold every token."""
        vocab = self.tokenizer.vocab
        question = self.tokenizer.encode_ids(example.question)[: self.longest_question]
        place = len(question) + 2
        room = self.max_length - place - 1
        stride = self.stride or max(room // 2, 1)
        span = span_of(example.answers, offsets)
        rows = []
        for start in range(0, max(len(ids) - room, 0) + stride, stride):
            part = ids[start : start + room]
            tokens = Tokens(
                [vocab.cls_id, *question, vocab.sep_id, *part, vocab.sep_id],
                [0] * place + [1] * (len(part) + 1),
            )
            window = Window(place, offsets[start : start + room])
            label = 0, 0
            if span and start <= span[0] and span[1] < start + room:
                label = place + span[0] - start, place + span[1] - start
            rows.append(Row((tokens,), label, number, window))
            if start + room >= len(ids):
                break
        return rows

    def batch(self, rows: Sequence[Row]) -> TaskBatch:
        labels = np.array([row.label for row in rows], np.int32)
        batch = pad_rows(rows, self.tokenizer.vocab.pad_id, labels)
        allowed = np.zeros(batch.input_ids.shape, np.bool_)
        allowed[:, 0] = True
        for number, row in enumerate(rows):
            place, offsets = row.origin
            allowed[number, place : place + len(offsets)] = True
        return batch._replace(allowed=allowed)

    def split(self, logits: Array, rows: Sequence[Row]) -> list[Array]:
        return [logits[:, number, : row.length] for number, row in enumerate(rows)]

    def answers(
        self, examples: Sequence[QuestionExample], rows: Sequence[Row], logits: Sequence[Array]
    ) -> list[Answered]:
        found: list[list[Candidate]] = [[] for _ in examples]
        for row, scores in zip(rows, logits, strict=True):
            found[row.example] += candidates(row.origin, scores, none=self.impossible)
        return [
            best_answer(example.passage, mine)
            for example, mine in zip(examples, found, strict=True)
        ]

    def scores(
        self, predictions: Sequence[Answered], examples: Sequence[QuestionExample]
    ) -> dict[str, float]:
        found = answer_scores(
            {example.id: p.text for example, p in zip(examples, predictions, strict=True)},
            {example.id: [gold.text for gold in example.answers or ()] for example in examples},
        )
        return {"f1": found.f1, "exact_match": found.exact_match}

    def settings(self) -> dict[str, Any]:
        return {
            "max_length": self.max_length,
            "stride": self.stride,
            "impossible": self.impossible,
        }


def span_of(answers: Sequence[GoldAnswer] | None, offsets: Offsets) -> tuple[int, int] | None:
    """Return the first and the last token of the passage that the first right answer touches.

    None where there is no answer, or none of its characters became a token.
    """
    if not answers:
        return None
    start, stop = answers[0].start, answers[0].start + len(answers[0].text)
    touched = [n for n, (a, b) in enumerate(offsets) if b > start and a < stop]
    return (touched[0], touched[-1]) if touched else None


def candidates(
    window: Window,
    scores: Array,  # (2, T): as start, as end
    *,
    none: bool,
) -> list[Candidate]:
    """Return the best slices of a window with their scores, start + end, and "none" if it may be.

    All pairs of a start and an end up to ``LONGEST_ANSWER`` tokens are compared: those on the
    diagonal of the table of sums and within a band above it.
    """
    place, offsets = window
    n = len(offsets)
    start, end = scores[:, place : place + n]
    sums = start[:, None] + end[None, :]
    width = np.arange(n)[None, :] - np.arange(n)[:, None]
    sums[(width < 0) | (width >= LONGEST_ANSWER)] = -np.inf
    best = np.argsort(-sums, axis=None, kind="stable")[:CANDIDATES]
    found = [
        Candidate(float(sums[a, b]), offsets[a][0], offsets[b][1])
        for a, b in zip(*np.unravel_index(best, sums.shape), strict=True)
        if sums[a, b] > -np.inf
    ]
    return found + ([Candidate(float(scores[0, 0] + scores[1, 0]), 0, 0)] if none else [])


def best_answer(passage: str, found: Sequence[Candidate]) -> Answered:
    """Return the best slice over all windows, and its share of the candidates' softmax.

    A slice that several windows hold has the best of their scores.  "None" counts only as far as
    every window says so: of its scores the lowest is the passage's.
    """
    scores: dict[tuple[int, int], float] = {}
    for score, start, stop in found:
        known = scores.get((start, stop), score)
        scores[start, stop] = min(known, score) if start == stop else max(known, score)
    if not scores:  # a passage without a token
        return Answered("", 0, 0, 1.0)
    (start, stop), highest = max(scores.items(), key=lambda item: (item[1], item[0]))
    total = sum(float(np.exp(score - highest)) for score in scores.values())
    return Answered(passage[start:stop], start, stop, 1 / total)


def report(message: str) -> None:
    """Say which right answers of a file cannot be used."""
    import warnings

    warnings.warn(message, stacklevel=2)
