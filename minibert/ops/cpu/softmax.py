"""Softmax, row by row; attention and cross-entropy use its two steps as well."""

from __future__ import annotations

from numba import prange

from minibert.arrays import Array, check_float, check_shape
from minibert.ops.cpu.activations import copy_chunk
from minibert.ops.cpu.elementary import exp, from_key, sort_key
from minibert.ops.cpu.jit import kernel, parallel
from minibert.ops.cpu.memory import empty, rows
from minibert.ops.cpu.threads import launch

SHARE = 16  # rows to a chunk of work


@kernel
def row_max(x):  # (n,), n >= 1
    """Return the largest number, or NaN if there is one."""
    highest = sort_key(x[0])
    for j in range(x.shape[0]):
        highest = max(highest, sort_key(x[j]))
    return from_key(highest)


@kernel
def exp_row(x, shift):  # (n,), changed
    """Write e^{x - shift} in place of x, and return the sum."""
    total = x.dtype.type(0)
    for j in range(x.shape[0]):
        e = exp(x[j] - shift)
        x[j] = e
        total += e
    return total


@kernel
def scale_row(x, factor):  # (n,), changed
    for j in range(x.shape[0]):
        x[j] *= factor


@kernel
def softmax_row(x, y):  # (T,)
    copy_chunk(x, y)
    scale_row(y, y.dtype.type(1) / exp_row(y, row_max(x)))


@parallel
def softmax_rows(x, y):  # (N, T)
    N = y.shape[0]
    for share in prange((N + SHARE - 1) // SHARE):
        for n in range(share * SHARE, min(N, (share + 1) * SHARE)):
            softmax_row(x[n], y[n])


@kernel
def softmax_backward_row(dy, y, dx):  # (T,)
    total = y.dtype.type(0)
    for j in range(y.shape[0]):
        total += dy[j] * y[j]
    for j in range(y.shape[0]):
        dx[j] = y[j] * (dy[j] - total)


@parallel
def softmax_backward_rows(dy, y, dx):  # (N, T)
    N = y.shape[0]
    for share in prange((N + SHARE - 1) // SHARE):
        for n in range(share * SHARE, min(N, (share + 1) * SHARE)):
            softmax_backward_row(dy[n], y[n], dx[n])


def softmax_forward(
    x: Array,  # (..., T)
) -> Array:  # y (..., T), rows sum to 1
    """Return e^{x_i} / Σ_j e^{x_j} along the last axis."""
    check_float("x", x)
    y = empty(x.shape, x.dtype)
    if y.size:
        launch(softmax_rows, 4 * y.size, rows(x), rows(y))
    return y


def softmax_backward(
    dy: Array,  # (..., T)
    y: Array,  # (..., T), the forward's output
) -> Array:  # dx (..., T)
    """Return y (dy - Σ dy y)."""
    check_float("y", y)
    check_float("dy", dy, like=y)
    check_shape("dy", dy, y.shape)
    dx = empty(y.shape, y.dtype)
    if dx.size:
        launch(softmax_backward_rows, y.size, rows(dy), rows(y), rows(dx))
    return dx
