"""Where in a passage the answer to a question stands.

    [CLS] question [SEP] passage [SEP] ─ BERT ─ hidden (B, T, C) ─ linear ─ start, end (B, T) each

Two softmaxes over the row say where the answer starts and where it ends.  Only tokens of the
passage take part, and [CLS], which stands for "not in this passage".
Source: Devlin et al., BERT (2019), sections 4.2 and 4.3 and figure 4, (c).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minibert.arrays import IGNORED, Array, check_ids, check_shape
from minibert.config import BertConfig
from minibert.keys import Key
from minibert.layers.linear import Linear, LinearCache
from minibert.models.bert import Bert, BertCache
from minibert.models.classifier import TaskBatch, TaskOutput
from minibert.ops import get_ops
from minibert.params import ParamStore

if TYPE_CHECKING:
    from minibert.ops import Ops


class AnsweringCache(NamedTuple):
    bert: BertCache
    dense: LinearCache
    probs: Array  # (2 B, T): B rows of start, B rows of end
    labels: Array  # (2 B,)


class BertForQuestionAnswering:
    """BERT with a start and an end for each row.

    A batch's labels are int32 (B, 2), the places of the answer's first and last token, or IGNORED
    twice; its ``allowed`` is bool (B, T).  A row's loss is the mean of its two cross-entropies.
    """

    architecture = "BertForQuestionAnswering"

    def __init__(
        self, config: BertConfig, ops: str | Ops = "numba", dtype: Any = np.float32
    ) -> None:
        self.config, self.ops = config, get_ops(ops)
        self.params = ParamStore(dtype)
        self.bert = Bert(self.params.scope("bert"), config, self.ops, with_pooler=False)
        self.dense = Linear(
            self.params.scope("qa_outputs"), config.hidden_size, 2, self.ops, hidden=False
        )
        self.params.allocate()

    def to_json(self) -> dict[str, Any]:
        """Return the config.json of this model."""
        return self.config.to_json(self.architecture)

    def logits(self, batch: TaskBatch) -> Array:  # (2, B, T)
        """Return the scores of every place as start and as end, without dropout."""
        return self._logits(batch, None)[0]

    def _logits(self, batch: TaskBatch, key: Key | None) -> tuple[Array, BertCache, LinearCache]:
        hidden, _, bert = self.bert.forward(
            batch.input_ids, batch.token_type_ids, batch.attention_mask, key
        )
        both, dense = self.dense.forward(hidden)
        logits = np.moveaxis(both, -1, 0)
        if batch.allowed is not None:
            check_allowed(batch.allowed, batch.input_ids)
            logits = np.where(batch.allowed, logits, np.finfo(logits.dtype).min / 2)
        return logits, bert, dense

    def forward(
        self, batch: TaskBatch, key: Key | None = None
    ) -> tuple[TaskOutput, AnsweringCache]:
        B, T = batch.input_ids.shape
        check_shape("labels", batch.labels, (B, 2))
        check_ids("labels", batch.labels, T, ignored=True)
        check_answers(batch)
        logits, bert, dense = self._logits(batch, key)
        labels = np.ascontiguousarray(batch.labels.T).reshape(2 * B)
        rows = np.ascontiguousarray(logits).reshape(2 * B, T)
        loss, probs = self.ops.cross_entropy_forward(rows, labels)
        output = TaskOutput(loss / 2, self.weight(batch), logits)
        return output, AnsweringCache(bert, dense, probs, labels)

    def weight(self, batch: TaskBatch) -> float:
        """Return how many rows have an answer to learn from."""
        return float((batch.labels[:, 0] >= 0).sum())

    def backward(self, dloss: float, cache: AnsweringCache) -> None:
        """Accumulate the gradient of dloss · loss in every parameter that is not frozen.

        A place that is not allowed had the probability 0, so its gradient is 0 as well.
        """
        drows = self.ops.cross_entropy_backward(dloss / 2, cache.probs, cache.labels)
        dboth = np.ascontiguousarray(np.moveaxis(drows.reshape(2, -1, drows.shape[1]), 0, -1))
        dhidden = self.dense.backward(dboth, cache.dense)
        self.bert.backward(dhidden, None, cache.bert)


def check_allowed(allowed: Array, input_ids: Array) -> None:
    """Raise unless it says of every token whether an answer may start and end there."""
    check_shape("allowed", allowed, input_ids.shape)
    if allowed.dtype != np.bool_:
        raise TypeError(f"allowed has dtype {allowed.dtype}, expected bool: use allowed == 1")


def check_answers(batch: TaskBatch) -> None:
    """Raise unless every answer has both ends, and both stand where an answer may.

    A label at a place that is not allowed has the probability 0: a loss near the largest number
    there is, and a gradient that leads nowhere.
    """
    row = np.arange(len(batch.labels))[:, None]
    answered = batch.labels != IGNORED
    wrong = answered[:, :1] != answered
    if batch.allowed is not None:
        check_allowed(batch.allowed, batch.input_ids)
        wrong = wrong | (answered & ~batch.allowed[row, np.where(answered, batch.labels, 0)])
    if wrong.any():
        first = int(np.flatnonzero(wrong.any(axis=1))[0])
        raise ValueError(
            f"labels of row {first} are {batch.labels[first].tolist()}, expected two places that "
            f"are allowed or {IGNORED} (ignored) twice"
        )
