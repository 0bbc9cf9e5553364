"""The way to a fast matrix product, in five steps: C = A B, A (M, K), B (K, N), float32.

Each step removes what held the one before it back.  All are compiled by numba and run on one
thread; ``python benchmarks/matmul.py --ladder`` measures them.

    1 naive        three loops, as the formula says
    2 vectorised   another order of the loops, so that the inner one goes along rows
    3 unrolled     four steps of k in one pass over C
    4 tiled        a tile of C stays in registers while k runs over all of K
    5 packed       the tile reads B from memory in the order in which it needs it

The last two use the innermost step of minibert's own product (minibert/ops/cpu/tile.py), and the
last one is that product.
"""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np

from minibert.arrays import Array
from minibert.ops.cpu.gemm import matmul
from minibert.ops.cpu.tile import add_tile
from minibert.ops.cpu.vectors import MR, NR32


@numba.njit
def add_naive(a, b, c):
    """Each element of C is a row of A times a column of B.

    The column's numbers lie N apart, so each is fetched from another line of memory; and a sum has
    to be added up in its order, one number at a time.
    """
    M, N, K = a.shape[0], b.shape[1], a.shape[1]
    for i in range(M):
        for j in range(N):
            total = np.float32(0)
            for k in range(K):
                total += a[i, k] * b[k, j]
            c[i, j] += total


@numba.njit(fastmath={"contract"})
def add_vectorised(a, b, c):
    """The loop over j comes last: rows of B and C are read in order, many numbers at once.

    "contract" lets the compiler make one instruction of a product and a sum.  Yet for each of
    them, C is loaded and stored again.
    """
    for i in range(a.shape[0]):
        row = c[i]
        for k in range(a.shape[1]):
            factor, other = a[i, k], b[k]
            for j in range(row.shape[0]):
                row[j] += factor * other[j]


@numba.njit(fastmath={"contract"})
def add_unrolled(a, b, c):
    """Four rows of B are added in one pass, so C is loaded and stored a quarter as often."""
    K = a.shape[1]
    whole = K - K % 4
    for i in range(a.shape[0]):
        row = c[i]
        for k in range(0, whole, 4):
            a0, a1, a2, a3 = a[i, k], a[i, k + 1], a[i, k + 2], a[i, k + 3]
            b0, b1, b2, b3 = b[k], b[k + 1], b[k + 2], b[k + 3]
            for j in range(row.shape[0]):
                row[j] += a0 * b0[j] + a1 * b1[j] + a2 * b2[j] + a3 * b3[j]
        for k in range(whole, K):
            factor, other = a[i, k], b[k]
            for j in range(row.shape[0]):
                row[j] += factor * other[j]


@numba.njit
def add_tiled(a, b, c):
    """MR x NR elements of C are summed in registers, and memory sees them once.

    A number of A now serves NR products, one of B serves MR.  But the rows of B that a tile needs
    lie N apart, each on another page of memory, and for every tile they are fetched anew.  M has to
    be a multiple of MR, N of NR.
    """
    M, N, K = a.shape[0], b.shape[1], a.shape[1]
    for j in range(0, N, NR32):
        for i in range(0, M, MR):
            #        A from   row  k   B from  k       C from      row
            add_tile(a, i * K, K, 1, b, j, N, K, c, i * N + j, N)


def naive(a: Array, b: Array) -> Array:
    return summed(add_naive, a, b)


def vectorised(a: Array, b: Array) -> Array:
    return summed(add_vectorised, a, b)


def unrolled(a: Array, b: Array) -> Array:
    return summed(add_unrolled, a, b)


def tiled(a: Array, b: Array) -> Array:
    """Zeros round A and B make the tiles fit; they cost little, and are cut off again."""
    M, N = a.shape[0], b.shape[1]
    wide_a = np.pad(a, ((0, -M % MR), (0, 0)))
    wide_b = np.pad(b, ((0, 0), (0, -N % NR32)))
    return np.ascontiguousarray(summed(add_tiled, wide_a, wide_b)[:M, :N])


def packed(a: Array, b: Array) -> Array:
    return matmul(a, b)


def summed(add: Callable[[Array, Array, Array], None], a: Array, b: Array) -> Array:
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    add(a, b, c)
    return c


STEPS: dict[str, Callable[[Array, Array], Array]] = {
    "naive": naive,
    "vectorised": vectorised,
    "unrolled": unrolled,
    "tiled": tiled,
    "packed": packed,
}
