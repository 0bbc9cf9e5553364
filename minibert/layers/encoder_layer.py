"""One encoder layer: attention, add & norm, feed-forward, add & norm.

Source: Vaswani et al. (2017), figure 1, left; Devlin et al. (2019), section 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from minibert.arrays import Array
from minibert.config import BertConfig
from minibert.keys import Key
from minibert.layers.add_norm import AddNorm, AddNormCache
from minibert.layers.attention import AttentionCache, MultiHeadAttention
from minibert.layers.feedforward import FeedForward, FeedForwardCache
from minibert.layers.linear import Linear, LinearCache
from minibert.params import Scope

if TYPE_CHECKING:
    from minibert.ops import Ops


class EncoderLayerCache(NamedTuple):
    attention: AttentionCache
    projection: LinearCache
    add_norm1: AddNormCache
    feedforward: FeedForwardCache
    add_norm2: AddNormCache


class EncoderLayer:
    """x (B, T, C) → (B, T, C).  Parameters carry the names of Hugging Face checkpoints."""

    def __init__(self, scope: Scope, config: BertConfig, ops: Ops) -> None:
        C, F, eps = config.hidden_size, config.intermediate_size, config.layer_norm_eps
        rate = config.hidden_dropout_prob
        attention, output = scope.child("attention"), scope.child("output")
        self.attention = MultiHeadAttention(
            attention.child("self"),
            C,
            config.num_attention_heads,
            config.attention_probs_dropout_prob,
            ops,
        )
        self.projection = Linear(attention.child("output", "dense"), C, C, ops)
        self.add_norm1 = AddNorm(attention.child("output", "LayerNorm"), C, eps, rate, ops)
        self.feedforward = FeedForward(
            scope.child("intermediate", "dense"),
            output.child("dense"),
            C,
            F,
            config.hidden_act,
            ops,
        )
        self.add_norm2 = AddNorm(output.child("LayerNorm"), C, eps, rate, ops)

    def forward(
        self,
        x: Array,  # (B, T, C)
        mask: Array | None,  # bool (B, 1, T) or (B, T, T)
        key: Key | None,
    ) -> tuple[Array, EncoderLayerCache]:  # y (B, T, C)
        key1, key2, key3 = (
            (key.child("attention"), key.child("add_norm1"), key.child("add_norm2"))
            if key
            else (None, None, None)
        )
        context, attention = self.attention.forward(x, mask, key1)
        projected, projection = self.projection.forward(context)
        middle, add_norm1 = self.add_norm1.forward(projected, x, key2)
        wide, feedforward = self.feedforward.forward(middle)
        y, add_norm2 = self.add_norm2.forward(wide, middle, key3)
        return y, EncoderLayerCache(attention, projection, add_norm1, feedforward, add_norm2)

    def backward(self, dy: Array, cache: EncoderLayerCache) -> Array:  # (B, T, C) → (B, T, C)
        """Reverse the forward's five lines; ``middle`` and ``x`` were used twice, so they add."""
        dwide, dmiddle = self.add_norm2.backward(dy, cache.add_norm2)
        dmiddle = dmiddle + self.feedforward.backward(dwide, cache.feedforward)
        dprojected, dx = self.add_norm1.backward(dmiddle, cache.add_norm1)
        dcontext = self.projection.backward(dprojected, cache.projection)
        dquery, dmemory = self.attention.backward(dcontext, cache.attention)
        return dx + dquery + dmemory
