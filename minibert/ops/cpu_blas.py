"""The numba backend, with matrix products by NumPy's BLAS.

For machines whose BLAS is faster than our own product.  Two pools of threads then take turns, and
bias and activation take passes of their own, so that has to be a good deal faster.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from minibert.arrays import Array
from minibert.ops import cpu
from minibert.ops.cpu import *  # noqa: F403
from minibert.ops.cpu.activations import Epilogue, run_alone
from minibert.ops.cpu.cross_entropy import vocab_backward_by, vocab_forward_by
from minibert.ops.cpu.feedforward import feedforward_backward_by, feedforward_forward_by
from minibert.ops.cpu.linear import linear_backward_by, linear_forward_by
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
    epilogue: Epilogue | None = None,
) -> Array:  # (M, N)
    """Return A B + bias."""
    a, b = a.T if transpose_a else a, b.T if transpose_b else b
    c = np.matmul(a, b, out=empty((a.shape[0], b.shape[1]), a.dtype))
    if bias is not None:
        c += bias
    run_alone(epilogue, c)
    return c


linear_forward = partial(linear_forward_by, matmul)
linear_backward = partial(linear_backward_by, matmul)
feedforward_forward = partial(feedforward_forward_by, matmul)
feedforward_backward = partial(feedforward_backward_by, matmul)
vocab_cross_entropy_forward = partial(vocab_forward_by, matmul)
vocab_cross_entropy_backward = partial(vocab_backward_by, matmul)
