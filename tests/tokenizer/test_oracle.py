"""The same ids, offsets and word ids as the `tokenizers` package, on real text and on hard text."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.normalizers import Lowercase

from minibert.tokenizer import SPECIAL_TOKENS, Tokenizer, Vocabulary, train_vocabulary
from minibert.tokenizer.normalize import Normalizer

# What goes wrong elsewhere, by kind.
HARD = (
    "aAbBéÉ"
    "İIıißẞΣσςŉǰΐµÅKΩſ"  # letters whose case is no simple pair
    "ǅǈǋᾈǲﬁﬀﬗ"  # title case, ligatures
    "ăấḉ\u0300\u0301\u0307\u0308\u0323\u0327\u0328\u0338\u0344\u0345\u034f\u0483\u20d0\u20dd"
    "\u302a\u302e\u302f\u1b44\ua953\ua9c0\u1bf2\U0001d165\U0001d16d\U0001d172\u0f71\u0f73\u0f74"
    "\u08d4\u08e3\u1dfb\u1abf\u0897\U0001e000\U0001e130\U00011442"  # marks new and old
    "中文一龥㐀豈丽𠀀\U0002a700\U0002b820\U0002b920\U0002ceb0\U0003134a〇々"
    "バパハカ\uff76\uff9eゔ゛\u3099ー각한힣\u1100\u1161\u11a8"
    "👩👩\u200d👧🏽\ufe0f💩🇹🇷\U000e0067"
    "\x00\x01\x07\x0b\x0c\x0e\x1b\x1c\x1f\x7f\x85\x9f\xad\u061c\u0600\u06dd\u0890\u180e\u200b\u200e"
    "\u202e\u2060\ufeff\ufff9\ufffd\U000110bd\U000110cd\U00013430\U000e0001"
    " \t\n\r\xa0\u1680\u2000\u2003\u2028\u2029\u202f\u205f\u3000"
    "!$+<>^`~_-#[](){}'\"|,.·¿—…؟۔‖₠，。「」｢｣－＋～\u037e\u1fef\u2e52\U00011fff"
    "ＡＢｃ１"
    "\u0378\u05ff\u2065\uffff\U0001ffff\U000e0080\ue000\U00100000"  # unassigned, private
    "हिन्दी\u093c\u094dไทยعَرَبِيשָׁלוֹם"
    "\u166d\u1734\U000111c9\U0001171e\U00011938"
)
# New capitals, as far as the release of the package here knows their lower case.
HARD += "".join(
    char
    for char in "\u1c89\ua7cb\ua7dc\U00010d50\U00016ea0"
    if Lowercase().normalize_str(char) != char
)
WORDS = [*SPECIAL_TOKENS, "[mask]", "the", "ing", "##ed", "İstanbul", "e\u0301", "ab", "unwanted"]
LONG = [char * size for char in "aéİ中각💩" for size in (99, 100, 101)]

# Hypothesis draws characters much faster than strings, so a word is drawn as one character.
STAND_INS = {0xF0000 + place: word for place, word in enumerate([*WORDS, *LONG])}
HARD_TEXTS = st.text(HARD + HARD + "".join(map(chr, STAND_INS)), max_size=20)
ANY_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
TEXTS = st.tuples(HARD_TEXTS, ANY_TEXTS, HARD_TEXTS).map(
    lambda texts: "".join(texts).translate(STAND_INS)
)


def hard_vocabulary(lowercase: bool) -> Vocabulary:
    """Most of HARD's characters as pieces of both kinds, so that words come apart, not to [UNK]."""
    normalizer = Normalizer(lowercase=lowercase)
    chars = sorted(set("".join(normalizer.words(HARD + "".join(WORDS)))))
    known = [char for number, char in enumerate(chars) if number % 10]
    pieces = ["the", "un", "##want", "##ed", "##ing", "ab", "##aa", "##\u1161\u11a8", "[mask"]
    return Vocabulary([*SPECIAL_TOKENS, *known, *("##" + char for char in known), *pieces])


def check(tokenizer: Tokenizer, package, text: str, **how) -> None:
    """One text comes out the same on both sides."""
    mine, theirs = tokenizer.encode(text, **how), package.encode(text)
    assert mine.ids == theirs.ids
    assert mine.offsets == theirs.offsets
    assert mine.word_ids == theirs.word_ids
    assert mine.tokens == theirs.tokens


def check_lines(tokenizer: Tokenizer, package, lines: list[str]) -> None:
    for start in range(0, len(lines), 2000):
        block = lines[start : start + 2000]
        for line, theirs in zip(block, package.encode_batch(block), strict=True):
            mine = tokenizer.encode(line)
            if mine.ids != theirs.ids or mine.offsets != theirs.offsets:
                check(tokenizer, package, line)
            assert tokenizer.encode_ids(line) == theirs.ids[1:-1], line


@pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])
def test_python_sources(python_lines, oracle, lowercase: bool) -> None:
    """100,000 lines: half of them each way, all of them both ways in the slow run below."""
    vocab = train_vocabulary(python_lines[::20], 4096, lowercase=lowercase)
    tokenizer = Tokenizer(vocab, lowercase=lowercase)
    check_lines(tokenizer, oracle(vocab, lowercase=lowercase), python_lines[lowercase::2])


@pytest.mark.slow
@pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])
def test_python_sources_whole(python_lines, oracle, lowercase: bool) -> None:
    vocab = train_vocabulary(python_lines[::10], 8192, lowercase=lowercase)
    check_lines(
        Tokenizer(vocab, lowercase=lowercase), oracle(vocab, lowercase=lowercase), python_lines
    )


@pytest.mark.slow
@pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])
def test_other_text(other_lines, oracle, lowercase: bool) -> None:
    vocab = train_vocabulary(other_lines, 8192, lowercase=lowercase)
    check_lines(
        Tokenizer(vocab, lowercase=lowercase), oracle(vocab, lowercase=lowercase), other_lines
    )


def test_other_text_sample(other_lines, oracle) -> None:
    lines = other_lines[::23]
    vocab = train_vocabulary(lines, 8192)
    check_lines(Tokenizer(vocab), oracle(vocab), lines)


def fuzz(oracle: Callable, lowercase: bool, examples: int) -> None:
    vocab = hard_vocabulary(lowercase)
    tokenizer = Tokenizer(vocab, lowercase=lowercase)
    plain = oracle(vocab, lowercase=lowercase)
    allowed = oracle(vocab, lowercase=lowercase, special_tokens="allowed")

    @settings(max_examples=examples)
    @given(TEXTS)
    def same(text: str) -> None:
        check(tokenizer, plain, text)
        check(tokenizer, allowed, text, special_tokens="allowed")
        assert tokenizer.encode_ids(text) == plain.encode(text).ids[1:-1]

    same()


@pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])
def test_hard_text(oracle, lowercase: bool) -> None:
    fuzz(oracle, lowercase, 1_000)


@pytest.mark.slow
@pytest.mark.parametrize("lowercase", [True, False], ids=["uncased", "cased"])
def test_hard_text_at_length(oracle, lowercase: bool) -> None:
    fuzz(oracle, lowercase, 10_000)


@pytest.mark.parametrize("seed", range(4))
def test_neighbours(oracle, seed: int) -> None:
    """Hard characters in random order in one long text: every kind beside every other."""
    random_ = random.Random(seed)
    text = "".join(random_.choices(HARD + " ", k=20_000))
    for lowercase in (True, False):
        vocab = hard_vocabulary(lowercase)
        check(Tokenizer(vocab, lowercase=lowercase), oracle(vocab, lowercase=lowercase), text)


def test_truncation(make, oracle) -> None:
    tokenizer = make("a", "b")
    package = oracle(tokenizer.vocab)
    for first in range(6):
        for second in range(6):
            for max_length in range(3, 14):
                package.enable_truncation(max_length)
                theirs = package.encode("a " * first, "b " * second)
                mine = tokenizer.encode("a " * first, "b " * second, max_length=max_length)
                assert mine.ids == theirs.ids, (first, second, max_length)
                assert mine.token_type_ids == theirs.type_ids
                assert mine.special_tokens_mask == theirs.special_tokens_mask
