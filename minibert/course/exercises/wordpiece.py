"""Lesson 7: WordPiece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain, combinations, pairwise
from typing import Any

import numpy as np

from minibert.course.exercise import Case, Exercise, Slip
from minibert.tokenizer.trainer import count_pairs
from minibert.tokenizer.wordpiece import Piece, Table, split_word

LETTERS = "abcdefghijklmnopqrstuvwxyz"
Cut = Callable[..., list[Piece]]

# --- the cut of a word


def split_by_hand() -> Case:
    """The lesson's example: unw ##an, and then nothing fits; un ##want ##ed would have."""
    first, inner = Table({"un": 5, "unw": 6}), Table({"want": 7, "ed": 8, "an": 9, "a": 10})
    return Case({"word": "unwanted", "first": first, "inner": inner, "unk_id": 1})


def draw_split(generator: np.random.Generator) -> Case:
    """A word of different letters, so that every piece fits at one place only.

    Most words can be cut, into three pieces or more, with shorter pieces to be tempted by.  Some
    get stuck behind two pieces, where shorter ones would have led to the end.
    """
    stuck = generator.random() > 0.6
    word = "".join(generator.permutation(list(LETTERS))[:10])
    a, b = 3, int(generator.integers(5, 8))  # greedy: up to a, up to b, and then the rest or stuck
    first, inner = [word[:1], word[: a - 1], word[:a], word[a:b]], [word[a:b], word[a : a + 1]]
    if stuck:
        inner += [word[a - 1 : b - 1], word[b - 1 :], word[b + 1 :]]
    else:
        inner += [word[b:], word[: a - 1], *word[1:]]
    ids = generator.permutation(np.arange(5, 5 + len(first) + len(inner))).tolist()
    begin, go_on = ids[: len(first)], ids[len(first) :]
    return Case(
        {
            "word": word,
            "first": Table(dict(zip(first, begin, strict=True))),
            "inner": Table(dict(zip(inner, go_on, strict=True))),
            "unk_id": int(generator.integers(5)),
        }
    )


def moved(change: Callable[[Piece], Any]) -> Cut:
    """The right pieces, each of them changed."""
    return lambda word, first, inner, unk_id: [
        change(piece) for piece in split_word(word, first, inner, unk_id)
    ]


def walk(
    word: str, first: Table, inner: Table, start: int = 0, pick: Callable[..., int] = max
) -> tuple[list[Piece], int]:
    """Return pieces from ``start`` on, and where they end: with the word, or where nothing fits."""
    pieces: list[Piece] = []
    while start < len(word):
        known = inner if start else first
        ends = [end for end in range(start + 1, len(word) + 1) if word[start:end] in known]
        if not ends:
            break
        end = pick(ends)
        pieces.append(Piece(known[word[start:end]], start, end))
        start = end
    return pieces, start


def shortest_first(word: str, first: Table, inner: Table, unk_id: int) -> list[Piece]:
    pieces, end = walk(word, first, inner, pick=min)
    return pieces if end == len(word) else [Piece(unk_id, 0, len(word))]


def searching(word: str, first: Table, inner: Table, unk_id: int) -> list[Piece]:
    def search(start: int) -> list[Piece] | None:
        known = inner if start else first
        for end in range(len(word), start, -1):
            if word[start:end] not in known:
                continue
            rest = search(end) if end < len(word) else []
            if rest is not None:
                return [Piece(known[word[start:end]], start, end), *rest]
        return None

    return search(0) or [Piece(unk_id, 0, len(word))]


def keeps_the_beginning(word: str, first: Table, inner: Table, unk_id: int) -> list[Piece]:
    pieces, end = walk(word, first, inner)
    return pieces if end == len(word) else [*pieces, Piece(unk_id, end, len(word))]


def stops_where_stuck(word: str, first: Table, inner: Table, unk_id: int) -> list[Piece]:
    return walk(word, first, inner)[0]


def one_unknown_letter_at_a_time(word: str, first: Table, inner: Table, unk_id: int) -> list[Piece]:
    pieces, end = walk(word, first, inner)
    while end < len(word):
        pieces.append(Piece(unk_id, end, end + 1))
        more, end = walk(word, first, inner, end + 1)
        pieces += more
    return pieces


def nothing_for_unknown(word: str, first: Table, inner: Table, unk_id: int) -> list[Piece]:
    pieces = split_word(word, first, inner, -1)
    return [] if pieces[0].id == -1 else pieces


SPLIT = Exercise(
    lesson=7,
    answer=split_word,
    outputs=("pieces",),
    by_hand=split_by_hand,
    draw=draw_split,
    hints=(
        "At a given place, which piece do you try first: a single character, or the whole rest of "
        "the word?  And which table do you look into?",
        "Keep start, the place reached so far.  Let end run from len(word) down to start + 1, "
        "until word[start:end] is in the table.  A loop that finds nothing means [UNK] for all of "
        "it.",
        "while start < len(word): end = len(word); while end > start and word[start:end] not in "
        "known: end -= 1; if end == start: return [(unk_id, 0, len(word))]; append "
        "(known[word[start:end]], start, end); start, known = end, inner.  known begins as first.",
    ),
    slips=(
        Slip(
            "a piece that was taken is given back",
            "this searches for a cut that reaches the end; WordPiece takes the longest piece and "
            "keeps it, even where it then gets stuck.",
            searching,
        ),
        Slip(
            "only the rest of the word becomes [UNK]",
            "a word is cut as a whole or not at all: one [UNK] from 0 to len(word).",
            keeps_the_beginning,
        ),
        Slip(
            "a word that cannot be cut loses its end",
            "the pieces before the place where nothing fits are returned, as if the rest had not "
            "been there; the whole word has to be one [UNK].",
            stops_where_stuck,
        ),
        Slip(
            "a character that does not fit is skipped as an [UNK] of its own",
            "one place where nothing fits makes the whole word one [UNK].",
            one_unknown_letter_at_a_time,
        ),
        Slip(
            "a word that cannot be cut gives no piece at all",
            "then the word would vanish from the sentence; [UNK] holds its place.",
            nothing_for_unknown,
        ),
        Slip(
            "the shortest piece is taken, not the longest",
            "end has to come down from the end of the word, so that the first hit is the longest.",
            shortest_first,
        ),
        Slip(
            "the table of beginnings is used throughout",
            "after the first piece the word goes on, and pieces that go on stand in inner.",
            lambda word, first, inner, unk_id: split_word(word, first, first, unk_id),
        ),
        Slip(
            "the table of continuations is used from the start",
            "a ## piece cannot begin a word: the first look-up is in first.",
            lambda word, first, inner, unk_id: split_word(word, inner, inner, unk_id),
        ),
        Slip(
            "start and end count from the piece before",
            "both are places in the whole word, so that word[start:end] is the piece.",
            moved(lambda piece: Piece(piece.id, 0, piece.end - piece.start)),
        ),
        Slip(
            "the length stands where the end belongs",
            "an entry is (id, start, end), and the end is start + length.",
            moved(lambda piece: Piece(piece.id, piece.start, piece.end - piece.start)),
        ),
        Slip(
            "end is the last character's own place",
            "end is one more, as in every slice of Python: word[start:end] is the piece.",
            moved(lambda piece: Piece(piece.id, piece.start, piece.end - 1)),
        ),
        Slip(
            "only the first piece is returned",
            "the return stands inside the loop; what is left of the word has to be cut too.",
            lambda word, first, inner, unk_id: split_word(word, first, inner, unk_id)[:1],
        ),
    ),
)


# --- one step of training

Words = Sequence[Sequence[str]]
Counts = dict[Any, int]


def pairs_by_hand() -> Case:
    words = [["h", "##u", "##g"], ["p", "##u", "##g"], ["h", "##a", "##h", "##a", "##h", "##a"]]
    return Case({"words": words, "occurrences": [10, 5, 2]})


def draw_pairs(generator: np.random.Generator) -> Case:
    """Words out of three letters, so that pairs repeat, and one pair in both orders."""
    words = [["a", "##b", "##c", "##b", "##c", "##c"], ["b", "##c", "##a"], ["##c", "##b", "##a"]]
    for size in generator.integers(2, 6, size=2):
        letters = generator.choice(list("abc"), size=int(size)).tolist()
        words.append([letters[0], *("##" + letter for letter in letters[1:])])
    return Case(
        {"words": words, "occurrences": generator.integers(2, 20, size=len(words)).tolist()}
    )


def counted(pairs: Callable[[Sequence[str]], Any]) -> Callable[[Words, Sequence[int]], Counts]:
    """Count what ``pairs`` finds in each word."""

    def count(words: Words, occurrences: Sequence[int]) -> Counts:
        counts: Counter[Any] = Counter()
        for pieces, amount in zip(words, occurrences, strict=True):
            for pair in pairs(pieces):
                counts[pair] += amount
        return dict(counts)

    return count


def overwritten(words: Words, occurrences: Sequence[int]) -> Counts:
    return {
        pair: amount
        for pieces, amount in zip(words, occurrences, strict=True)
        for pair in pairwise(pieces)
    }


def across_words(words: Words, occurrences: Sequence[int]) -> Counts:
    text = chain.from_iterable(
        list(pieces) * amount for pieces, amount in zip(words, occurrences, strict=True)
    )
    return dict(Counter(pairwise(text)))


PAIRS = Exercise(
    lesson=7,
    answer=count_pairs,
    outputs=("counts",),
    by_hand=pairs_by_hand,
    draw=draw_pairs,
    hints=(
        "A word of three pieces has how many pairs of neighbours?  And by how much does each of "
        "them raise its count, if the word occurs ten times?",
        "Go through words and occurrences together, with zip.  In each word go through "
        "zip(pieces, pieces[1:]), and add the word's amount to the pair's count.",
        "for pieces, amount in zip(words, occurrences): for pair in zip(pieces, pieces[1:]): "
        "counts[pair] = counts.get(pair, 0) + amount.",
    ),
    slips=(
        Slip(
            "every word counts once",
            "words holds each different word one time; occurrences says how often the text has it.",
            lambda words, occurrences: count_pairs(words, [1] * len(words)),
        ),
        Slip(
            "the last word overwrites the others",
            "a pair that several words have gets the sum: counts[pair] = old + amount.",
            overwritten,
        ),
        Slip(
            "a pair that comes twice in a word is counted once",
            "each place where the pair stands will be joined, so each place counts.",
            counted(lambda pieces: set(pairwise(pieces))),
        ),
        Slip(
            "pairs lose their order",
            "a then b is another pair than b then a: they are joined to different pieces.",
            counted(lambda pieces: [tuple(sorted(pair)) for pair in pairwise(pieces)]),
        ),
        Slip(
            "pieces that are no neighbours are paired too",
            "only pieces that stand side by side can be joined.",
            counted(lambda pieces: combinations(pieces, 2)),
        ),
        Slip(
            "the last pair of each word is left out",
            "n pieces have n - 1 pairs; the loop ends one too early.",
            counted(lambda pieces: list(pairwise(pieces))[:-1]),
        ),
        Slip(
            "every second pair is left out",
            "pairs overlap: h ##u ##g has h ##u and ##u ##g.",
            counted(lambda pieces: list(pairwise(pieces))[::2]),
        ),
        Slip(
            "the end of a word is paired with the next word",
            "pieces never reach across a blank: count in each word by itself.",
            across_words,
        ),
        Slip(
            "the pairs are glued to texts",
            "the key is the pair of the two pieces, (left, right), as both have to be found again.",
            counted(lambda pieces: [left + right for left, right in pairwise(pieces)]),
        ),
    ),
)

EXERCISES = (SPLIT, PAIRS)
