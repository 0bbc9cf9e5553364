"""Add & norm: y = LayerNorm(residual + dropout(x)), what closes each half of an encoder layer.

The residual gives the gradient a path around the sub-layer; BERT normalises after the addition
("post-LN").  Source: Vaswani et al., Attention Is All You Need (2017), section 3.1 and 5.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from minibert.arrays import Array, check_float, check_shape
from minibert.keys import Key
from minibert.layers.dropout import dropout_backward, dropout_forward
from minibert.layers.layernorm import layernorm_backward, layernorm_forward
from minibert.params import Scope

if TYPE_CHECKING:
    from minibert.ops import Ops


def add_norm_forward(
    x: Array,  # (..., C), the sub-layer's output
    residual: Array,  # (..., C), the sub-layer's input
    weight: Array,  # (C,)
    bias: Array,  # (C,)
    eps: float,
    rate: float,
    seed: int,
) -> tuple[Array, Array, Array]:  # y (..., C), x_hat (..., C), rstd (..., 1)
    """Return LayerNorm(residual + dropout(x)), and what LayerNorm's backward needs."""
    return layernorm_forward(residual + dropout_forward(x, rate, seed), weight, bias, eps)


def add_norm_backward(
    dy: Array,  # (..., C)
    x_hat: Array,  # (..., C)
    rstd: Array,  # (..., 1)
    weight: Array,  # (C,)
    rate: float,
    seed: int,
) -> tuple[Array, Array, Array, Array]:  # dx (..., C), dresidual (..., C), dweight, dbias (C,)
    """Send a gradient back through the normalisation, then to both terms of the sum.

    With s = residual + dropout(x) the sum hands ds to both: dresidual = ds, and dx is ds through
    dropout's backward.  The residual's share is what is easily forgotten.
    """
    ds, dweight, dbias = layernorm_backward(dy, x_hat, rstd, weight)
    return dropout_backward(ds, rate, seed), ds, dweight, dbias


class AddNormCache(NamedTuple):
    x_hat: Array  # (..., C)
    rstd: Array  # (..., 1)
    rate: float
    seed: int


class AddNorm:
    """The LayerNorm's weight and bias, with the dropout rate of the branch that is added."""

    def __init__(self, scope: Scope, width: int, eps: float, rate: float, ops: Ops) -> None:
        self.ops, self.eps, self.rate = ops, eps, rate
        self.weight = scope.declare("weight", (width,), init="ones", decay=False)
        self.bias = scope.declare("bias", (width,), init="zeros", decay=False)

    def forward(
        self,
        x: Array,  # (..., C)
        residual: Array,  # (..., C)
        key: Key | None,  # None: no dropout
    ) -> tuple[Array, AddNormCache]:  # y (..., C)
        check_float("x", x, like=self.weight.value)
        check_shape("x", x, (*x.shape[:-1], self.weight.shape[0]))
        check_float("residual", residual, like=self.weight.value)
        check_shape("residual", residual, x.shape)
        rate, seed = (self.rate, key.seed) if key else (0.0, 0)
        y, x_hat, rstd = self.ops.add_norm_forward(
            x, residual, self.weight.value, self.bias.value, self.eps, rate, seed
        )
        return y, AddNormCache(x_hat, rstd, rate, seed)

    def backward(self, dy: Array, cache: AddNormCache) -> tuple[Array, Array]:  # dx, dresidual
        check_shape("dy", dy, cache.x_hat.shape)
        x_hat, rstd, rate, seed = cache
        dx, dresidual, dweight, dbias = self.ops.add_norm_backward(
            dy, x_hat, rstd, self.weight.value, rate, seed
        )
        self.weight.accumulate(dweight)
        self.bias.accumulate(dbias)
        return dx, dresidual
