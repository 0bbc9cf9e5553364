"""What the tests of the fine-tuned models share: one model of each kind, and a batch for it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from minibert.arrays import IGNORED, Array
from minibert.keys import Key
from minibert.models.answering import BertForQuestionAnswering
from minibert.models.classification import BertForSequenceClassification
from minibert.models.classifier import TaskBatch
from minibert.models.similarity import BertForSimilarity
from minibert.models.tagging import BertForTokenClassification
from minibert.ops import Ops

from .common import small_config

LENGTHS = (7, 3, 5, 7, 2, 4)  # tokens in the rows of a batch, padded to 7
LABELS = ("no", "yes", "perhaps")
WEIGHTS = (0.5, 3.0, 1.25)
LIMIT = 1e-10
FLOOR = 3e-2
"""A difference may be ``LIMIT`` of a tensor's largest gradient, but of no less than this share of
the model's largest: the true gradient of the keys' bias is 0, and what is computed is rounding."""


def fill(model: Any, seed: int = 11) -> Any:
    """Draw every parameter, so that no gain is 1 and no bias 0."""
    generator = np.random.default_rng(seed)
    for parameter in model.params:
        mean = 1.0 if parameter.spec.init == "ones" else 0.0
        parameter.value[...] = generator.normal(mean, 0.3, parameter.shape)
    return model


def make_rows(seed: int = 12) -> tuple[Array, Array, Array]:
    """Return ids, segments and mask of rows with padding, and with ids that repeat."""
    generator = np.random.default_rng(seed)
    B, T = len(LENGTHS), max(LENGTHS)
    mask = np.arange(T) < np.array(LENGTHS)[:, None]
    ids = np.where(mask, generator.integers(5, 12, (B, T)), 0).astype(np.int32)
    return ids, (mask & (np.arange(T) > 1)).astype(np.int32), mask


def classifier(
    ops: str | Ops, dtype: Any = np.float64, weights: Any = WEIGHTS, seed: int = 11, **changes: Any
) -> tuple[BertForSequenceClassification, TaskBatch]:
    config = small_config(**changes)
    model = BertForSequenceClassification(config, LABELS, ops, dtype, class_weights=weights)
    labels = np.array([1, 0, IGNORED, 2, 1, 1], np.int32)
    return fill(model, seed), TaskBatch(*make_rows(seed), labels)


def regression(
    ops: str | Ops, dtype: Any = np.float64, unit: float = 1.7, seed: int = 11, **changes: Any
) -> tuple[BertForSequenceClassification, TaskBatch]:
    model = BertForSequenceClassification(small_config(**changes), (), ops, dtype)
    model.unit = unit
    labels = np.array([0.5, 3.0, -1.0, 2.25, 0.0, 1.0], np.float32)
    return fill(model, seed), TaskBatch(*make_rows(seed), labels)


def tagger(
    ops: str | Ops, dtype: Any = np.float64, weights: Any = WEIGHTS, seed: int = 11, **changes: Any
) -> tuple[BertForTokenClassification, TaskBatch]:
    config = small_config(**changes)
    model = BertForTokenClassification(config, LABELS, ops, dtype, class_weights=weights)
    ids, types, mask = make_rows(seed)
    labels = np.random.default_rng(seed).integers(0, 3, ids.shape)
    labels[~mask | (np.arange(ids.shape[1]) == 0) | (ids == 7)] = IGNORED
    return fill(model, seed), TaskBatch(ids, types, mask, labels.astype(np.int32))


def answerer(
    ops: str | Ops,
    dtype: Any = np.float64,
    everywhere: bool = False,
    seed: int = 11,
    **changes: Any,
) -> tuple[BertForQuestionAnswering, TaskBatch]:
    model = BertForQuestionAnswering(small_config(**changes), ops, dtype)
    ids, types, mask = make_rows(seed)
    allowed = mask & (np.arange(ids.shape[1]) != 1)
    labels = np.array([[3, 5], [2, 2], [0, 0], [IGNORED] * 2, [0, 0], [2, 3]], np.int32)
    if everywhere:
        allowed = np.ones_like(mask)
    return fill(model, seed), TaskBatch(ids, types, mask, labels, allowed)


def similar(
    ops: str | Ops, dtype: Any = np.float64, seed: int = 11, **changes: Any
) -> tuple[BertForSimilarity, TaskBatch]:
    model = BertForSimilarity(small_config(**changes), ops, dtype)
    labels = np.array([0.1, 0.9, 0.4], np.float32)
    return fill(model, seed), TaskBatch(*make_rows(seed), labels)


KINDS: dict[str, Callable[..., tuple[Any, TaskBatch]]] = {
    "classification": classifier,
    "regression": regression,
    "tagging": tagger,
    "answering": answerer,
    "similarity": similar,
}


def select(batch: TaskBatch, rows: slice) -> TaskBatch:
    """Return some rows of a batch, cut to the longest; of pairs, give whole ones."""
    per_label = len(batch.input_ids) // len(batch.labels)
    labels = batch.labels[rows.start // per_label : rows.stop // per_label]
    longest = int(batch.attention_mask[rows].sum(axis=1).max())
    if labels.ndim == 2 and batch.allowed is None:
        labels = labels[:, :longest]
    arrays = (batch.input_ids, batch.token_type_ids, batch.attention_mask)
    return TaskBatch(
        *(array[rows, :longest] for array in arrays),
        labels,
        None if batch.allowed is None else batch.allowed[rows, :longest],
    )


def task_gradient(
    model: Any, batch: TaskBatch, key: Key | None = None, dloss: float | None = None
) -> Array:
    """Return the flat gradient of one batch's mean loss, or of dloss times its sum."""
    model.params.zero_grad()
    output, cache = model.forward(batch, key)
    model.backward(1 / output.weight if dloss is None else dloss, cache)
    return model.params.grad.copy()


def theirs(name: str, model: Any, **options: Any) -> tuple[Any, Any]:
    """Return torch, and transformers' model of this class with the same weights, in float64."""
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(**asdict(model.config), **options)
    names = {"add_pooling_layer": False} if name == "BertModel" else {}
    other = getattr(transformers, name)(config, **names).double().eval()
    bare = "bert." if name == "BertModel" else ""
    state = {p.name.removeprefix(bare): torch.from_numpy(p.value.copy()) for p in model.params}
    result = other.load_state_dict(state, strict=False)
    assert not result.unexpected_keys
    assert all(key.endswith("position_ids") for key in result.missing_keys)
    return torch, other


def their_inputs(torch: Any, batch: TaskBatch) -> dict[str, Any]:
    return {
        "input_ids": torch.from_numpy(batch.input_ids).long(),
        "token_type_ids": torch.from_numpy(batch.token_type_ids).long(),
        "attention_mask": torch.from_numpy(batch.attention_mask).long(),
    }


def assert_same_gradients(model: Any, other: Any) -> None:
    """Ours, in ``model.params``, equal those that ``other`` holds after its backward."""
    gradients = {name: p.grad.numpy() for name, p in other.named_parameters()}
    bare = "" if all(name in model.params.parameters for name in gradients) else "bert."
    floor = FLOOR * float(abs(model.params.grad).max())
    assert floor > 1e-5
    assert {bare + name for name in gradients} == set(model.params.parameters)
    for name, wanted in gradients.items():
        got = model.params[bare + name].grad
        if name.endswith("word_embeddings.weight"):  # torch keeps the row of [PAD] at gradient 0
            pad = model.config.pad_token_id
            got, wanted = np.delete(got, pad, axis=0), np.delete(wanted, pad, axis=0)
        scale = max(float(abs(wanted).max()), floor)
        assert abs(got - wanted).max() < LIMIT * scale, name
