"""Learn a WordPiece vocabulary from text.

BERT's own trainer was never published.  This one grows the vocabulary as byte-pair encoding does
(Sennrich et al. 2016, section 3.2): start from single characters, then again and again join the
pair of neighbouring pieces that occurs most often.  The cut at run time is by longest match, not by
replaying the joins (see `wordpiece`), so only the pieces are kept.

    words            hug x10   pug x5   hugs x5
    characters       h ##u ##g   p ##u ##g   h ##u ##g ##s
    pair counts      ##u ##g: 20   h ##u: 15   p ##u: 5   ##g ##s: 5
    joins            ##ug (20),  hug (15),  then pug (5) before hugs (5) by the tie rule

Tie rule: of equally frequent pairs, the one whose left piece is older in the vocabulary, then the
one whose right piece is.  Characters are older than joins and stand in the order of their code
points, plain ones before ``##`` ones.  So the word counts alone decide, neither the order of the
texts nor Python's hash seed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import TypeVar

from .checks import check_count, check_text
from .normalize import Normalizer
from .vocab import CONTINUATION, SPECIAL_TOKENS, Vocabulary

AnyPiece = TypeVar("AnyPiece")  # its id, or its text

_LONGEST_WORD = 100  # characters; the tokenizer makes [UNK] of longer words
_RIGHT_BITS = 32  # a pair of ids is one int, left << 32 | right, so ints order as pairs do
_RIGHT_MASK = (1 << _RIGHT_BITS) - 1


def train_vocabulary(
    texts: Iterable[str],
    size: int,
    *,
    lowercase: bool = True,
    strip_accents: bool | None = None,
    split_cjk: bool = True,
    min_frequency: int = 2,
    alphabet_limit: int = 1000,
    progress: Callable[[int, int], None] | None = None,
) -> Vocabulary:
    """Learn up to `size` pieces from texts, special tokens (ids 0..4) included.

    Texts are read once, one at a time; only the count of each distinct word is held.  Give the
    settings that the tokenizer will have.

    The alphabet_limit most frequent characters are kept (of equally frequent ones the lower code
    points); words with any other are left out, and will be ``[UNK]``.  Pairs are joined while they
    occur min_frequency times, so a small corpus yields fewer than `size` pieces: look at len().
    progress(pieces so far, size) is called now and then, and at the end.

    >>> corpus = ["hug " * 10, "pug " * 5, "hugs " * 5]
    >>> train_vocabulary(corpus, 14).tokens[5:]
    ('g', 'h', 'p', 's', 'u', '##g', '##s', '##u', '##ug')

    Raises ValueError where the texts hold no word, or where `size` has no room for the characters;
    it then states the least size.
    """
    check_count(size, "size", len(SPECIAL_TOKENS) + 1, ": the special tokens and one")
    check_count(min_frequency, "min_frequency", 1)
    check_count(alphabet_limit, "alphabet_limit", 1)
    normalizer = Normalizer(lowercase=lowercase, strip_accents=strip_accents, split_cjk=split_cjk)
    words = _count_words(texts, normalizer)
    if not words:
        raise ValueError("texts hold no word to learn from: are they empty or blank?")
    alphabet = _alphabet(words, alphabet_limit)
    words = {word: count for word, count in words.items() if alphabet.issuperset(word)}
    inner = {char for word in words for char in word[1:]}
    pieces = [*SPECIAL_TOKENS, *sorted(alphabet), *(CONTINUATION + c for c in sorted(inner))]
    if len(pieces) > size:
        raise ValueError(
            f"size is {size}, but the {len(SPECIAL_TOKENS)} special tokens and the "
            f"{len(alphabet)} characters of the text, {len(inner)} of them inside words too, "
            f"need at least {len(pieces)}: raise size or lower alphabet_limit"
        )
    _join_pairs(words, pieces, size, min_frequency, progress)
    return Vocabulary(pieces)


def _count_words(texts: Iterable[str], normalizer: Normalizer) -> dict[str, int]:
    if isinstance(texts, (str, bytes)) or not hasattr(texts, "__iter__"):
        raise TypeError(
            f"texts must be an iterable of str, got one {type(texts).__name__}: pass [text]"
        )
    counts: Counter[str] = Counter()
    for i, text in enumerate(texts):
        counts.update(normalizer.words(check_text(text, f"texts[{i}]")))
    return {word: count for word, count in counts.items() if len(word) <= _LONGEST_WORD}


def _alphabet(words: dict[str, int], limit: int) -> set[str]:
    """The `limit` most frequent characters; of equally frequent ones the lower code point."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for char in word:
            counts[char] += count
    return set(sorted(counts, key=lambda char: (-counts[char], char))[:limit])


def count_pairs(
    words: Iterable[Sequence[AnyPiece]],  # each word as its pieces
    occurrences: Iterable[int],  # how often each word occurs in the text
) -> dict[tuple[AnyPiece, AnyPiece], int]:
    """Count how often each pair of neighbouring pieces occurs in the text.

    >>> count_pairs([["h", "##u", "##g"], ["p", "##u", "##g"]], [10, 5])
    {('h', '##u'): 10, ('##u', '##g'): 15, ('p', '##u'): 5}
    """
    counts: dict[tuple[AnyPiece, AnyPiece], int] = {}
    for pieces, amount in zip(words, occurrences, strict=True):
        for pair in pairwise(pieces):
            counts[pair] = counts.get(pair, 0) + amount
    return counts


def _join_pairs(
    words: dict[str, int],  # word -> how often it occurs
    pieces: list[str],  # the vocabulary so far, grown in place
    size: int,
    min_frequency: int,
    progress: Callable[[int, int], None] | None,
) -> None:
    """Join the most frequent pair until `size` pieces are there or no pair is frequent enough.

    A join changes only the words that hold the pair, so counts are kept, not recounted: `holders`
    says which words those are (some of them no longer), and the heap holds every pair with a count
    that was right once.  Counts mostly fall; one that is stale at the top is put back as it is now.
    """
    ids = {piece: index for index, piece in enumerate(pieces)}
    spelled = [[ids[word[0]], *(ids[CONTINUATION + char] for char in word[1:])] for word in words]
    occurrences = list(words.values())
    counts = {
        left << _RIGHT_BITS | right: count
        for (left, right), count in count_pairs(spelled, occurrences).items()
    }
    holders: dict[int, list[int]] = {}
    for number, symbols in enumerate(spelled):
        for left, right in pairwise(symbols):
            holders.setdefault(left << _RIGHT_BITS | right, []).append(number)
    heap = [(-count, pair) for pair, count in counts.items() if count >= min_frequency]
    heapify(heap)

    while heap and len(pieces) < size:
        count, pair = heappop(heap)
        current = counts.get(pair, 0)
        if current != -count:
            if current >= min_frequency:
                heappush(heap, (-current, pair))
            continue
        left, right = pair >> _RIGHT_BITS, pair & _RIGHT_MASK
        piece = pieces[left] + pieces[right].removeprefix(CONTINUATION)
        joined = ids.setdefault(piece, len(pieces))
        if joined == len(pieces):
            pieces.append(piece)
        gained: set[int] = set()
        for number in holders.pop(pair):
            symbols, amount = spelled[number], occurrences[number]
            for lost, new in _join_in_word(symbols, left, right, joined):
                counts[lost] -= amount
                counts[new] = counts.get(new, 0) + amount
                holders.setdefault(new, []).append(number)
                gained.add(new)
        counts.pop(pair, None)
        for new in gained:
            if counts.get(new, 0) >= min_frequency:
                heappush(heap, (-counts[new], new))
        if progress is not None and len(pieces) % 64 == 0:
            progress(len(pieces), size)
    if progress is not None:
        progress(len(pieces), size)


def _join_in_word(
    symbols: list[int],  # a word as piece ids, changed in place
    left: int,
    right: int,
    joined: int,
) -> list[tuple[int, int]]:
    """Write `joined` for each `left right`; return (pair lost, pair gained) at every seam.

    In ``a left right b`` the seams are ``a left -> a joined`` and ``right b -> joined b``.
    """
    seams: list[tuple[int, int]] = []
    at = 0
    while at < len(symbols) - 1:
        if symbols[at] == left and symbols[at + 1] == right:
            if at > 0:
                before = symbols[at - 1] << _RIGHT_BITS
                seams.append((before | left, before | joined))
            if at + 2 < len(symbols):
                after = symbols[at + 2]
                seams.append((right << _RIGHT_BITS | after, joined << _RIGHT_BITS | after))
            symbols[at : at + 2] = [joined]
        at += 1
    return seams
