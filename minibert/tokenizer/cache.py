"""What has been cut before is looked up: real text repeats itself.

Two tables fill themselves on first use.  Both are bounded, so that text without end may stream
through: a full one starts anew, and long strings, which hardly ever come twice, are not kept.
"""

from __future__ import annotations

from .normalize import Normalizer
from .wordpiece import Piece, WordPiece

_SIZE = 1 << 16  # entries of each table; full, the two take some 50 MB
_LONGEST = 32  # characters of a kept string


class PieceCache(dict[str, tuple[Piece, ...]]):
    """Normalised word -> pieces, cut on first use; emptied when full."""

    def __init__(self, wordpiece: WordPiece) -> None:
        super().__init__()
        self._wordpiece = wordpiece

    def __missing__(self, word: str) -> tuple[Piece, ...]:
        pieces = tuple(self._wordpiece.split(word))
        if len(word) <= _LONGEST:
            if len(self) >= _SIZE:
                self.clear()
            self[word] = pieces
        return pieces


class ChunkCache(dict[str, tuple[int, ...]]):
    """Raw text between two blanks -> ids, normalised and cut on first use; emptied when full."""

    def __init__(self, normalizer: Normalizer, pieces: PieceCache) -> None:
        super().__init__()
        self._normalizer = normalizer
        self._pieces = pieces

    def __missing__(self, chunk: str) -> tuple[int, ...]:
        words = map(self._pieces.__getitem__, self._normalizer.words(chunk))
        ids = tuple([piece[0] for word in words for piece in word])
        if len(chunk) <= _LONGEST:
            if len(self) >= _SIZE:
                self.clear()
            self[chunk] = ids
        return ids
