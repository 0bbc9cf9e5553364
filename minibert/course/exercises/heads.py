"""Lesson 13: the way back through the heads, and a table that is used twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minibert.arrays import IGNORED, Array
from minibert.course.exercise import Case, Exercise, Rows, Slip, Term
from minibert.layers.cross_entropy import vocab_cross_entropy_backward, vocab_cross_entropy_forward
from minibert.layers.embedding import lookup_backward
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


# --- the table that is used twice


def tied_table_backward(
    dloss: float,
    dlogits: Array,  # (M, V)
    x: Array,  # (M, C)
    table: Array,  # (V, C)
    dembedded: Array,  # (B, T, C), the gradient at what the look-up returned
    input_ids: Array,  # (B, T)
) -> Array:  # dtable (V, C)
    """Return the gradient of a table that is the embedding and the decoder.

    In a model nobody calls this: each of the two uses gives its gradient to the parameter's
    ``accumulate``, which adds.
    """
    _, dtable, _ = vocab_cross_entropy_backward(dloss, dlogits, x, table)
    return dtable + lookup_backward(dembedded, input_ids, len(table))


def tied_case(
    dloss: float, table: Array, input_ids: Array, mixing: Array, positions: Array, labels: Array
) -> Case:
    """A model in small: look up, mix the tokens, bend, take some rows, decode."""
    bias = np.zeros(len(table))
    C = table.shape[1]

    def forward() -> tuple[Array, Array, float, Array]:
        bent = np.tanh(mixing @ table[input_ids])
        x = bent.reshape(-1, C)[positions]
        loss, _, dlogits = vocab_cross_entropy_forward(x, table, bias, labels)
        return bent, x, loss, dlogits

    bent, x, _, dlogits = forward()
    dx, _, _ = vocab_cross_entropy_backward(dloss, dlogits, x, table)
    dbent = lookup_backward(dx, positions, input_ids.size).reshape(bent.shape)
    dembedded = mixing.T @ (dbent * (1 - bent * bent))
    arguments = {
        "dloss": dloss, "dlogits": dlogits, "x": x, "table": table, "dembedded": dembedded,
        "input_ids": input_ids,
    }  # fmt: skip
    return Case(arguments, lambda: dloss * forward()[2], {"dtable": table})


def tied_by_hand() -> Case:
    return Case(
        {
            "dloss": 1.0,
            "dlogits": np.array([[0.25, -0.75, 0.5]]),
            "x": np.array([[4.0]]),
            "table": np.zeros((3, 1)),
            "dembedded": np.array([[[10.0], [20.0], [40.0]]]),
            "input_ids": np.array([[2, 0, 2]], np.int32),
        }
    )


def draw_tied(generator: np.random.Generator) -> Case:
    B, T, C, V = 2, *(int(n) for n in generator.permutation([4, 5])), 9
    input_ids = generator.integers(0, V - 2, (B, T)).astype(np.int32)
    input_ids[1, 2] = input_ids[1, 0] = input_ids[0, 0]
    positions = np.array([1, T - 1, 2 * T - 1], np.int32)
    return tied_case(
        float(generator.uniform(0.2, 0.6)),
        generator.normal(size=(V, C)),
        input_ids,
        generator.normal(size=(T, T)),
        positions,
        generator.integers(0, V, len(positions)),
    )


def tied_with(change: Callable[..., Array]) -> Any:
    """``change`` takes the decoder's part, the embedding's, dloss, dembedded and input_ids."""

    def backward(
        dloss: float, dlogits: Array, x: Array, table: Array, dembedded: Array, input_ids: Array
    ) -> Array:
        _, decoder, _ = vocab_cross_entropy_backward(dloss, dlogits, x, table)
        embedding = lookup_backward(dembedded, input_ids, len(table))
        return change(decoder, embedding, dloss, dembedded, input_ids)

    return backward


def fancy(
    decoder: Array, embedding: Array, dloss: float, dembedded: Array, input_ids: Array
) -> Array:
    total = decoder.copy()
    total[input_ids] += dembedded
    return total


def tied_counts(input_ids: Array, rows: int) -> Array:
    return np.maximum(np.bincount(input_ids.ravel(), minlength=rows), 1)[:, None]


TIED = Exercise(
    lesson=13,
    answer=tied_table_backward,
    outputs=("dtable",),
    by_hand=tied_by_hand,
    draw=draw_tied,
    hints=(
        "In how many places of the model is the table read?",
        "The decoder's part is your first blank's dtable; the embedding's part adds dembedded to "
        "the rows of input_ids, as in lesson 8.",
        "dtable = dlogits.T @ x * dloss;  np.add.at(dtable, input_ids, dembedded).",
    ),
    slips=(
        Slip(
            "a token that comes twice keeps one gradient of the embedding's",
            "dtable[input_ids] += dembedded writes once for each row; np.add.at adds every one.",
            tied_with(fancy),
        ),
        Slip(
            "the decoder's part lacks dloss",
            "dembedded comes from the loss as it is, with dloss in it; dlogits does not.",
            tied_with(lambda decoder, embedding, dloss, d, ids: decoder / dloss + embedding),
        ),
        Slip(
            "the embedding's part is multiplied by dloss",
            "dembedded has come all the way from the loss: dloss is in it already.",
            tied_with(lambda decoder, embedding, dloss, d, ids: decoder + embedding * dloss),
        ),
        Slip(
            "the embedding's part is a mean over the places",
            "a token that comes often learns fast: its gradients add, nobody divides.",
            tied_with(
                lambda decoder, embedding, dloss, d, ids: (
                    decoder + embedding / tied_counts(ids, len(decoder))
                )
            ),
        ),
    ),
    terms={
        "dtable": (
            Term(
                "decoder's gradient",
                "the table makes the logits as well; if the second gradient is written with = "
                "instead of +=, the first is lost.",
                lambda dloss, dlogits, x, table, dembedded, input_ids: dlogits.T @ x * dloss,
            ),
            Term(
                "embedding's gradient",
                "the table is looked up as well; if the second gradient is written with = "
                "instead of +=, the first is lost.",
                lambda dloss, dlogits, x, table, dembedded, input_ids: lookup_backward(
                    dembedded, input_ids, len(table)
                ),
            ),
        )
    },
)

EXERCISES = (DECODER, TAKEN, TIED)
