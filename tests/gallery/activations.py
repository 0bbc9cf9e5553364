"""Mistakes in functions of single numbers: dropout, GELU, ReLU, tanh."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from minibert.arrays import Array
from minibert.layers.activations import erfc
from minibert.layers.dropout import dropout_backward
from tests.gallery.mistake import NUMPY, Mistake

C_TANH = math.sqrt(2 / math.pi)


def dropout(name: str, why: str, backward: Callable[..., Array]) -> Mistake:
    return Mistake(name, why, "dropout", "dropout", {"dropout_backward": backward})


def activation(op: str, name: str, why: str, backward: Callable[..., Array]) -> Mistake:
    """``backward`` takes dy and x, or y for tanh."""
    return Mistake(name, why, "activations", op, {f"{op}_backward": backward})


def cdf(x: Array) -> Array:
    return 0.5 * erfc(-x / math.sqrt(2))


def pdf(x: Array) -> Array:
    return np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def tanh_slope(x: Array, cubic: float) -> Array:
    """The slope of GELU's tanh form; 3 · 0.044715 is the right ``cubic``."""
    h = np.tanh(C_TANH * (x + 0.044715 * x * x * x))
    return 0.5 * (1 + h) + 0.5 * x * (1 - h * h) * C_TANH * (1 + cubic * x * x)


MISTAKES = [
    dropout(
        "dropout mask drawn anew",
        "The backward asks the generator again; it must reuse the forward's mask.",
        lambda dy, rate, seed: dropout_backward(dy, rate, seed + 1),
    ),
    dropout(
        "dropout not scaled in the backward",
        "What was kept was multiplied by 1 / (1 - rate), and that is its slope.",
        lambda dy, rate, seed: dropout_backward(dy, rate, seed) * dy.dtype.type(1 - rate),
    ),
    dropout(
        "dropout scaled by 1 / rate",
        "The share that is dropped is taken for the share that is kept.",
        lambda dy, rate, seed: dropout_backward(dy, rate, seed) * dy.dtype.type((1 - rate) / rate),
    ),
    dropout(
        "dropout passed through",
        "Training with dropout in the forward only: dropped values still get a gradient.",
        lambda dy, rate, seed: dy,
    ),
    activation(
        "gelu",
        "GELU's backward of the tanh form",
        "The exact forward with the approximation's slope: off by less than 0.001 everywhere.",
        NUMPY.gelu_tanh_backward,
    ),
    activation(
        "gelu_tanh",
        "tanh form's backward of the exact GELU",
        "The same the other way round; the configuration says which form a model has.",
        NUMPY.gelu_backward,
    ),
    activation(
        "gelu",
        "GELU without x φ(x)",
        "Half of the product rule: Φ(x) is the gate, but the gate moves as well.",
        lambda dy, x: dy * cdf(x),
    ),
    activation(
        "gelu",
        "GELU with φ in place of x φ",
        "The product rule's second term lost its factor.",
        lambda dy, x: dy * (cdf(x) + pdf(x)),
    ),
    activation(
        "gelu",
        "GELU with x Φ + φ",
        "The terms' factors changed places: this is the integral's formula, not the slope's.",
        lambda dy, x: dy * (x * cdf(x) + pdf(x)),
    ),
    activation(
        "gelu_tanh",
        "tanh form without the cubic's 3",
        "d(0.044715 x³) = 3 · 0.044715 x², and the 3 is gone.",
        lambda dy, x: dy * tanh_slope(x, 0.044715),
    ),
    activation(
        "gelu_tanh",
        "tanh form with 0.134 for 0.134145",
        "The constant 3 · 0.044715 rounded to three digits.",
        lambda dy, x: dy * tanh_slope(x, 0.134),
    ),
    activation(
        "relu",
        "ReLU's value for its slope",
        "max(x, 0) is the output; its slope is 0 or 1.",
        lambda dy, x: dy * np.maximum(x, 0),
    ),
    activation(
        "relu",
        "ReLU always open",
        "The backward of the identity: inputs below 0 get a gradient that did nothing.",
        lambda dy, x: dy,
    ),
    activation(
        "relu",
        "ReLU by the sign of dy",
        "The gradient is cut where it is negative itself, not where the input was.",
        lambda dy, x: dy * (dy > 0),
    ),
    activation(
        "tanh",
        "tanh with 1 - y",
        "The square in 1 - y² is lost.",
        lambda dy, y: dy * (1 - y),
    ),
    activation(
        "tanh",
        "tanh with the logistic's slope",
        "y (1 - y) belongs to the logistic function.",
        lambda dy, y: dy * y * (1 - y),
    ),
    activation(
        "tanh",
        "tanh taken of y again",
        "The backward was handed the output, and treats it as the input.",
        lambda dy, y: dy * (1 - np.tanh(y) ** 2),
    ),
]
