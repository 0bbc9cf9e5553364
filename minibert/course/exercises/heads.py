"""Lesson 13: the way back through the heads, and a table that is used twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minibert.arrays import IGNORED, Array
from minibert.course.exercise import Case, Exercise, Rows, Slip
from minibert.layers.cross_entropy import vocab_cross_entropy_backward, vocab_cross_entropy_forward
from minibert.layers.encoder_layer import take_rows, take_rows_backward

# --- the decoder


def decoder_case(dloss: float, x: Array, table: Array, bias: Array, labels: Array) -> Case:
    _, _, dlogits = vocab_cross_entropy_forward(x, table, bias, labels)

    def loss() -> float:
        return dloss * vocab_cross_entropy_forward(x, table, bias, labels)[0]

    return Case(
        {"dloss": dloss, "dlogits": dlogits, "x": x, "table": table},
        loss,
        {"dx": x, "dtable": table, "dbias": bias},
    )


def decoder_by_hand() -> Case:
    dlogits = np.array([[0.2, -0.7, 0.5]])
    x, table = np.array([[1.0, 2.0]]), np.array([[1.0, 0], [0, 1], [1, 1]])
    return Case({"dloss": 0.5, "dlogits": dlogits, "x": x, "table": table})


def draw_decoder(generator: np.random.Generator) -> Case:
    M, C, V = generator.permutation([4, 5, 7])
    x, table, bias = (generator.normal(size=shape) for shape in ((M, C), (V, C), V))
    labels = generator.integers(0, V, M)
    labels[0], labels[1] = IGNORED, labels[2]
    return decoder_case(float(generator.uniform(0.2, 0.6)), x, table, bias, labels)


def decoder_with(number: int, change: Callable[..., Array]) -> Any:
    """One result replaced; ``change`` takes the right one, dloss and dlogits."""

    def backward(dloss: float, dlogits: Array, x: Array, table: Array) -> tuple[Array, ...]:
        results = list(vocab_cross_entropy_backward(dloss, dlogits, x, table))
        results[number] = change(results[number], dloss, dlogits)
        return tuple(results)

    return backward


def without_dloss(number: int, name: str) -> Slip:
    return Slip(
        f"{name} lacks dloss",
        "dlogits is the gradient of a sum of losses; dloss is what one of them counts for, and "
        "all three results are multiplied by it.",
        decoder_with(number, lambda right, dloss, dlogits: right / dloss),
    )


def dloss_twice(number: int, name: str) -> Slip:
    return Slip(
        f"{name} has dloss twice",
        "dlogits was multiplied by it already, and then the result again.",
        decoder_with(number, lambda right, dloss, dlogits: right * dloss),
    )


DECODER_NAMES = ("dx", "dtable", "dbias")

DECODER = Exercise(
    lesson=13,
    answer=vocab_cross_entropy_backward,
    outputs=DECODER_NAMES,
    by_hand=decoder_by_hand,
    draw=draw_decoder,
    hints=(
        "logits = x Eᵀ + b is a linear layer: what plays the weight, and what plays dy?",
        "dy is dlogits times dloss, and the weight is the table.  The shapes (M, V), (M, C) and "
        "(V, C) fit together in one way only for each result.",
        "dlogits = dlogits * dloss, a new array;  dx = dlogits @ table;  dtable = dlogits.T @ x;  "
        "dbias sums dlogits over axis 0.",
    ),
    slips=(
        *(without_dloss(number, name) for number, name in enumerate(DECODER_NAMES)),
        *(dloss_twice(number, name) for number, name in enumerate(DECODER_NAMES)),
        Slip(
            "dbias is that of one masked token only",
            "the bias was added to all M rows of logits, so their gradients add up.",
            decoder_with(2, lambda right, dloss, dlogits: dlogits[0] * dloss),
        ),
        Slip(
            "dtable is divided by dloss",
            "dloss multiplies; it is 1 / (number of masked tokens) already.",
            decoder_with(1, lambda right, dloss, dlogits: right / dloss / dloss),
        ),
    ),
    rows={
        "dtable": (
            Rows(
                "only the last token of the vocabulary is wrong",
                "a loop or a slice stops one short: every token had a logit, so each has a row.",
                lambda dloss, dlogits, x, table: np.arange(len(table)) == len(table) - 1,
            ),
        )
    },
    sizes=lambda dloss, dlogits, x, table: {
        "M": len(x),
        "C": x.shape[1],
        "V": len(table),
    },
)  # fmt: skip


# --- back to the rows that were read


def taken_case(x: Array, places: Array, dy: Array) -> Case:
    def loss() -> float:
        return float(np.sum(dy * take_rows(x, places)))

    return Case({"dy": dy, "places": places, "T": x.shape[1]}, loss, {"dx": x})


def taken_by_hand() -> Case:
    return taken_case(
        np.zeros((2, 4, 1)),
        np.array([[0, 2, 3], [0, 1, 0]], np.int32),
        np.array([[[1.0], [2], [4]], [[8.0], [16], [32]]]),
    )


def draw_taken(generator: np.random.Generator) -> Case:
    B, C = generator.permutation([2, 3])
    R, T = int(generator.choice([5, 7])), int(generator.choice([11, 13]))
    places = generator.integers(1, T, (B, R)).astype(np.int32)
    places[:, 0] = places[:, -1] = 0  # the filler
    places[:, 2] = places[:, 1]
    x, dy = generator.normal(size=(B, T, C)), generator.normal(size=(B, R, C))
    return taken_case(x, places, dy)


def taken_with(offset: Callable[..., Array]) -> Any:
    """Rows of the long table counted otherwise; ``offset`` takes the number, R and T."""

    def backward(dy: Array, places: Array, T: int) -> Array:
        B, R, C = dy.shape
        long = np.zeros_like(dy, shape=(B * T, C))
        np.add.at(long, places + offset(np.arange(B)[:, None], R, T), dy)
        return long.reshape(B, T, C)

    return backward


def assigned(dy: Array, places: Array, T: int) -> Array:
    B, _, C = dy.shape
    dx = np.zeros_like(dy, shape=(B, T, C))
    dx[np.arange(B)[:, None], places] = dy
    return dx


def averaged(dy: Array, places: Array, T: int) -> Array:
    counts = take_rows_backward(np.ones_like(dy), places, T)
    return take_rows_backward(dy, places, T) / np.maximum(counts, 1)


def at_the_start(dy: Array, places: Array, T: int) -> Array:
    B, R, C = dy.shape
    dx = np.zeros_like(dy, shape=(B, T, C))
    dx[:, :R] = dy
    return dx


TAKEN = Exercise(
    lesson=13,
    answer=take_rows_backward,
    outputs=("dx",),
    by_hand=taken_by_hand,
    draw=draw_taken,
    hints=(
        "Which rows of x were never read, and what is their gradient?  And a row that was read "
        "two times?",
        "Begin with zeros of shape (B, T, C), and add each dy[b, r] to row places[b, r] of "
        "sequence b.  dx[...] += dy loses one where a place comes twice; np.add.at does not.",
        "dx = np.zeros_like(dy, shape=(B, T, C));  rows = np.arange(B)[:, None];  np.add.at(dx, "
        "(rows, places), dy).",
    ),
    slips=(
        Slip(
            "a place that was taken twice keeps one gradient only",
            "dx[rows, places] += dy reads, adds and writes once for all: of two gradients for "
            "one place the last one stays.  np.add.at adds both.",
            assigned,
        ),
        Slip(
            "the rows of all sequences land in the first",
            "place 3 of sequence 1 is another row than place 3 of sequence 0: the sequence's "
            "number has to come into the index.",
            taken_with(lambda number, R, T: 0 * number),
        ),
        Slip(
            "the sequences are counted in steps of R",
            "in the long table of B·T rows each sequence takes T rows, not R.",
            taken_with(lambda number, R, T: R * number),
        ),
        Slip(
            "a place that was taken twice gets the mean",
            "two uses, two gradients, and they add: nobody took a mean forward.",
            averaged,
        ),
        Slip(
            "the gradients are put at the start, not at their places",
            "dy[b, r] belongs to row places[b, r] of x, not to row r.",
            at_the_start,
        ),
        Slip(
            "every row gets a gradient",
            "rows that nobody read had no part in the loss: theirs is 0.",
            lambda dy, places, T: np.repeat(dy.sum(axis=1, keepdims=True), T, axis=1),
        ),
    ),
    rows={
        "dx": (
            Rows(
                "only [CLS] is wrong",
                "column 0 is taken by the next-sentence head, and again wherever a sequence "
                "has fewer masked tokens: all of these gradients add up there.",
                lambda dy, places, T: np.tile(np.arange(T) == 0, (len(dy), 1)),
            ),
        )
    },
)


EXERCISES = (DECODER, TAKEN)
