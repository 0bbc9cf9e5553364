"""One class for every token: named entities, parts of speech.

    input_ids (B, T) ─ BERT ─ hidden (B, T, C) ─ dropout ─ linear ─ logits (B, T, K)

A word's label stands at its first piece; its other pieces, [CLS], [SEP] and padding have none
(IGNORED).  Source: Devlin et al., BERT (2019), section 5.3 and figure 4, (d).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minibert.arrays import Array, check_ids, check_shape
from minibert.config import BertConfig
from minibert.keys import Key
from minibert.layers.cross_entropy import (
    row_weights,
    weighted_cross_entropy_backward,
    weighted_cross_entropy_forward,
)
from minibert.models.bert import Bert, BertCache
from minibert.models.classifier import (
    Classifier,
    ClassifierCache,
    TaskBatch,
    TaskOutput,
    class_weights_for,
)
from minibert.models.labels import labels_json
from minibert.ops import get_ops
from minibert.params import ParamStore

if TYPE_CHECKING:
    from minibert.ops import Ops


class TaggingCache(NamedTuple):
    bert: BertCache
    classifier: ClassifierCache
    probs: Array  # (B T, K)
    labels: Array  # (B, T)


class BertForTokenClassification:
    """BERT with a class for each token.  A batch's labels are int32 (B, T), or IGNORED."""

    architecture = "BertForTokenClassification"

    def __init__(
        self,
        config: BertConfig,
        labels: Sequence[str],
        ops: str | Ops = "numba",
        dtype: Any = np.float32,
        *,
        class_weights: Sequence[float] | None = None,
    ) -> None:
        self.config, self.labels, self.ops = config, tuple(labels), get_ops(ops)
        self.params = ParamStore(dtype)
        self.bert = Bert(self.params.scope("bert"), config, self.ops, with_pooler=False)
        self.classifier = Classifier(
            self.params.scope("classifier"),
            config.hidden_size,
            len(self.labels),
            config.head_dropout_prob,
            self.ops,
        )
        self.params.allocate()
        self.class_weights = class_weights_for(self.labels, class_weights, dtype)

    def to_json(self) -> dict[str, Any]:
        """Return the config.json of this model."""
        return {**self.config.to_json(self.architecture), **labels_json(self.labels)}

    def logits(self, batch: TaskBatch) -> Array:  # (B, T, K)
        """Return the scores of every class at every token, without dropout."""
        return self._logits(batch, None)[0]

    def _logits(
        self, batch: TaskBatch, key: Key | None
    ) -> tuple[Array, BertCache, ClassifierCache]:
        hidden, _, bert = self.bert.forward(
            batch.input_ids, batch.token_type_ids, batch.attention_mask, key
        )
        logits, classifier = self.classifier.forward(
            hidden, key.child("classifier") if key else None
        )
        return logits, bert, classifier

    def forward(self, batch: TaskBatch, key: Key | None = None) -> tuple[TaskOutput, TaggingCache]:
        K = len(self.labels)
        check_shape("labels", batch.labels, batch.input_ids.shape)
        check_ids("labels", batch.labels, K, ignored=True)
        logits, bert, classifier = self._logits(batch, key)
        loss, probs = weighted_cross_entropy_forward(
            logits.reshape(-1, K), batch.labels.reshape(-1), self.class_weights
        )
        output = TaskOutput(loss, self.weight(batch), logits)
        return output, TaggingCache(bert, classifier, probs, batch.labels)

    def weight(self, batch: TaskBatch) -> float:
        """Return what to divide the batch's loss by for a mean over the labelled tokens."""
        return float(row_weights(batch.labels, self.class_weights).sum())

    def backward(self, dloss: float, cache: TaggingCache) -> None:
        """Accumulate the gradient of dloss · loss in every parameter that is not frozen."""
        dlogits = weighted_cross_entropy_backward(
            dloss, cache.probs, cache.labels.reshape(-1), self.class_weights
        ).reshape(*cache.labels.shape, -1)
        dhidden = self.classifier.backward(dlogits, cache.classifier)
        self.bert.backward(dhidden, None, cache.bert)
