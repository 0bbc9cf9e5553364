"""Matrix products: C = α A B + bias, for operands of any size, either of them transposed.

Three things make a product fast.

1. Registers: ``add_tile`` computes MR x NR elements of C at once (see tile.py).
2. Packing: B is copied into panels of NR columns, in the order in which the tile reads it, so that
   it streams through memory line after line.  A transposed operand is no harder: it is read in its
   own order once, while packing.  Panels are padded with zeros to full width, so the tile knows no
   edges.  A is read six numbers at a time from six rows, which is as good as packed; only where it
   is transposed, or a panel of rows juts out over its edge, is it packed too.
3. Blocking: pieces are cut so that what is used again is found in a cache.

        for each chunk of CHUNK columns of B, and each piece of DEPTH steps of K:
            pack the chunk                           stays in the second-level cache
            for each block of BLOCK panels of A:     stays there too
                for each panel of B:                 stays in the first-level cache
                    for each panel of A:
                        tile                         in registers

Each thread has a rectangle of C to itself, and packs what it needs.  An element of C belongs to one
thread and its sum over k runs in one order, so the bytes are the same for any number of threads.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from minibert.arrays import Array
from minibert.ops.cpu.jit import kernel, parallel
from minibert.ops.cpu.memory import empty
from minibert.ops.cpu.threads import launch, threads_for
from minibert.ops.cpu.tile import MR, add_tile, copy_tile_row, tile_width

DEPTH = 256  # steps of K in a piece
CHUNK = 256  # columns of B in a chunk
BLOCK = 16  # panels of A in a block


@kernel
def pack_b(b, transposed, column, columns, k0, depth, packed):
    """Copy a piece of a chunk of B, (K, N) or (N, K) transposed, into panels (n, DEPTH, NR)."""
    width = tile_width(b)
    whole, rest = columns // width, columns % width
    if rest > 0:
        packed[whole, :depth] = 0
    if transposed:
        for j in range(columns):
            row, panel, place = b[column + j][k0 : k0 + depth], packed[j // width], j % width
            for k in range(depth):
                panel[k, place] = row[k]
    else:
        for k in range(depth):
            row = b[k0 + k][column : column + columns]
            for panel in range(whole):
                copy_tile_row(row, panel * width, packed[panel, k], 0)
            for j in range(rest):
                packed[whole, k, j] = row[whole * width + j]


@kernel
def pack_a(a, transposed, row, rows, k0, depth, alpha, packed):
    """Copy alpha times a piece of a block of A, (M, K) or (K, M), into panels (n, DEPTH, MR)."""
    whole, rest = rows // MR, rows % MR
    if rest > 0:
        packed[whole, :depth] = 0
    if transposed:
        for panel in range(whole):
            for k in range(depth):
                source, target = a[k0 + k][row + panel * MR :], packed[panel, k]
                for r in range(MR):
                    target[r] = alpha * source[r]
        for k in range(depth):
            for r in range(rest):
                packed[whole, k, r] = alpha * a[k0 + k, row + whole * MR + r]
    else:
        for r in range(rows):
            line, panel, place = a[row + r][k0 : k0 + depth], packed[r // MR], r % MR
            for k in range(depth):
                panel[k, place] = alpha * line[k]


@kernel
def start_with_bias(bias, c, row, rows, column, columns):
    for r in range(rows):
        target, source = c[row + r][column : column + columns], bias[column : column + columns]
        for j in range(columns):
            target[j] = source[j]


@kernel
def multiply_block(
    a, in_place, packed_a, packed_b, bias, c, row, rows, column, columns, k0, depth, edge
):
    """Add one piece of K to the block of C at (row, column)."""
    width = tile_width(c)
    M, N = c.shape
    K = a.shape[1]
    for j in range((columns + width - 1) // width):
        at_b, j0 = j * DEPTH * width, column + j * width
        wide = min(width, N - j0)
        if k0 == 0:
            start_with_bias(bias, c, row, rows, j0, wide)
        for i in range((rows + MR - 1) // MR):
            i0 = row + i * MR
            high = min(MR, M - i0)
            at_a, at_c = i * DEPTH * MR, i0 * N + j0
            if high == MR and wide == width:
                if in_place:
                    at_a = i0 * K + k0
                    add_tile(a, at_a, K, 1, packed_b, at_b, width, depth, c, at_c, N)
                else:
                    add_tile(packed_a, at_a, 1, MR, packed_b, at_b, width, depth, c, at_c, N)
            else:  # the tile juts out over the edge of C
                if in_place:
                    pack_a(a, False, i0, high, k0, depth, c.dtype.type(1), packed_a[i : i + 1])
                edge[:] = 0
                add_tile(packed_a, at_a, 1, MR, packed_b, at_b, width, depth, edge, 0, width)
                for r in range(high):
                    for n in range(wide):
                        c[i0 + r, j0 + n] += edge[r, n]


@kernel
def multiply_rectangle(
    a, transpose_a, b, transpose_b, alpha, bias, c, i0, i1, j0, j1, packed_a, packed_b, edge
):
    """Compute rows i0 … i1 - 1 by columns j0 … j1 - 1 of C; both start at a panel's border.

    packed_a (BLOCK, DEPTH, MR), packed_b (CHUNK / NR, DEPTH, NR), edge (MR, NR).
    """
    K = a.shape[0] if transpose_a else a.shape[1]
    in_place = alpha == 1 and not transpose_a
    for chunk in range((j1 - j0 + CHUNK - 1) // CHUNK):
        column = j0 + chunk * CHUNK
        columns = min(CHUNK, j1 - column)
        for piece in range((K + DEPTH - 1) // DEPTH):
            k0 = piece * DEPTH
            depth = min(DEPTH, K - k0)
            pack_b(b, transpose_b, column, columns, k0, depth, packed_b)
            for block in range((i1 - i0 + BLOCK * MR - 1) // (BLOCK * MR)):
                row = i0 + block * BLOCK * MR
                rows = min(BLOCK * MR, i1 - row)
                if not in_place:
                    pack_a(a, transpose_a, row, rows, k0, depth, alpha, packed_a)
                multiply_block(
                    a, in_place, packed_a, packed_b, bias, c, row, rows, column, columns,
                    k0, depth, edge,
                )  # fmt: skip


@parallel
def product(a, transpose_a, b, transpose_b, alpha, bias, c, packed_a, packed_b, edge, down, across):
    """Give each worker one of down x across rectangles of C."""
    width = tile_width(c)
    M, N = c.shape
    row_panels, panels = (M + MR - 1) // MR, (N + width - 1) // width
    for worker in prange(down * across):
        i, j = worker // across, worker % across
        multiply_rectangle(
            a, transpose_a, b, transpose_b, alpha, bias, c,
            i * row_panels // down * MR, min(M, (i + 1) * row_panels // down * MR),
            j * panels // across * width, min(N, (j + 1) * panels // across * width),
            packed_a[worker], packed_b[worker], edge[worker],
        )  # fmt: skip


def choose_grid(row_panels: int, panels: int, packs_a: bool, workers: int) -> tuple[int, int]:
    """Return into how many parts to cut C's rows and columns, at most ``workers`` in all.

    A worker multiplies its rectangle and packs its panels of B, perhaps of A; the grid is the one
    in which the largest share is least.  To pack a panel costs about as much as two tiles.
    """

    def largest_share(grid: tuple[int, int]) -> int:
        down, across = grid
        high, wide = -(-row_panels // down), -(-panels // across)
        return high * wide + 2 * wide + (2 * high if packs_a else 0)

    grids = [
        (down, min(workers // down, panels)) for down in range(1, min(workers, row_panels) + 1)
    ]
    return min(grids, key=largest_share)


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
    width, work = tile_width(a), M * N * K // 8
    packs_a = transpose_a or alpha != 1
    down, across = choose_grid(-(-M // MR), -(-N // width), packs_a, threads_for(work))
    workers = down * across
    launch(
        product, work,
        a, transpose_a, b, transpose_b, dtype.type(alpha), bias, c,
        empty((workers, BLOCK, DEPTH, MR), dtype),
        empty((workers, CHUNK // width, DEPTH, width), dtype),
        empty((workers, MR, width), dtype),
        down, across,
    )  # fmt: skip
    return c
