"""Dropout by the hash of ``keys.random_bits``: the same mask, bit for bit, as the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from minibert.arrays import Array, check_float
from minibert.layers.dropout import check_dropout
from minibert.ops.cpu.elementary import random_bits
from minibert.ops.cpu.jit import inlined, kernel, parallel
from minibert.ops.cpu.memory import empty, fit
from minibert.ops.cpu.threads import launch

CHUNK = 1 << 13


def dropout_numbers(rate: float, seed: int, like: Array, count: int) -> tuple[Any, Any, Any, Any]:
    """Return what kernels need: the seed's halves, the threshold below which is dropped, 1/(1-p).

    Raises ValueError for a rate out of range, or more elements than the hash can number.
    """
    check_dropout(rate, seed)
    if count > 2**32:
        raise ValueError(f"random_bits numbers at most 2**32 elements, not {count}")
    return (
        np.uint32(seed & 0xFFFFFFFF),
        np.uint32(seed >> 32),
        np.uint32(rate * 2**32),
        like.dtype.type(1 / (1 - rate)),
    )


@inlined
def drop(x, scale, low, high, threshold, index):
    """Return x * scale, or 0 if the element with this index (uint32) is dropped."""
    return x * scale if random_bits(low, high, index) >= threshold else scale - scale


@kernel
def drop_row(x, y, scale, low, high, threshold, first):  # x, y (n,); first: index of x[0], uint32
    if threshold == 0:
        for j in range(y.shape[0]):
            y[j] = x[j] * scale
    else:
        for j in range(y.shape[0]):
            y[j] = drop(x[j], scale, low, high, threshold, np.uint32(first + np.uint32(j)))


@kernel
def drop_in_place(x, scale, low, high, threshold, first):
    """As ``drop_row``, with one array: two that are the same keep a loop from being vectorised."""
    for j in range(x.shape[0]):
        x[j] = drop(x[j], scale, low, high, threshold, np.uint32(first + np.uint32(j)))


@parallel
def drop_all(x, y, scale, low, high, threshold):  # x, y (n,)
    for chunk in prange((x.shape[0] + CHUNK - 1) // CHUNK):
        start = chunk * CHUNK
        drop_row(
            x[start : start + CHUNK], y[start : start + CHUNK],
            scale, low, high, threshold, np.uint32(start),
        )  # fmt: skip


def dropout_forward(
    x: Array,  # any shape
    rate: float,
    seed: int,
) -> Array:  # y, the same shape
    """Return x / (1 - rate) where the mask keeps, 0 elsewhere; x itself if the rate is 0."""
    if rate == 0:
        return x
    check_float("x", x)
    low, high, threshold, scale = dropout_numbers(rate, seed, x, x.size)
    y = empty(x.shape, x.dtype)
    launch(drop_all, x.size, fit(x).reshape(-1), y.reshape(-1), scale, low, high, threshold)
    return y


def dropout_backward(
    dy: Array,  # any shape
    rate: float,
    seed: int,
) -> Array:  # dx, the same shape
    """Return dy through the same mask: the forward again."""
    return dropout_forward(dy, rate, seed)
