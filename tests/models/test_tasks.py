"""What every fine-tuned model promises; what is special about each stands in its own file."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from minibert.keys import Key
from minibert.ops import Ops

from .tasks import KINDS, select, task_gradient

TOLERANCE = {"float32": 2e-5, "float64": 1e-12}

pytestmark = pytest.mark.parametrize("kind", KINDS)


def test_backends_agree(ops: Ops, dtype: np.dtype, kind: str) -> None:
    reference, batch = KINDS[kind]("numpy", dtype)
    model, _ = KINDS[kind](ops, dtype)
    tolerance = TOLERANCE[dtype.name]
    for key in (None, Key(4)):
        wanted, got = reference.forward(batch, key)[0], model.forward(batch, key)[0]
        assert got.loss == pytest.approx(wanted.loss, rel=tolerance)
        assert got.weight == wanted.weight
        np.testing.assert_allclose(got.logits, wanted.logits, atol=tolerance, rtol=tolerance)
        gradients = [task_gradient(m, batch, key) for m in (reference, model)]
        assert abs(gradients[1] - gradients[0]).max() < tolerance * abs(gradients[0]).max()


def test_all_is_of_the_models_dtype(ops: Ops, dtype: np.dtype, kind: str) -> None:
    model, batch = KINDS[kind](ops, dtype)
    output, cache = model.forward(batch, Key(1))
    assert output.logits.dtype == dtype
    assert (type(output.loss), type(output.weight)) == (float, float)
    model.backward(np.float64(0.5), cache)  # accumulate refuses any other dtype
    assert np.isfinite(model.params.grad).all()


def test_float32_is_float64_rounded(ops: Ops, kind: str) -> None:
    (double, batch), (single, _) = (KINDS[kind](ops, dtype) for dtype in (np.float64, np.float32))
    single.params.value[:] = double.params.value
    wanted, got = double.forward(batch)[0], single.forward(batch)[0]
    assert got.loss == pytest.approx(wanted.loss, rel=2e-5)
    assert got.weight == wanted.weight
    gradients = task_gradient(double, batch), task_gradient(single, batch)
    assert abs(gradients[1] - gradients[0]).max() < 5e-5 * abs(gradients[0]).max()


def test_logits_are_those_of_forward_without_dropout(ops: Ops, kind: str) -> None:
    model, batch = KINDS[kind](ops)
    wanted = model.forward(batch)[0].logits
    np.testing.assert_array_equal(model.logits(batch), wanted)
    np.testing.assert_array_equal(model.logits(batch._replace(labels=None)), wanted)


def test_same_key_same_bytes_another_key_another_loss(ops: Ops, dtype: np.dtype, kind: str) -> None:
    model, batch = KINDS[kind](ops, dtype)
    first = task_gradient(model, batch, Key(1))
    assert task_gradient(model, batch, Key(1)).tobytes() == first.tobytes()
    assert len({model.forward(batch, key)[0].loss for key in (None, Key(1), Key(2))}) == 3


def test_two_calls_add_up_and_their_caches_are_their_own(ops: Ops, kind: str) -> None:
    model, batch = KINDS[kind](ops)
    parts = select(batch, slice(0, 2)), select(batch, slice(2, 6))
    wanted = sum(task_gradient(model, part, dloss=0.5) for part in parts)
    model.params.zero_grad()
    caches = [model.forward(part)[1] for part in parts]
    for cache in reversed(caches):
        model.backward(0.5, cache)
    np.testing.assert_allclose(model.params.grad, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("cuts", [(0, 2, 6), (0, 4, 6), (0, 2, 4, 6)])
def test_micro_batches_are_one_batch(ops: Ops, kind: str, cuts: tuple[int, ...]) -> None:
    """Losses and weights are sums, so the step's mean is the batch's, however it was cut."""
    model, batch = KINDS[kind](ops)
    whole = model.forward(batch)[0]
    wanted = task_gradient(model, batch)
    parts = [select(batch, slice(*ends)) for ends in pairwise(cuts)]
    weight = sum(model.weight(part) for part in parts)
    assert weight == pytest.approx(whole.weight, rel=1e-14)
    model.params.zero_grad()
    loss = 0.0
    for part in parts:
        output, cache = model.forward(part)
        assert output.weight == model.weight(part)
        loss += output.loss / weight
        model.backward(1 / weight, cache)
    assert loss == pytest.approx(whole.loss / whole.weight, rel=1e-12)
    assert abs(model.params.grad - wanted).max() < 1e-12 * abs(wanted).max()


def test_dloss_scales_and_nothing_passed_in_is_changed(ops: Ops, kind: str) -> None:
    model, batch = KINDS[kind](ops)
    kept = [None if array is None else array.copy() for array in batch]
    values = model.params.value.copy()
    one, three = (task_gradient(model, batch, Key(1), dloss) for dloss in (1.0, 3.0))
    np.testing.assert_allclose(three, 3 * one, rtol=1e-11, atol=1e-13)
    for array, before in zip(batch, kept, strict=True):
        if before is not None:
            np.testing.assert_array_equal(array, before)
    np.testing.assert_array_equal(model.params.value, values)


def test_what_stands_on_padding_changes_nothing(ops: Ops, kind: str) -> None:
    model, batch = KINDS[kind](ops)
    mask = batch.attention_mask
    other = batch._replace(
        input_ids=np.where(mask, batch.input_ids, 28).astype(np.int32),
        token_type_ids=np.where(mask, batch.token_type_ids, 1).astype(np.int32),
    )
    assert model.forward(other)[0].loss == pytest.approx(model.forward(batch)[0].loss, rel=1e-12)
    gradients = task_gradient(model, batch), task_gradient(model, other)
    np.testing.assert_allclose(gradients[1], gradients[0], atol=1e-12)
    word = model.bert.embeddings.word.grad
    np.testing.assert_allclose(word[28], 0, atol=1e-15)


def test_config_names_the_class(kind: str) -> None:
    model, _ = KINDS[kind]("numpy")
    config = model.to_json()
    assert config["architectures"] == [model.architecture]
    assert config["hidden_size"] == 12
    assert ("id2label" in config) == (kind in ("classification", "regression", "tagging"))


def test_wrong_rows_are_refused(ops: Ops, kind: str) -> None:
    model, batch = KINDS[kind](ops)
    with pytest.raises(ValueError, match=r"input_ids holds .* expected 0 to 28"):
        model.forward(batch._replace(input_ids=batch.input_ids + np.int32(29)))
    with pytest.raises(TypeError, match="attention_mask has dtype int64, expected bool"):
        model.forward(batch._replace(attention_mask=batch.attention_mask.astype(np.int64)))
    with pytest.raises(ValueError, match="labels has shape"):
        model.forward(batch._replace(labels=batch.labels[:-1]))
    with pytest.raises(TypeError, match="labels is a list, expected an array"):
        model.forward(batch._replace(labels=batch.labels.tolist()))
    kinds = "integers" if batch.labels.dtype.kind == "i" else "float32 or float64"
    other = np.float32 if batch.labels.dtype.kind == "i" else np.int32
    with pytest.raises(TypeError, match=f"labels has dtype .* expected {kinds}"):
        model.forward(batch._replace(labels=batch.labels.astype(other)))
