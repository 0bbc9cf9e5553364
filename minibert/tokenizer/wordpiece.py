"""Cut a word into pieces of the vocabulary, the longest first (Wu et al. 2016, section 4.1).

With a vocabulary of ``un``, ``##want`` and ``##ed``:

    unwanted  ->  un ##want ##ed          unwanting  ->  [UNK], as nothing fits "ing"

A word is all or nothing: where the rest of it cannot be cut, all of it is one ``[UNK]``.
"""

from __future__ import annotations

from typing import NamedTuple

from .vocab import CONTINUATION, Vocabulary


class Piece(NamedTuple):
    id: int
    start: int  # within the word, in characters
    end: int


class WordPiece:
    """Greedy longest-match-first segmentation of one normalised word.

    Time is at most len(word) x the longest piece: a word above max_word_chars is ``[UNK]`` unseen.

    >>> from .vocab import SPECIAL_TOKENS
    >>> pieces = WordPiece(Vocabulary([*SPECIAL_TOKENS, "un", "##want", "##ed"]))
    >>> pieces.split("unwanted")
    [Piece(id=5, start=0, end=2), Piece(id=6, start=2, end=6), Piece(id=7, start=6, end=8)]
    >>> pieces.split("unwanting")
    [Piece(id=1, start=0, end=9)]
    """

    def __init__(self, vocab: Vocabulary, max_word_chars: int = 100) -> None:
        self.unk_id = vocab.unk_id
        self.max_word_chars = max_word_chars
        self._first = dict(vocab.ids)
        self._inner = {
            token.removeprefix(CONTINUATION): index
            for token, index in vocab.ids.items()
            if token.startswith(CONTINUATION)
        }
        self._longest_first = max(map(len, self._first))
        self._longest_inner = max(map(len, self._inner), default=0)

    def split(self, word: str) -> list[Piece]:
        """The pieces of a non-empty word, in order, without a gap."""
        size = len(word)
        if size > self.max_word_chars:
            return [Piece(self.unk_id, 0, size)]
        pieces: list[Piece] = []
        known, longest = self._first, self._longest_first
        start = 0
        while start < size:
            for end in range(min(size, start + longest), start, -1):
                index = known.get(word[start:end])
                if index is not None:
                    break
            else:
                return [Piece(self.unk_id, 0, size)]
            pieces.append(Piece(index, start, end))
            start = end
            known, longest = self._inner, self._longest_inner
        return pieces
