"""Mistakes in the backward of a linear layer, y = x Wᵀ + b."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minibert.arrays import Array
from tests.gallery.mistake import NUMPY, Mistake

Change = Callable[[Array, Array, Array], Array]  # dy, x, weight → one gradient


def rows(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])


def linear_with(number: int, change: Change) -> Callable[..., Any]:
    """Linear's backward with dx (0), dweight (1) or dbias (2) replaced."""

    def backward(dy: Array, x: Array, weight: Array) -> tuple[Array, ...]:
        gradients = list(NUMPY.linear_backward(dy, x, weight))
        gradients[number] = change(dy, x, weight)
        return tuple(gradients)

    return backward


def linear(name: str, why: str, number: int, change: Change) -> Mistake:
    wrong = {"linear_backward": linear_with(number, change)}
    return Mistake(name, why, "linear", "linear, square", wrong)


MISTAKES = [
    linear(
        "weight not transposed back",
        "dx = dy Wᵀ repeats the forward; with a square W even the shape is right.",
        0, lambda dy, x, w: dy @ w.T,
    ),
    linear(
        "dx from x",
        "The forward's input stands where the upstream gradient belongs.",
        0, lambda dy, x, w: x @ w,
    ),
    linear(
        "dweight transposed",
        "xᵀ dy is the gradient for weights stored as (in, out), and these are (out, in).",
        1, lambda dy, x, w: rows(x).T @ rows(dy),
    ),
    linear(
        "dweight averaged over rows",
        "The 1/N of a mean belongs to the loss, once; here every layer divides again.",
        1, lambda dy, x, w: rows(dy).T @ rows(x) / len(rows(x)),
    ),
    linear(
        "dweight of the first sequence only",
        "A batch dimension is indexed away instead of summed over.",
        1, lambda dy, x, w: dy[0].T @ x[0],
    ),
    linear(
        "dbias of one row only",
        "The bias was added to every row by broadcasting, so its gradient sums over all rows.",
        2, lambda dy, x, w: rows(dy)[0].copy(),
    ),
    linear(
        "dbias averaged over rows",
        "Sum and mean are confused; the bias learns N times too slowly.",
        2, lambda dy, x, w: rows(dy).mean(axis=0),
    ),
    linear(
        "dbias with the weight",
        "The sum of dx's rows: the bias comes after the weight and never passes through it.",
        2, lambda dy, x, w: rows(dy @ w).sum(axis=0),
    ),
]  # fmt: skip
