from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.tokenizer import SPECIAL_TOKENS, Vocabulary
from minibert.tokenizer.wordpiece import WordPiece


def pieces(word: str, *tokens: str, max_word_chars: int = 100) -> list[tuple[str, int, int]]:
    vocab = Vocabulary([*SPECIAL_TOKENS, *tokens])
    cut = WordPiece(vocab, max_word_chars).split(word)
    return [(vocab.tokens[index], start, end) for index, start, end in cut]


def test_longest_first() -> None:
    tokens = ["un", "unw", "##want", "##ed", "##a", "##n"]
    assert pieces("unwanted", *tokens) == [("[UNK]", 0, 8)]  # unw is longer than un, then stuck
    assert pieces("unwanted", "un", "##want", "##ed") == [
        ("un", 0, 2),
        ("##want", 2, 6),
        ("##ed", 6, 8),
    ]


def test_all_or_nothing() -> None:
    assert pieces("unwanting", "un", "##want", "##ed") == [("[UNK]", 0, 9)]
    assert pieces("x", "un") == [("[UNK]", 0, 1)]
    assert pieces("want", "un", "##want") == [("[UNK]", 0, 4)]  # ## pieces do not start a word


def test_length_counts_characters() -> None:
    """100 two-byte characters are 100, not 200."""
    assert pieces("é" * 100, "é", "##é") != [("[UNK]", 0, 100)]
    assert pieces("é" * 101, "é", "##é") == [("[UNK]", 0, 101)]
    assert len(pieces("é" * 101, "é", "##é", max_word_chars=101)) == 101


def test_long_word_takes_linear_time() -> None:
    start = time.perf_counter()
    assert pieces("a" * 1_000_000, "a", "##a") == [("[UNK]", 0, 1_000_000)]
    cut = pieces("a" * 300_000, "a", "##a", "##aab", max_word_chars=1_000_000)
    assert len(cut) == 300_000
    assert time.perf_counter() - start < 20


@given(
    st.text("abc", min_size=1, max_size=12),
    st.sets(st.text("abc", min_size=1, max_size=4), max_size=8),
    st.sets(st.text("abc", min_size=1, max_size=4), max_size=8),
)
def test_cut_has_no_gap(word: str, first: set[str], inner: set[str]) -> None:
    cut = pieces(word, *sorted(first), *("##" + token for token in sorted(inner)))
    assert cut[0][1] == 0
    assert cut[-1][2] == len(word)
    for number, (token, start, end) in enumerate(cut):
        if token == "[UNK]":
            assert len(cut) == 1
            continue
        assert token == ("##" if number else "") + word[start:end]
        longer = [
            n
            for n in range(end + 1, len(word) + 1)
            if word[start:n] in (inner if number else first)
        ]
        assert longer == []
        assert number == 0 or cut[number - 1][2] == start


@pytest.mark.parametrize("size", [1, 99, 100, 101, 130])
def test_word_limit(size: int) -> None:
    cut = pieces("h" * size, "h", "##h")
    assert (len(cut), cut[-1][2]) == ((size, size) if size <= 100 else (1, size))
