"""The numba backend, with matrix products by NumPy's BLAS.

For machines whose BLAS is faster than our own product.  Two pools of threads then take turns, and
products are added to a bias in a second pass, so that has to be a good deal faster.
"""

from __future__ import annotations

import numpy as np

from minibert.arrays import Array
from minibert.ops import cpu
from minibert.ops.cpu import *  # noqa: F403
from minibert.ops.cpu.cross_entropy import vocab_backward_by, vocab_forward_by
from minibert.ops.cpu.linear import backward_by, forward_by
from minibert.ops.cpu.memory import empty

name = "numba-blas"

__all__ = cpu.__all__  # pyright: ignore[reportUnsupportedDunderAll]


def matmul(
    a: Array,  # (M, K), or (K, M) if transposed
    b: Array,  # (K, N), or (N, K) if transposed
    bias: Array | None = None,  # (N,)
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Array:  # (M, N)
    """Return A B + bias."""
    a, b = a.T if transpose_a else a, b.T if transpose_b else b
    c = np.matmul(a, b, out=empty((a.shape[0], b.shape[1]), a.dtype))
    if bias is not None:
        c += bias
    return c


def linear_forward(x: Array, weight: Array, bias: Array) -> Array:
    """Return y = x Wᵀ + b."""
    return forward_by(matmul, x, weight, bias)


def linear_backward(dy: Array, x: Array, weight: Array) -> tuple[Array, Array, Array]:
    """Return dx = dy W, dW = dyᵀ x and db."""
    return backward_by(matmul, dy, x, weight)


def vocab_cross_entropy_forward(
    x: Array, table: Array, bias: Array, labels: Array
) -> tuple[float, int, Array]:
    """Return the loss of logits = x Eᵀ + b, right answers, and the logits' gradient."""
    return vocab_forward_by(matmul, x, table, bias, labels)


def vocab_cross_entropy_backward(
    dloss: float, dlogits: Array, x: Array, table: Array
) -> tuple[Array, Array, Array]:
    """Return dloss times a linear layer's backward."""
    return vocab_backward_by(matmul, dloss, dlogits, x, table)
