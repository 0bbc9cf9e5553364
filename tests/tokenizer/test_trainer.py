from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import BertWordPieceTokenizer

from minibert.tokenizer import SPECIAL_TOKENS, Tokenizer, Vocabulary, train_vocabulary
from minibert.tokenizer.normalize import Normalizer

HUGS = ["hug " * 10, "pug " * 5, "hugs " * 5]


def learnt(texts: list[str], size: int, **how) -> list[str]:
    return list(train_vocabulary(texts, size, **how).tokens[5:])


def test_hand_worked() -> None:
    """##u ##g occurs 20 times, then h ##ug 15, then p ##ug and hug ##s 5 each: p is older."""
    characters = ["g", "h", "p", "s", "u", "##g", "##s", "##u"]
    assert learnt(HUGS, 13) == characters
    assert learnt(HUGS, 100) == [*characters, "##ug", "hug", "pug", "hugs"]
    assert learnt(HUGS, 16) == [*characters, "##ug", "hug", "pug"]
    assert learnt(HUGS, 100, min_frequency=6) == [*characters, "##ug", "hug"]
    assert learnt(HUGS, 100, min_frequency=16) == [*characters, "##ug"]


def test_special_tokens_come_first_and_once() -> None:
    vocab = train_vocabulary(["[PAD] [MASK] [UNK] mask"] * 3, 100)
    assert vocab.tokens[:5] == SPECIAL_TOKENS
    assert "mask" in vocab.ids


def test_overlapping_pairs() -> None:
    """aaaa holds ##a ##a twice; joined left to right it is a ##aa ##a."""
    assert learnt(["aaaa aaaa"], 100) == ["a", "##a", "##aa", "aaa", "aaaa"]


def naive(counts: Counter[str], size: int, min_frequency: int) -> list[str]:
    """The same joins, with every pair counted anew each time."""
    words = {word: [word[0], *("##" + char for char in word[1:])] for word in counts}
    pieces = [*SPECIAL_TOKENS, *sorted({char for word in counts for char in word})]
    pieces += sorted({"##" + char for word in counts for char in word[1:]})
    while len(pieces) < size:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, spelled in words.items():
            for left, right in itertools.pairwise(spelled):
                pairs[left, right] += counts[word]
        pairs = Counter({pair: n for pair, n in pairs.items() if n >= min_frequency})
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], pieces.index(p[0]), pieces.index(p[1])))
        new = best[0] + best[1][2:]
        if new not in pieces:
            pieces.append(new)
        for spelled in words.values():
            at = 0
            while at < len(spelled) - 1:
                if (spelled[at], spelled[at + 1]) == best:
                    spelled[at : at + 2] = [new]
                at += 1
    return pieces


@given(
    st.lists(st.text("abc", min_size=1, max_size=9), min_size=1, max_size=30),
    st.integers(11, 40),
    st.integers(1, 3),
)
def test_incremental_counts_agree_with_counting_anew(
    words: list[str], size: int, min_frequency: int
) -> None:
    vocab = train_vocabulary(words, size, min_frequency=min_frequency)
    assert list(vocab.tokens) == naive(Counter(words), size, min_frequency)


def test_same_for_every_hash_seed_and_order() -> None:
    """Many equal counts: 400 words that occur twice each."""
    program = """
import random, sys
from minibert.tokenizer import train_vocabulary
source = random.Random(0)
words = ["".join(source.choices("abcdefgh", k=source.randint(1, 8))) for _ in range(400)] * 2
random.Random(int(sys.argv[1])).shuffle(words)
print(" ".join(train_vocabulary(words, 300).tokens))
"""
    results = set()
    for seed in ("0", "1", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", program, seed]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        results.add(done.stdout)
    assert len(results) == 1
    assert len(results.pop().split()) == 300


def test_streams() -> None:
    """An iterator is read once, text by text."""
    read = 0

    def texts():
        nonlocal read
        for text in HUGS:
            read += 1
            yield text

    assert train_vocabulary(texts(), 14) == train_vocabulary(HUGS, 14)
    assert read == 3


def test_settings_are_the_tokenizers() -> None:
    assert learnt(["É É"], 20) == ["e"]
    assert learnt(["É É"], 20, lowercase=False) == ["É"]
    assert learnt(["É É"], 20, strip_accents=False) == ["é"]
    assert learnt(["中文 中文"], 20) == ["中", "文"]
    assert learnt(["中文 中文"], 20, split_cjk=False) == ["中", "文", "##文", "中文"]


def test_too_small_a_size_names_the_least() -> None:
    """300 characters in words of two: 5 + 300 + 150 pieces."""
    characters = [chr(0x1E00 + i) for i in range(300)]
    texts = [a + b for a, b in zip(characters[::2], characters[1::2], strict=True)]
    with pytest.raises(ValueError, match="need at least 455"):
        train_vocabulary(texts, 100, lowercase=False)
    with pytest.raises(ValueError, match="need at least 455"):
        train_vocabulary(texts, 454, lowercase=False)
    assert len(train_vocabulary(texts, 455, lowercase=False)) == 455


def test_alphabet_limit() -> None:
    """Rare characters go, with the words that hold them; of equals the lower code point stays."""
    texts = ["ab " * 5, "cd " * 2, "xy", "x!"]
    assert learnt(texts, 50, alphabet_limit=4, min_frequency=9) == [*list("abcd"), "##b", "##d"]
    assert learnt(texts, 50, alphabet_limit=3, min_frequency=9) == ["a", "b", "c", "##b"]
    many = "".join(chr(0x4E00 + i) for i in range(3000))
    assert len(train_vocabulary([many], 5000)) == 1005


@pytest.mark.parametrize("texts", [[], [""], ["   \n", "\t"], ["\x00\xad\ufffd"], ["a" * 101]])
def test_nothing_to_learn_from(texts: list[str]) -> None:
    with pytest.raises(ValueError, match="texts hold no word"):
        train_vocabulary(texts, 1000)


def test_too_large_a_size_stops_early() -> None:
    texts = ["one two three four five six seven eight nine ten"] * 2
    vocab = train_vocabulary(texts, 30_000)
    assert len(vocab) < 100
    assert set(texts[0].split()) <= set(vocab.tokens)


def test_very_long_words_are_left_out() -> None:
    """They would be [UNK] anyway, and one of a megabyte would take for ever."""
    assert learnt(["ab " * 3 + "z" * 1_000_000], 30) == ["a", "b", "##b", "ab"]


def test_progress() -> None:
    calls: list[tuple[int, int]] = []
    vocab = train_vocabulary(HUGS, 100, progress=lambda done, size: calls.append((done, size)))
    assert calls[-1] == (len(vocab), 100)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("one text", 100), r"got one str: pass \[text\]"),
        ((b"one text", 100), r"got one bytes: pass \[text\]"),
        ((None, 100), "texts must be an iterable of str, got one NoneType"),
        ((["a", b"b"], 100), r"texts\[1\] must be a str, got bytes: decode it first"),
        ((["a", None], 100), r"texts\[1\] must be a str, got NoneType"),
        ((["a"], "100"), "size must be an int, got str"),
        ((["a"], 99.0), "size must be an int, got float"),
        ((["a"], True), "size must be an int, got bool"),
    ],
)
def test_wrong_types(arguments: tuple, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        train_vocabulary(*arguments)


def test_wrong_values() -> None:
    with pytest.raises(ValueError, match="size is 5, but must be at least 6"):
        train_vocabulary(["a"], 5)
    with pytest.raises(ValueError, match="min_frequency is 0"):
        train_vocabulary(["a"], 10, min_frequency=0)
    with pytest.raises(ValueError, match="alphabet_limit is 0"):
        train_vocabulary(["a"], 10, alphabet_limit=0)


def pieces_per_word(vocab: Vocabulary, texts: list[str]) -> float:
    tokenizer, normalizer = Tokenizer(vocab), Normalizer()
    words = sum(len(normalizer.words(text)) for text in texts)
    return sum(len(tokenizer.encode_ids(text)) for text in texts) / words


@pytest.mark.parametrize("size", [1000, 4096, pytest.param(8192, marks=pytest.mark.slow)])
def test_held_out_text_as_short_as_with_the_package(documents: list[str], size: int) -> None:
    """A twentieth is held out; pieces per word within 1 % of the package's own trainer."""
    documents = random.Random(0).sample(documents, len(documents))
    held_out, texts = documents[::20], [text for i, text in enumerate(documents) if i % 20]
    package = BertWordPieceTokenizer()
    package.train_from_iterator(texts, vocab_size=size, show_progress=False)
    theirs = package.get_vocab()
    reference = pieces_per_word(Vocabulary(sorted(theirs, key=theirs.__getitem__)), held_out)
    vocab = train_vocabulary(texts, size)
    assert len(vocab) == size
    assert pieces_per_word(vocab, held_out) == pytest.approx(reference, rel=0.01)
