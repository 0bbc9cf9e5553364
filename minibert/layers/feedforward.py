"""The feed-forward half of a layer: widen, bend, narrow again, each token for itself.

Source: Vaswani et al. (2017), section 3.3; with GELU in place of ReLU, Devlin et al. (2019).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from minibert.arrays import Array
from minibert.layers.activations import ACTIVATIONS
from minibert.layers.linear import Linear, LinearCache
from minibert.params import Scope

if TYPE_CHECKING:
    from minibert.ops import Ops


class FeedForwardCache(NamedTuple):
    widen: LinearCache
    wide: Array  # (..., F), before the activation
    narrow: LinearCache


class FeedForward:
    """y = act(x W₁ᵀ + b₁) W₂ᵀ + b₂, from C to F to C."""

    def __init__(
        self, widen: Scope, narrow: Scope, width: int, wide: int, hidden_act: str, ops: Ops
    ) -> None:
        forward, backward = ACTIVATIONS[hidden_act]
        self.act_forward, self.act_backward = getattr(ops, forward), getattr(ops, backward)
        self.widen = Linear(widen, width, wide, ops)
        self.narrow = Linear(narrow, wide, width, ops)

    def forward(self, x: Array) -> tuple[Array, FeedForwardCache]:  # (..., C) → (..., C)
        wide, widen_cache = self.widen.forward(x)
        y, narrow_cache = self.narrow.forward(self.act_forward(wide))
        return y, FeedForwardCache(widen_cache, wide, narrow_cache)

    def backward(self, dy: Array, cache: FeedForwardCache) -> Array:  # (..., C) → (..., C)
        dact = self.narrow.backward(dy, cache.narrow)
        dwide = self.act_backward(dact, cache.wide)
        return self.widen.backward(dwide, cache.widen)
