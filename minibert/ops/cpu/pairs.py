"""Pairs of bfloat16 numbers, as matrix products take them.

Numbers 2k and 2k + 1 along K share 32 bits, the first in the lower half: the processor multiplies
both by another pair and adds both products to one sum, in one instruction.  An odd K ends in half a
pair, whose other half is 0.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from minibert.arrays import Array
from minibert.ops.cpu.jit import inlined, kernel, parallel
from minibert.ops.cpu.memory import empty
from minibert.ops.cpu.threads import launch

SHARE = 32  # rows to a chunk of work


@inlined
def rounded(x):
    """Return the 16 bits of the nearest bfloat16, the even one of two; NaN stays NaN."""
    bits = np.int32(np.float32(x).view(np.int32))
    odd = np.int32(np.int32(bits >> np.int32(16)) & np.int32(1))
    up = np.int32(np.int32(bits + np.int32(0x7FFF)) + odd)
    kept = up if x == x else np.int32(bits | np.int32(0x400000))
    return np.int32(np.int32(kept >> np.int32(16)) & np.int32(0xFFFF))


@kernel
def pair_row(x, out):  # (K,) → (K / 2,), rounded up
    for k in range(x.shape[0] // 2):
        out[k] = np.int32(rounded(x[2 * k]) | np.int32(rounded(x[2 * k + 1]) << np.int32(16)))
    if x.shape[0] % 2 == 1:
        out[x.shape[0] // 2] = rounded(x[x.shape[0] - 1])


@kernel
def pair_rows(first, second, out):  # all (N,)
    for n in range(out.shape[0]):
        out[n] = np.int32(rounded(first[n]) | np.int32(rounded(second[n]) << np.int32(16)))


@parallel
def pair_all(x, across, out):
    """x (M, K) → out (M, K / 2), or across rows: x (K, N) → out (K / 2, N); rounded up."""
    for share in prange((out.shape[0] + SHARE - 1) // SHARE):
        for i in range(share * SHARE, min(out.shape[0], (share + 1) * SHARE)):
            if not across:
                pair_row(x[i], out[i])
            elif 2 * i + 1 < x.shape[0]:
                pair_rows(x[2 * i], x[2 * i + 1], out[i])
            else:
                for n in range(out.shape[1]):
                    out[i, n] = rounded(x[2 * i, n])


def pairs(
    x: Array,  # (M, K), or (K, N) if ``across``; float32, fit
    *,
    across: bool,
) -> Array:  # int32 (M, K / 2) or (K / 2, N), rounded up
    """Return the numbers along K in pairs of bfloat16."""
    rows, columns = x.shape
    shape = (-(-rows // 2), columns) if across else (rows, -(-columns // 2))
    out = empty(shape, np.dtype(np.int32))
    if out.size:
        launch(pair_all, x.size, x, across, out)
    return out
