"""Softmax: turn scores into probabilities.

The largest score is subtracted first.  That changes nothing, since softmax(x + c) = softmax(x),
and keeps e^x from overflowing.
"""

from __future__ import annotations

import numpy as np

from minibert.arrays import Array


def softmax_forward(
    x: Array,  # (..., T)
) -> Array:  # y (..., T), rows sum to 1
    """Return e^{x_i} / Σ_j e^{x_j} along the last axis."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax_backward(
    dy: Array,  # (..., T)
    y: Array,  # (..., T), the forward's output
) -> Array:  # dx (..., T)
    """Send a gradient back through softmax.

    Every output shares one normaliser, so raising a score lowers all other probabilities.  With
    y_i = e^{x_i} / s:

        dy_i/dx_j = y_i (1[i=j] - y_j)      =>      dx = y (dy - Σ dy y)

    If dy is the same for all outputs, dx is 0, since the outputs always sum to 1: a test with an
    upstream gradient of all ones passes whatever the code does.
    """
    return y * (dy - (dy * y).sum(axis=-1, keepdims=True))
