from __future__ import annotations

from typing import Any
from weakref import ref

import numpy as np
import pytest

from minibert.arrays import IGNORED
from minibert.ops import Ops

from .common import make_model


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def test_decoder_bias_is_added_once(ops: Ops) -> None:
    model = make_model(ops)
    model.bert.embeddings.word.value[:] = 0
    model.masked_head.bias.value[:] = 1
    logits = model.masked_head.logits(np.random.default_rng(0).standard_normal((3, 12)))
    np.testing.assert_array_equal(logits, np.ones((3, 29)))


def test_decoder_is_the_embedding(ops: Ops) -> None:
    model = make_model(ops)
    assert model.masked_head.table is model.params["bert.embeddings.word_embeddings.weight"]
    assert model.masked_head.bias.shape == (29,)


def test_decoder_follows_the_formula(ops: Ops, dtype: np.dtype) -> None:
    model = make_model(ops, dtype, hidden_act="relu", layer_norm_eps=0.5)
    hidden = np.random.default_rng(0).standard_normal((3, 12)).astype(dtype)
    p = {
        name: parameter.value.astype(np.float64)
        for name, parameter in model.params.parameters.items()
    }
    stem = "cls.predictions.transform."
    x = np.maximum(hidden @ p[stem + "dense.weight"].T + p[stem + "dense.bias"], 0)
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 0.5)
    x = x * p[stem + "LayerNorm.weight"] + p[stem + "LayerNorm.bias"]
    wanted = x @ p["bert.embeddings.word_embeddings.weight"].T + p["cls.predictions.bias"]
    logits = model.masked_head.logits(hidden)
    assert logits.dtype == dtype
    np.testing.assert_allclose(logits, wanted, rtol=1e-4 if dtype == np.float32 else 1e-11)


def test_masked_loss_is_that_of_the_logits(ops: Ops, dtype: np.dtype) -> None:
    model = make_model(ops, dtype)
    hidden = np.random.default_rng(0).standard_normal((4, 12)).astype(dtype)
    labels = np.array([3, IGNORED, 28, 0], np.int32)
    logits = model.masked_head.logits(hidden).astype(np.float64)
    labels[2] = logits[2].argmax()
    loss, right, _ = model.masked_head.forward(hidden, labels)
    counted = [0, 2, 3]
    wanted = -log_softmax(logits)[counted, labels[counted]].sum()
    assert loss == pytest.approx(wanted, rel=1e-5 if dtype == np.float32 else 1e-12)
    assert right == (logits.argmax(-1) == labels)[counted].sum() >= 1


def test_parts_add_up_to_the_whole(ops: Ops, dtype: np.dtype) -> None:
    """29 logits a row: 7 rows in one part, by 3, or one by one where not even a row fits."""
    generator = np.random.default_rng(1)
    hidden = generator.standard_normal((7, 12)).astype(dtype)
    labels = np.array([3, IGNORED, 28, 0, 5, 5, 1], np.int32)
    found = []
    for most_logits in (7 * 29, 4 * 29 - 1, 28):
        model = make_model(ops, dtype)
        head = model.masked_head
        head.most_logits = most_logits
        loss, right, cache = head.forward(hidden, labels)
        assert (cache.dlogits is None) == (most_logits < 7 * 29)
        dhidden = head.backward(0.3, cache)
        found.append((np.array(loss), np.array(right), dhidden, model.params.grad))
    for parts in found[1:]:
        for part, whole in zip(parts, found[0], strict=True):
            scale = np.abs(whole).max()
            np.testing.assert_allclose(part, whole, rtol=0, atol=2e-6 * scale)


def test_no_more_logits_than_allowed_are_in_memory(ops: Ops) -> None:
    shapes: list[tuple[int, ...]] = []
    alive: list[ref[np.ndarray]] = []

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(ops, name)

        def vocab_cross_entropy_forward(self, *arguments: Any) -> Any:
            assert all(logits() is None for logits in alive)
            result = ops.vocab_cross_entropy_forward(*arguments)
            shapes.append(result[2].shape)
            alive.append(ref(result[2]))
            return result

    head = make_model(Watched()).masked_head
    head.most_logits = 100
    _, _, cache = head.forward(np.ones((7, 12)), np.zeros(7, np.int32))
    head.backward(1.0, cache)
    assert shapes == [(3, 29), (3, 29), (1, 29)] * 2


def test_no_masked_token_at_all(ops: Ops, dtype: np.dtype) -> None:
    head = make_model(ops, dtype).masked_head
    loss, right, cache = head.forward(np.zeros((0, 12), dtype), np.zeros(0, np.int32))
    assert (loss, right) == (0, 0)
    assert head.backward(1.0, cache).shape == (0, 12)


def test_next_sentence_loss_is_that_of_the_logits(ops: Ops, dtype: np.dtype) -> None:
    model = make_model(ops, dtype)
    pooled = np.random.default_rng(0).standard_normal((4, 12)).astype(dtype)
    labels = np.array([0, 1, IGNORED, 1], np.int32)
    logits = model.next_head.logits(pooled).astype(np.float64)
    loss, right, _ = model.next_head.forward(pooled, labels)
    counted = [0, 1, 3]
    wanted = -log_softmax(logits)[counted, labels[counted]].sum()
    assert loss == pytest.approx(wanted, rel=1e-5 if dtype == np.float32 else 1e-12)
    assert right == (logits.argmax(-1) == labels)[counted].sum()


def test_wrong_labels_are_refused(ops: Ops) -> None:
    model = make_model(ops)
    hidden = np.ones((2, 12))
    for labels, message in (
        ([0, 29], "labels holds 29"),
        ([0, -1], "labels holds -1"),
        ([0, 1, 2], "labels has shape"),
    ):
        with pytest.raises(ValueError, match=message):
            model.masked_head.forward(hidden, np.array(labels, np.int32))
    with pytest.raises(ValueError, match="labels holds 2, expected 0 to 1"):
        model.next_head.forward(hidden, np.array([0, 2], np.int32))
