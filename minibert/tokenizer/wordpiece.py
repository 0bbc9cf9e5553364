"""Cut a word into pieces of the vocabulary, the longest first (Wu et al. 2016, section 4.1).

With a vocabulary of ``un``, ``##want`` and ``##ed``:

    unwanted  ->  un ##want ##ed          unwanting  ->  [UNK], as nothing fits "ing"

A word is all or nothing: where the rest of it cannot be cut, all of it is one ``[UNK]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from .vocab import CONTINUATION, Vocabulary


class Piece(NamedTuple):
    id: int
    start: int  # within the word, in characters
    end: int


class Table(dict[str, int]):
    """Pieces by their text, with the length of the longest: more characters need no look-up."""

    __slots__ = ("longest",)

    def __init__(self, ids: Mapping[str, int]) -> None:
        super().__init__(ids)
        self.longest = max(map(len, ids), default=0)


def split_word(
    word: str,  # one normalised word, not empty
    first: Table,  # pieces that begin a word → id
    inner: Table,  # pieces that continue one, without their ## → id
    unk_id: int,
) -> list[Piece]:
    """Cut a word into pieces, in order and without a gap; or return one [UNK], if it cannot be cut.

    At each place the longest piece that fits is taken, and never taken back.  Time is at most
    len(word) x the longest piece.

    >>> split_word("unwanted", Table({"un": 5}), Table({"want": 6, "ed": 7}), unk_id=1)
    [Piece(id=5, start=0, end=2), Piece(id=6, start=2, end=6), Piece(id=7, start=6, end=8)]
    >>> split_word("unwanting", Table({"un": 5}), Table({"want": 6, "ed": 7}), unk_id=1)
    [Piece(id=1, start=0, end=9)]
    """
    pieces: list[Piece] = []
    size, start, known = len(word), 0, first
    while start < size:
        for end in range(min(size, start + known.longest), start, -1):
            index = known.get(word[start:end])
            if index is not None:
                break
        else:
            return [Piece(unk_id, 0, size)]
        pieces.append(Piece(index, start, end))
        start, known = end, inner
    return pieces


class WordPiece:
    """A vocabulary as the two tables that words are cut with.

    A word above max_word_chars is ``[UNK]`` unseen: it is no word, but a key, an address or noise.
    """

    def __init__(self, vocab: Vocabulary, max_word_chars: int = 100) -> None:
        self.unk_id = vocab.unk_id
        self.max_word_chars = max_word_chars
        self._first = Table(vocab.ids)
        self._inner = Table(
            {
                token.removeprefix(CONTINUATION): index
                for token, index in vocab.ids.items()
                if token.startswith(CONTINUATION)
            }
        )

    def split(self, word: str) -> list[Piece]:
        """The pieces of a non-empty word, in order, without a gap."""
        if len(word) > self.max_word_chars:
            return [Piece(self.unk_id, 0, len(word))]
        return split_word(word, self._first, self._inner, self.unk_id)
