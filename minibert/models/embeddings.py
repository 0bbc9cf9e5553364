"""From ids to vectors: token + position + segment, then LayerNorm and dropout."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from minibert.arrays import Array, check_shape
from minibert.config import BertConfig
from minibert.keys import Key
from minibert.layers.layernorm import LayerNorm, LayerNormCache
from minibert.params import Scope

if TYPE_CHECKING:
    from minibert.ops import Ops


class EmbeddingsCache(NamedTuple):
    input_ids: Array  # (B, T)
    token_type_ids: Array  # (B, T)
    layernorm: LayerNormCache
    rate: float
    seed: int


class Embeddings:
    """Three tables and a LayerNorm.  Source: Devlin et al. (2019), figure 2."""

    def __init__(self, scope: Scope, config: BertConfig, ops: Ops) -> None:
        C = config.hidden_size
        self.ops, self.rate = ops, config.hidden_dropout_prob
        self.word = scope.declare("word_embeddings.weight", (config.vocab_size, C), init="normal")
        self.position = scope.declare(
            "position_embeddings.weight", (config.max_position_embeddings, C), init="sinusoidal"
        )
        self.token_type = scope.declare(
            "token_type_embeddings.weight", (config.type_vocab_size, C), init="normal"
        )
        self.layernorm = LayerNorm(scope.child("LayerNorm"), C, config.layer_norm_eps, ops)

    @property
    def rows(self) -> tuple[int, int, int]:
        return self.word.shape[0], self.position.shape[0], self.token_type.shape[0]

    def forward(
        self,
        input_ids: Array,  # (B, T)
        token_type_ids: Array,  # (B, T)
        key: Key | None,
    ) -> tuple[Array, EmbeddingsCache]:  # x (B, T, C)
        summed = self.ops.embedding_forward(
            input_ids, token_type_ids, self.word.value, self.position.value, self.token_type.value
        )
        normalised, layernorm = self.layernorm.forward(summed)
        rate, seed = (self.rate, key.seed) if key else (0.0, 0)
        x = self.ops.dropout_forward(normalised, rate, seed)
        return x, EmbeddingsCache(input_ids, token_type_ids, layernorm, rate, seed)

    def backward(self, dx: Array, cache: EmbeddingsCache) -> None:
        """Accumulate into the three tables; ids have no gradient, so nothing is returned."""
        check_shape("dx", dx, cache.layernorm.x_hat.shape)
        dnormalised = self.ops.dropout_backward(dx, cache.rate, cache.seed)
        dsummed = self.layernorm.backward(dnormalised, cache.layernorm)
        dword, dposition, dtoken_type = self.ops.embedding_backward(
            dsummed, cache.input_ids, cache.token_type_ids, self.rows
        )
        self.word.accumulate(dword)
        self.position.accumulate(dposition)
        self.token_type.accumulate(dtoken_type)
