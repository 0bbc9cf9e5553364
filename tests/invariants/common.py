"""What the invariants share: tolerances, and one whole training step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from minibert.arrays import Array
from minibert.data.batches import PretrainingBatch
from minibert.keys import Key
from minibert.models.pretraining import BertForPreTraining
from minibert.training.adamw import AdamW

TOLERANCE = {"float32": 1e-5, "float64": 1e-12}
KEY = Key(5)


class Step(NamedTuple):
    """All that one step computes."""

    loss: float
    grad: Array
    norm: float
    value: Array
    moment1: Array
    moment2: Array


def training_step(
    model: BertForPreTraining, batch: PretrainingBatch, optimizer: AdamW, key: Key | None = KEY
) -> Step:
    """Forward, backward, clip, update: what ``training.loop`` does with one batch."""
    params = model.params
    params.zero_grad()
    output, cache = model.forward(batch, key)
    model.backward(cache)
    norm = model.ops.global_norm(params.grad)
    optimizer.update(0.01, grad_scale=min(1.0, 1.0 / norm))
    moments = optimizer.moment1.copy(), optimizer.moment2.copy()
    return Step(output.loss, params.grad.copy(), norm, params.value.copy(), *moments)


def assert_near(actual: Any, expected: Any, dtype: Any) -> None:
    """The largest gap, relative to the largest number, is within the dtype's tolerance."""
    scale = max(1.0, float(np.max(np.abs(expected), initial=0)))
    assert np.shape(actual) == np.shape(expected)
    assert np.max(np.abs(actual - expected), initial=0) <= TOLERANCE[str(dtype)] * scale
