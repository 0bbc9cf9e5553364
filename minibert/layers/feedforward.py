"""The feed-forward half of a layer: widen, bend, narrow again, each token for itself.

Source: Vaswani et al. (2017), section 3.3; with GELU in place of ReLU, Devlin et al. (2019).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from minibert.arrays import Array, check_float, check_shape
from minibert.layers import activations
from minibert.layers.activations import ACTIVATIONS
from minibert.layers.linear import Linear, linear_backward, linear_forward
from minibert.params import Scope

if TYPE_CHECKING:
    from minibert.ops import Ops


def feedforward_forward(
    x: Array,  # (..., C)
    weight1: Array,  # (F, C)
    bias1: Array,  # (F,)
    weight2: Array,  # (C, F)
    bias2: Array,  # (C,)
    hidden_act: str,
) -> tuple[Array, Array, Array]:  # y (..., C), wide (..., F), bent (..., F)
    """Return y = act(x W₁ᵀ + b₁) W₂ᵀ + b₂, and what is before and behind the activation."""
    check_feedforward(x, weight1, weight2, hidden_act)
    act_forward = getattr(activations, ACTIVATIONS[hidden_act][0])
    wide = linear_forward(x, weight1, bias1)
    bent = act_forward(wide)
    return linear_forward(bent, weight2, bias2), wide, bent


def feedforward_backward(
    dy: Array,  # (..., C)
    x: Array,  # (..., C)
    wide: Array,  # (..., F)
    bent: Array,  # (..., F)
    weight1: Array,  # (F, C)
    weight2: Array,  # (C, F)
    hidden_act: str,
) -> tuple[Array, Array, Array, Array, Array]:  # dx (..., C), dweight1, dbias1, dweight2, dbias2
    """Send a gradient back through y = act(x W₁ᵀ + b₁) W₂ᵀ + b₂: three backwards in a row.

    The second linear layer read ``bent``, and needs it for its weight's gradient.  The activation
    read ``wide``, and its slope is taken there.
    """
    check_feedforward(x, weight1, weight2, hidden_act)
    check_shape("dy", dy, x.shape)
    act_backward = getattr(activations, ACTIVATIONS[hidden_act][1])
    dbent, dweight2, dbias2 = linear_backward(dy, bent, weight2)
    dwide = act_backward(dbent, wide)
    dx, dweight1, dbias1 = linear_backward(dwide, x, weight1)
    return dx, dweight1, dbias1, dweight2, dbias2


def check_feedforward(x: Array, weight1: Array, weight2: Array, hidden_act: str) -> None:
    """Raise unless both weights fit x, the way there and the way back, and the name is known."""
    if hidden_act not in ACTIVATIONS:
        raise ValueError(f"hidden_act is {hidden_act!r}, expected one of {', '.join(ACTIVATIONS)}")
    check_shape("weight1", weight1, (None, None))
    F, C = weight1.shape
    check_shape("weight2", weight2, (C, F))
    check_float("weight2", weight2, like=weight1)
    check_float("x", x, like=weight1)
    check_shape("x", x, (*x.shape[:-1], C))


class FeedForwardCache(NamedTuple):
    x: Array  # (..., C)
    wide: Array  # (..., F), before the activation
    bent: Array  # (..., F), behind it


class FeedForward:
    """y = act(x W₁ᵀ + b₁) W₂ᵀ + b₂, from C to F to C."""

    def __init__(
        self, widen: Scope, narrow: Scope, width: int, wide: int, hidden_act: str, ops: Ops
    ) -> None:
        self.ops, self.hidden_act = ops, hidden_act
        self.widen = Linear(widen, width, wide, ops)
        self.narrow = Linear(narrow, wide, width, ops)

    def forward(self, x: Array) -> tuple[Array, FeedForwardCache]:  # (..., C) → (..., C)
        widen, narrow = self.widen, self.narrow
        y, wide, bent = self.ops.feedforward_forward(
            x, widen.weight.value, widen.bias.value, narrow.weight.value, narrow.bias.value,
            self.hidden_act,
        )  # fmt: skip
        return y, FeedForwardCache(x, wide, bent)

    def backward(self, dy: Array, cache: FeedForwardCache) -> Array:  # (..., C) → (..., C)
        widen, narrow = self.widen, self.narrow
        dx, dweight1, dbias1, dweight2, dbias2 = self.ops.feedforward_backward(
            dy, *cache, widen.weight.value, narrow.weight.value, self.hidden_act
        )
        widen.weight.accumulate(dweight1)
        widen.bias.accumulate(dbias1)
        narrow.weight.accumulate(dweight2)
        narrow.bias.accumulate(dbias2)
        return dx
