"""Augmentation: near words by a table made by hand, other orders, and what must stay."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.data.sentences import split_sentences
from minibert.data.tasks import QuestionExample, ScoredExample, TaggedExample, TextExample
from minibert.keys import Key
from minibert.tasks.augment import NEAREST, Synonyms, augmented, reorder
from minibert.tokenizer import SPECIAL_TOKENS, Vocabulary

# Each word's row is a direction in the plane; the numbers are degrees.
ANGLES = {
    "good": 0, "fine": 10, "great": 25, "nice": -5, "film": 90, "movie": 95, "bad": 180,
    "poor": 190, "of": 1, "##ood": 2, "x1y": 3,
}  # fmt: skip
VOCAB = Vocabulary([*SPECIAL_TOKENS, *ANGLES])


def table(lengths: float = 1.0) -> np.ndarray:
    rows = [(0.0, 0.0)] * len(SPECIAL_TOKENS)
    rows += [(np.cos(np.radians(a)), np.sin(np.radians(a))) for a in ANGLES.values()]
    return np.array(rows, np.float32) * lengths


SYNONYMS = Synonyms(VOCAB, table())
TEXT = "A good film. Is it bad? The movie was poor! So it is."


def test_near_is_what_points_the_same_way() -> None:
    """Nearest first; two letters, digits, and pieces of words are no words."""
    assert NEAREST == 5
    assert SYNONYMS.nearest("good") == ("nice", "fine", "great", "film", "movie")
    assert SYNONYMS.nearest("bad") == ("poor", "movie", "film", "great", "fine")
    assert SYNONYMS.nearest("Good") == SYNONYMS.nearest("good")
    assert SYNONYMS.nearest("unknown") == SYNONYMS.nearest("of") == SYNONYMS.nearest("x1y") == ()


def test_the_length_of_a_row_does_not_matter() -> None:
    long = Synonyms(VOCAB, table() * np.linspace(0.1, 9, len(VOCAB), dtype=np.float32)[:, None])
    assert long.nearest("good") == SYNONYMS.nearest("good")


def test_a_lonely_word_has_no_synonym() -> None:
    vocab = Vocabulary([*SPECIAL_TOKENS, "good", "a"])
    assert Synonyms(vocab, np.ones((7, 2), np.float32)).nearest("good") == ()


def test_share_0_changes_nothing_and_share_1_all_it_can() -> None:
    generator = Key(0).generator()
    assert SYNONYMS.replace(TEXT, 0.0, generator) == TEXT
    changed = SYNONYMS.replace(TEXT, 1.0, generator)
    pairs = list(zip(TEXT.split(), changed.split(), strict=True))
    for before, after in pairs:
        word = before.strip(".?!")
        known = word in ("good", "film", "bad", "movie", "poor")
        assert (before != after) == known
        assert not known or after.strip(".?!") in SYNONYMS.nearest(word)
        assert before[len(word) :] == after[len(after.strip(".?!")) :]


def test_the_share_is_one_of_words() -> None:
    text = "good " * 4000
    changed = SYNONYMS.replace(text, 0.3, Key(0).generator()).split()
    assert changed.count("good") == pytest.approx(0.7 * 4000, rel=0.05)
    share = Counter(word for word in changed if word != "good")
    assert share.keys() == set(SYNONYMS.nearest("good"))
    assert min(share.values()) > 0.8 * max(share.values())


@given(st.lists(st.sampled_from(["One is.", "Two!", "Is it?", "One is.", "It was"]), max_size=6))
def test_sentences_change_places_and_no_more(sentences: list[str]) -> None:
    text = " ".join(sentences)
    changed = reorder(text, Key(len(text)).generator())
    assert Counter(changed.split()) == Counter(text.split())
    if len(split_sentences(text)) < 2:
        assert changed == text


def test_reorder_gives_every_order() -> None:
    orders = {reorder("One is. Two is. Three is.", Key(n).generator()) for n in range(60)}
    assert len(orders) == 6


def change(examples: list[Any], key: int = 0, synonyms: float = 0.0, order: float = 0.0) -> Any:
    return augmented(examples, Key(key), SYNONYMS if synonyms else None, synonyms, order)


TEXTS = [TextExample(TEXT, None, "pos", 1), TextExample("A good film", TEXT, None, 2)]
PAIRS = [ScoredExample("A good film", TEXT, 0.5, 7)]
TAGGED = [
    TaggedExample(["good", "film", "bad"], ["O", "B-WORK", "O"], 1),
    TaggedExample(["poor", "film"], None, 5),
]


@pytest.mark.parametrize("examples", [TEXTS, PAIRS, TAGGED])
def test_share_0_leaves_examples_alone(examples: list[Any]) -> None:
    assert change(examples) == examples


@pytest.mark.parametrize("examples", [TEXTS, PAIRS, TAGGED])
def test_a_key_decides_the_texts_and_the_answers_stay(examples: list[Any]) -> None:
    first = change(examples, 0, 0.9)
    assert first == change(examples, 0, 0.9)
    assert first != examples
    assert first != change(examples, 1, 0.9)
    for before, after in zip(examples, first, strict=True):
        assert type(before) is type(after)
        assert before[-2:] == after[-2:] or isinstance(before, TaggedExample)
        assert before.row == after.row


def test_an_example_does_not_depend_on_the_others() -> None:
    assert change(TEXTS, 3, 0.5)[0] == change(TEXTS[:1], 3, 0.5)[0]


def test_both_texts_of_a_pair_change() -> None:
    (example,) = change(PAIRS, 0, 1.0)
    assert example.first != PAIRS[0].first
    assert example.second != PAIRS[0].second


def test_words_of_a_name_keep_their_spelling() -> None:
    for key in range(20):
        first, second = change(TAGGED, key, 1.0)
        assert first.words[1] == "film"
        assert first.words[0] != "good"
        assert first.words[2] != "bad"
        assert first.tags == ["O", "B-WORK", "O"]
        assert len(second.words) == 2


def test_share_of_reorder_is_one_of_texts() -> None:
    examples = [TextExample("One is. Two is. Three is.", None, "a", n) for n in range(3000)]
    changed = change(examples, 0, 0.0, 0.6)
    same = sum(before.text == after.text for before, after in zip(examples, changed, strict=True))
    assert same / 3000 == pytest.approx(0.4 + 0.6 / 6, abs=0.03)


def test_where_a_text_must_not_change_it_is_refused() -> None:
    gold = QuestionExample("1", "where ?", "rome", [], 1)
    with pytest.raises(ValueError, match="an answer is a place in its passage"):
        change([gold], 0, 0.1)
    with pytest.raises(ValueError, match="leave out --reorder"):
        change(TAGGED, 0, 0.0, 0.1)
