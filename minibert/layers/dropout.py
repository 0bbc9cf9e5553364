"""Dropout: set a random share of the values to zero, and scale the others up to make up for it.

Source: Srivastava et al., Dropout (JMLR 2014); the scaling at training time is section 10's.
"""

from __future__ import annotations

import numpy as np

from minibert.arrays import Array
from minibert.keys import random_bits


def keep_mask(shape: tuple[int, ...], rate: float, seed: int, like: Array) -> Array:
    """Return True where a value is kept, with probability 1 - rate (the shape given, bool).

    The mask is a function of (seed, index): backward calls this again with the same seed and gets
    the same mask, so nothing needs to be stored.
    """
    check_dropout(rate, seed)
    count = int(np.prod(shape, dtype=np.int64))
    return (random_bits(seed, count, like) >= np.uint32(rate * 2**32)).reshape(shape)


def check_dropout(rate: float, seed: int) -> None:
    """Raise ValueError for a rate or a seed out of range."""
    if not 0 <= rate < 1:
        raise ValueError(f"dropout rate is {rate}, expected 0 <= rate < 1")
    if not 0 <= seed < 2**64:
        raise ValueError(f"dropout seed is {seed}, expected 64 bits: use key.seed")


def dropout_forward(
    x: Array,  # any shape
    rate: float,
    seed: int,
) -> Array:  # y, the same shape
    """Return x / (1 - rate) where the mask keeps, 0 elsewhere.

    The scale makes the expectation of y equal to x, so that nothing has to change at evaluation.
    """
    if rate == 0:
        return x
    keep = keep_mask(x.shape, rate, seed, x)
    return np.where(keep, x * x.dtype.type(1 / (1 - rate)), x.dtype.type(0))


def dropout_backward(
    dy: Array,  # any shape
    rate: float,
    seed: int,
) -> Array:  # dx, the same shape
    """Send a gradient back through dropout.

    y = k x with a constant k, 0 or 1 / (1 - rate), for each element, so dx = k dy: the forward
    again, with the same mask.
    """
    return dropout_forward(dy, rate, seed)
