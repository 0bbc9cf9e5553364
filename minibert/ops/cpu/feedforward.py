"""The feed-forward: GELU runs in the products on either side of it, other activations behind them.

Forward, the first product bends each block of its result while the block lies in the cache, and
writes both; backward, the second product's gradient is multiplied by the slope in the same way.
"""

from __future__ import annotations

from minibert.arrays import Array, check_float, check_shape
from minibert.layers.activations import ACTIVATIONS
from minibert.layers.feedforward import check_feedforward
from minibert.ops.cpu.activations import KINDS, Epilogue
from minibert.ops.cpu.gemm import matmul
from minibert.ops.cpu.linear import Product, column_sums
from minibert.ops.cpu.memory import empty, fit, rows


def feedforward_forward(
    x: Array,  # (..., C)
    weight1: Array,  # (F, C)
    bias1: Array,  # (F,)
    weight2: Array,  # (C, F)
    bias2: Array,  # (C,)
    hidden_act: str,
) -> tuple[Array, Array, Array]:  # y (..., C), wide (..., F), bent (..., F)
    """Return y = act(x W₁ᵀ + b₁) W₂ᵀ + b₂, with what is before and behind the activation."""
    return feedforward_forward_by(matmul, x, weight1, bias1, weight2, bias2, hidden_act)


def feedforward_backward(
    dy: Array,  # (..., C)
    x: Array,  # (..., C)
    wide: Array,  # (..., F)
    bent: Array,  # (..., F)
    weight1: Array,  # (F, C)
    weight2: Array,  # (C, F)
    hidden_act: str,
) -> tuple[Array, Array, Array, Array, Array]:  # dx, dweight1, dbias1, dweight2, dbias2
    """Return the gradients of what went in."""
    return feedforward_backward_by(matmul, dy, x, wide, bent, weight1, weight2, hidden_act)


def feedforward_forward_by(
    product: Product,
    x: Array,
    weight1: Array,
    bias1: Array,
    weight2: Array,
    bias2: Array,
    hidden_act: str,
) -> tuple[Array, Array, Array]:
    """Do what ``feedforward_forward`` does, with one of several ways to multiply matrices."""
    check_feedforward(x, weight1, weight2, hidden_act)
    for name, bias, weight in (("bias1", bias1, weight1), ("bias2", bias2, weight2)):
        check_float(name, bias, like=weight)
        check_shape(name, bias, weight.shape[:1])
    rows_x, F = rows(x), len(weight1)
    bent = empty((len(rows_x), F), x.dtype)
    epilogue = Epilogue(KINDS[ACTIVATIONS[hidden_act][0]], bent)
    wide = product(rows_x, fit(weight1), fit(bias1), transpose_b=True, epilogue=epilogue)
    y = product(bent, fit(weight2), fit(bias2), transpose_b=True)
    shape = (*x.shape[:-1], F)
    return y.reshape(x.shape), wide.reshape(shape), bent.reshape(shape)


def feedforward_backward_by(
    product: Product,
    dy: Array,
    x: Array,
    wide: Array,
    bent: Array,
    weight1: Array,
    weight2: Array,
    hidden_act: str,
) -> tuple[Array, Array, Array, Array, Array]:
    """Do what ``feedforward_backward`` does, with one of several ways to multiply matrices."""
    check_feedforward(x, weight1, weight2, hidden_act)
    check_float("dy", dy, like=x)
    check_shape("dy", dy, x.shape)
    for name, saved in (("wide", wide), ("bent", bent)):
        check_float(name, saved, like=x)
        check_shape(name, saved, (*x.shape[:-1], len(weight1)))
    rows_dy, rows_x = rows(dy), rows(x)
    epilogue = Epilogue(KINDS[ACTIVATIONS[hidden_act][1]], rows(wide))
    dwide = product(rows_dy, fit(weight2), epilogue=epilogue)
    dweight2 = product(rows_dy, rows(bent), transpose_a=True)
    dx = product(dwide, fit(weight1))
    dweight1 = product(dwide, rows_x, transpose_a=True)
    return dx.reshape(x.shape), dweight1, column_sums(dwide), dweight2, column_sums(rows_dy)
