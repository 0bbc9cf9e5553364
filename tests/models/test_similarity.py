"""How alike two sentences are; what holds for all fine-tuned models stands in test_tasks.py."""

from __future__ import annotations

import numpy as np
import pytest

from minibert.models.classifier import TaskBatch
from minibert.ops import Ops

from .tasks import (
    LIMIT,
    assert_same_gradients,
    make_rows,
    similar,
    task_gradient,
    their_inputs,
    theirs,
)


def test_loss_by_hand(ops: Ops) -> None:
    """Where every token has one vector all cosines are 1: losses 0², 0.5² and 3²."""
    model, batch = similar(ops)
    last = model.bert.layers[-1].add_norm2
    last.weight.value[...] = 0
    output, _ = model.forward(batch._replace(labels=np.array([1.0, 0.5, -2.0])))
    np.testing.assert_allclose(output.logits, [[1.0]] * 3, rtol=1e-15)
    assert output.loss == pytest.approx(9.25, rel=1e-14)
    assert output.weight == 3.0


def test_logits_are_cosines_of_means(ops: Ops) -> None:
    model, batch = similar(ops)
    hidden, _, _ = model.bert.forward(*batch[:3])
    means = [row[mask].mean(axis=0) for row, mask in zip(hidden, batch.attention_mask, strict=True)]
    units = [mean / np.linalg.norm(mean) for mean in means]
    wanted = [[units[n] @ units[n + 1]] for n in (0, 2, 4)]
    np.testing.assert_allclose(model.logits(batch), wanted, rtol=1e-13)
    assert model.logits(batch).shape == (3, 1)


def test_order_within_a_pair_does_not_matter(ops: Ops) -> None:
    model, batch = similar(ops)
    order = [1, 0, 3, 2, 5, 4]
    swapped = TaskBatch(*(array[order] for array in batch[:3]), batch.labels)
    assert model.forward(swapped)[0].loss == pytest.approx(model.forward(batch)[0].loss, rel=1e-13)
    np.testing.assert_allclose(
        task_gradient(model, swapped), task_gradient(model, batch), rtol=1e-11, atol=1e-14
    )


def test_a_sentence_with_itself(ops: Ops) -> None:
    """The cosine cannot be higher, so whatever the label, no gradient arrives anywhere."""
    model, batch = similar(ops)
    twice = [0, 0, 2, 2, 5, 5]
    batch = TaskBatch(*(array[twice] for array in batch[:3]), batch.labels)
    np.testing.assert_allclose(model.logits(batch), 1.0, rtol=1e-14)
    assert abs(task_gradient(model, batch)).max() < 1e-14


def test_a_sentence_without_a_token_stays_finite(ops: Ops, dtype: np.dtype) -> None:
    model, batch = similar(ops, dtype)
    mask = batch.attention_mask.copy()
    mask[1] = False
    batch = batch._replace(attention_mask=mask)
    assert model.logits(batch)[0] == 0.0
    assert np.isfinite(task_gradient(model, batch)).all()


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        (np.arange(3), TypeError, "labels has dtype int64, expected float32 or float64"),
        (np.zeros(6), ValueError, r"labels has shape \(6,\), expected \(3\)"),
        (np.zeros((3, 1)), ValueError, r"labels has shape \(3, 1\), expected \(3\)"),
    ],
)
def test_wrong_labels_are_named(ops: Ops, labels, error: type, message: str) -> None:
    model, batch = similar(ops)
    with pytest.raises(error, match=message):
        model.forward(batch._replace(labels=labels))


def test_rows_come_in_pairs(ops: Ops) -> None:
    model, _ = similar(ops)
    rows = [array[:5] for array in make_rows()]
    batch = TaskBatch(*rows, np.zeros(2))
    for run in (model.forward, model.logits):
        with pytest.raises(ValueError, match="input_ids has 5 rows, expected two for a pair"):
            run(batch)


@pytest.mark.parity
@pytest.mark.parametrize("seed", range(5))
def test_equals_torch(ops: Ops, seed: int) -> None:
    model, batch = similar(ops, seed=seed)
    torch, other = theirs("BertModel", model)
    inputs = their_inputs(torch, batch)
    hidden, mask = other(**inputs).last_hidden_state, inputs["attention_mask"][..., None]
    vectors = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
    cosine = torch.nn.functional.cosine_similarity(vectors[0::2], vectors[1::2])
    loss = torch.nn.functional.mse_loss(cosine, torch.from_numpy(batch.labels).double())
    loss.backward()
    output, _ = model.forward(batch)
    np.testing.assert_allclose(output.logits[:, 0], cosine.detach(), rtol=LIMIT)
    assert output.loss / output.weight == pytest.approx(loss.item(), rel=LIMIT)
    task_gradient(model, batch)
    assert_same_gradients(model, other)
