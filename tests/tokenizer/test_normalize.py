from __future__ import annotations

import time

import pytest
from tokenizers.normalizers import BertNormalizer, Lowercase
from tokenizers.pre_tokenizers import BertPreTokenizer

from minibert.tokenizer.normalize import _LOWER, Normalizer, category, is_cjk, is_punctuation

SURROGATES = range(0xD800, 0xE000)


@pytest.mark.parametrize(
    ("text", "uncased", "cased"),
    [
        ("", [], []),
        (" \t\r\n\u3000 ", [], []),
        ("\xad", [], []),
        ("Héllo, WORLD", ["hello", ",", "world"], ["Héllo", ",", "WORLD"]),
        ("İI", ["ii"], ["İI"]),  # no dotless i: plain I is i in every language
        ("バ", ["ハ"], ["バ"]),  # NFD splits off the voice mark
        ("ΣΑΣ", ["σασ"], ["ΣΑΣ"]),  # letter by letter, no final sigma
        ("中a文", ["中", "a", "文"], ["中", "a", "文"]),
        ("\uac01", ["\u1100\u1161\u11a8"], ["각"]),  # Hangul comes apart into jamo
        ("don't $5", ["don", "'", "t", "$", "5"], ["don", "'", "t", "$", "5"]),
        ("a\u200bb\x00c\ufffdd\ud800e", ["abcde"], ["abcde"]),
        ("ＡＢ１", ["ａｂ１"], ["ＡＢ１"]),
        ("\u037e", [";"], ["\u037e"]),  # the Greek question mark decomposes to a semicolon
        ("ǅ ﬁ", ["ǆ", "ﬁ"], ["ǅ", "ﬁ"]),
    ],
)
def test_words(text: str, uncased: list[str], cased: list[str]) -> None:
    assert Normalizer().words(text) == uncased
    assert Normalizer(lowercase=False).words(text) == cased


def test_switches() -> None:
    assert Normalizer(strip_accents=False).words("Éİ") == ["éi\u0307"]
    assert Normalizer(lowercase=False, strip_accents=True).words("Éa") == ["Ea"]
    assert Normalizer(split_cjk=False).words("中a文") == ["中a文"]


@pytest.mark.parametrize(
    ("text", "spaced", "sources"),
    [
        ("cafe\u0301 x", "cafe x", [0, 1, 2, 3, 5, 6]),
        ("a-b", "a - b", [0, 1, 1, 1, 2]),
        ("\u200bé", "e", [1]),
        # The two musical marks change places; positions do not.
        ("a\U0001d16d\U0001d165", "a\U0001d165\U0001d16d", [0, 1, 2]),
    ],
)
def test_aligned(text: str, spaced: str, sources: list[int]) -> None:
    assert Normalizer().aligned(text) == (spaced, sources)
    assert Normalizer().spaced(text) == spaced


def test_predicates() -> None:
    assert [is_punctuation(c) for c in "a1 $+`。—\u0301"] == [False] * 3 + [True] * 5 + [False]
    assert [is_cjk(c) for c in "中バ가\uf900\U00020000"] == [True, False, False, True, True]
    assert category("\U0001e130") == "Lo"  # a mark of Unicode 12: a plain letter here


def check_code_points(codes: list[int], lowercase: bool) -> None:
    """Each code point between two letters makes the words that the package makes."""
    mine = Normalizer(lowercase=lowercase)
    normalizer, splitter = BertNormalizer(lowercase=lowercase), BertPreTokenizer()

    def expected(text: str) -> list[str]:
        return [word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text))]

    def unlike(code: int) -> bool:
        if code in _LOWER and Lowercase().normalize_str(chr(code)) == chr(code):
            return False  # an older release of the package, with older case tables
        return mine.words(f"a{chr(code)}b") != expected(f"a{chr(code)}b")

    for start in range(0, len(codes), 4096):
        block = codes[start : start + 4096]
        text = " ".join(f"a{chr(code)}b" for code in block)
        if mine.words(text) != expected(text):
            assert [hex(code) for code in block if unlike(code)] == []


@pytest.mark.parametrize("lowercase", [True, False])
def test_assigned_code_points(lowercase: bool) -> None:
    """Planes 0, 1, 14 and a sample of the rest, whose characters are ideographs or unassigned."""
    codes = [*range(0x20000), *range(0xE0000, 0xE0400), *range(0x20000, 0x110000, 97)]
    check_code_points([code for code in codes if code not in SURROGATES], lowercase)


@pytest.mark.slow
@pytest.mark.parametrize("lowercase", [True, False])
def test_every_code_point(lowercase: bool) -> None:
    check_code_points([c for c in range(0x110000) if c not in SURROGATES], lowercase)


def test_surrogates_are_dropped() -> None:
    text = "".join(map(chr, SURROGATES))
    assert Normalizer().words(f"a{text}b") == ["ab"]


def test_table_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr("minibert.tokenizer.normalize._LARGEST_TABLE", 100)
    normalizer = Normalizer()
    assert normalizer.words("".join(map(chr, range(0x400, 0x500)))) != []
    assert len(normalizer) <= 100
    assert normalizer.words("Ab") == ["ab"]


def test_time_is_linear() -> None:
    """A megabyte of marks out of order is the worst case; quadratic time would take hours."""
    start = time.perf_counter()
    assert len(Normalizer().spaced("a" + "\U0001d16d\U0001d165" * 200_000)) == 400_001
    assert time.perf_counter() - start < 20
