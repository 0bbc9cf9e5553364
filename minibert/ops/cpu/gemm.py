"""Matrix products: C = α A B + bias, for operands of any size, either of them transposed.

Three things make a product fast, and each has a name of its own below.

1. Registers: ``tile`` computes MR x NR elements of C at once (see tile.py).
2. Packing: B is first copied into panels of NR columns, in the order in which the tile reads it,
   so that it streams through memory one line after the other.  A transposed operand is no harder:
   it is read in its own order, once, while packing.  Panels are padded with zeros to full width,
   so the tile knows no edges.
3. Blocking: K is cut into pieces of DEPTH, so that a piece of a panel of B (DEPTH x NR) stays in
   the first-level cache while it meets one panel of A (MR x DEPTH) after the other, and a block of
   BLOCK panels of A stays in the second-level cache.

        for each piece of K:                 C is read and written once for each piece
            for each panel of B:             in L1
                for each panel of A:         in L2
                    tile                     in registers

Threads share out blocks of C.  Each element of C belongs to one thread, and its sum over k runs
in one order, so the result has the same bytes for any number of threads.
"""

from __future__ import annotations

import numba
import numpy as np
from numba import prange

from minibert.arrays import Array
from minibert.ops.cpu.jit import kernel, parallel
from minibert.ops.cpu.memory import empty
from minibert.ops.cpu.tile import MR, add_tile, tile_width

DEPTH = 256
BLOCK = 16  # panels of A that a thread works on at once


@kernel
def pack_b(b, transposed, panel, packed):  # b (K, N), or (N, K) transposed; packed (K, NR)
    """Copy one panel of B, with zeros beyond its last column."""
    width = tile_width(b)
    K, N = b.shape[::-1] if transposed else b.shape
    first = panel * width
    count = min(width, N - first)
    if count < width:
        packed[:] = 0
    if transposed:
        for j in range(count):
            row = b[first + j]
            for k in range(K):
                packed[k, j] = row[k]
    elif count == width:
        for k in range(K):
            row = b[k, first : first + width]
            for j in range(width):
                packed[k, j] = row[j]
    else:
        for k in range(K):
            for j in range(count):
                packed[k, j] = b[k, first + j]


@kernel
def pack_a(a, transposed, row, k0, alpha, packed):  # a (M, K), or (K, M); packed (depth, MR)
    """Copy alpha times a piece of one panel of A, with zeros beyond its last row."""
    depth = packed.shape[0]
    count = min(MR, (a.shape[1] if transposed else a.shape[0]) - row)
    if count < MR:
        packed[:] = 0
    if transposed and count == MR:
        for k in range(depth):
            source = a[k0 + k, row : row + MR]
            for r in range(MR):
                packed[k, r] = alpha * source[r]
    elif transposed:
        for k in range(depth):
            for r in range(count):
                packed[k, r] = alpha * a[k0 + k, row + r]
    else:
        for r in range(count):
            source = a[row + r, k0 : k0 + depth]
            for k in range(depth):
                packed[k, r] = alpha * source[k]


@kernel
def block_product(
    a, transposed, alpha, packed_b, bias, c, i0, i1, j0, j1, packed_a, edge
):  # packed_a (BLOCK, DEPTH, MR), edge (MR, NR)
    """Compute panels i0 … i1 - 1 of rows by panels j0 … j1 - 1 of columns of C."""
    width = tile_width(c)
    M, N = c.shape
    K = packed_b.shape[1]
    for piece in range((K + DEPTH - 1) // DEPTH):
        k0 = piece * DEPTH
        depth = min(DEPTH, K - k0)
        for i in range(i1 - i0):
            pack_a(a, transposed, (i0 + i) * MR, k0, alpha, packed_a[i, :depth])
        for j in range(j0, j1):
            b0 = (j * K + k0) * width
            columns = min(width, N - j * width)
            if piece == 0:
                for row in range(i0 * MR, min(i1 * MR, M)):
                    target = c[row, j * width : j * width + columns]
                    for n in range(columns):
                        target[n] = bias[j * width + n]
            for i in range(i1 - i0):
                row = (i0 + i) * MR
                rows = min(MR, M - row)
                a0, c0 = i * DEPTH * MR, row * N + j * width
                if rows == MR and columns == width:
                    add_tile(packed_a, a0, 1, MR, packed_b, b0, width, depth, c, c0, N)
                else:  # the tile juts out over the edge of C
                    edge[:] = 0
                    add_tile(packed_a, a0, 1, MR, packed_b, b0, width, depth, edge, 0, width)
                    for r in range(rows):
                        for n in range(columns):
                            c[row + r, j * width + n] += edge[r, n]


@parallel
def product(
    a, transpose_a, b, transpose_b, alpha, bias, c, packed_b, packed_a, edge, down, across
):  # packed_b (panels, K, NR), packed_a (workers, BLOCK, DEPTH, MR), edge (workers, MR, NR)
    """Pack B, then deal out the down x across blocks of C among the workers."""
    panels, workers = packed_b.shape[0], packed_a.shape[0]
    row_panels = (c.shape[0] + MR - 1) // MR
    for j in prange(panels):
        pack_b(b, transpose_b, j, packed_b[j])
    for worker in prange(workers):
        for block in range(worker, down * across, workers):
            i, j = block // across, block % across
            block_product(
                a, transpose_a, alpha, packed_b, bias, c,
                i * row_panels // down, (i + 1) * row_panels // down,
                j * panels // across, (j + 1) * panels // across,
                packed_a[worker], edge[worker],
            )  # fmt: skip


def matmul(
    a: Array,  # (M, K), or (K, M) if transposed
    b: Array,  # (K, N), or (N, K) if transposed
    bias: Array | None = None,  # (N,)
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
) -> Array:  # (M, N)
    """Return alpha A B + bias.  Operands must be fit and of one dtype, and their sizes checked."""
    K, M = a.shape if transpose_a else a.shape[::-1]
    N = b.shape[0] if transpose_b else b.shape[1]
    dtype = a.dtype
    c = empty((M, N), dtype)
    if c.size == 0:
        return c
    if bias is None:
        bias = np.zeros(N, dtype)
    if K == 0:
        c[:] = bias
        return c
    width, workers = tile_width(a), numba.get_num_threads()
    row_panels, panels = -(-M // MR), -(-N // width)
    # enough blocks for all workers, and equally many for each
    down, across = -(-row_panels // BLOCK), 1
    if down >= workers:
        down = min(-(-down // workers) * workers, row_panels)
    else:
        across = min(-(-workers // down), panels)
    product(
        a, transpose_a, b, transpose_b, dtype.type(alpha), bias, c,
        empty((panels, K, width), dtype),
        empty((workers, BLOCK, DEPTH, MR), dtype),
        empty((workers, MR, width), dtype),
        down, across,
    )  # fmt: skip
    return c
