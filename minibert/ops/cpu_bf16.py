"""The numba backend, with matrix products of bfloat16 numbers, summed in float32.

A bfloat16 is a float32 without its last 16 bits: the same range, 8 bits of precision.  It takes
half the memory, and processors that know it multiply many at once.  Those with a matrix unit (AMX,
Intel's since 2023) make products at three times float32's rate and more, and a step of "mini" in
half the time; see ``gemm_amx``.  Others have one instruction for vectors of pairs (AVX512_BF16,
AMD's since Zen 4), which does twice the work of float32's; see ``pairs``.

Only the operands of linear layers and of the vocabulary's scores are rounded, each time they are
multiplied.  Weights, moments, sums, attention, LayerNorm, softmax and loss stay in float32, so
small steps are not lost in large weights.

Source: Kalamkar et al., A Study of BFLOAT16 for Deep Learning Training (2019).
"""

from __future__ import annotations

from functools import partial

import numpy as np

from minibert.arrays import Array
from minibert.ops import cpu
from minibert.ops.cpu import *  # noqa: F403
from minibert.ops.cpu import gemm_amx
from minibert.ops.cpu.amx import has_matrix_unit
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
    if has_matrix_unit():
        return gemm_amx.matmul(a, b, bias, transpose_a=transpose_a, transpose_b=transpose_b)
    return product_of(
        pairs(a, across=transpose_a),
        pairs(b, across=not transpose_b),
        bias,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        dtype=a.dtype,
    )


linear_forward = partial(forward_by, matmul)
linear_backward = partial(backward_by, matmul)
vocab_cross_entropy_forward = partial(vocab_forward_by, matmul)
vocab_cross_entropy_backward = partial(vocab_backward_by, matmul)
