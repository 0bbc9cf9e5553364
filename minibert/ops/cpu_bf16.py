"""The numba backend, with matrix products of bfloat16 numbers, summed in float32.

A bfloat16 is a float32 without its last 16 bits: the same range, 8 bits of precision.  Two of them
fit where one float32 did, so a processor that knows them multiplies more at once:

    AMX           a matrix unit, Intel's since 2023: products at three times float32's rate and
                  more, a step of "mini" in half the time; under Linux (see ``gemm_amx``)
    AVX512_BF16   an instruction for vectors of pairs (see ``pairs``): on AMD's, since Zen 4, twice
                  float32's rate; on Intel's no more than float32's, and rounding takes time too

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
from minibert.ops.cpu.activations import Epilogue
from minibert.ops.cpu.amx import has_matrix_unit
from minibert.ops.cpu.cross_entropy import vocab_backward_by, vocab_forward_by
from minibert.ops.cpu.feedforward import feedforward_backward_by, feedforward_forward_by
from minibert.ops.cpu.gemm import matmul as exact_matmul
from minibert.ops.cpu.gemm import product_of
from minibert.ops.cpu.linear import linear_backward_by, linear_forward_by
from minibert.ops.cpu.memory import fit
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
    epilogue: Epilogue | None = None,
) -> Array:  # (M, N)
    """Return A B + bias, with the operands' numbers rounded; of float64 operands, the exact one."""
    if a.dtype == np.float64:
        return exact_matmul(
            a, b, bias, transpose_a=transpose_a, transpose_b=transpose_b, epilogue=epilogue
        )
    if has_matrix_unit():
        return gemm_amx.matmul(
            a, b, bias, transpose_a=transpose_a, transpose_b=transpose_b, epilogue=epilogue
        )
    return product_of(
        pairs(fit(a), across=transpose_a),
        pairs(fit(b), across=not transpose_b),
        bias,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
        dtype=a.dtype,
        epilogue=epilogue,
    )


linear_forward = partial(linear_forward_by, matmul)
linear_backward = partial(linear_backward_by, matmul)
feedforward_forward = partial(feedforward_forward_by, matmul)
feedforward_backward = partial(feedforward_backward_by, matmul)
vocab_cross_entropy_forward = partial(vocab_forward_by, matmul)
vocab_cross_entropy_backward = partial(vocab_backward_by, matmul)
