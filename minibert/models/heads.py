"""The two heads that BERT is pretrained with: masked language model and next sentence.

Source: Devlin et al., BERT (2019), section 3.1; google-research/bert, run_pretraining.py,
get_masked_lm_output, for the transform in front of the decoder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from minibert.arrays import Array, check_shape
from minibert.config import BertConfig
from minibert.layers.activations import ACTIVATIONS
from minibert.layers.layernorm import LayerNorm, LayerNormCache
from minibert.layers.linear import Linear, LinearCache
from minibert.params import Parameter, Scope

if TYPE_CHECKING:
    from minibert.ops import Ops


class TransformCache(NamedTuple):
    dense: LinearCache
    wide: Array  # (M, C), before the activation
    layernorm: LayerNormCache


MOST_LOGITS = 1 << 27
"""Logits that may be in memory at once: 512 MB in float32."""


class MaskedLMCache(NamedTuple):
    transform: TransformCache
    x: Array  # (M, C), the transform's output
    labels: Array  # (M,)
    dlogits: Array | None  # (M, V); none if there were too many to keep


class MaskedLMHead:
    """Linear → GELU → LayerNorm → decoder, which is the token embedding used again.

    Often drawn as one linear layer, which it is not.  The decoder's weight is the very parameter
    of the embedding ("tied"), so both uses send gradients to it; only its bias is new.

    The M V logits are the largest array of a step: 75 MB for 32 rows of 128 tokens and BERT's
    vocabulary, and they grow with the batch.  Above ``most_logits``, rows are taken in parts: the
    loss is a sum over rows, so parts add up.  Then backward computes the logits of each part again,
    as attention does its scores, and no more than one part is ever in memory.
    """

    def __init__(self, scope: Scope, table: Parameter, config: BertConfig, ops: Ops) -> None:
        C = config.hidden_size
        forward, backward = ACTIVATIONS[config.hidden_act]
        self.ops, self.table, self.most_logits = ops, table, MOST_LOGITS
        self.act_forward, self.act_backward = getattr(ops, forward), getattr(ops, backward)
        self.dense = Linear(scope.child("transform", "dense"), C, C, ops)
        self.layernorm = LayerNorm(
            scope.child("transform", "LayerNorm"), C, config.layer_norm_eps, ops
        )
        self.bias = scope.declare("bias", (config.vocab_size,), init="zeros", decay=False)

    def transform(self, hidden: Array) -> tuple[Array, TransformCache]:  # (M, C) → (M, C)
        wide, dense = self.dense.forward(hidden)
        x, layernorm = self.layernorm.forward(self.act_forward(wide))
        return x, TransformCache(dense, wide, layernorm)

    def logits(self, hidden: Array) -> Array:  # (M, C) → (M, V)
        """Return a score for every token of the vocabulary; training never needs it whole."""
        x, _ = self.transform(hidden)
        return self.ops.linear_forward(x, self.table.value, self.bias.value)

    def forward(
        self,
        hidden: Array,  # (M, C): the rows of the masked positions alone
        labels: Array,  # (M,)
    ) -> tuple[float, int, MaskedLMCache]:  # sum of the losses, right answers
        x, transform = self.transform(hidden)
        check_shape("labels", labels, x.shape[:1])
        parts = self.parts(len(x))
        loss, right, dlogits = 0.0, 0, None
        parts = self.parts(len(x))
        for part in parts:
            dlogits = None  # the part before's, which nobody needs any more
            some_loss, some_right, dlogits = self.decode(x[part], labels[part])
            loss, right = loss + some_loss, right + some_right
        kept = dlogits if len(parts) == 1 else None
        return loss, right, MaskedLMCache(transform, x, labels, kept)

    def parts(self, rows: int) -> list[slice]:
        """Return how to cut rows (one part even if there are none)."""
        height = max(1, self.most_logits // len(self.table.value))
        return [slice(start, start + height) for start in range(0, max(1, rows), height)]

    def decode(self, x: Array, labels: Array) -> tuple[float, int, Array]:
        """Return the sum of the losses, right answers, and dlogits (M, V)."""
        return self.ops.vocab_cross_entropy_forward(x, self.table.value, self.bias.value, labels)

    def backward(self, dloss: float, cache: MaskedLMCache) -> Array:  # dhidden (M, C)
        dx = np.empty_like(cache.x)
        for part in self.parts(len(dx)):
            x, dlogits = cache.x[part], cache.dlogits
            if dlogits is None:
                _, _, dlogits = self.decode(x, cache.labels[part])
            dx[part], dtable, dbias = self.ops.vocab_cross_entropy_backward(
                dloss, dlogits, x, self.table.value
            )
            self.table.accumulate(dtable)
            self.bias.accumulate(dbias)
        dact = self.layernorm.backward(dx, cache.transform.layernorm)
        dwide = self.act_backward(dact, cache.transform.wide)
        return self.dense.backward(dwide, cache.transform.dense)


class NextSentenceCache(NamedTuple):
    dense: LinearCache
    probs: Array  # (B, 2)
    labels: Array  # (B,)


class NextSentenceHead:
    """A linear layer from the pooled vector to two scores: 0 = is next, 1 = is random."""

    def __init__(self, scope: Scope, width: int, ops: Ops) -> None:
        self.ops = ops
        self.dense = Linear(scope, width, 2, ops, hidden=False)

    def logits(self, pooled: Array) -> Array:  # (B, C) → (B, 2)
        return self.dense.forward(pooled)[0]

    def forward(
        self,
        pooled: Array,  # (B, C)
        labels: Array,  # (B,): 0, 1 or IGNORED
    ) -> tuple[float, int, NextSentenceCache]:  # sum of the losses, right answers
        logits, dense = self.dense.forward(pooled)
        loss, probs = self.ops.cross_entropy_forward(logits, labels)
        right = int((logits.argmax(axis=-1) == labels).sum())
        return loss, right, NextSentenceCache(dense, probs, labels)

    def backward(self, dloss: float, cache: NextSentenceCache) -> Array:  # dpooled (B, C)
        dlogits = self.ops.cross_entropy_backward(dloss, cache.probs, cache.labels)
        return self.dense.backward(dlogits, cache.dense)
