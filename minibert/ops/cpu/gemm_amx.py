"""Matrix products in bfloat16 by the matrix unit (see amx.py): C = A B + bias, all in float32.

Packing and blocking are those of gemm.py, with two differences:

1. Numbers are rounded while they are packed, so no rounded copy is written and read again.
2. A panel is made of squares, 16 lines by 16 pairs along K, each of which fills a register.  The
   unit wants a line in each row of A's squares, and a pair along K in each row of B's.  A matrix
   may lie in memory either way, so a square is rounded in memory's order, and then turned where
   the other is wanted.

Panels are padded with zeros to full width and depth.  Bytes do not depend on the number of threads.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from minibert.arrays import Array
from minibert.ops.cpu.activations import Epilogue, apply_rows, fused, run_alone, run_rest
from minibert.ops.cpu.amx import (
    LINES,
    SIDE,
    SQUARE,
    STEP,
    configure_registers,
    multiply_tile,
    release_registers,
)
from minibert.ops.cpu.gemm import choose_grid, copy_edge
from minibert.ops.cpu.jit import kernel, parallel
from minibert.ops.cpu.memory import empty, fit
from minibert.ops.cpu.pairs import pair_across, pair_along, rounded
from minibert.ops.cpu.threads import launch, threads_for
from minibert.ops.cpu.vectors import NV, tile_width, transpose_vectors

DEPTH = 512  # steps of K in a piece: a panel of one fills most of the first-level cache
CHUNK = 1024  # columns of B in a chunk
BLOCK = 24  # panels of A in a block


@kernel
def round_square(x, across, line, lines, k, depth, out, at):
    """Round lines x depth numbers of x, 16 x 32 at most, into a square of pairs; the rest is 0.

    x (lines, K) becomes a square [line, pair]; across, x (K, lines) becomes [pair, line].
    """
    row = x.shape[1]
    if lines >= SIDE and depth >= STEP:
        for i in range(SIDE):
            if across:
                first = (k + 2 * i) * row + line
                pair_across(x, first, first + row, out, at + i * SIDE)
            else:
                pair_along(x, (line + i) * row + k, out, at + i * SIDE)
        return
    for i in range(SQUARE):
        out[at + i] = 0
    for r in range(min(lines, SIDE)):
        for step in range(min(depth, STEP)):
            number = rounded(x[k + step, line + r] if across else x[line + r, k + step])
            place = step // 2 * SIDE + r if across else r * SIDE + step // 2
            out[at + place] |= np.int32(number << np.int32(step % 2 * 16))


@kernel
def turn_square(square, out, at):
    """Copy a square, its rows becoming columns."""
    lanes = tile_width(square) // NV
    for i in range(0, SIDE, lanes):
        for j in range(0, SIDE, lanes):
            transpose_vectors(square, i * SIDE + j, SIDE, out, at + j * SIDE + i, SIDE)


@kernel
def pack(x, across, turned, first, count, k0, depth, packed, square):
    """Round lines first … first + count - 1 of x, ``depth`` long, into panels of LINES lines.

    Where lines are rows of x, one panel is filled after the other; where they are columns, all are
    filled step by step: so x is read in its own order.  Those to be ``turned`` are rounded into
    ``square`` first.
    """
    steps, panels = (depth + STEP - 1) // STEP, (count + LINES - 1) // LINES
    for number in range(steps * panels):
        panel = number % panels if across else number // steps
        step = number // panels if across else number % steps
        for half in range(2):
            at = ((panel * steps + step) * 2 + half) * SQUARE
            line = panel * LINES + half * SIDE
            k, left = k0 + step * STEP, depth - step * STEP
            if turned:
                round_square(x, across, first + line, count - line, k, left, square, 0)
                turn_square(square, packed, at)
            else:
                round_square(x, across, first + line, count - line, k, left, packed, at)


@kernel
def multiply_block(packed_a, packed_b, bias, start, c, row, rows, column, columns, steps, edge):
    """Add one piece of K to the block of C at (row, column), or start the block with it.

    bias (N,), with room behind it for a tile that juts out; edge, LINES + 1 rows of LINES, the
    last of them zeros.
    """
    N = c.shape[1]
    panel = steps * 2 * SQUARE
    for j in range((columns + LINES - 1) // LINES):
        j0, wide = column + j * LINES, min(LINES, columns - j * LINES)
        for i in range((rows + LINES - 1) // LINES):
            i0, high = row + i * LINES, min(LINES, rows - i * LINES)
            if high < LINES or wide < LINES:  # the tile juts out over the edge of C
                if start:
                    multiply_tile(
                        packed_a, i * panel, packed_b, j * panel, steps,
                        bias, j0, 0, edge, 0, LINES,
                    )  # fmt: skip
                else:
                    multiply_tile(
                        packed_a, i * panel, packed_b, j * panel, steps,
                        edge, LINES * LINES, 0, edge, 0, LINES,
                    )  # fmt: skip
                copy_edge(edge, LINES, start, c, i0, high, j0, wide)
            elif start:
                multiply_tile(
                    packed_a, i * panel, packed_b, j * panel, steps,
                    bias, j0, 0, c, i0 * N + j0, N,
                )  # fmt: skip
            else:
                multiply_tile(
                    packed_a, i * panel, packed_b, j * panel, steps,
                    c, i0 * N + j0, N, c, i0 * N + j0, N,
                )  # fmt: skip


@kernel
def multiply_rectangle(
    a, transpose_a, b, transpose_b, bias, c, which, x, out,
    i0, i1, j0, j1, packed_a, packed_b, edge, square,
):  # fmt: skip
    """Compute rows i0 … i1 - 1 by columns j0 … j1 - 1 of C; both start at a panel's border."""
    K = a.shape[0] if transpose_a else a.shape[1]
    edge[:] = 0
    for chunk in range((j1 - j0 + CHUNK - 1) // CHUNK):
        column = j0 + chunk * CHUNK
        columns = min(CHUNK, j1 - column)
        for piece in range((K + DEPTH - 1) // DEPTH):
            k0 = piece * DEPTH
            depth = min(DEPTH, K - k0)
            across_b = not transpose_b
            pack(b, across_b, transpose_b, column, columns, k0, depth, packed_b, square)
            for block in range((i1 - i0 + BLOCK * LINES - 1) // (BLOCK * LINES)):
                row = i0 + block * BLOCK * LINES
                rows = min(BLOCK * LINES, i1 - row)
                pack(a, transpose_a, transpose_a, row, rows, k0, depth, packed_a, square)
                multiply_block(
                    packed_a, packed_b, bias, k0 == 0,
                    c, row, rows, column, columns, (depth + STEP - 1) // STEP, edge,
                )  # fmt: skip
                if k0 + depth == K:
                    apply_rows(which, x, out, row, rows, column, columns)


@parallel
def product(
    a, transpose_a, b, transpose_b, bias, c, which, x, out, packed, split, edge, down, across
):
    """Give each worker one of down x across rectangles of C, and memory for panels, A's first."""
    M, N = c.shape
    high, wide = (M + LINES - 1) // LINES, (N + LINES - 1) // LINES
    for worker in prange(down * across):
        i, j = worker // across, worker % across
        configure_registers()
        multiply_rectangle(
            a, transpose_a, b, transpose_b, bias, c, which, x, out,
            i * high // down * LINES, min(M, (i + 1) * high // down * LINES),
            j * wide // across * LINES, min(N, (j + 1) * wide // across * LINES),
            packed[worker, SQUARE:split], packed[worker, split:], edge[worker],
            packed[worker, :SQUARE],
        )  # fmt: skip
        release_registers()


def matmul(
    a: Array,  # (M, K), or (K, M) if transposed; float32
    b: Array,  # (K, N), or (N, K) if transposed
    bias: Array | None = None,  # (N,)
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    epilogue: Epilogue | None = None,
) -> Array:  # (M, N)
    """Return A B + bias, with A and B rounded; sizes must be checked."""
    K, M = a.shape if transpose_a else a.shape[::-1]
    N = b.shape[0] if transpose_b else b.shape[1]
    c = empty((M, N), a.dtype)
    if c.size == 0:
        return c
    if K == 0:
        c[:] = 0 if bias is None else bias
        run_alone(epilogue, c)
        return c
    high, wide = -(-M // LINES), -(-N // LINES)
    start = np.zeros(wide * LINES, a.dtype)  # as wide as the panels are
    if bias is not None:
        start[:N] = bias
    work = M * N * K // 8
    down, across = choose_grid(high, wide, threads_for(work))
    workers, steps = down * across, -(-min(DEPTH, K) // STEP)
    split = SQUARE + min(BLOCK, -(-high // down)) * steps * 2 * SQUARE
    size = split + min(CHUNK // LINES, -(-wide // across)) * steps * 2 * SQUARE
    launch(
        product, work,
        fit(a), transpose_a, fit(b), transpose_b, start, c,
        *fused(epilogue, c),
        empty((workers, size), np.dtype(np.int32)), split,
        empty((workers, (LINES + 1) * LINES), a.dtype),
        down, across,
    )  # fmt: skip
    run_rest(epilogue, c)
    return c
