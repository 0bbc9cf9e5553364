"""Memory for results: used again as soon as nobody holds the array that lay there before.

A step makes some 80 MB of arrays even in a small model, and drops them all.  The C library hands
large blocks back to the system and asks for fresh ones, which the system clears page by page: a
third of a small model's step.  So large results come from a pool.  A block is free again when the
pool alone refers to it: every array and every view made from it keeps a reference to it
(``.base``), and CPython counts references.
"""

from __future__ import annotations

import math
import sys
from threading import Lock
from typing import Any

import numpy as np

from minibert.arrays import Array

SMALL = 1 << 15  # bytes: the C library keeps blocks up to this size itself
SPARE = 1 << 28  # bytes that may lie unused before they are given back


class Pool:
    """Blocks of bytes, by size; each with the place of its first byte on a cache line's border."""

    def __init__(self) -> None:
        self.blocks: dict[int, list[tuple[Array, int]]] = {}
        self.held = 0  # bytes of all blocks, in use or idle
        self.lock = Lock()
        probe = [(np.empty(1, np.uint8), 0)]
        self.idle = sys.getrefcount(probe[0][0])  # the count of a block that only its tuple holds

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any], size: int) -> Array:
        """Return an uninitialised array of ``size`` bytes, in an old block if one is idle.

        Sizes are powers of 2, so that batches of many lengths use the same few blocks.  What lies
        behind the array costs nothing: the system gives memory only where something is written.
        """
        size = 1 << (size - 1).bit_length()
        with self.lock:
            blocks = self.blocks.setdefault(size, [])
            for i in range(len(blocks)):
                if sys.getrefcount(blocks[i][0]) == self.idle:
                    break
            else:
                if self.held > SPARE:
                    self.trim()
                self.held += size
                i, raw = len(blocks), np.empty(size + 64, np.uint8)
                blocks.append((raw, -raw.ctypes.data % 64))
                del raw
            return np.ndarray(shape, dtype, blocks[i][0], blocks[i][1])

    def trim(self) -> None:
        """Give idle blocks back once they are many: batches of their sizes may be over for good."""
        idle = {
            size: [i for i in range(len(blocks)) if sys.getrefcount(blocks[i][0]) == self.idle]
            for size, blocks in self.blocks.items()
        }
        if sum(size * len(places) for size, places in idle.items()) > SPARE:
            for size, places in idle.items():
                self.held -= size * len(places)
                for i in reversed(places):
                    del self.blocks[size][i]


POOL = Pool()


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an uninitialised array, like ``np.empty``."""
    size = math.prod(shape) * dtype.itemsize
    return np.empty(shape, dtype) if size < SMALL else POOL.take(shape, dtype, size)


def fit(array: Array) -> Array:
    """Return the array itself, or a copy if kernels could not read it as it is.

    Kernels are compiled for plain arrays: contiguous, aligned and writeable.  Every other kind
    would be another signature, and compiled once more.
    """
    array = np.asarray(array)
    return array if array.flags.carray else np.array(array, order="C")


def rows(array: Array) -> Array:  # (..., C) → (N, C)
    """Return a fit array with all axes but the last made one."""
    if array.ndim == 0:
        raise ValueError("got a single number, expected an array of at least one axis")
    width = array.shape[-1]
    return fit(array).reshape(array.size // width if width else 0, width)


def fit_ids(ids: Array) -> Array:  # int32, the same shape
    """Return checked ids as a fit array of int32."""
    return fit(ids.astype(np.int32, copy=False))
