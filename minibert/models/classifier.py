"""What the fine-tuned models share: dropout, then a linear layer that is new for each task.

Source: Devlin et al., BERT (2019), section 4: the only new parameters are those of this layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from minibert.arrays import Array, check_shape
from minibert.keys import Key
from minibert.layers.linear import Linear, LinearCache
from minibert.params import Scope

if TYPE_CHECKING:
    from minibert.ops import Ops


class TaskBatch(NamedTuple):
    """Rows of one task, padded to the longest."""

    input_ids: Array  # (B, T)
    token_type_ids: Array  # (B, T)
    attention_mask: Array  # bool (B, T)
    labels: Array  # what is right, in the form the model's forward states
    allowed: Array | None = None  # bool (B, T): where an answer may start and end


class TaskOutput(NamedTuple):
    loss: float  # a sum
    weight: float  # what to divide it by: rows, or their weights; over micro-batches both add up
    logits: Array


def class_weights_for(
    labels: Sequence[str], given: Sequence[float] | None, dtype: Any
) -> Array:  # (K,)
    """Return what a row of each class counts for, all alike if not given; checks their number."""
    weights = np.asarray(np.ones(len(labels)) if given is None else given, dtype)
    check_shape("class_weights", weights, (len(labels),))
    return weights


class ClassifierCache(NamedTuple):
    dense: LinearCache
    rate: float
    seed: int


class Classifier:
    """x (..., C) → logits (..., K)."""

    def __init__(self, scope: Scope, width: int, outputs: int, rate: float, ops: Ops) -> None:
        self.ops, self.rate = ops, rate
        self.dense = Linear(scope, width, outputs, ops, hidden=False)

    def forward(self, x: Array, key: Key | None) -> tuple[Array, ClassifierCache]:
        rate, seed = (self.rate, key.seed) if key else (0.0, 0)
        logits, dense = self.dense.forward(self.ops.dropout_forward(x, rate, seed))
        return logits, ClassifierCache(dense, rate, seed)

    def backward(self, dlogits: Array, cache: ClassifierCache) -> Array:  # dx, like x
        dx = self.dense.backward(dlogits, cache.dense)
        return self.ops.dropout_backward(dx, cache.rate, cache.seed)
