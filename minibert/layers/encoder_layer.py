"""One encoder layer: attention, add & norm, feed-forward, add & norm.

A layer may be asked for some of its rows alone.  Only attention's keys and values need every
token; queries, projection and feed-forward, with 10 of the layer's 12 C² weights, treat each token
by itself.  Above the last layer of a model in pretraining the loss looks at [CLS] and the masked
tokens, about one in six, so the others need not be computed at all.

Source: Vaswani et al. (2017), figure 1, left; Devlin et al. (2019), section 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from minibert.arrays import Array, check_ids, check_shape
from minibert.config import BertConfig
from minibert.keys import Key
from minibert.layers.add_norm import AddNorm, AddNormCache
from minibert.layers.attention import AttentionCache, MultiHeadAttention
from minibert.layers.embedding import lookup_backward, lookup_forward
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
    places: Array | None  # (B, R)


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
        mask: Array | None,  # bool (B, 1, T), or (B, T, T) without places
        key: Key | None,
        places: Array | None = None,  # (B, R) in [0, T): the rows to compute; all, if not given
    ) -> tuple[Array, EncoderLayerCache]:  # y (B, T, C), or (B, R, C)
        key1, key2, key3 = (
            (key.child("attention"), key.child("add_norm1"), key.child("add_norm2"))
            if key
            else (None, None, None)
        )
        asked = x if places is None else take_rows(x, places)
        context, attention = self.attention.forward(asked, mask, key1, memory=x)
        projected, projection = self.projection.forward(context)
        middle, add_norm1 = self.add_norm1.forward(projected, asked, key2)
        wide, feedforward = self.feedforward.forward(middle)
        y, add_norm2 = self.add_norm2.forward(wide, middle, key3)
        return y, EncoderLayerCache(
            attention, projection, add_norm1, feedforward, add_norm2, places
        )

    def backward(self, dy: Array, cache: EncoderLayerCache) -> Array:  # like y → dx (B, T, C)
        """Reverse the forward's lines; what was used twice (middle, asked, x) gets a sum.

        Sums are made in place: a gradient that a layer returned is nobody else's.
        """
        dwide, dmiddle = self.add_norm2.backward(dy, cache.add_norm2)
        dmiddle += self.feedforward.backward(dwide, cache.feedforward)
        dprojected, dasked = self.add_norm1.backward(dmiddle, cache.add_norm1)
        dcontext = self.projection.backward(dprojected, cache.projection)
        dquery, dmemory = self.attention.backward(dcontext, cache.attention)
        dasked += dquery
        if cache.places is not None:
            dasked = take_rows_backward(dasked, cache.places, dmemory.shape[1])
        dmemory += dasked
        return dmemory


def take_rows(x: Array, places: Array) -> Array:  # (B, T, C), (B, R) → (B, R, C)
    """Return row ``places[b, r]`` of ``x[b]``: a look-up in the table of all B T rows."""
    check_shape("x", x, (None, None, None))
    B, T, C = x.shape
    check_shape("places", places, (B, None))
    check_ids("places", places, T)
    return lookup_forward(places + T * np.arange(B)[:, None], x.reshape(B * T, C))


def take_rows_backward(dy: Array, places: Array, T: int) -> Array:  # (B, R, C) → (B, T, C)
    """Send a gradient back to the rows that were taken; the others get 0."""
    B, _, C = dy.shape
    return lookup_backward(dy, places + T * np.arange(B)[:, None], B * T).reshape(B, T, C)
