"""The numba backend, with matrix products of bfloat16 numbers, summed in float32.

A bfloat16 is a float32 without its last 16 bits: the same range, 8 bits of precision.  Some
processors multiply pairs of them twice as fast (AVX512_BF16), and they take half the memory.  Only
the operands of linear layers and of the vocabulary's scores are rounded, each time they are
multiplied.  Weights, moments, sums, attention, LayerNorm, softmax and loss stay in float32, so
small steps are not lost in large weights.

Source: Kalamkar et al., A Study of BFLOAT16 for Deep Learning Training (2019).
"""

from __future__ import annotations

import numpy as np

from minibert.arrays import Array
from minibert.ops import cpu
from minibert.ops.cpu import *  # noqa: F403
from minibert.ops.cpu.cross_entropy import vocab_backward_by, vocab_forward_by
from minibert.ops.cpu.gemm import matmul as exact_matmul
from minibert.ops.cpu.gemm import product_of
from minibert.ops.cpu.linear import backward_by, forward_by
from minibert.ops.cpu.pairs import pairs

name = "numba-bf16"

__all__ = cpu.__all__  # pyright: ignore[reportUnsupportedDunderAll]


def matmul(
    a: Array,  # (M, K), or (K, M) if transposed
    b: Array,  # (K, N), or (N, K) if transposed
    bias: Array | None = None,  # (N,)
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Array:  # (M, N)
    """Return A B + bias, with the operands' numbers rounded; of float64 operands, the exact one."""
    if a.dtype == np.float64:
        return exact_matmul(a, b, bias, transpose_a=transpose_a, transpose_b=transpose_b)
    return product_of(
        pairs(a, across=transpose_a),
        pairs(b, across=not transpose_b),
        bias,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        dtype=a.dtype,
    )


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
