"""Squared error: the loss of a model that gives a number, such as how alike two sentences are."""

from __future__ import annotations

import numpy as np

from minibert.arrays import Array, check_float, check_number, check_shape


def squared_error_forward(
    x: Array,  # (N,), what the model says
    target: Array,  # (N,), what is right
) -> float:
    """Return Σ_n (x_n - t_n)², a sum; who knows how many rows there are in all divides."""
    check_squared_error(x, target)
    return float(np.square(x - target).sum(dtype=np.float64))


def squared_error_backward(
    dloss: float,
    x: Array,  # (N,)
    target: Array,  # (N,)
) -> Array:  # dx (N,)
    """Send a gradient back: the derivative of (x - t)² is 2 (x - t)."""
    check_squared_error(x, target)
    check_number("dloss", dloss)
    return (x - target) * x.dtype.type(2 * dloss)


def check_squared_error(x: Array, target: Array) -> None:
    """Raise unless there is one number for each of x; NumPy would spread a single one over all."""
    check_float("x", x)
    check_shape("x", x, (None,))
    check_float("target", target, like=x)
    check_shape("target", target, x.shape)
