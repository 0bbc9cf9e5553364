"""Orthogonal matrices near given ones, for Muon: each thread works on a matrix of its own.

The matrices of a small model are so small that to share one among threads costs more than it saves.
"""

from __future__ import annotations

import numpy as np
from numba import prange

from minibert.arrays import Array
from minibert.ops import update as reference
from minibert.ops.cpu.activations import NOTHING
from minibert.ops.cpu.gemm import BLOCK, CHUNK, DEPTH, multiply_rectangle, panels_size
from minibert.ops.cpu.jit import kernel, parallel
from minibert.ops.cpu.memory import empty
from minibert.ops.cpu.threads import launch, threads_for
from minibert.ops.cpu.vectors import MR, tile_width
from minibert.ops.update import NOISE

LONG = 2
"""Columns for each row from which a matrix is long; 5 rounds break even at 1.5."""


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
def multiply(a, b, transpose_b, c, room):
    """Write A B or A Bᵀ to C, on this thread."""
    zeros, packed_a, packed_b, edge = room
    no = c.shape[0] < 0  # bare, a constant would be compiled for anew
    multiply_rectangle(
        a, no, b, transpose_b, zeros, no, c, np.int64(NOTHING), c, c,
        np.int64(0), c.shape[0], np.int64(0), c.shape[1], packed_a, packed_b, edge,
    )  # fmt: skip


@kernel
def newton_schulz(x, squares, y, coefficients, iterations, is_long, room):
    """Make x (M, N) orthogonal, round after round; squares (4, M, M) and y (M, N) are memory.

    A round multiplies x by a polynomial P of its Gram matrix G = X Xᵀ.  A long x is only read at
    the start and at the end: what it has to be multiplied by is the product of all P, and since
    polynomials of G commute, the next G is P G P.
    """
    a, b, c = coefficients
    gram, polynomial, product, spare = squares[0], squares[1], squares[2], squares[3]
    M, yes, no = x.shape[0], x.shape[0] >= 0, x.shape[0] < 0
    for n in range(iterations):
        if n == 0 or not is_long:
            multiply(x, x, yes, gram, room)
        else:
            multiply(gram, polynomial, no, spare, room)
            multiply(polynomial, spare, no, gram, room)
        multiply(gram, gram, no, polynomial, room)
        for i in range(M):
            for j in range(M):
                polynomial[i, j] = b * gram[i, j] + c * polynomial[i, j]
            polynomial[i, i] += a
        if not is_long:
            multiply(polynomial, x, no, y, room)
            x[:] = y
        elif n == 0:
            product[:] = polynomial
        else:
            multiply(polynomial, product, no, spare, room)
            product[:] = spare
    if is_long and iterations > 0:
        multiply(product, x, no, y, room)
        x[:] = y


@parallel
def newton_schulz_all(x, squares, y, coefficients, iterations, zeros, packed_a, packed_b, edge):
    workers, is_long = y.shape[0], x.shape[2] >= LONG * x.shape[1]
    for worker in prange(workers):
        room = zeros, packed_a[worker], packed_b[worker], edge[worker]
        for n in range(worker, x.shape[0], workers):
            normalise(x[n])
            newton_schulz(x[n], squares[worker], y[worker], coefficients, iterations, is_long, room)


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
            x, empty((workers, 4, M, M), dtype), empty((workers, M, N), dtype),
            tuple(dtype.type(number) for number in reference.NEWTON_SCHULZ), iterations,
            np.zeros(N + width, dtype),
            empty((workers, panels_size(highest, deepest, MR)), dtype),
            empty((workers, panels_size(min(CHUNK, N), deepest, width)), dtype),
            empty((workers, (MR + 1) * width), dtype),
        )  # fmt: skip
    return x if x.shape == matrices.shape else np.ascontiguousarray(x.swapaxes(1, 2))
