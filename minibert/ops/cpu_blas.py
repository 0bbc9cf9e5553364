"""The numba backend, with matrix products by NumPy's BLAS.

For machines whose BLAS is faster than our own product.  Two pools of threads then take turns, and
products are added to a bias in a second pass, so that has to be a good deal faster.
"""

from __future__ import annotations

from functools import partial

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


linear_forward = partial(forward_by, matmul)
linear_backward = partial(backward_by, matmul)
vocab_cross_entropy_forward = partial(vocab_forward_by, matmul)
vocab_cross_entropy_backward = partial(vocab_backward_by, matmul)
