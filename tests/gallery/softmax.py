"""Mistakes in softmax and in the losses built on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minibert.arrays import IGNORED, Array
from minibert.layers.softmax import softmax_backward
from tests.gallery.mistake import NUMPY, Mistake


def softmax(name: str, why: str, formula: Callable[[Array, Array], Array]) -> Mistake:
    return Mistake(name, why, "softmax", "softmax", {"softmax_backward": formula})


def cross_entropy(name: str, why: str, formula: Callable[..., Array]) -> Mistake:
    """``formula`` takes dloss, probs, the labels as one-hot rows, and which rows count."""

    def backward(dloss: float, probs: Array, labels: Array) -> Array:
        counted = labels != IGNORED
        one_hot = np.zeros_like(probs)
        one_hot[np.flatnonzero(counted), labels[counted]] = 1
        return formula(dloss, probs, one_hot, counted[:, None]).astype(probs.dtype)

    return Mistake(
        name, why, "cross_entropy", "cross_entropy", {"cross_entropy_backward": backward}
    )


def decoder(name: str, why: str, change: Callable[..., None]) -> Mistake:
    """``change`` takes the list of the right dx, dtable, dbias and alters it."""

    def backward(dloss: float, dlogits: Array, x: Array, table: Array) -> tuple[Any, ...]:
        gradients = list(NUMPY.vocab_cross_entropy_backward(dloss, dlogits, x, table))
        change(gradients, dloss, dlogits)
        return tuple(gradients)

    wrong = {"vocab_cross_entropy_backward": backward}
    return Mistake(name, why, "heads", "vocab_cross_entropy", wrong)


def scale(number: int, factor: Callable[[float], float]) -> Callable[..., None]:
    def change(gradients: list[Array], dloss: float, dlogits: Array) -> None:
        gradients[number] = gradients[number] * gradients[number].dtype.type(factor(dloss))

    return change


MISTAKES = [
    softmax(
        "softmax without its sum term",
        "dx = y dy treats the normaliser as a constant, but every score is in it.",
        lambda dy, y: dy * y,
    ),
    softmax(
        "softmax as if element by element",
        "y (1 - y) is the logistic function's slope, and only the diagonal of softmax's.",
        lambda dy, y: dy * y * (1 - y),
    ),
    softmax(
        "sum term not weighted by y",
        "The sum of dy y is what all scores share; the sum of dy alone is not.",
        lambda dy, y: y * (dy - dy.sum(axis=-1, keepdims=True)),
    ),
    softmax(
        "sum term over the other axis",
        "Probabilities add up along the last axis; this sums over the queries.",
        lambda dy, y: y * (dy - (dy * y).sum(axis=-2, keepdims=True)),
    ),
    softmax(
        "mean for the sum term",
        "y already weighs the terms, so dividing by their number weighs them twice.",
        lambda dy, y: y * (dy - (dy * y).mean(axis=-1, keepdims=True)),
    ),
    cross_entropy(
        "ignored labels counted",
        "Rows without a label get p as gradient, pushing down whatever they predict.",
        lambda d, p, hot, counted: d * (p - hot),
    ),
    cross_entropy(
        "ignored rows taken as label 0",
        "The label -100 is clipped to 0 so that indexing works, and then nobody masks the row.",
        lambda d, p, hot, counted: d * (p - hot - ~counted * np.eye(p.shape[1])[0]),
    ),
    cross_entropy(
        "label 0 taken as ignored",
        "`if label` is false for label 0 too, so the first class is never learned.",
        lambda d, p, hot, counted: d * (p - hot) * counted * (1 - hot[:, :1]),
    ),
    cross_entropy(
        "missing 1/N",
        "The loss is a mean, handed on as dloss = 1/N; p - y alone is the gradient of a sum.",
        lambda d, p, hot, counted: (p - hot) * counted,
    ),
    cross_entropy(
        "divided by all rows",
        "The mean is over the rows that count, and whoever made dloss has divided already.",
        lambda d, p, hot, counted: d * (p - hot) * counted / len(p),
    ),
    cross_entropy(
        "divided by the counted rows again",
        "Loss and backward each divide by the number of rows: 1/N² in all.",
        lambda d, p, hot, counted: d * (p - hot) * counted / counted.sum(),
    ),
    cross_entropy(
        "label not taken off",
        "The gradient of the normaliser alone: every logit goes down, none goes up.",
        lambda d, p, hot, counted: d * p * counted,
    ),
    cross_entropy(
        "only at the label",
        "The other classes have a gradient too: their probability has to go somewhere.",
        lambda d, p, hot, counted: d * (p - 1) * hot,
    ),
    cross_entropy(
        "sign turned",
        "y - p is how the rule is written where the update adds; here it climbs.",
        lambda d, p, hot, counted: d * (hot - p) * counted,
    ),
    cross_entropy(
        "softmax's backward applied twice",
        "p - y already is the gradient of softmax and logarithm together.",
        lambda d, p, hot, counted: d * counted * softmax_backward(p - hot, p),
    ),
    decoder(
        "decoder's table without dloss",
        "dx is scaled by the upstream gradient and the parameters are forgotten.",
        scale(1, lambda dloss: 1 / dloss),
    ),
    decoder(
        "decoder's dloss squared in dx",
        "The factor is applied to dlogits in place, and then once more.",
        scale(0, lambda dloss: dloss),
    ),
    decoder(
        "decoder's table 1 % too large",
        "A small scale error, as from a count that is off by one in a hundred.",
        scale(1, lambda dloss: 1.009),
    ),
    decoder(
        "decoder's bias averaged",
        "The bias is added to every masked position, so its gradient is a sum.",
        lambda g, dloss, dlogits: g.__setitem__(2, g[2] / len(dlogits)),
    ),
    decoder(
        "last token of the vocabulary missing",
        "A loop over chunks of the vocabulary stops one short.",
        lambda g, dloss, dlogits: g[1].__setitem__(-1, 0),
    ),
]
