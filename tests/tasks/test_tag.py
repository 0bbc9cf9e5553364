"""Tagging: labels at first pieces, no word lost, words from running text."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.arrays import IGNORED
from minibert.data.tasks import TaggedExample
from minibert.scores import Entity
from minibert.tasks.base import ANY_COLUMNS, Columns
from minibert.tasks.rows import Row
from minibert.tasks.tag import Tag

from .common import TOKENIZER, WORDS, config, random_logits

LABELS = ("O", "B-LOC", "B-PER", "I-PER")
TAG = Tag(TOKENIZER, labels=LABELS)


def sentence(words: str, tags: str | None = None) -> TaggedExample:
    return TaggedExample(words.split(), tags.split() if tags else None, 1)


def pieces(row: Row) -> list[str]:
    return [TOKENIZER.vocab.tokens[number] for number in row.sequences[0].input_ids]


def test_the_label_stands_at_a_words_first_piece() -> None:
    """Case NER-01: by word, so the second piece of Henson has none."""
    (row,) = TAG.rows([sentence("Jim Henson was", "B-PER I-PER O")])
    assert pieces(row) == ["[CLS]", "jim", "hen", "##son", "was", "[SEP]"]
    assert row.label == [IGNORED, 2, 3, IGNORED, 0, IGNORED]
    assert row.origin == [(0, 1), (1, 2), (2, 4)]


def test_a_word_of_which_nothing_is_left_keeps_its_tag() -> None:
    """Case TOK-03: a soft hyphen is a word for who tagged it, so it is read as [UNK]."""
    (row,) = TAG.rows([sentence("jim \xad was", "B-PER I-PER O")])
    assert pieces(row) == ["[CLS]", "jim", "[UNK]", "was", "[SEP]"]
    assert row.label == [IGNORED, 2, 3, 0, IGNORED]


def test_a_long_sentence_is_read_in_rows_of_whole_words() -> None:
    task = Tag(TOKENIZER, max_length=5, labels=LABELS)
    rows = task.rows([sentence("jim lives Henson in rome", "B-PER O B-PER O B-LOC")])
    assert [pieces(row)[1:-1] for row in rows] == [
        ["jim", "lives"], ["hen", "##son", "in"], ["rome"],
    ]  # fmt: skip
    assert [label for row in rows for label in row.label if label != IGNORED] == [2, 0, 2, 0, 1]


def test_a_word_longer_than_a_row_keeps_its_first_pieces() -> None:
    task = Tag(TOKENIZER, max_length=4, labels=LABELS)
    (row,) = task.rows([sentence("hensonsly", "B-PER")])
    assert pieces(row) == ["[CLS]", "hen", "##son", "[SEP]"]
    assert row.label == [IGNORED, 2, IGNORED, IGNORED]


SENTENCES = st.lists(
    st.lists(st.sampled_from([*WORDS[:20], "henson", "hensonsly", "\xad", "σπδ"]), max_size=12),
    min_size=1,
    max_size=5,
)


@given(SENTENCES, st.integers(3, 9), st.integers(0, 99))
def test_every_word_gets_one_tag(sentences: list[list[str]], length: int, seed: int) -> None:
    task = Tag(TOKENIZER, max_length=length, labels=LABELS)
    examples = task.examples(sentences)
    rows = task.rows(examples)
    assert all(row.length <= length for row in rows)
    for number, words in enumerate(sentences):
        places = [word for row in rows if row.example == number for word, _ in row.origin]
        assert places == list(range(len(words)))
    logits = [random_logits(seed + n, row.length, len(LABELS)) for n, row in enumerate(rows)]
    answers = task.answers(examples, rows, logits)
    for words, answer in zip(sentences, answers, strict=True):
        assert answer.words == words
        assert len(answer.tags) == len(answer.probabilities) == len(words)
        assert all(0.25 <= probability <= 1 for probability in answer.probabilities)


def test_answers_are_what_is_said_at_the_first_piece() -> None:
    examples = TAG.examples([["Jim", "Henson", "lives", "in", "Rome"]])
    rows = TAG.rows(examples)
    logits = np.zeros((rows[0].length, 4), np.float32)
    for place, label in ((1, 2), (2, 3), (3, 1), (4, 0), (5, 0), (6, 1)):  # 3: the piece ##son
        logits[place, label] = 5
    (answer,) = TAG.answers(examples, rows, [logits])
    assert answer.tags == ["B-PER", "I-PER", "O", "O", "B-LOC"]
    assert answer.entities == [Entity("PER", 0, 2), Entity("LOC", 4, 5)]
    assert answer.probabilities == pytest.approx([1 / (1 + 3 * math.exp(-5))] * 5)


def test_padding_has_no_label() -> None:
    rows = TAG.rows([sentence("jim", "B-PER"), sentence("lives in rome", "O O B-LOC")])
    batch = TAG.batch(rows)
    assert batch.labels[0].tolist() == [IGNORED, 2, IGNORED, IGNORED, IGNORED]
    assert batch.attention_mask.sum(axis=1).tolist() == [3, 5]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Ada Lovelace, of London.", ["Ada", "Lovelace", ",", "of", "London", "."]),
        ("the well-known U.S. don't", ["the", "well-known", "U.S", ".", "don't"]),
        ("@ada #rome l’eau 3.5%", ["@ada", "#rome", "l’eau", "3.5", "%"]),
        ("(in\tRome)\n", ["(", "in", "Rome", ")"]),
        ("三月", ["三月"]),
        (" ", []),
        ("", []),
    ],
)
def test_running_text_is_cut_into_words(text: str, words: list[str]) -> None:
    (example,) = TAG.examples([text])
    assert example.words == words


def test_labels_begin_with_o() -> None:
    task = Tag(TOKENIZER).fitted([sentence("a b c", "I-PER B-LOC B-PER"), sentence("a", "O")])
    assert task.labels == ("O", "B-LOC", "B-PER", "I-PER")
    assert Tag(TOKENIZER).fitted([sentence("a", "B-X")]).labels == ("O", "B-X")


def test_sentences_without_a_name_are_refused() -> None:
    with pytest.raises(ValueError, match="all words of the 2 training rows have the tag O"):
        Tag(TOKENIZER).fitted([sentence("a b", "O O"), sentence("a", "O")])


def test_balanced_weights_count_words() -> None:
    task = Tag(TOKENIZER, balanced=True).fitted([sentence("a b c d", "O O O B-X")])
    assert task.model(config(), "numpy").class_weights == pytest.approx([2 / 3, 2.0])


def test_a_tag_that_training_had_not_is_refused_with_file_and_row(tmp_path: Path) -> None:
    file = tmp_path / "dev.conll"
    file.write_text("jim B-PER\n\nit O\nrose B-DAY\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"dev\.conll, sentence at row 3: the tag 'B-DAY'"):
        TAG.read(file, ANY_COLUMNS)


def test_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="columns are for tables"):
        TAG.read(tmp_path / "none", Columns(text="word"))


def test_scores_are_of_whole_entities() -> None:
    right = [sentence("jim henson in rome", "B-PER I-PER O B-LOC")]
    rows = TAG.rows(right)
    logits = np.zeros((rows[0].length, 4), np.float32)
    for place, label in ((1, 2), (2, 0), (4, 0), (5, 1)):  # Henson is missed
        logits[place, label] = 5
    scores = TAG.scores(TAG.answers(right, rows, [logits]), right)
    assert scores == {"f1": 0.5, "precision": 0.5, "recall": 0.5}


@pytest.mark.parametrize("length", [2, 0, -1])
def test_a_row_too_short_for_a_word_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=f"max_length is {length}, expected at least 3"):
        Tag(TOKENIZER, max_length=length)


@pytest.mark.parametrize("wrong", [None, 3, ["a", None], {"a": 1}, b"a"])
def test_an_input_that_is_no_sentence_is_refused_with_its_place(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"inputs\[1\] is .*, expected a text or a list of words"):
        TAG.examples(["a", wrong])
