"""What the tests of the models share: small models without a single default value, and batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from minibert.arrays import IGNORED
from minibert.config import BertConfig
from minibert.data.batches import PretrainingBatch
from minibert.models.pretraining import BertForPreTraining
from minibert.ops import Ops

LENGTHS = (7, 3, 5, 7, 2)  # tokens in the rows of a batch, padded to 7


def small_config(**changes: Any) -> BertConfig:
    sizes = {
        "vocab_size": 29,
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 20,
        "max_position_embeddings": 11,
    }
    return BertConfig(**{**sizes, **changes})


def make_model(ops: str | Ops, dtype: Any = np.float64, **changes: Any) -> BertForPreTraining:
    """Return a model whose gains are not 1 and whose biases are not 0."""
    model = BertForPreTraining(small_config(**changes), ops, dtype)
    generator = np.random.default_rng(11)
    for parameter in model.params:
        mean = 1.0 if parameter.spec.init == "ones" else 0.0
        parameter.value[...] = generator.normal(mean, 0.3, parameter.shape)
    return model


def make_batch(model: BertForPreTraining, lengths: tuple[int, ...] = LENGTHS) -> PretrainingBatch:
    """Return rows with padding, repeated ids, a position asked for twice and ignored labels."""
    generator = np.random.default_rng(12)
    B, T = len(lengths), max(lengths)
    mask = np.arange(T) < np.array(lengths)[:, None]
    ids = generator.integers(5, min(12, model.config.vocab_size), (B, T))  # few, so they repeat
    input_ids = np.where(mask, ids, 0).astype(np.int32)
    token_type_ids = (mask & (np.arange(T) > 1)).astype(np.int32)
    real = np.flatnonzero(mask)
    positions = np.sort(generator.choice(real, len(real) // 2, replace=False))
    positions = np.append(positions, positions[0]).astype(np.int32)
    labels = generator.integers(0, model.config.vocab_size, len(positions)).astype(np.int32)
    labels[1] = IGNORED
    next_labels = generator.integers(0, 2, B).astype(np.int32)
    if B > 2:
        next_labels[2] = IGNORED
    return PretrainingBatch(input_ids, token_type_ids, mask, positions, labels, next_labels)


def select(batch: PretrainingBatch, rows: list[int], length: int | None = None) -> PretrainingBatch:
    """Return some rows of a batch, in the given order, cut or padded to ``length`` columns."""
    B, T = batch.input_ids.shape
    length = length or T
    ids, types, mask = (
        np.zeros((len(rows), length), array.dtype)
        for array in (batch.input_ids, batch.token_type_ids, batch.attention_mask)
    )
    kept = min(T, length)
    for new, old in ((ids, batch.input_ids), (types, batch.token_type_ids)):
        new[:, :kept] = old[rows, :kept]
    mask[:, :kept] = batch.attention_mask[rows, :kept]
    row, column = np.divmod(batch.masked_positions, T)
    places = [(rows.index(r), n) for n, r in enumerate(row) if r in rows]
    positions = np.array([new * length + column[n] for new, n in places], np.int32)
    labels = batch.masked_labels[[n for _, n in places]].astype(np.int32)
    return PretrainingBatch(ids, types, mask, positions, labels, batch.next_labels[rows])


def gradient(model: BertForPreTraining, batch: PretrainingBatch, **options: Any) -> np.ndarray:
    """Return the flat gradient of one batch's loss."""
    model.params.zero_grad()
    _, cache = model.forward(batch, **options)
    model.backward(cache)
    return model.params.grad.copy()
