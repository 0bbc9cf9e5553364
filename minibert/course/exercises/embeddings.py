"""Lesson 8: embeddings and positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minibert.arrays import Array
from minibert.course.exercise import Case, Exercise, Slip
from minibert.layers.embedding import (
    embedding_backward,
    embedding_forward,
    lookup_backward,
    lookup_forward,
)
from minibert.params import sinusoids


def lost(dy: Array, ids: Array, rows: int) -> Array:
    """``dtable[ids] += dy``: of a repeated id the last gradient stays."""
    dtable = np.zeros_like(dy, shape=(rows, dy.shape[-1]))
    dtable[ids] += dy
    return dtable


def averaged(dy: Array, ids: Array, rows: int) -> Array:
    counts = np.bincount(ids.ravel(), minlength=rows)
    return lookup_backward(dy, ids, rows) / np.maximum(counts, 1)[:, None].astype(dy.dtype)


def without_row_0(dy: Array, ids: Array, rows: int) -> Array:
    dtable = lookup_backward(dy, ids, rows)
    dtable[0] = 0
    return dtable


def without_last_column(dy: Array, ids: Array, rows: int) -> Array:
    dtable = lookup_backward(dy, ids, rows)
    dtable[:, -1] = 0
    return dtable


# --- one look-up


def lookup_case(table: Array, ids: Array, dy: Array) -> Case:
    def loss() -> float:
        return float(np.sum(dy * lookup_forward(ids, table)))

    return Case({"dy": dy, "ids": ids, "rows": len(table)}, loss, {"dtable": table})


def lookup_by_hand() -> Case:
    return lookup_case(np.zeros((3, 2)), np.array([1, 0, 1]), np.array([[1.0, 2], [3, 4], [5, 6]]))


def draw_ids(generator: np.random.Generator, A: int, B: int) -> Array:
    """Return ids (A, B) out of 1 … 6: repeated within a row and across rows, the last one padded.

    A and B are at least 3.
    """
    ids = generator.integers(1, 7, size=(A, B))
    ids[0, :2] = 4
    ids[1, 2] = 4
    ids[-1, -2:] = 0
    return ids


def draw_lookup(generator: np.random.Generator) -> Case:
    A, B, C = (int(size) for size in generator.permutation([3, 4, 5]))
    ids = draw_ids(generator, A, B)
    return lookup_case(generator.normal(size=(11, C)), ids, generator.normal(size=(A, B, C)))


def first_stays(dy: Array, ids: Array, rows: int) -> Array:
    return lost(dy.reshape(-1, dy.shape[-1])[::-1], ids.reshape(-1)[::-1], rows)


def lost_within_rows(dy: Array, ids: Array, rows: int) -> Array:
    if ids.ndim == 1:
        return lookup_backward(dy, ids, rows)
    return sum((lost(*pair, rows) for pair in zip(dy, ids, strict=True)), np.zeros_like(dy[0, 0]))


def counted(dy: Array, ids: Array, rows: int) -> Array:
    return lookup_backward(np.ones_like(dy), ids, rows)


def one_too_early(dy: Array, ids: Array, rows: int) -> Array:
    return np.roll(lookup_backward(dy, ids, rows), -1, axis=0)


def for_all_rows(dy: Array, ids: Array, rows: int) -> Array:
    total = dy.reshape(-1, dy.shape[-1]).sum(axis=0)
    return np.broadcast_to(total, (rows, len(total))).copy()


LOOKUP = Exercise(
    lesson=8,
    answer=lookup_backward,
    outputs=("dtable",),
    by_hand=lookup_by_hand,
    draw=draw_lookup,
    hints=(
        "If an id comes three times, how many gradients does its row of the table get, and what "
        "becomes of them?",
        "Begin with zeros, (rows, C), of dy's dtype.  += with a list of indices writes once for "
        "each row; np.add.at(table, ids, dy) adds every time.",
        "dtable = np.zeros((rows, dy.shape[-1]), dy.dtype);  np.add.at(dtable, ids, dy).",
    ),
    slips=(
        Slip(
            "of a repeated id only the last gradient stays",
            "dtable[ids] += dy (and = dy as well) reads and writes once for each index, so the "
            "last one written wins; np.add.at adds every one.",
            lost,
        ),
        Slip(
            "of a repeated id only the first gradient stays",
            "every place where the row was read sends a gradient, and all of them add up.",
            first_stays,
        ),
        Slip(
            "ids that repeat within one sequence lose gradients",
            "the loop goes over the sequences, but inside one dtable[ids[n]] += dy[n] still "
            "writes once for each index: use np.add.at, or loop over single ids.",
            lost_within_rows,
        ),
        Slip(
            "divided by how often an id comes",
            "the gradient is a sum, not a mean: a frequent token does learn faster.",
            averaged,
        ),
        Slip(
            "row 0 gets no gradient",
            "0 is the padding's id, but the forward reads its row like any other.",
            without_row_0,
        ),
        Slip(
            "the ids are counted, and dy is left out",
            "Oᵀ counts where each id stood; it has to be multiplied by dy.",
            counted,
        ),
        Slip(
            "every gradient is one row too early",
            "ids count from 0: id 1 reads row 1, the second of the table.",
            one_too_early,
        ),
        Slip(
            "all rows get the same sum",
            "row i gets the gradients of the places where id i stood, and no others.",
            for_all_rows,
        ),
        Slip(
            "the last column stays 0",
            "a slice over the columns ends one too early.",
            without_last_column,
        ),
    ),
    sizes=lambda dy, ids, rows: {"the number of ids": ids.size, "rows": rows},
)


# --- three look-ups, added


def embedding_case(tables: tuple[Array, ...], input_ids: Array, types: Array, dy: Array) -> Case:
    def loss() -> float:
        return float(np.sum(dy * embedding_forward(input_ids, types, *tables)))

    return Case(
        {
            "dy": dy,
            "input_ids": input_ids,
            "token_type_ids": types,
            "rows": tuple(len(table) for table in tables),
        },
        loss,
        dict(zip(("dword", "dposition", "dtoken_type"), tables, strict=True)),
    )


def embedding_by_hand() -> Case:
    tables = np.zeros((3, 2)), np.zeros((4, 2)), np.zeros((2, 2))
    return embedding_case(
        tables,
        np.array([[1, 0, 1], [2, 1, 0]]),
        np.array([[0, 0, 1], [0, 1, 1]]),
        np.array([[[1.0, 0], [2, 0], [3, 0]], [[0, 1.0], [0, 2], [0, 3]]]),
    )


def draw_embedding(generator: np.random.Generator) -> Case:
    B, T, C = (int(size) for size in generator.permutation([3, 4, 5]))
    types = (np.arange(T) >= generator.integers(1, T, size=B)[:, None]).astype(int)
    tables = tuple(generator.normal(size=(rows, C)) for rows in (11, 7, 2))
    return embedding_case(
        tables, draw_ids(generator, B, T), types, generator.normal(size=(B, T, C))
    )


def with_changed(
    dword: Callable[..., Array] | None = None,
    dposition: Callable[[Array, Array], Array] | None = None,
    dtoken_type: Callable[..., Array] | None = None,
) -> Callable[..., Any]:
    """The backward of a look-up replaced; for the positions a function of dy and what is right."""

    def backward(
        dy: Array, input_ids: Array, token_type_ids: Array, rows: tuple[int, int, int]
    ) -> tuple[Array, ...]:
        word, position, token_type = embedding_backward(dy, input_ids, token_type_ids, rows)
        return (
            dword(dy, input_ids, rows[0]) if dword else word,
            dposition(dy, position) if dposition else position,
            dtoken_type(dy, token_type_ids, rows[2]) if dtoken_type else token_type,
        )

    return backward


def shared_out(
    dy: Array, input_ids: Array, token_type_ids: Array, rows: tuple[int, int, int]
) -> tuple[Array, ...]:
    return tuple(each / 3 for each in embedding_backward(dy, input_ids, token_type_ids, rows))


def first_sequence(dy: Array, right: Array) -> Array:
    return np.concatenate([dy[0], right[dy.shape[1] :]])


EMBEDDING = Exercise(
    lesson=8,
    answer=embedding_backward,
    outputs=("dword", "dposition", "dtoken_type"),
    by_hand=embedding_by_hand,
    draw=draw_embedding,
    hints=(
        "Which of the three is read by ids, and which is read in the same order by every sequence?",
        "dword and dtoken_type are two calls of lookup_backward, each with all of dy.  For the "
        "positions, make zeros of the table's shape and fill the first T rows with a sum over the "
        "batch.",
        "dword = lookup_backward(dy, input_ids, rows[0]);  dposition = zeros (rows[1], C), "
        "dposition[:T] = dy.sum(axis=0);  dtoken_type = lookup_backward(dy, token_type_ids, "
        "rows[2]).",
    ),
    slips=(
        Slip(
            "of a repeated token only one gradient is kept",
            "dword[input_ids] += dy writes once for each row; np.add.at, or your lookup_backward, "
            "adds every one.",
            with_changed(dword=lost),
        ),
        Slip(
            "of each segment only one gradient is kept",
            "there are two rows for all tokens, so += with indices loses nearly everything.",
            with_changed(dtoken_type=lost),
        ),
        Slip(
            "positions get the first sequence's gradient only",
            "place t is read once in each sequence of the batch, so their gradients add up.",
            with_changed(dposition=first_sequence),
        ),
        Slip(
            "positions are averaged over the batch",
            "the mean belongs to the loss; here the gradients of all sequences add up.",
            with_changed(dposition=lambda dy, right: right / len(dy)),
        ),
        Slip(
            "positions begin at row 1",
            "the first token is at place 0, and reads row 0.",
            with_changed(dposition=lambda dy, right: np.roll(right, 1, axis=0)),
        ),
        Slip(
            "positions are filled from the end",
            "place t is row t; the rows that no token reached are the last ones.",
            with_changed(dposition=lambda dy, right: np.roll(right, -dy.shape[1], axis=0)),
        ),
        Slip(
            "token 0 gets no gradient",
            "0 is the padding's id, but the forward reads its row like any other.",
            with_changed(dword=without_row_0),
        ),
        Slip(
            "divided by how often a token comes",
            "the gradient is a sum, not a mean: a frequent token does learn faster.",
            with_changed(dword=averaged),
        ),
        Slip(
            "segments are divided by how many tokens they have",
            "the gradient of a row is the sum over all places that read it.",
            with_changed(dtoken_type=averaged),
        ),
        Slip(
            "the two segments are exchanged",
            "type 0 reads row 0: the first text's gradient belongs into the first row.",
            with_changed(dtoken_type=lambda *given: lookup_backward(*given)[::-1].copy()),
        ),
        Slip(
            "dy is shared out among the three tables",
            "a sum hands its gradient to every term whole, not a third to each.",
            shared_out,
        ),
        Slip(
            "the last column of the token table stays 0",
            "a slice over the columns ends one too early.",
            with_changed(dword=without_last_column),
        ),
    ),
    sizes=lambda dy, input_ids, token_type_ids, rows: dict(zip("BTC", dy.shape, strict=True)),
)


# --- sinusoids


def waves(
    exponent: Callable[[Array, int], Array] = lambda pair, width: 2 * pair / width,
    shift: float = 0,
) -> Callable[[int, int], Array]:
    """Sinusoids with another exponent for each pair, or with other places."""

    def table(rows: int, width: int) -> Array:
        column = np.arange(width)
        places = np.arange(rows)[:, None] + shift
        angle = places / 10000.0 ** exponent(column // 2, width)
        return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))

    return table


def in_halves(rows: int, width: int) -> Array:
    table = sinusoids(rows, width)
    return np.concatenate([table[:, 0::2], table[:, 1::2]], axis=1)


def exchanged(rows: int, width: int) -> Array:
    return sinusoids(rows, width).reshape(rows, -1, 2)[:, :, ::-1].reshape(rows, width)


def a_frequency_for_each_column(rows: int, width: int) -> Array:
    column = np.arange(width)
    angle = np.arange(rows)[:, None] / 10000 ** (column / width)
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))


def only_sines(rows: int, width: int) -> Array:
    return np.repeat(sinusoids(rows, width)[:, 0::2], 2, axis=1)


SINUSOIDS = Exercise(
    lesson=8,
    answer=sinusoids,
    outputs=("table",),
    by_hand=lambda: Case({"rows": 3, "width": 4}),
    draw=lambda generator: Case(
        {"rows": int(generator.integers(4, 8)), "width": int(generator.choice([10, 12, 14]))}
    ),
    hints=(
        "How many different angles does one place have, if the table is 4 wide?",
        "A column of places, (rows, 1), divided by a row of powers, (width / 2,), gives all "
        "angles.  Their sines go into the even columns, their cosines into the odd ones.",
        "angle = np.arange(rows)[:, None] / 10000 ** (np.arange(0, width, 2) / width);  "
        "table[:, 0::2] = np.sin(angle);  table[:, 1::2] = np.cos(angle).",
    ),
    slips=(
        Slip(
            "all sines come first, then all cosines",
            "some programs do it so, and the model would learn as well; in the paper, and here, "
            "they alternate: sine in column 2i, cosine in column 2i + 1.",
            in_halves,
        ),
        Slip(
            "sine and cosine are exchanged",
            "even columns are sines: place 0 begins with 0, 1, 0, 1.",
            exchanged,
        ),
        Slip(
            "every column has a frequency of its own",
            "columns 2i and 2i + 1 have the same angle: the exponent is 2i / width in both.",
            a_frequency_for_each_column,
        ),
        Slip(
            "the exponent lacks its 2",
            "it is 2i / width, where i counts the pairs: then it runs from 0 to nearly 1.",
            waves(lambda pair, width: pair / width),
        ),
        Slip(
            "the exponent has its 2 twice",
            "np.arange(0, width, 2) is 2i already.",
            waves(lambda pair, width: 4 * pair / width),
        ),
        Slip(
            "the places are multiplied by the power, not divided",
            "each pair turns slower than the one before it, so the power divides.",
            waves(lambda pair, width: -2 * pair / width),
        ),
        Slip(
            "places count from 1",
            "the first place is t = 0, all sines of which are 0.",
            waves(shift=1),
        ),
        Slip(
            "the exponent runs up to 1",
            "it divides by width, not by width - 2: the last pair is a little faster than 1/10000.",
            waves(lambda pair, width: 2 * pair / (width - 2)),
        ),
        Slip(
            "the odd columns are sines too",
            "one sine cannot tell which way the hand turns; sine and cosine together can.",
            only_sines,
        ),
    ),
)

EXERCISES = (LOOKUP, EMBEDDING, SINUSOIDS)
