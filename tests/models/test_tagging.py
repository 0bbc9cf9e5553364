"""One class a token; what holds for all fine-tuned models stands in test_tasks.py."""

from __future__ import annotations

import math

import numpy as np
import pytest

from minibert.arrays import IGNORED
from minibert.models.tagging import BertForTokenClassification
from minibert.ops import Ops

from .common import small_config
from .tasks import (
    LABELS,
    LIMIT,
    assert_same_gradients,
    tagger,
    task_gradient,
    their_inputs,
    theirs,
)


def test_loss_by_hand(ops: Ops) -> None:
    """Without a weight the logits are the bias: ln 1, ln 3, ln 4 are probabilities ⅛, ⅜, ½."""
    model, batch = tagger(ops, weights=(2.0, 10.0, 0.5))
    model.classifier.dense.weight.value[...] = 0
    model.classifier.dense.bias.value[...] = np.log([1, 3, 4])
    labels = np.full((6, 7), IGNORED, np.int32)
    labels[0, 3], labels[2, 1], labels[5, 3] = 0, 1, 2
    output, cache = model.forward(batch._replace(labels=labels))
    wanted = 2 * math.log(8) + 10 * math.log(8 / 3) + 0.5 * math.log(2)
    assert output.loss == pytest.approx(wanted, rel=1e-13)
    assert output.weight == 12.5
    assert output.logits.shape == (6, 7, 3)
    model.params.zero_grad()
    model.backward(3.0, cache)
    np.testing.assert_allclose(
        model.classifier.dense.bias.grad,
        3 * (12.5 * np.array([1, 3, 4]) / 8 - [2, 10, 0.5]),
        rtol=1e-13,
    )


def test_a_label_belongs_to_its_own_token(ops: Ops) -> None:
    """The gradient of the logits is p - one-hot at the labelled token, and 0 everywhere else."""
    model, batch = tagger(ops, weights=None)
    labels = np.full((6, 7), IGNORED, np.int32)
    labels[3, 5] = 2
    output, cache = model.forward(batch._replace(labels=labels))
    probs = np.exp(output.logits[3, 5]) / np.exp(output.logits[3, 5]).sum()
    assert output.loss == pytest.approx(-math.log(probs[2]), rel=1e-12)
    model.params.zero_grad()
    model.backward(1.0, cache)
    hidden, _, _ = model.bert.forward(*batch[:3])
    wanted = np.outer(probs - [0, 0, 1], hidden[3, 5])
    np.testing.assert_allclose(model.classifier.dense.weight.grad, wanted, rtol=1e-11, atol=1e-14)


def test_ignored_tokens_change_nothing(ops: Ops) -> None:
    """A row of ignored tokens is as if it were not there."""
    model, batch = tagger(ops)
    labels = batch.labels.copy()
    labels[[1, 4]] = IGNORED
    some = batch._replace(labels=labels)
    kept = [0, 2, 3, 5]
    fewer = some._replace(**{name: getattr(some, name)[kept] for name in some._fields[:4]})
    one, other = model.forward(some)[0], model.forward(fewer)[0]
    assert one.loss == pytest.approx(other.loss, rel=1e-13)
    assert one.weight == pytest.approx(other.weight, rel=1e-15)
    np.testing.assert_allclose(
        task_gradient(model, fewer), task_gradient(model, some), rtol=1e-11, atol=1e-14
    )


def test_no_label_at_all_is_no_gradient(ops: Ops) -> None:
    model, batch = tagger(ops)
    batch = batch._replace(labels=np.full((6, 7), IGNORED, np.int32))
    assert model.forward(batch)[0][:2] == (0.0, 0.0)
    assert not task_gradient(model, batch, dloss=1.0).any()


def test_weight_counts_labelled_tokens(ops: Ops) -> None:
    model, batch = tagger(ops, weights=None)
    assert model.weight(batch) == (batch.labels != IGNORED).sum() > 10
    weighted, _ = tagger(ops)
    wanted = sum(weighted.class_weights[k] * (batch.labels == k).sum() for k in range(3))
    assert weighted.weight(batch) == pytest.approx(wanted, rel=1e-14)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda x: x * 0 + 3, ValueError, r"labels holds 3, expected 0 to 2 or -100 \(ignored\)"),
        (lambda x: x * 0 - 1, ValueError, "labels holds -1, expected 0 to 2"),
        (lambda x: x[:, 0], ValueError, r"labels has shape \(6,\), expected \(6, 7\)"),
        (lambda x: x[:, :5], ValueError, r"labels has shape \(6, 5\), expected \(6, 7\)"),
        (lambda x: x * 1.0, TypeError, "labels has dtype float64, expected integers"),
    ],
)
def test_wrong_labels_are_named(ops: Ops, change, error: type, message: str) -> None:
    model, batch = tagger(ops)
    with pytest.raises(error, match=message):
        model.forward(batch._replace(labels=change(batch.labels)))


def test_class_weights_are_one_a_class() -> None:
    with pytest.raises(ValueError, match=r"class_weights has shape \(2,\), expected \(3\)"):
        BertForTokenClassification(small_config(), LABELS, "numpy", class_weights=(1.0, 2.0))


def test_there_is_no_pooler() -> None:
    model, _ = tagger("numpy")
    assert model.bert.pooler is None
    assert not [name for name in model.params.parameters if "pooler" in name]


@pytest.mark.parity
@pytest.mark.parametrize("seed", range(5))
def test_equals_transformers(ops: Ops, seed: int) -> None:
    model, batch = tagger(ops, weights=None, seed=seed)
    torch, other = theirs("BertForTokenClassification", model, num_labels=3)
    result = other(**their_inputs(torch, batch), labels=torch.from_numpy(batch.labels).long())
    result.loss.backward()
    output, _ = model.forward(batch)
    real, logits = batch.attention_mask, result.logits.detach().numpy()
    np.testing.assert_allclose(output.logits[real], logits[real], rtol=LIMIT, atol=1e-12)
    assert output.loss / output.weight == pytest.approx(result.loss.item(), rel=LIMIT)
    task_gradient(model, batch)
    assert_same_gradients(model, other)


@pytest.mark.parity
def test_class_weights_are_torchs(ops: Ops) -> None:
    model, batch = tagger(ops)
    torch, other = theirs("BertForTokenClassification", model, num_labels=3)
    loss = torch.nn.functional.cross_entropy(
        other(**their_inputs(torch, batch)).logits.view(-1, 3),
        torch.from_numpy(batch.labels).long().view(-1),
        weight=torch.from_numpy(model.class_weights),
    )
    loss.backward()
    output, _ = model.forward(batch)
    assert output.loss / output.weight == pytest.approx(loss.item(), rel=LIMIT)
    task_gradient(model, batch)
    assert_same_gradients(model, other)
