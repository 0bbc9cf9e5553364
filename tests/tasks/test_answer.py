"""Answering: windows that leave nothing out, and answers that are slices of the passage."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.arrays import Array
from minibert.data.tasks import Answer as GoldAnswer
from minibert.data.tasks import QuestionExample
from minibert.tasks.answer import LONGEST_ANSWER, Answer, Answered, candidates
from minibert.tasks.base import ANY_COLUMNS
from minibert.tasks.rows import Row

from .common import TOKENIZER, random_logits, write_lines

PASSAGES = st.text(st.sampled_from("aby. \t\r\n\u00a0\xad\u0301éΩσ三💩[]-'"), max_size=60)
QUESTIONS = st.text("xy? ", max_size=90)


def question(passage: str, answer: str | None = None, text: str = "where ?") -> QuestionExample:
    gold = None if answer is None else [GoldAnswer(answer, passage.index(answer))]
    return QuestionExample("1", text, passage, gold, 1)


def logits_for(rows: list[Row], seed: int) -> list[Array]:
    return [random_logits(seed + number, 2, row.length) for number, row in enumerate(rows)]


def labelled_text(task: Answer, example: QuestionExample) -> list[str | None]:
    """What each row's label points to; None for "not here"."""
    found: list[str | None] = []
    for row in task.rows([example]):
        first, last = row.label
        place, offsets = row.origin
        inside = first > 0
        start, stop = (offsets[first - place][0], offsets[last - place][1]) if inside else (0, 0)
        found.append(example.passage[start:stop] if inside else None)
    return found


# --- windows


def test_a_row_is_the_question_and_the_passage() -> None:
    (row,) = Answer(TOKENIZER).rows([question("Ada lives in Rome.", "Rome")])
    tokens = [TOKENIZER.vocab.tokens[n] for n in row.sequences[0].input_ids]
    assert tokens == [
        "[CLS]", "where", "?", "[SEP]", "ada", "lives", "in", "rome", ".", "[SEP]",
    ]  # fmt: skip
    assert row.sequences[0].token_type_ids == [0] * 4 + [1] * 6
    assert row.label == (7, 7)
    batch = Answer(TOKENIZER).batch([row])
    assert batch.labels.tolist() == [[7, 7]]
    assert np.flatnonzero(batch.allowed[0]).tolist() == [0, 4, 5, 6, 7, 8]  # type: ignore[index]


@pytest.mark.parametrize("stride", [0, -1, 62, 150])
def test_a_stride_longer_than_a_window_is_refused(stride: int) -> None:
    """Case QA-02: tokens between two windows would never be read.

    Beside the longest question, 64 tokens, a row of 128 holds 61 of the passage.
    """
    with pytest.raises(
        ValueError, match=f"stride is {stride}, .* holds 61 tokens, .* from 1 to 61"
    ):
        Answer(TOKENIZER, max_length=128, stride=stride)


@given(st.integers(0, 120), st.integers(0, 80), st.integers(16, 60), st.integers(1, 60) | st.none())
def test_every_token_lies_in_a_window(
    tokens: int, asked: int, length: int, stride: int | None
) -> None:
    narrowest = length - min(64, length // 2) - 3
    task = Answer(TOKENIZER, length, stride and min(stride, narrowest))
    rows = task.rows([question("a " * tokens, text="x " * asked)])
    assert all(row.length <= length for row in rows)
    starts = [row.origin.offsets[0][0] if row.origin.offsets else 0 for row in rows]
    assert starts == sorted(set(starts))
    seen = {offset for row in rows for offset in row.origin.offsets}
    assert seen == {(2 * n, 2 * n + 1) for n in range(tokens)}
    if stride:
        assert all((b - a) // 2 == task.stride for a, b in pairwise(starts))
    last = rows[-1].origin.offsets
    assert not last or last[-1][0] == 2 * (tokens - 1)


def test_no_window_is_more_than_what_is_left() -> None:
    task = Answer(TOKENIZER, max_length=16, stride=4)  # beside 2 tokens of question a window has 11
    sizes = {n: [len(r.origin.offsets) for r in task.rows([question("a " * n)])] for n in (11, 12)}
    assert sizes == {11: [11], 12: [11, 8]}


# --- labels


@pytest.mark.parametrize(
    ("passage", "answer"),
    [
        ("where  is the mass", "is the"),
        ("  \t was \r\n good", "good"),
        ("σπδ来描述 in Rome", "Rome"),
        ("💩💩 Ada 💩 in", "Ada"),
        ("Ελλάδα, Rome!", "Ελλάδα"),
        ("a\u00a0film\u2003was", "film\u2003was"),
    ],
)
def test_the_answer_is_found_whatever_stands_before_it(passage: str, answer: str) -> None:
    """Case QA-04: by characters of the text as it was given."""
    assert labelled_text(Answer(TOKENIZER), question(passage, answer)) == [answer]


def test_an_answer_may_end_in_a_mark_that_the_tokenizer_drops() -> None:
    """Case TOK-02: the accent is no part of any token, but the answer is still there."""
    passage = "in cafe\u0301 , where"
    assert labelled_text(Answer(TOKENIZER), question(passage, "cafe\u0301")) == ["cafe"]
    assert labelled_text(Answer(TOKENIZER), question("in \xadrome\xad", "\xadrome\xad")) == ["rome"]


def test_an_answer_inside_a_token_takes_the_whole_of_it() -> None:
    assert labelled_text(Answer(TOKENIZER), question("Paul lives", "aul")) == ["Paul"]


def test_an_answer_cut_by_the_window_is_not_in_it() -> None:
    task = Answer(TOKENIZER, max_length=16, stride=5)
    passage = "a a a a a a a a a rome oslo paul a a a a a a"
    assert labelled_text(task, question(passage, "rome oslo paul")) == [
        None,
        "rome oslo paul",
        None,
    ]


def test_only_the_first_right_answer_is_learned() -> None:
    gold = [GoldAnswer("oslo", 5), GoldAnswer("rome", 0)]
    example = QuestionExample("1", "where ?", "rome oslo", gold, 1)
    assert labelled_text(Answer(TOKENIZER), example) == ["oslo"]


@pytest.mark.parametrize("answers", [None, []])
def test_no_answer_points_to_cls(answers: list[GoldAnswer] | None) -> None:
    (row,) = Answer(TOKENIZER).rows([QuestionExample("1", "where ?", "rome", answers, 1)])
    assert row.label == (0, 0)


# --- answers


def best_by_force(example: QuestionExample, rows: list[Row], logits: list[Array]) -> float:
    """The highest start + end of all slices of all windows."""
    return max(
        float(scores[0, row.origin.place + a] + scores[1, row.origin.place + b])
        for row, scores in zip(rows, logits, strict=True)
        for a in range(len(row.origin.offsets))
        for b in range(a, min(len(row.origin.offsets), a + LONGEST_ANSWER))
    )


@given(PASSAGES, QUESTIONS, st.integers(0, 999), st.booleans())
def test_every_answer_is_a_slice_of_the_passage(
    passage: str, asked: str, seed: int, impossible: bool
) -> None:
    task = Answer(TOKENIZER, max_length=20, impossible=impossible)
    (example,) = examples = task.examples([(asked, passage)])
    rows = task.rows(examples)
    (answer,) = task.answers(examples, rows, logits_for(rows, seed))
    assert answer.text == passage[answer.start : answer.stop]
    assert 0 <= answer.start <= answer.stop <= len(example.passage)
    assert 0 < answer.probability <= 1
    if not impossible:
        tokens = any(row.origin.offsets for row in rows)
        assert (answer.text == "") == (not tokens)


@given(st.integers(1, 70), st.integers(0, 999), st.integers(16, 90))
def test_the_best_slice_is_the_best_of_all(tokens: int, seed: int, length: int) -> None:
    task = Answer(TOKENIZER, max_length=length)
    (example,) = examples = task.examples([("where ?", "a " * tokens)])
    rows = task.rows(examples)
    logits = logits_for(rows, seed)
    (answer,) = task.answers(examples, rows, logits)
    number = {2 * n: n for n in range(tokens)}
    first, last = number[answer.start], number[answer.stop - 1]
    assert last - first < LONGEST_ANSWER
    found = [
        float(scores[0, place + a] + scores[1, place + b])
        for (place, offsets), scores in zip((r.origin for r in rows), logits, strict=True)
        for a, (start, _) in enumerate(offsets)
        for b, (_, stop) in enumerate(offsets)
        if (start, stop) == (answer.start, answer.stop)
    ]
    assert max(found) == best_by_force(example, rows, logits)


def test_a_slice_is_at_most_30_tokens() -> None:
    task = Answer(TOKENIZER)
    examples = task.examples([("where ?", "a " * 40)])
    (row,) = rows = task.rows(examples)
    scores = np.zeros((2, row.length), np.float32)
    place = row.origin.place
    scores[0, place + 2] = scores[1, place + 2 + LONGEST_ANSWER] = 9  # one token too many
    found = candidates(row.origin, scores, none=False)
    assert max(stop - start for _, start, stop in found) <= 2 * LONGEST_ANSWER - 1
    scores[1, place + 1 + LONGEST_ANSWER] = 8
    (answer,) = task.answers(examples, rows, [scores])
    assert len(answer.text.split()) == LONGEST_ANSWER


def answer_of(impossible: bool, *nones: float) -> Answered:
    """Two windows that both hold "b" with the score 4, and say "none" with these scores."""
    task = Answer(TOKENIZER, max_length=16, stride=5, impossible=impossible)
    passage = "x x x x x x x x x rome x x x x x"
    examples = task.examples([("where ?", passage)])
    rows = task.rows(examples)
    assert len(rows) == len(nones)
    logits = []
    for row, none in zip(rows, nones, strict=True):
        scores = np.full((2, row.length), -5, np.float32)
        scores[:, 0] = none / 2
        at = [offset for offset, _ in row.origin.offsets].index(passage.index("rome"))
        scores[:, row.origin.place + at] = 2
        logits.append(scores)
    return task.answers(examples, rows, logits)[0]


def test_none_is_the_answer_only_where_every_window_says_so() -> None:
    none = answer_of(True, 6, 6)
    assert none[:3] == ("", 0, 0)
    assert none.probability == pytest.approx(1 / (1 + np.exp(-2)), abs=0.01)
    assert answer_of(True, 6, 3).text == "rome"
    assert answer_of(True, 3, 6).text == "rome"
    assert answer_of(False, 9, 9).text == "rome"  # not asked for
    assert answer_of(False, 9, 9).probability > 0.98


def test_none_may_be_the_answer_where_training_had_it() -> None:
    task = Answer(TOKENIZER, stride=7)
    unknown = QuestionExample("1", "where ?", "rome", None, 1)
    assert not task.fitted([question("rome", "rome"), unknown]).impossible
    fitted = task.fitted([question("rome", "rome"), unknown._replace(answers=[])])
    assert fitted.settings() == {"max_length": 256, "stride": 7, "impossible": True}


def test_padding_and_the_question_are_never_an_answer() -> None:
    """A batch's longer row leaves the shorter one as it is."""
    task = Answer(TOKENIZER)
    rows = task.rows(task.examples([("where ?", "rome"), ("where ?", "a film was good in oslo")]))
    logits = random_logits(3, 2, 2, max(row.length for row in rows))
    parts = task.split(logits, rows)
    assert [part.shape for part in parts] == [(2, row.length) for row in rows]


@pytest.mark.parametrize("passage", ["", " \n", "\xad\u200b"])
def test_a_passage_without_a_token_has_no_answer(passage: str) -> None:
    task = Answer(TOKENIZER)
    examples = task.examples([("where ?", passage)])
    rows = task.rows(examples)
    assert task.answers(examples, rows, logits_for(rows, 0)) == [Answered("", 0, 0, 1.0)]


def test_scores() -> None:
    gold = [question("Ada lives in Rome", "in Rome"), question("Oslo", "Oslo")._replace(id="2")]
    scores = Answer(TOKENIZER).scores([Answered("Rome", 0, 0, 1), Answered("oslo.", 0, 0, 1)], gold)
    assert scores == {"f1": pytest.approx((2 / 3 + 1) / 2), "exact_match": 0.5}


def test_an_answer_that_stands_elsewhere_is_reported(tmp_path: Path) -> None:
    row = {"question": "where ?", "context": "in Rome", "answers": {}}
    lines = [
        json.dumps(row | {"answers": {"text": ["Rome"], "answer_start": [start]}})
        for start in (3, 2)
    ]
    file = write_lines(tmp_path / "q.jsonl", lines)
    with pytest.warns(UserWarning, match=r"q\.jsonl, line 2 \(id '2'\)"):
        examples = Answer(TOKENIZER).read(file, ANY_COLUMNS)
    assert [example.id for example in examples] == ["1"]


@pytest.mark.parametrize("wrong", ["ab", None, ("a",), ("a", None)])
def test_an_input_that_is_no_pair_is_refused_with_its_place(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"inputs\[0\] is .*, expected a tuple of two texts"):
        Answer(TOKENIZER).examples([wrong])
