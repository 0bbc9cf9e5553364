"""Layer normalisation: give every token's vector mean 0 and variance 1, then a learned scale.

Source: Ba, Kiros and Hinton, Layer Normalization (2016), equation 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from minibert.arrays import Array, check_float, check_shape
from minibert.params import Scope

if TYPE_CHECKING:
    from minibert.ops import Ops


def layernorm_forward(
    x: Array,  # (..., C)
    weight: Array,  # (C,), the paper's gain, often called γ
    bias: Array,  # (C,), often called β
    eps: float,
) -> tuple[Array, Array, Array]:  # y (..., C), x_hat (..., C), rstd (..., 1)
    """Return y = γ x̂ + β with x̂ = (x - mean) / √(variance + ε), and x̂ and 1/√… for backward.

    The variance divides by C, not C - 1, and ε stands inside the root: BERT has ε = 1e-12, which
    outside the root would be lost in rounding.
    """
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred * centred).mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt(variance + eps)
    x_hat = centred * rstd
    return x_hat * weight + bias, x_hat, rstd


def layernorm_backward(
    dy: Array,  # (..., C)
    x_hat: Array,  # (..., C)
    rstd: Array,  # (..., 1)
    weight: Array,  # (C,)
) -> tuple[Array, Array, Array]:  # dx (..., C), dweight (C,), dbias (C,)
    """Send a gradient back through the normalisation.

    y = γ x̂ + β, for every row alike:

        dγ = Σ_rows dy x̂        dβ = Σ_rows dy        dx̂ = dy γ

    x reaches x̂ along three paths: itself, the mean, and the variance.  With m = mean over C and
    x̂ = (x - m(x)) rstd:

        dx̂_j/dx_i = rstd (1[i=j] - 1/C - x̂_i x̂_j / C)
        =>  dx = rstd (dx̂ - m(dx̂) - x̂ m(dx̂ x̂))

    γ stands inside both means.  Taken outside, the formula is right only where γ is constant,
    as it is before the first step, so a test at γ = 1 cannot see the mistake.
    """
    C = dy.shape[-1]
    dx_hat = dy * weight
    mean = dx_hat.mean(axis=-1, keepdims=True)
    mean_x_hat = (dx_hat * x_hat).mean(axis=-1, keepdims=True)
    dx = rstd * (dx_hat - mean - x_hat * mean_x_hat)
    dweight = (dy * x_hat).reshape(-1, C).sum(axis=0)
    dbias = dy.reshape(-1, C).sum(axis=0)
    return dx, dweight, dbias


class LayerNormCache(NamedTuple):
    x_hat: Array  # (..., C)
    rstd: Array  # (..., 1)


class LayerNorm:
    """A learned scale and shift over the hidden width; neither is decayed."""

    def __init__(self, scope: Scope, width: int, eps: float, ops: Ops) -> None:
        self.ops, self.eps = ops, eps
        self.weight = scope.declare("weight", (width,), init="ones", decay=False)
        self.bias = scope.declare("bias", (width,), init="zeros", decay=False)

    def forward(self, x: Array) -> tuple[Array, LayerNormCache]:  # (..., C) → (..., C)
        check_float("x", x, like=self.weight.value)
        check_shape("x", x, (*x.shape[:-1], self.weight.shape[0]))
        y, x_hat, rstd = self.ops.layernorm_forward(x, self.weight.value, self.bias.value, self.eps)
        return y, LayerNormCache(x_hat, rstd)

    def backward(self, dy: Array, cache: LayerNormCache) -> Array:  # (..., C) → (..., C)
        check_shape("dy", dy, cache.x_hat.shape)
        dx, dweight, dbias = self.ops.layernorm_backward(dy, *cache, self.weight.value)
        self.weight.accumulate(dweight)
        self.bias.accumulate(dbias)
        return dx
