"""Where an answer stands; what holds for all fine-tuned models stands in test_tasks.py."""

from __future__ import annotations

import math

import numpy as np
import pytest

from minibert.arrays import IGNORED
from minibert.ops import Ops

from .tasks import (
    LIMIT,
    answerer,
    assert_same_gradients,
    task_gradient,
    their_inputs,
    theirs,
)


def test_loss_by_hand(ops: Ops, dtype: np.dtype) -> None:
    """Without a weight every place is as likely as the others that are allowed."""
    model, batch = answerer(ops, dtype)
    model.dense.weight.value[...] = 0
    output, _ = model.forward(batch)
    counts = batch.allowed.sum(axis=1)
    assert counts.tolist() == [6, 2, 4, 6, 1, 3]  # all tokens but the one at place 1
    wanted = math.log(6 * 2 * 4 * 1 * 3)  # row 3 is ignored; start and end cost the same
    assert output.loss == pytest.approx(wanted, rel=1e-6 if dtype == np.float32 else 1e-13)
    assert output.weight == 5.0
    assert output.logits.shape == (2, 6, 7)


def test_start_and_end_have_their_own_logits(ops: Ops) -> None:
    """The loss is the mean of the two cross-entropies, the first row's with the start."""
    model, batch = answerer(ops)
    labels = np.full((6, 2), IGNORED, np.int32)
    labels[0] = 3, 5
    output, cache = model.forward(batch._replace(labels=labels))
    hidden, _, _ = model.bert.forward(*batch[:3])
    scores = hidden[0] @ model.dense.weight.value.T + model.dense.bias.value  # (T, 2)
    probs = np.where(batch.allowed[0][:, None], np.exp(scores), 0)
    probs /= probs.sum(axis=0)
    wanted = -(math.log(probs[3, 0]) + math.log(probs[5, 1])) / 2
    assert output.loss == pytest.approx(wanted, rel=1e-12)
    model.params.zero_grad()
    model.backward(3.0, cache)
    probs[3, 0] -= 1
    probs[5, 1] -= 1
    np.testing.assert_allclose(
        model.dense.weight.grad, 1.5 * probs.T @ hidden[0], rtol=1e-11, atol=1e-14
    )


def test_places_that_are_not_allowed_take_no_part(ops: Ops, dtype: np.dtype) -> None:
    """Neither their scores nor their vectors change anything, whatever they are."""
    model, batch = answerer(ops, dtype)
    logits = model.logits(batch)
    assert np.isfinite(logits).all()
    assert (logits[:, ~batch.allowed] == np.finfo(dtype).min / 2).all()
    np.testing.assert_array_equal(
        logits[:, batch.allowed],
        np.moveaxis(model.dense.forward(model.bert.forward(*batch[:3])[0])[0], -1, 0)[
            :, batch.allowed
        ],
    )
    only = batch.allowed & (np.arange(7) == 0)
    labels = np.zeros((6, 2), np.int32)
    certain = batch._replace(labels=labels, allowed=only)  # one place has probability 1
    assert model.forward(certain)[0].loss == 0.0
    assert not task_gradient(model, certain).any()


def test_everything_allowed_is_the_same_as_not_told(ops: Ops) -> None:
    model, batch = answerer(ops, everywhere=True)
    untold = batch._replace(allowed=None)
    assert model.forward(untold)[0].loss == model.forward(batch)[0].loss
    np.testing.assert_array_equal(model.logits(untold), model.logits(batch))
    assert task_gradient(model, untold).tobytes() == task_gradient(model, batch).tobytes()


def test_ignored_row_is_as_if_it_were_not_there(ops: Ops) -> None:
    model, batch = answerer(ops)
    counted = batch.labels[:, 0] != IGNORED
    fewer = batch._replace(**{name: getattr(batch, name)[counted] for name in batch._fields})
    one, other = model.forward(batch)[0], model.forward(fewer)[0]
    assert one.loss == pytest.approx(other.loss, rel=1e-14)
    assert one.weight == other.weight == 5.0
    np.testing.assert_allclose(
        task_gradient(model, fewer), task_gradient(model, batch), rtol=1e-11, atol=1e-14
    )


def test_no_label_at_all_is_no_gradient(ops: Ops) -> None:
    model, batch = answerer(ops)
    batch = batch._replace(
        labels=np.full((6, 2), IGNORED, np.int32), allowed=np.zeros_like(batch.allowed)
    )
    assert model.forward(batch)[0][:2] == (0.0, 0.0)
    assert not task_gradient(model, batch, dloss=1.0).any()


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((3, 7), r"labels holds 7, expected 0 to 6 or -100 \(ignored\)"),
        ((-1, 3), "labels holds -1, expected 0 to 6"),
        ((3, 1), r"labels of row 2 are \[3, 1\], expected two places that are allowed or -100"),
        ((6, 6), r"labels of row 2 are \[6, 6\], expected two places that are allowed"),
        ((IGNORED, 3), r"labels of row 2 are \[-100, 3\], expected two places .* twice"),
        ((3, IGNORED), r"labels of row 2 are \[3, -100\], expected two places"),
    ],
)
def test_wrong_places_are_named(ops: Ops, row, message: str) -> None:
    model, batch = answerer(ops)
    labels = batch.labels.copy()
    labels[2] = row
    with pytest.raises(ValueError, match=message):
        model.forward(batch._replace(labels=labels))


def test_half_an_answer_is_refused_wherever_it_may_stand(ops: Ops) -> None:
    model, batch = answerer(ops)
    labels = np.array([[0, 0]] * 5 + [[0, IGNORED]], np.int32)
    with pytest.raises(ValueError, match=r"labels of row 5 are \[0, -100\]"):
        model.forward(batch._replace(labels=labels, allowed=None))


def test_wrong_shapes_and_dtypes_are_named(ops: Ops) -> None:
    model, batch = answerer(ops)
    for labels in (batch.labels[:, 0], batch.labels[:, :1], batch.labels.T):
        with pytest.raises(ValueError, match=r"labels has shape .* expected \(6, 2\)"):
            model.forward(batch._replace(labels=labels))
    for run in (model.forward, model.logits):
        with pytest.raises(ValueError, match=r"allowed has shape \(6, 5\), expected \(6, 7\)"):
            run(batch._replace(allowed=batch.allowed[:, :5]))
        with pytest.raises(TypeError, match="allowed has dtype int64, expected bool"):
            run(batch._replace(allowed=batch.allowed.astype(np.int64)))


@pytest.mark.parity
@pytest.mark.parametrize("seed", range(5))
def test_equals_transformers(ops: Ops, seed: int) -> None:
    """Theirs lets an answer stand anywhere, padding included."""
    model, batch = answerer(ops, everywhere=True, seed=seed)
    torch, other = theirs("BertForQuestionAnswering", model, num_labels=2)
    places = np.where(batch.labels == IGNORED, 7, batch.labels)  # they ignore what is too far out
    start, end = torch.from_numpy(places).long().unbind(1)
    result = other(**their_inputs(torch, batch), start_positions=start, end_positions=end)
    result.loss.backward()
    output, _ = model.forward(batch)
    logits = np.stack([result.start_logits.detach(), result.end_logits.detach()])
    np.testing.assert_allclose(output.logits, logits, rtol=LIMIT, atol=1e-12)
    assert output.loss / output.weight == pytest.approx(result.loss.item(), rel=LIMIT)
    task_gradient(model, batch)
    assert_same_gradients(model, other)


@pytest.mark.parity
def test_allowed_places_equal_torchs_masked_softmax(ops: Ops) -> None:
    model, batch = answerer(ops)
    torch, other = theirs("BertForQuestionAnswering", model, num_labels=2)
    result = other(**their_inputs(torch, batch))
    closed = ~torch.from_numpy(batch.allowed)
    labels = torch.from_numpy(batch.labels).long()
    loss = sum(
        torch.nn.functional.cross_entropy(logits.masked_fill(closed, -math.inf), labels[:, side])
        for side, logits in enumerate((result.start_logits, result.end_logits))
    )
    (loss / 2).backward()
    output, _ = model.forward(batch)
    assert output.loss / output.weight == pytest.approx(loss.item() / 2, rel=LIMIT)
    task_gradient(model, batch)
    assert_same_gradients(model, other)
