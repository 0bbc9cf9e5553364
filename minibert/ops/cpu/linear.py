"""The linear layer: three matrix products and a sum of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numba import prange

from minibert.arrays import Array, check_float, check_shape
from minibert.ops.cpu.gemm import matmul
from minibert.ops.cpu.jit import kernel, parallel
from minibert.ops.cpu.memory import fit, rows
from minibert.ops.cpu.threads import launch

Product = Callable[..., Array]
"""What takes the arguments of ``gemm.matmul`` and returns what it does."""

SHARE = 64
"""Rows that one partial sum covers.

It does not depend on the number of threads, so neither do the sums: each share is added up in its
own order, then the shares in theirs.
"""


def linear_forward(
    x: Array,  # (..., C_in)
    weight: Array,  # (C_out, C_in)
    bias: Array,  # (C_out,)
) -> Array:  # y (..., C_out)
    """Return y = x Wᵀ + b."""
    return linear_forward_by(matmul, x, weight, bias)


def linear_backward(
    dy: Array,  # (..., C_out)
    x: Array,  # (..., C_in)
    weight: Array,  # (C_out, C_in)
) -> tuple[Array, Array, Array]:  # dx (..., C_in), dweight (C_out, C_in), dbias (C_out,)
    """Return dx = dy W, dW = dyᵀ x and db, the sum of dy over all rows."""
    return linear_backward_by(matmul, dy, x, weight)


def linear_forward_by(product: Product, x: Array, weight: Array, bias: Array) -> Array:
    """Do what ``linear_forward`` does, with one of several ways to multiply matrices."""
    check_shape("weight", weight, (None, None))
    check_float("x", x, like=weight)
    check_float("bias", bias, like=weight)
    check_shape("x", x, (*x.shape[:-1], weight.shape[1]))
    check_shape("bias", bias, weight.shape[:1])
    y = product(rows(x), fit(weight), fit(bias), transpose_b=True)
    return y.reshape(*x.shape[:-1], weight.shape[0])


def linear_backward_by(
    product: Product, dy: Array, x: Array, weight: Array
) -> tuple[Array, Array, Array]:
    """Do what ``linear_backward`` does, with one of several ways to multiply matrices."""
    check_shape("weight", weight, (None, None))
    check_float("x", x, like=weight)
    check_float("dy", dy, like=weight)
    check_shape("x", x, (*x.shape[:-1], weight.shape[1]))
    check_shape("dy", dy, (*x.shape[:-1], weight.shape[0]))
    rows_dy, rows_x = rows(dy), rows(x)
    dx = product(rows_dy, fit(weight))
    dweight = product(rows_dy, rows_x, transpose_a=True)
    return dx.reshape(x.shape), dweight, column_sums(rows_dy)


def column_sums(x: Array) -> Array:  # (N, C) → (C,)
    """Return the sum of a fit array's rows."""
    total = np.zeros(x.shape[1], x.dtype)
    launch(sum_columns, x.size, x, np.zeros((-(-x.shape[0] // SHARE), x.shape[1]), x.dtype), total)
    return total


@kernel
def add_rows(x, total):  # x (n, C), total (C,), changed
    for n in range(x.shape[0]):
        row = x[n]
        for j in range(total.shape[0]):
            total[j] += row[j]


@parallel
def sum_columns(x, partial, total):  # x (N, C), partial (shares, C) and total (C,), zeros, changed
    for share in prange(partial.shape[0]):
        add_rows(x[share * SHARE : (share + 1) * SHARE], partial[share])
    add_rows(partial, total)
