"""One answer a row; what holds for all fine-tuned models stands in test_tasks.py."""

from __future__ import annotations

import math

import numpy as np
import pytest

from minibert.arrays import IGNORED
from minibert.models.classification import BertForSequenceClassification
from minibert.ops import Ops

from .common import small_config
from .tasks import (
    LABELS,
    LIMIT,
    assert_same_gradients,
    classifier,
    regression,
    task_gradient,
    their_inputs,
    theirs,
)


def test_loss_by_hand(ops: Ops, dtype: np.dtype) -> None:
    """Without a weight the logits are the bias: ln 1, ln 3, ln 4 are probabilities ⅛, ⅜, ½."""
    model, batch = classifier(ops, dtype, weights=(2.0, 10.0, 0.5))
    model.classifier.dense.weight.value[...] = 0
    model.classifier.dense.bias.value[...] = np.log([1, 3, 4])
    labels = np.array([0, 1, 1, IGNORED, 2, IGNORED], np.int32)
    output, cache = model.forward(batch._replace(labels=labels))
    wanted = 2 * math.log(8) + 20 * math.log(8 / 3) + 0.5 * math.log(2)
    assert output.loss == pytest.approx(wanted, rel=1e-6 if dtype == np.float32 else 1e-13)
    assert output.weight == 22.5
    assert output.logits.shape == (6, 3)
    model.params.zero_grad()
    model.backward(3.0, cache)
    # 3 · Σ w (p - one-hot), 22.5 p - [2, 20, 0.5]
    np.testing.assert_allclose(
        model.classifier.dense.bias.grad,
        3 * (22.5 * np.array([1, 3, 4]) / 8 - [2, 20, 0.5]),
        rtol=1e-5 if dtype == np.float32 else 1e-13,
    )


def test_regression_by_hand(ops: Ops) -> None:
    """The score is the bias, 3: in units of 2 it is (3 - 1) / 2 = 1 off one label, 0 off five."""
    model, batch = regression(ops, unit=2.0)
    model.classifier.dense.weight.value[...] = 0
    model.classifier.dense.bias.value[...] = 3
    labels = np.array([1.0, 3.0, 3.0, 3.0, 3.0, 3.0])
    output, cache = model.forward(batch._replace(labels=labels))
    assert output[:2] == (1.0, 6.0)
    assert output.logits.tolist() == [[3.0]] * 6
    model.params.zero_grad()
    model.backward(5.0, cache)
    assert model.classifier.dense.bias.grad.tolist() == [5.0]  # 5 · 2 · 1 / 2


def test_unit_is_only_a_scale_of_the_loss(ops: Ops) -> None:
    plain, batch = regression(ops, unit=1.0)
    other, _ = regression(ops, unit=4.0)
    assert 16 * other.forward(batch)[0].loss == pytest.approx(plain.forward(batch)[0].loss)
    np.testing.assert_allclose(
        16 * task_gradient(other, batch), task_gradient(plain, batch), rtol=1e-12, atol=1e-13
    )


@pytest.mark.parametrize("make", [classifier, regression])
def test_first_token_alone_equals_every_place(ops: Ops, make) -> None:
    """The last layer computes [CLS] only; without dropout that changes nothing."""
    model, batch = make(ops)
    output, cache = model.forward(batch)
    wanted = task_gradient(model, batch)
    hidden, pooled, bert = model.bert.forward(*batch[:3])
    assert hidden.shape == (6, 7, 12)
    logits, head = model.classifier.forward(pooled, None)
    np.testing.assert_allclose(output.logits, logits, rtol=1e-13)
    model.params.zero_grad()
    model.backward(1 / output.weight, cache._replace(bert=bert, classifier=head))
    assert abs(model.params.grad - wanted).max() < 1e-13 * abs(wanted).max()


def test_ignored_row_is_as_if_it_were_not_there(ops: Ops) -> None:
    model, batch = classifier(ops)
    counted = batch.labels != IGNORED
    fewer = batch._replace(**{name: getattr(batch, name)[counted] for name in batch._fields[:4]})
    one, other = model.forward(batch)[0], model.forward(fewer)[0]
    assert one.loss == pytest.approx(other.loss, rel=1e-14)
    assert one.weight == other.weight
    np.testing.assert_allclose(
        task_gradient(model, fewer), task_gradient(model, batch), rtol=1e-12, atol=1e-14
    )


def test_no_label_at_all_is_no_gradient(ops: Ops) -> None:
    model, batch = classifier(ops)
    batch = batch._replace(labels=np.full(6, IGNORED, np.int32))
    assert model.forward(batch)[0][:2] == (0.0, 0.0)
    assert not task_gradient(model, batch, dloss=1.0).any()


def test_weights_of_1_are_the_default(ops: Ops) -> None:
    given, batch = classifier(ops, weights=(1, 1, 1))
    default, _ = classifier(ops, weights=None)
    assert default.forward(batch)[0][:2] == given.forward(batch)[0][:2]
    assert default.weight(batch) == 5.0


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([0, 1, 3, 0, 0, 0], ValueError, r"labels holds 3, expected 0 to 2 or -100 \(ignored\)"),
        ([0, 1, -1, 0, 0, 0], ValueError, "labels holds -1, expected 0 to 2"),
        ([[0]] * 6, ValueError, r"labels has shape \(6, 1\), expected \(6\)"),
        ([0.0] * 6, TypeError, r"labels has dtype float64, expected integers"),
    ],
)
def test_wrong_labels_are_named(ops: Ops, labels, error: type, message: str) -> None:
    model, batch = classifier(ops)
    with pytest.raises(error, match=message):
        model.forward(batch._replace(labels=np.asarray(labels)))


def test_wrong_scores_are_named(ops: Ops) -> None:
    model, batch = regression(ops)
    with pytest.raises(TypeError, match="labels has dtype int64, expected float32 or float64"):
        model.forward(batch._replace(labels=np.arange(6)))
    with pytest.raises(ValueError, match=r"labels has shape \(5,\), expected \(6\)"):
        model.forward(batch._replace(labels=np.zeros(5)))


@pytest.mark.parametrize(("labels", "weights"), [(LABELS, (1.0, 2.0)), ((), (1.0,))])
def test_class_weights_are_one_a_class(labels, weights) -> None:
    with pytest.raises(ValueError, match=r"class_weights has shape .* expected \("):
        BertForSequenceClassification(small_config(), labels, "numpy", class_weights=weights)


def test_config() -> None:
    config = classifier("numpy")[0].to_json()
    assert config["problem_type"] == "single_label_classification"
    assert config["id2label"] == {"0": "no", "1": "yes", "2": "perhaps"}
    config = regression("numpy")[0].to_json()
    assert config["problem_type"] == "regression"
    assert config["id2label"] == {"0": "LABEL_0"}  # one output, for transformers


@pytest.mark.parity
@pytest.mark.parametrize("seed", range(5))
def test_equals_transformers(ops: Ops, seed: int) -> None:
    model, batch = classifier(ops, weights=None, seed=seed)
    torch, other = theirs("BertForSequenceClassification", model, num_labels=3)
    result = other(**their_inputs(torch, batch), labels=torch.from_numpy(batch.labels).long())
    result.loss.backward()
    output, _ = model.forward(batch)
    np.testing.assert_allclose(output.logits, result.logits.detach(), rtol=LIMIT, atol=1e-12)
    assert output.loss / output.weight == pytest.approx(result.loss.item(), rel=LIMIT)
    task_gradient(model, batch)
    assert_same_gradients(model, other)


@pytest.mark.parity
def test_class_weights_are_torchs(ops: Ops) -> None:
    model, batch = classifier(ops)
    torch, other = theirs("BertForSequenceClassification", model, num_labels=3)
    loss = torch.nn.functional.cross_entropy(
        other(**their_inputs(torch, batch)).logits,
        torch.from_numpy(batch.labels).long(),
        weight=torch.from_numpy(model.class_weights),
    )
    loss.backward()
    output, _ = model.forward(batch)
    assert output.loss / output.weight == pytest.approx(loss.item(), rel=LIMIT)
    task_gradient(model, batch)
    assert_same_gradients(model, other)


@pytest.mark.parity
@pytest.mark.parametrize("seed", range(3))
def test_regression_equals_transformers(ops: Ops, seed: int) -> None:
    model, batch = regression(ops, unit=1.0, seed=seed)
    torch, other = theirs(
        "BertForSequenceClassification", model, num_labels=1, problem_type="regression"
    )
    result = other(**their_inputs(torch, batch), labels=torch.from_numpy(batch.labels).double())
    result.loss.backward()
    output, _ = model.forward(batch)
    np.testing.assert_allclose(output.logits, result.logits.detach(), rtol=LIMIT, atol=1e-12)
    assert output.loss / output.weight == pytest.approx(result.loss.item(), rel=LIMIT)
    task_gradient(model, batch)
    assert_same_gradients(model, other)
