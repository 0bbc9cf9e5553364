"""How alike two sentences are, each read by itself: the cosine of their vectors.

    first  ─ BERT ─ mean over its tokens ┐
                                         ├─ cosine
    second ─ BERT ─ mean over its tokens ┘

Against a classifier that reads both at once this loses accuracy, and gains that a million
sentences need be read once each to be compared with one another.
Source: Reimers and Gurevych, Sentence-BERT (2019), section 3, "regression objective".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minibert.arrays import Array, check_float, check_shape
from minibert.config import BertConfig
from minibert.keys import Key
from minibert.layers.cosine import CosineCache, cosine_backward, cosine_forward
from minibert.layers.pooling import mean_pool_backward, mean_pool_forward
from minibert.layers.squared_error import squared_error_backward, squared_error_forward
from minibert.models.bert import Bert, BertCache
from minibert.models.classifier import TaskBatch, TaskOutput
from minibert.ops import get_ops
from minibert.params import ParamStore

if TYPE_CHECKING:
    from minibert.ops import Ops


class SimilarityCache(NamedTuple):
    bert: BertCache
    attention_mask: Array  # (2 B, T)
    cosine: CosineCache
    scores: Array  # (B,)
    labels: Array  # (B,)


class BertForSimilarity:
    """BERT without a head.  Rows 2n and 2n + 1 of a batch are a pair; labels are float (B,)."""

    architecture = "BertModel"

    def __init__(
        self, config: BertConfig, ops: str | Ops = "numba", dtype: Any = np.float32
    ) -> None:
        self.config, self.ops = config, get_ops(ops)
        self.params = ParamStore(dtype)
        self.bert = Bert(self.params.scope("bert"), config, self.ops, with_pooler=False)
        self.params.allocate()

    def to_json(self) -> dict[str, Any]:
        """Return the config.json of this model."""
        return self.config.to_json(self.architecture)

    def logits(self, batch: TaskBatch) -> Array:  # (B, 1)
        """Return the cosine of each pair."""
        return self._cosine(batch, None)[0][:, None]

    def _cosine(self, batch: TaskBatch, key: Key | None) -> tuple[Array, BertCache, CosineCache]:
        if len(batch.input_ids) % 2:
            raise ValueError(f"input_ids has {len(batch.input_ids)} rows, expected two for a pair")
        hidden, _, bert = self.bert.forward(
            batch.input_ids, batch.token_type_ids, batch.attention_mask, key
        )
        vectors = mean_pool_forward(hidden, batch.attention_mask)
        cosine, cache = cosine_forward(vectors[0::2], vectors[1::2])
        return cosine, bert, cache

    def forward(
        self, batch: TaskBatch, key: Key | None = None
    ) -> tuple[TaskOutput, SimilarityCache]:
        check_float("labels", batch.labels)
        check_shape("labels", batch.labels, (len(batch.input_ids) // 2,))
        scores, bert, cosine = self._cosine(batch, key)
        labels = batch.labels.astype(scores.dtype, copy=False)
        loss = squared_error_forward(scores, labels)
        output = TaskOutput(loss, self.weight(batch), scores[:, None])
        return output, SimilarityCache(bert, batch.attention_mask, cosine, scores, labels)

    def weight(self, batch: TaskBatch) -> float:
        """Return the number of pairs."""
        return float(len(batch.labels))

    def backward(self, dloss: float, cache: SimilarityCache) -> None:
        """Accumulate the gradient of dloss · loss in every parameter that is not frozen."""
        dcosine = squared_error_backward(dloss, cache.scores, cache.labels)
        dfirst, dsecond = cosine_backward(dcosine, cache.cosine)
        dvectors = np.stack([dfirst, dsecond], axis=1).reshape(-1, dfirst.shape[-1])
        self.bert.backward(mean_pool_backward(dvectors, cache.attention_mask), None, cache.bert)
