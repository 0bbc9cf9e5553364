"""LayerNorm, and add & norm, which is the same kernel with one more line at its start.

The reference makes some ten passes over memory.  Here a row is read, summed, normalised and written
while it lies in the first-level cache.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from minibert.arrays import Array, check_array, check_float, check_number, check_shape
from minibert.ops.cpu.dropout import drop_row, dropout_numbers
from minibert.ops.cpu.jit import kernel, parallel
from minibert.ops.cpu.linear import SHARE, add_rows
from minibert.ops.cpu.memory import empty, fit, rows
from minibert.ops.cpu.threads import launch


@kernel
def normalise(x_hat, weight, bias, eps, y):  # all (C,); x_hat holds the input, changed
    """Write x̂ in place of the input and y beside it; return rstd."""
    real = x_hat.dtype.type  # a bare 0 or 1 would make float64 of float32
    C = x_hat.shape[0]
    total = real(0)
    for j in range(C):
        total += x_hat[j]
    mean = total / real(C)
    total = real(0)
    for j in range(C):
        centred = x_hat[j] - mean
        total += centred * centred
    rstd = real(1) / np.sqrt(total / real(C) + eps)
    for j in range(C):
        value = (x_hat[j] - mean) * rstd
        x_hat[j] = value
        y[j] = value * weight[j] + bias[j]
    return rstd


@parallel
def forward(x, residual, weight, bias, eps, scale, low, high, threshold, y, x_hat, rstd):
    """x, y, x_hat (N, C), rstd (N,); residual (N, C), or (0, C) for a plain LayerNorm."""
    N, C = x.shape
    add = residual.shape[0] > 0
    for share in prange((N + SHARE - 1) // SHARE):
        for n in range(share * SHARE, min(N, (share + 1) * SHARE)):
            s = x_hat[n]
            drop_row(x[n], s, scale, low, high, threshold, np.uint32(n * C))
            if add:
                r = residual[n]
                for j in range(C):
                    s[j] += r[j]
            rstd[n] = normalise(s, weight, bias, eps, y[n])


@kernel
def normalise_backward(dy, x_hat, rstd, weight, ds, dweight, dbias):  # all (C,)
    """Write ds; add this row's part to dweight and dbias."""
    real, C = dy.dtype.type, dy.shape[0]
    total, total_x_hat = real(0), real(0)
    for j in range(C):
        dx_hat = dy[j] * weight[j]
        total += dx_hat
        total_x_hat += dx_hat * x_hat[j]
    mean, mean_x_hat = total / real(C), total_x_hat / real(C)
    for j in range(C):
        ds[j] = rstd * (dy[j] * weight[j] - mean - x_hat[j] * mean_x_hat)
    for j in range(C):
        dweight[j] += dy[j] * x_hat[j]
        dbias[j] += dy[j]


@parallel
def backward(
    dy,
    x_hat,
    rstd,
    weight,
    scale,
    low,
    high,
    threshold,
    ds,
    dx,
    partial_w,
    partial_b,
    dweight,
    dbias,
):
    """dy, x_hat, ds (N, C), rstd (N,); dx (N, C), or (0, C) if nothing was dropped."""
    N, C = dy.shape
    dropped = dx.shape[0] > 0
    for share in prange(partial_w.shape[0]):
        for n in range(share * SHARE, min(N, (share + 1) * SHARE)):
            normalise_backward(
                dy[n], x_hat[n], rstd[n], weight, ds[n], partial_w[share], partial_b[share]
            )
            if dropped:
                drop_row(ds[n], dx[n], scale, low, high, threshold, np.uint32(n * C))
    add_rows(partial_w, dweight)
    add_rows(partial_b, dbias)


def layernorm_forward(
    x: Array,  # (..., C)
    weight: Array,  # (C,)
    bias: Array,  # (C,)
    eps: float,
) -> tuple[Array, Array, Array]:  # y (..., C), x_hat (..., C), rstd (..., 1)
    """Return y = γ x̂ + β, and x̂ and 1/√(variance + ε) for backward."""
    return normalise_rows(x, None, weight, bias, eps, 0.0, 0)


def layernorm_backward(
    dy: Array,  # (..., C)
    x_hat: Array,  # (..., C)
    rstd: Array,  # (..., 1)
    weight: Array,  # (C,)
) -> tuple[Array, Array, Array]:  # dx (..., C), dweight (C,), dbias (C,)
    """Return rstd (dx̂ - mean(dx̂) - x̂ mean(dx̂ x̂)) with dx̂ = dy γ, and the sums over all rows."""
    _, ds, dweight, dbias = add_norm_backward(dy, x_hat, rstd, weight, 0.0, 0)
    return ds, dweight, dbias


def add_norm_forward(
    x: Array,  # (..., C)
    residual: Array,  # (..., C)
    weight: Array,  # (C,)
    bias: Array,  # (C,)
    eps: float,
    rate: float,
    seed: int,
) -> tuple[Array, Array, Array]:  # y (..., C), x_hat (..., C), rstd (..., 1)
    """Return LayerNorm(residual + dropout(x)), and what backward needs."""
    check_array("residual", residual)
    return normalise_rows(x, residual, weight, bias, eps, rate, seed)


def normalise_rows(
    x: Array, residual: Array | None, weight: Array, bias: Array, eps: float, rate: float, seed: int
) -> tuple[Array, Array, Array]:
    check_shape("weight", weight, (None,))
    check_number("eps", eps)
    check_float("x", x, like=weight)
    check_float("bias", bias, like=weight)
    check_shape("x", x, (*x.shape[:-1], len(weight)))
    check_shape("bias", bias, weight.shape)
    if residual is not None:
        check_float("residual", residual, like=weight)
        check_shape("residual", residual, x.shape)
    numbers = dropout_numbers(rate, seed, x, x.size)
    flat = rows(x)
    y, x_hat = empty(flat.shape, x.dtype), empty(flat.shape, x.dtype)
    rstd = empty(flat.shape[:1], x.dtype)
    added = np.empty((0, flat.shape[1]), x.dtype) if residual is None else rows(residual)
    low, high, threshold, scale = numbers
    launch(
        forward, 2 * x.size,
        flat, added, fit(weight), fit(bias), x.dtype.type(eps), scale, low, high, threshold,
        y, x_hat, rstd,
    )  # fmt: skip
    return y.reshape(x.shape), x_hat.reshape(x.shape), rstd.reshape(*x.shape[:-1], 1)


def add_norm_backward(
    dy: Array,  # (..., C)
    x_hat: Array,  # (..., C)
    rstd: Array,  # (..., 1)
    weight: Array,  # (C,)
    rate: float,
    seed: int,
) -> tuple[Array, Array, Array, Array]:  # dx (..., C), dresidual (..., C), dweight, dbias (C,)
    """Return LayerNorm's gradient for the residual, the same through the mask for x, and sums."""
    check_shape("weight", weight, (None,))
    for label, array in (("dy", dy), ("x_hat", x_hat), ("rstd", rstd)):
        check_float(label, array, like=weight)
    check_shape("dy", dy, (*dy.shape[:-1], len(weight)))
    check_shape("x_hat", x_hat, dy.shape)
    check_shape("rstd", rstd, (*dy.shape[:-1], 1))
    low, high, threshold, scale = dropout_numbers(rate, seed, dy, dy.size)
    flat = rows(dy)
    N, C = flat.shape
    ds, dx = empty((N, C), dy.dtype), empty((N if rate else 0, C), dy.dtype)
    partial = np.zeros((2, -(-N // SHARE), C), dy.dtype)
    dweight, dbias = np.zeros((2, C), dy.dtype)
    launch(
        backward, 2 * dy.size,
        flat, rows(x_hat), fit(rstd).reshape(-1), fit(weight), scale, low, high, threshold,
        ds, dx, partial[0], partial[1], dweight, dbias,
    )  # fmt: skip
    ds = ds.reshape(dy.shape)
    return (dx.reshape(dy.shape) if rate else ds), ds, dweight, dbias
