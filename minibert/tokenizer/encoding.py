"""What a tokenizer returns: one encoded text, a padded batch of them, and how long ones are cut."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Encoding(NamedTuple):
    """One text, or a pair, token by token; all six lists have one length.

    An offset (a, b) says that the token is ``text[a:b]`` of the original string, the pair's tokens
    of the pair; tokens added round the text have (0, 0).  Tokens of one word share a word id.
    special_tokens_mask is 1 at every special id, added or written in the text, but ``[UNK]``: that
    stands for a word.
    """

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]
    token_type_ids: list[int]  # 0 up to the first [SEP], 1 for the pair
    word_ids: list[int | None]
    special_tokens_mask: list[int]

    def cut(self, length: int) -> Encoding:
        """The first `length` tokens."""
        return Encoding._make(column[:length] for column in self)


def joined(parts: Sequence[Encoding]) -> Encoding:
    """One encoding after another."""
    return Encoding._make(list(chain(*columns)) for columns in zip(*parts, strict=True))


class PaddedBatch(NamedTuple):
    """Encodings as arrays, padded on the right to the longest row."""

    input_ids: NDArray[np.int32]  # (B, T), [PAD] at the end of short rows
    token_type_ids: NDArray[np.int32]  # (B, T), 0 at padding
    attention_mask: NDArray[np.bool_]  # (B, T), True at tokens, False at padding
    encodings: list[Encoding]


def pad_batch(encodings: list[Encoding], pad_id: int) -> PaddedBatch:
    """Lay encodings side by side in (B, T) arrays."""
    B = len(encodings)
    T = max((len(encoding.ids) for encoding in encodings), default=0)
    input_ids = np.full((B, T), pad_id, np.int32)
    token_type_ids = np.zeros((B, T), np.int32)
    attention_mask = np.zeros((B, T), np.bool_)
    for row, encoding in enumerate(encodings):
        length = len(encoding.ids)
        input_ids[row, :length] = encoding.ids
        token_type_ids[row, :length] = encoding.token_type_ids
        attention_mask[row, :length] = True
    return PaddedBatch(input_ids, token_type_ids, attention_mask, encodings)


def truncated_lengths(lengths: list[int], room: int) -> list[int]:
    """Share `room` tokens between one text or two, cutting the longer first.

    The shorter keeps what fits in half the room; of an odd room the longer text gets the spare
    token, and at equal lengths the second.

    >>> truncated_lengths([9], 8), truncated_lengths([9, 3], 8), truncated_lengths([9, 8], 7)
    ([8], [5, 3], [4, 3])
    >>> truncated_lengths([4, 4], 5)
    [2, 3]
    """
    if sum(lengths) <= room:
        return lengths
    if len(lengths) == 1:
        return [room]
    first, second = lengths
    shorter = min(first, second, room // 2)
    return [room - shorter, shorter] if first > second else [shorter, room - shorter]
