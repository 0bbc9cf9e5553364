"""Lesson 0: why BERT.  The mean of what each place may see."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minibert.arrays import Array
from minibert.course.exercise import Case, Exercise, Rows, Slip
from minibert.layers.pooling import mean_pool_forward


def by_hand() -> Case:
    hidden = np.array([[[1.0, 2], [3, 4], [9, 9]], [[5, 5], [6, 0], [7, 7]]])
    mask = np.array([[True, True, False], [False, True, False]])
    return Case({"hidden": hidden, "attention_mask": mask})


def draw(generator: np.random.Generator) -> Case:
    """Rows see different numbers of vectors, never all; the last one sees none."""
    B, T, C = (int(size) for size in generator.permutation([3, 4, 5, 7])[:3])
    order = generator.permuted(np.tile(np.arange(T), (B, 1)), axis=1)
    counts = 1 + generator.permutation(B)[:, None] % (T - 1)
    mask = order < counts
    mask[-1] = False
    return Case({"hidden": generator.normal(size=(B, T, C)) + 0.5, "attention_mask": mask})


def divided_by(count: Callable[[Array], Array | int]) -> Callable[..., Array]:
    """The sum over what is seen, by ``count`` of the mask (B, T)."""

    def forward(hidden: Array, attention_mask: Array) -> Array:
        total = np.where(attention_mask[..., None], hidden, 0).sum(axis=1)
        return (total / count(attention_mask)).astype(hidden.dtype)

    return forward


def seen(mask: Array) -> Array:  # (B, 1)
    return np.maximum(mask.sum(axis=1, keepdims=True), 1)


MEAN = Exercise(
    lesson=0,
    answer=mean_pool_forward,
    called="mean_of_seen",
    outputs=("seen",),
    by_hand=by_hand,
    draw=draw,
    hints=(
        "Which axis of hidden (B, T, C) has to disappear, and what must not be in that sum?",
        "attention_mask[..., None] has the shape (B, T, 1), which fits hidden: where it is False, "
        "put 0 in place of the vector.  Divide by each row's number of True, (B, 1), but never "
        "by 0.",
        "total = (hidden * attention_mask[..., None]).sum(axis=1);  "
        "n = attention_mask.sum(axis=1, keepdims=True, dtype=hidden.dtype);  "
        "seen = total / np.maximum(n, 1).",
    ),
    slips=(
        Slip(
            "the mask is not used",
            "hidden.mean(axis=1) is the mean of all vectors, seen or not.",
            lambda hidden, attention_mask: hidden.mean(axis=1),
        ),
        Slip(
            "divided by T",
            "what is not seen is not in the sum, so it may not be in the count: divide by the "
            "number of True in the row.",
            divided_by(lambda mask: mask.shape[1]),
        ),
        Slip(
            "not divided at all",
            "this is the sum: a row that sees more would have a longer vector.",
            divided_by(lambda mask: 1),
        ),
        Slip(
            "divided by the count of all rows together",
            "each row has its own number of True: sum the mask along axis=1 only.",
            divided_by(lambda mask: mask.sum()),
        ),
        Slip(
            "the mask is turned round",
            "True is where a row may look, and this averages the other vectors.",
            lambda hidden, attention_mask: divided_by(seen)(hidden, ~attention_mask),
        ),
        Slip(
            "the first row's mask is used for all rows",
            "attention_mask is (B, T): row b has its own line of it.",
            lambda hidden, attention_mask: divided_by(seen)(
                hidden, np.broadcast_to(attention_mask[:1], attention_mask.shape)
            ),
        ),
        Slip(
            "the count is one too large",
            "adding 1 does keep 0 out of the division, but it changes every row: "
            "np.maximum(n, 1) changes only the rows with n = 0.",
            divided_by(lambda mask: mask.sum(axis=1, keepdims=True) + 1),
        ),
    ),
    rows={
        "seen": (
            Rows(
                "a row that sees nothing divides by 0",
                "0 / 0 is NaN, and NaN spreads to all that it meets: np.maximum(n, 1) leaves 0.",
                lambda hidden, attention_mask: ~attention_mask.any(axis=1),
            ),
        )
    },
    sizes=lambda hidden, attention_mask: {"B": hidden.shape[0], "T": hidden.shape[1]},
)

EXERCISES = (MEAN,)
