"""Orthogonal matrices near given ones, for Muon: each thread works on a matrix of its own.

The matrices of a small model are so small that to share one among threads costs more than it saves.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from minibert.arrays import Array
from minibert.ops import update as reference
from minibert.ops.cpu.gemm import BLOCK, CHUNK, DEPTH, multiply_rectangle, panels_size
from minibert.ops.cpu.jit import kernel, parallel
from minibert.ops.cpu.memory import empty
from minibert.ops.cpu.threads import launch, threads_for
from minibert.ops.cpu.vectors import MR, tile_width
from minibert.ops.update import NOISE


@kernel
def normalise(x):  # (M, N), changed
    """Divide by the Frobenius norm, which no singular value exceeds, and a little more."""
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total += np.float64(x[i, j]) * np.float64(x[i, j])
    scale = x.dtype.type(1 / (np.sqrt(total) + NOISE))
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] *= scale


@kernel
def newton_schulz(x, gram, square, y, a, b, c, iterations, zeros, packed_a, packed_b, edge):
    """x, y (M, N), M <= N; gram, square (M, M); x is changed, and all others are memory."""
    M, N = x.shape
    zero, yes, no = np.int64(0), M >= 0, M < 0  # bare, a constant would be compiled for anew
    normalise(x)
    for _ in range(iterations):
        multiply_rectangle(
            x, no, x, yes, zeros, no, gram, zero, M, zero, M, packed_a, packed_b, edge
        )
        multiply_rectangle(
            gram, no, gram, no, zeros, no, square, zero, M, zero, M, packed_a, packed_b, edge
        )
        for i in range(M):
            for j in range(M):
                square[i, j] = b * gram[i, j] + c * square[i, j]
            square[i, i] += a
        multiply_rectangle(
            square, no, x, no, zeros, no, y, zero, M, zero, N, packed_a, packed_b, edge
        )
        x[:] = y


@parallel
def newton_schulz_all(x, grams, y, a, b, c, iterations, zeros, packed_a, packed_b, edge):
    workers = y.shape[0]
    for worker in prange(workers):
        for n in range(worker, x.shape[0], workers):
            newton_schulz(
                x[n], grams[worker, 0], grams[worker, 1], y[worker], a, b, c, iterations,
                zeros, packed_a[worker], packed_b[worker], edge[worker],
            )  # fmt: skip


def orthogonalize(
    matrices: Array,  # (n, M, N)
    iterations: int,
) -> Array:  # (n, M, N)
    """Return each matrix with its singular values near 1, as the reference does."""
    x = reference.lying(matrices, iterations).copy(order="C")
    n, M, N = x.shape
    if x.size:
        dtype, width = x.dtype, tile_width(x)
        work = n * iterations * M * M * (2 * N + M) // 8
        workers = min(threads_for(work), n)
        deepest, highest = min(DEPTH, max(M, N)), min(BLOCK * MR, M)
        launch(
            newton_schulz_all, work,
            x, empty((workers, 2, M, M), dtype), empty((workers, M, N), dtype),
            *(dtype.type(number) for number in reference.NEWTON_SCHULZ), iterations,
            np.zeros(N + width, dtype),
            empty((workers, panels_size(highest, deepest, MR)), dtype),
            empty((workers, panels_size(min(CHUNK, N), deepest, width)), dtype),
            empty((workers, (MR + 1) * width), dtype),
        )  # fmt: skip
    return x if x.shape == matrices.shape else np.ascontiguousarray(x.swapaxes(1, 2))
