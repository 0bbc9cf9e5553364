"""float32 in, float32 everywhere: outputs, caches, gradients, weights and moments of a step."""

from __future__ import annotations

import numpy as np

from minibert.training.adamw import AdamW

from ..models.common import make_batch, make_model
from .common import KEY, training_step


def test_a_training_step_keeps_its_precision(ops, dtype) -> None:
    model = make_model(ops, dtype)
    batch, optimizer = make_batch(model), AdamW(model.params, ops)
    kinds = {np.dtype(np.int32), np.dtype(np.bool_), np.dtype(dtype)}
    hidden, pooled, cache = model.bert.forward(*batch[:3], KEY)
    assert set(dtypes_of((hidden, pooled, cache, model.forward(batch, KEY)))) == kinds
    for _ in range(2):
        step = training_step(model, batch, optimizer)
    assert set(dtypes_of(step)) == {np.dtype(dtype)}
    assert optimizer.moment1.dtype == optimizer.moment2.dtype == model.params.value.dtype == dtype
    assert type(step.loss) is type(step.norm) is float


def test_single_precision_follows_double(ops) -> None:
    steps = []
    for dtype in (np.float32, np.float64):
        model = make_model(ops, dtype)
        optimizer = AdamW(model.params, ops)
        steps.append(training_step(model, make_batch(model), optimizer))
    single, double = steps
    assert abs(single.loss - double.loss) <= 1e-5 * double.loss
    assert np.abs(single.grad - double.grad).max() <= 1e-5 * np.abs(double.grad).max()


def dtypes_of(part: object) -> list[np.dtype]:
    if isinstance(part, np.ndarray):
        return [part.dtype]
    return [d for p in part for d in dtypes_of(p)] if isinstance(part, tuple) else []
