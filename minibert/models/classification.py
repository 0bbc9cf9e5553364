"""One answer for a whole row: a class for a text or a pair of texts, or a score for a pair.

    input_ids (B, T) ─ BERT ─ pooled (B, C) ─ dropout ─ linear ─ logits (B, K)

Source: Devlin et al., BERT (2019), section 4.1 and figure 4, (a) and (b).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minibert.arrays import Array, check_float, check_ids, check_shape
from minibert.config import BertConfig
from minibert.keys import Key
from minibert.layers.cross_entropy import (
    row_weights,
    weighted_cross_entropy_backward,
    weighted_cross_entropy_forward,
)
from minibert.layers.squared_error import squared_error_backward, squared_error_forward
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


class ClassificationCache(NamedTuple):
    bert: BertCache
    classifier: ClassifierCache
    scores: Array  # probs (B, K), or for a regression the scores (B,) in units
    labels: Array  # (B,)


class BertForSequenceClassification:
    """BERT with a class for each row; without any class, a regression: one number for each row.

    A batch's labels are int32 (B,) in [0, K) or IGNORED; for a regression float (B,).
    ``class_weights`` (K,) says what a row of each class counts for in the loss; a regression's
    loss is the squared error in ``unit``s.

    Of the last layer only the first token's output is read, so only that is computed.
    """

    architecture = "BertForSequenceClassification"

    def __init__(
        self,
        config: BertConfig,
        labels: Sequence[str] = (),
        ops: str | Ops = "numba",
        dtype: Any = np.float32,
        *,
        class_weights: Sequence[float] | None = None,
    ) -> None:
        self.config, self.labels, self.ops = config, tuple(labels), get_ops(ops)
        self.params = ParamStore(dtype)
        self.bert = Bert(self.params.scope("bert"), config, self.ops)
        self.classifier = Classifier(
            self.params.scope("classifier"),
            config.hidden_size,
            max(len(self.labels), 1),
            config.head_dropout_prob,
            self.ops,
        )
        self.params.allocate()
        self.class_weights = class_weights_for(self.labels, class_weights, dtype)
        self.unit = 1.0

    def to_json(self) -> dict[str, Any]:
        """Return the config.json of this model."""
        kind = "single_label_classification" if self.labels else "regression"
        return {
            **self.config.to_json(self.architecture),
            **labels_json(self.labels or ("LABEL_0",)),
            "problem_type": kind,
        }

    def logits(self, batch: TaskBatch) -> Array:  # (B, K)
        """Return the scores of every class, without dropout."""
        return self._logits(batch, None)[0]

    def _logits(
        self, batch: TaskBatch, key: Key | None
    ) -> tuple[Array, BertCache, ClassifierCache]:
        first = np.zeros((len(batch.input_ids), 1), np.int32)
        _, pooled, bert = self.bert.forward(
            batch.input_ids, batch.token_type_ids, batch.attention_mask, key, places=first
        )
        logits, classifier = self.classifier.forward(
            pooled, key.child("classifier") if key else None
        )
        return logits, bert, classifier

    def forward(
        self, batch: TaskBatch, key: Key | None = None
    ) -> tuple[TaskOutput, ClassificationCache]:
        labels = batch.labels
        check_shape("labels", labels, (len(batch.input_ids),))
        if self.labels:
            check_ids("labels", labels, len(self.labels), ignored=True)
        else:
            check_float("labels", labels)
        logits, bert, classifier = self._logits(batch, key)
        if self.labels:
            loss, scores = weighted_cross_entropy_forward(logits, labels, self.class_weights)
        else:
            unit = logits.dtype.type(self.unit)
            scores, labels = logits[:, 0] / unit, labels.astype(logits.dtype) / unit
            loss = squared_error_forward(scores, labels)
        output = TaskOutput(loss, self.weight(batch), logits)
        return output, ClassificationCache(bert, classifier, scores, labels)

    def weight(self, batch: TaskBatch) -> float:
        """Return what to divide the batch's loss by for a mean."""
        if not self.labels:
            return float(len(batch.labels))
        return float(row_weights(batch.labels, self.class_weights).sum())

    def backward(self, dloss: float, cache: ClassificationCache) -> None:
        """Accumulate the gradient of dloss · loss in every parameter that is not frozen."""
        if self.labels:
            dlogits = weighted_cross_entropy_backward(
                dloss, cache.scores, cache.labels, self.class_weights
            )
        else:
            dscores = squared_error_backward(dloss, cache.scores, cache.labels)
            dlogits = (dscores / dscores.dtype.type(self.unit))[:, None]
        dpooled = self.classifier.backward(dlogits, cache.classifier)
        self.bert.backward(None, dpooled, cache.bert)
