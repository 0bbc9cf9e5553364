"""Mistakes in the embeddings' backward, a sum for every row of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minibert.arrays import Array
from tests.gallery.mistake import NUMPY, Mistake

Change = Callable[[list[Array], Array, Array, Array], None]


def embedding(name: str, why: str, change: Change) -> Mistake:
    """``change`` takes the right dword, dposition, dtoken_type, then dy and both ids."""

    def backward(
        dy: Array, input_ids: Array, token_type_ids: Array, rows: Any
    ) -> tuple[Array, ...]:
        gradients = list(NUMPY.embedding_backward(dy, input_ids, token_type_ids, rows))
        change(gradients, dy, input_ids, token_type_ids)
        return tuple(gradients)

    return Mistake(name, why, "embedding", "embedding", {"embedding_backward": backward})


def plain_plus_equals(gradients: list[Array], dy: Array, input_ids: Array, types: Array) -> None:
    gradients[0][:] = 0
    gradients[0][input_ids] += dy


def plain_for_segments(gradients: list[Array], dy: Array, input_ids: Array, types: Array) -> None:
    gradients[2][:] = 0
    gradients[2][types] += dy


def first_row_of_positions(
    gradients: list[Array], dy: Array, input_ids: Array, types: Array
) -> None:
    gradients[1][: dy.shape[1]] = dy[0]


def positions_averaged(gradients: list[Array], dy: Array, input_ids: Array, types: Array) -> None:
    gradients[1] /= len(dy)


def padding_row_left_out(gradients: list[Array], dy: Array, input_ids: Array, types: Array) -> None:
    gradients[0][0] = 0


def divided_by_counts(gradients: list[Array], dy: Array, input_ids: Array, types: Array) -> None:
    counts = np.bincount(input_ids.ravel(), minlength=len(gradients[0]))
    gradients[0] /= np.maximum(counts, 1)[:, None].astype(dy.dtype)


def segments_exchanged(gradients: list[Array], dy: Array, input_ids: Array, types: Array) -> None:
    gradients[2] = gradients[2][::-1].copy()


def last_column_lost(gradients: list[Array], dy: Array, input_ids: Array, types: Array) -> None:
    gradients[0][:, -1] = 0


MISTAKES = [
    embedding(
        "scatter by fancy-index +=",
        "dE[ids] += dy reads, adds and writes once: of a token that comes twice, one is lost.",
        plain_plus_equals,
    ),
    embedding(
        "segments by fancy-index +=",
        "The same with two rows, where nearly every gradient is lost.",
        plain_for_segments,
    ),
    embedding(
        "positions of the first sequence only",
        "Position t is read once in each sequence of the batch, so their gradients add.",
        first_row_of_positions,
    ),
    embedding(
        "positions averaged over the batch",
        "The mean belongs to the loss; here it is taken once more.",
        positions_averaged,
    ),
    embedding(
        "token 0 never learns",
        "Its row is zeroed as padding, but without padding_idx the forward reads it.",
        padding_row_left_out,
    ),
    embedding(
        "divided by how often a token comes",
        "Frequent tokens do learn faster: the gradient is a sum, not a mean.",
        divided_by_counts,
    ),
    embedding(
        "last column of the table lost",
        "A loop over columns in blocks leaves out the rest of the division.",
        last_column_lost,
    ),
    embedding(
        "segments exchanged",
        "The first segment's gradient goes to the second row of the table.",
        segments_exchanged,
    ),
]
