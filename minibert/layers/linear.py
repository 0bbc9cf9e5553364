"""The linear layer: every output is a weighted sum of all inputs, plus a bias.

x (N, C_in) → y (N, C_out), with N = B T rows flattened.  Weights lie as (C_out, C_in), one row
per output, the layout of PyTorch and of published checkpoints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from minibert.arrays import Array, check_float, check_shape
from minibert.params import Scope

if TYPE_CHECKING:
    from minibert.ops import Ops


def linear_forward(
    x: Array,  # (..., C_in)
    weight: Array,  # (C_out, C_in)
    bias: Array,  # (C_out,)
) -> Array:  # y (..., C_out)
    """Return y = x Wᵀ + b."""
    return x @ weight.T + bias


def linear_backward(
    dy: Array,  # (..., C_out)
    x: Array,  # (..., C_in)
    weight: Array,  # (C_out, C_in)
) -> tuple[Array, Array, Array]:  # dx (..., C_in), dweight (C_out, C_in), dbias (C_out,)
    """Send a gradient back through y = x Wᵀ + b.

    With y_no = Σ_i x_ni W_oi + b_o, each input reaches every output of its own row, and each
    weight reaches one output of every row:

        dx_ni = Σ_o dy_no W_oi        =>      dx = dy W
        dW_oi = Σ_n dy_no x_ni        =>      dW = dyᵀ x
        db_o  = Σ_n dy_no             the bias was added to every row, so its gradients add up
    """
    rows_dy = dy.reshape(-1, dy.shape[-1])
    rows_x = x.reshape(-1, x.shape[-1])
    return dy @ weight, rows_dy.T @ rows_x, rows_dy.sum(axis=0)


class LinearCache(NamedTuple):
    x: Array  # (..., C_in)


class Linear:
    """A weight and a bias, named ``<scope>.weight`` and ``<scope>.bias``.

    ``hidden`` tells an optimizer that the output goes on to other layers, and not to a loss.
    """

    def __init__(
        self, scope: Scope, in_features: int, out_features: int, ops: Ops, *, hidden: bool = True
    ) -> None:
        self.ops = ops
        self.weight = scope.declare(
            "weight", (out_features, in_features), init="normal", hidden=hidden
        )
        self.bias = scope.declare("bias", (out_features,), init="zeros", decay=False)

    def forward(self, x: Array) -> tuple[Array, LinearCache]:  # (..., C_in) → (..., C_out)
        check_float("x", x, like=self.weight.value)
        check_shape("x", x, (*x.shape[:-1], self.weight.shape[1]))
        return self.ops.linear_forward(x, self.weight.value, self.bias.value), LinearCache(x)

    def backward(self, dy: Array, cache: LinearCache) -> Array:  # (..., C_out) → (..., C_in)
        check_shape("dy", dy, (*cache.x.shape[:-1], self.weight.shape[0]))
        dx, dweight, dbias = self.ops.linear_backward(dy, cache.x, self.weight.value)
        self.weight.accumulate(dweight)
        self.bias.accumulate(dbias)
        return dx
