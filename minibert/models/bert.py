"""BERT without a head: embeddings, the stack of encoder layers, and the pooler.

    input_ids (B, T) ─ embeddings ─ layer 0 ─ … ─ layer L-1 ─ hidden (B, T, C)
                                                               └ row 0 ─ pooler ─ pooled (B, C)

Source: Devlin et al., BERT (2019), section 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from minibert.arrays import Array, check_shape
from minibert.config import BertConfig
from minibert.keys import Key
from minibert.layers.encoder_layer import EncoderLayer, EncoderLayerCache
from minibert.layers.linear import Linear, LinearCache
from minibert.models.embeddings import Embeddings, EmbeddingsCache
from minibert.params import Scope

if TYPE_CHECKING:
    from minibert.ops import Ops


class PoolerCache(NamedTuple):
    dense: LinearCache
    pooled: Array  # (B, C)
    length: int  # T


class Pooler:
    """One vector for the whole row: tanh of a linear layer on the first token, [CLS]."""

    def __init__(self, scope: Scope, width: int, ops: Ops) -> None:
        self.ops = ops
        self.dense = Linear(scope.child("dense"), width, width, ops)

    def forward(self, hidden: Array) -> tuple[Array, PoolerCache]:  # (B, T, C) → (B, C)
        if hidden.shape[1] == 0:
            raise ValueError(
                f"hidden has shape {hidden.shape}, expected at least one token in a row"
            )
        first, dense = self.dense.forward(hidden[:, 0])
        pooled = self.ops.tanh_forward(first)
        return pooled, PoolerCache(dense, pooled, hidden.shape[1])

    def backward(self, dpooled: Array, cache: PoolerCache) -> Array:  # (B, C) → (B, T, C)
        """Return dhidden, which is 0 in every row but the first: only that one was read."""
        B, C = cache.pooled.shape
        dhidden = np.zeros_like(dpooled, shape=(B, cache.length, C))
        dfirst = self.ops.tanh_backward(dpooled, cache.pooled)
        dhidden[:, 0] = self.dense.backward(dfirst, cache.dense)
        return dhidden


class BertCache(NamedTuple):
    embeddings: EmbeddingsCache
    layers: tuple[EncoderLayerCache, ...]
    pooler: PoolerCache | None


class Bert:
    """The encoder that all tasks share.

    Tasks that ask about single tokens do without the pooler: ``pooled`` then has no column, and
    ``dpooled`` is None.
    """

    def __init__(
        self, scope: Scope, config: BertConfig, ops: Ops, *, with_pooler: bool = True
    ) -> None:
        self.config = config
        self.embeddings = Embeddings(scope.child("embeddings"), config, ops)
        self.layers = [
            EncoderLayer(scope.child("encoder", "layer", number), config, ops)
            for number in range(config.num_hidden_layers)
        ]
        self.pooler = (
            Pooler(scope.child("pooler"), config.hidden_size, ops) if with_pooler else None
        )
        self.parts = [scope.child("embeddings").parameters()] + [
            scope.child("encoder", "layer", number).parameters()
            for number in range(config.num_hidden_layers)
        ]

    def forward(
        self,
        input_ids: Array,  # (B, T)
        token_type_ids: Array,  # (B, T)
        attention_mask: Array,  # bool (B, T): True for a token, False for padding
        key: Key | None = None,  # None: evaluation, no dropout
        places: Array | None = None,  # (B, R): the columns of hidden that are wanted, 0 first
    ) -> tuple[Array, Array, BertCache]:  # hidden (B, T, C) or (B, R, C), pooled (B, C)
        check_shape("input_ids", input_ids, (None, None))
        check_shape("attention_mask", attention_mask, input_ids.shape)
        if attention_mask.dtype != np.bool_:
            raise TypeError(
                f"attention_mask has dtype {attention_mask.dtype}, expected bool: use mask == 1"
            )
        mask = attention_mask[:, None, :]
        x, embeddings = self.embeddings.forward(
            input_ids, token_type_ids, key.child("embeddings") if key else None
        )
        layers: list[EncoderLayerCache] = []
        last = len(self.layers) - 1
        for number, layer in enumerate(self.layers):
            layer_key = key.child("layer", number) if key else None
            x, cache = layer.forward(x, mask, layer_key, places if number == last else None)
            layers.append(cache)
        pooled, pooler = x[:, :0, 0], None
        if self.pooler is not None:
            pooled, pooler = self.pooler.forward(x)
        return x, pooled, BertCache(embeddings, tuple(layers), pooler)

    def backward(
        self,
        dhidden: Array | None,  # like hidden; None: 0
        dpooled: Array | None,  # (B, C); None: 0, or there is no pooler
        cache: BertCache,
    ) -> None:
        """Accumulate the gradient of every parameter; hidden fed the pooler too, so they add.

        Where everything from the embeddings up to some layer is frozen, nothing below that layer
        needs a gradient, and the way down ends there.
        """
        dx = dhidden
        if dpooled is not None and self.pooler is not None and cache.pooler is not None:
            dfirst = self.pooler.backward(dpooled, cache.pooler)
            dx = dfirst if dx is None else dx + dfirst
        if dx is None:
            return
        lowest = self.lowest_trained()
        for number in range(len(self.layers) - 1, max(lowest, 0) - 1, -1):
            dx = self.layers[number].backward(dx, cache.layers[number])
        if lowest < 0:
            self.embeddings.backward(dx, cache.embeddings)

    def lowest_trained(self) -> int:
        """Return the lowest layer that is not wholly frozen: -1 for the embeddings, L for none."""
        for number, parameters in enumerate(self.parts, start=-1):
            if not all(parameter.frozen for parameter in parameters):
                return number
        return len(self.layers)
