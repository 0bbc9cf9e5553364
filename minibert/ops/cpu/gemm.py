"""Matrix products: C = A B + bias, for operands of any size, either of them transposed.

Three things make a product fast.

1. Registers: ``add_tile`` computes MR x NR elements of C at once (see tile.py).
2. Packing: A and B are copied into panels, of MR rows of A and of NR columns of B, in the order in
   which the tile reads them.  A tile then runs straight through memory, and reads a cache line to
   its end.  A transposed operand is no harder: it is turned while it is packed.  Panels are padded
   with zeros to full width, so the tile knows no edges.
3. Blocking: pieces are cut so that what is used again is found in a cache.

        for each chunk of CHUNK columns of B, and each piece of DEPTH steps of K:
            pack the chunk                           stays in the last cache
            for each block of BLOCK panels of A:     packed, stays in the second-level cache
                for each panel of B:                 stays in the first-level cache
                    for each panel of A:
                        tile                         in registers

A block of C that is complete lies in the cache still, so what comes after the product is done to it
there (the ``Epilogue``, see activations.py), and not in another pass through memory.

Each thread has a rectangle of C to itself, and packs what it needs.  An element of C belongs to one
thread and its sum over k runs in one order, so the bytes are the same for any number of threads.

Source: Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication (2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import prange

from minibert.arrays import Array
from minibert.ops.cpu.activations import Epilogue, apply_rows, fused, run_alone, run_rest
from minibert.ops.cpu.jit import kernel, parallel
from minibert.ops.cpu.memory import empty, fit
from minibert.ops.cpu.threads import launch, threads_for
from minibert.ops.cpu.tile import add_tile, start_tile
from minibert.ops.cpu.vectors import MR, NV, copy_vector, tile_width, transpose_vectors

DEPTH = 256  # steps of K in a piece
CHUNK = 1024  # columns of B in a chunk
BLOCK = 24  # panels of A in a block
SLACK = 16  # elements behind a panel, for a vector that juts out


@kernel
def panel_size(depth, width):
    return depth * width + SLACK


def panels_size(lines: int, depth: int, width: int) -> int:
    """Return how many elements the panels of so many lines take."""
    return -(-lines // width) * (depth * width + SLACK)


@kernel
def pack_lines(x, first, count, k0, depth, width, packed):
    """Copy lines first … first + count - 1 of x (lines, K) into panels of ``width`` lines.

    A panel holds number k of all its lines, then number k + 1.  Squares are turned vector by
    vector; where they are wider than the panel, they jut out into what is written next.
    """
    K, lanes = x.shape[1], tile_width(x) // NV
    groups = (width + lanes - 1) // lanes
    for panel in range((count + width - 1) // width):
        at, line = panel * panel_size(depth, width), first + panel * width
        here, done = min(width, first + count - line), 0
        if here == width and line + groups * lanes <= x.shape[0]:
            done = depth // lanes * lanes
            for square in range(depth // lanes):
                k = square * lanes
                for group in range(groups - 1, -1, -1):
                    transpose_vectors(
                        x, (line + group * lanes) * K + k0 + k, K,
                        packed, at + k * width + group * lanes, width,
                    )  # fmt: skip
        for k in range(done, depth):
            for r in range(here):
                packed[at + k * width + r] = x[line + r, k0 + k]
            for r in range(here, width):
                packed[at + k * width + r] = 0


@kernel
def pack_columns(x, first, count, k0, depth, width, packed):
    """Copy columns first … first + count - 1 of x (K, columns) into panels, as ``pack_lines``."""
    N, lanes = x.shape[1], tile_width(x) // NV
    groups = (width + lanes - 1) // lanes
    whole = count // width
    if (
        whole > 0 and first + whole * width + groups * lanes - width > N
    ):  # would be read past its end
        whole -= 1
    for k in range(depth):
        for panel in range(whole):
            source = (k0 + k) * N + first + panel * width
            target = panel * panel_size(depth, width) + k * width
            for group in range(groups):
                copy_vector(x, source + group * lanes, packed, target + group * lanes)
    for panel in range(whole, (count + width - 1) // width):
        at, column = panel * panel_size(depth, width), first + panel * width
        here = min(width, first + count - column)
        for k in range(depth):
            for r in range(here):
                packed[at + k * width + r] = x[k0 + k, column + r]
            for r in range(here, width):
                packed[at + k * width + r] = 0


@kernel
def copy_edge(edge, width, start, c, row, rows, column, columns):
    """Bring what C has room for of a tile that juts out to its place, or add it to what is there.

    edge holds the tile, rows of ``width``.
    """
    for r in range(rows):
        for n in range(columns):
            part = edge[r * width + n]
            c[row + r, column + n] = part if start else c[row + r, column + n] + part


@kernel
def multiply_block(packed_a, packed_b, bias, start, c, row, rows, column, columns, depth, edge):
    """Add one piece of K to the block of C at (row, column), or start the block with it.

    What stands in A's and B's panels is a block's worth of lines, ``depth`` long.  bias (N,), with
    room behind it for a tile that juts out; edge, MR + 1 rows of NR, the last of them zeros.
    """
    width, N = tile_width(c), c.shape[1]
    for j in range((columns + width - 1) // width):
        at_b, j0 = j * panel_size(depth, width), column + j * width
        wide = min(width, column + columns - j0)
        for i in range((rows + MR - 1) // MR):
            at_a, i0 = i * panel_size(depth, MR), row + i * MR
            high = min(MR, row + rows - i0)
            if high < MR or wide < width:  # the tile juts out over the edge of C
                if start:
                    start_tile(
                        packed_a, at_a, 1, MR, packed_b, at_b, width, depth,
                        edge, 0, width, bias, j0,
                    )  # fmt: skip
                else:
                    start_tile(
                        packed_a, at_a, 1, MR, packed_b, at_b, width, depth,
                        edge, 0, width, edge, MR * width,
                    )  # fmt: skip
                copy_edge(edge, width, start, c, i0, high, j0, wide)
            elif start:
                start_tile(
                    packed_a, at_a, 1, MR, packed_b, at_b, width, depth,
                    c, i0 * N + j0, N, bias, j0,
                )  # fmt: skip
            else:
                add_tile(packed_a, at_a, 1, MR, packed_b, at_b, width, depth, c, i0 * N + j0, N)


@kernel
def multiply_rectangle(
    a, transpose_a, b, transpose_b, bias, add, c, which, x, out,
    i0, i1, j0, j1, packed_a, packed_b, edge,
):  # fmt: skip
    """Compute rows i0 … i1 - 1 by columns j0 … j1 - 1 of C; both start at a panel's border.

    packed_a and packed_b hold a block of A and a chunk of B; edge as in ``multiply_block``; which,
    x and out as in ``apply_rows``.
    """
    K = a.shape[0] if transpose_a else a.shape[1]
    width = tile_width(c)
    edge[:] = 0
    for chunk in range((j1 - j0 + CHUNK - 1) // CHUNK):
        column = j0 + chunk * CHUNK
        columns = min(CHUNK, j1 - column)
        for piece in range((K + DEPTH - 1) // DEPTH):
            k0 = piece * DEPTH
            depth = min(DEPTH, K - k0)
            if transpose_b:
                pack_lines(b, column, columns, k0, depth, width, packed_b)
            else:
                pack_columns(b, column, columns, k0, depth, width, packed_b)
            for block in range((i1 - i0 + BLOCK * MR - 1) // (BLOCK * MR)):
                row = i0 + block * BLOCK * MR
                rows = min(BLOCK * MR, i1 - row)
                if transpose_a:
                    pack_columns(a, row, rows, k0, depth, MR, packed_a)
                else:
                    pack_lines(a, row, rows, k0, depth, MR, packed_a)
                multiply_block(
                    packed_a, packed_b, bias, k0 == 0 and not add,
                    c, row, rows, column, columns, depth, edge,
                )  # fmt: skip
                if k0 + depth == K:
                    apply_rows(which, x, out, row, rows, column, columns)


@parallel
def product(
    a, transpose_a, b, transpose_b, bias, add, c, which, x, out, packed, split, edge, down, across
):
    """Give each worker one of down x across rectangles of C, and memory for panels, A's first."""
    width = tile_width(c)
    M, N = c.shape
    row_panels, panels = (M + MR - 1) // MR, (N + width - 1) // width
    for worker in prange(down * across):
        i, j = worker // across, worker % across
        multiply_rectangle(
            a, transpose_a, b, transpose_b, bias, add, c, which, x, out,
            i * row_panels // down * MR, min(M, (i + 1) * row_panels // down * MR),
            j * panels // across * width, min(N, (j + 1) * panels // across * width),
            packed[worker, :split], packed[worker, split:], edge[worker],
        )  # fmt: skip


def choose_grid(row_panels: int, panels: int, workers: int) -> tuple[int, int]:
    """Return into how many parts to cut C's rows and columns, at most ``workers`` in all.

    A worker multiplies its rectangle, and packs its panels of B and of A; the grid is the one in
    which the largest share is least.  To pack a panel costs about as much as a tile.
    """

    def largest_share(grid: tuple[int, int]) -> int:
        down, across = grid
        high, wide = -(-row_panels // down), -(-panels // across)
        return high * wide + wide + high

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
    add_to: Array | None = None,  # (M, N), fit; changed
    epilogue: Epilogue | None = None,
) -> Array:  # (M, N)
    """Return A B + bias, or add A B to an array; sizes must be checked, all dtypes the same.

    The epilogue is done to the result.
    """
    return product_of(
        fit(a), fit(b), bias,
        transpose_a=transpose_a, transpose_b=transpose_b, dtype=a.dtype, add_to=add_to,
        epilogue=epilogue,
    )  # fmt: skip


def product_of(
    a: Array,
    b: Array,
    bias: Array | None,
    *,
    transpose_a: bool,
    transpose_b: bool,
    dtype: np.dtype[Any],
    add_to: Array | None = None,
    epilogue: Epilogue | None = None,
) -> Array:
    """Do what ``matmul`` does, for fit operands of ``dtype``, or with pairs of bfloat16 along K."""
    K, M = a.shape if transpose_a else a.shape[::-1]
    N = b.shape[0] if transpose_b else b.shape[1]
    width = tile_width(a)
    c = empty((M, N), dtype) if add_to is None else add_to
    if c.size == 0:
        return c
    if K == 0:
        if add_to is None:
            c[:] = 0 if bias is None else bias
        run_alone(epilogue, c)
        return c
    row_panels, panels = -(-M // MR), -(-N // width)
    start = np.zeros(panels * width, dtype)  # as wide as the panels are
    if bias is not None:
        start[:N] = bias
    work = M * N * K // 8
    down, across = choose_grid(row_panels, panels, threads_for(work))
    workers, deepest = down * across, min(DEPTH, K)
    highest = min(BLOCK, -(-row_panels // down)) * MR
    widest = min(CHUNK, -(-panels // across) * width)
    split = panels_size(highest, deepest, MR)
    split += -split % 16  # both parts begin with a cache line
    launch(
        product, work,
        a, transpose_a, b, transpose_b, start, add_to is not None, c,
        *fused(epilogue, c),
        empty((workers, split + panels_size(widest, deepest, width)), a.dtype), split,
        empty((workers, (MR + 1) * width), dtype),
        down, across,
    )  # fmt: skip
    run_rest(epilogue, c)
    return c
