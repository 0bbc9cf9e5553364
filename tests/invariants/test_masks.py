"""Where nobody looks: rows that are masked whole, steps without a masked token, padding."""

from __future__ import annotations

import numpy as np
import pytest

from minibert.arrays import IGNORED
from minibert.config import BertConfig
from minibert.keys import Key
from minibert.models.pretraining import BertForPreTraining

from ..models.common import gradient, make_batch, make_model
from .common import KEY, assert_near


def test_a_row_of_padding_alone_is_finite_and_leaves_the_others_alone(ops, dtype) -> None:
    """As when a batch is filled up with empty rows.  Nothing of it enters the loss."""
    model = make_model(ops, dtype)
    batch = make_batch(model)
    others = np.array([0, 1, 3, 4])
    in_row = batch.masked_positions // 7 == 2
    labels = np.where(in_row, IGNORED, batch.masked_labels).astype(np.int32)
    batch = batch._replace(masked_labels=labels)
    assert batch.next_labels[2] == IGNORED
    mask = batch.attention_mask.copy()
    mask[2] = False
    blind = batch._replace(attention_mask=mask)
    seen, unseen = (model.bert.forward(*b[:3]) for b in (batch, blind))
    for before, after in zip(seen[:2], unseen[:2], strict=True):
        assert np.isfinite(after).all()
        assert after[others].tobytes() == before[others].tobytes()
    assert model.forward(blind)[0] == model.forward(batch)[0]
    wanted, got = gradient(model, batch), gradient(model, blind)
    assert np.isfinite(got).all()
    assert_near(got, wanted, dtype)


def test_a_row_of_padding_alone_that_is_in_the_loss_has_finite_gradients(ops, dtype) -> None:
    model = make_model(ops, dtype)
    batch = make_batch(model)
    blind = batch._replace(attention_mask=np.zeros_like(batch.attention_mask))
    output, _ = model.forward(blind, KEY)
    assert np.isfinite(output.loss)
    assert np.isfinite(gradient(model, blind, key=KEY)).all()


@pytest.mark.parametrize("how", ["no positions", "ignored labels"])
def test_no_masked_token_gives_loss_0_and_no_gradient_of_the_head(ops, dtype, how) -> None:
    model = make_model(ops, dtype)
    batch = make_batch(model)
    if how == "no positions":
        empty = np.zeros(0, np.int32)
        batch = batch._replace(masked_positions=empty, masked_labels=empty)
    else:
        batch = batch._replace(masked_labels=np.full_like(batch.masked_labels, IGNORED))
    output, _ = model.forward(batch, KEY)
    assert (output.masked_loss, output.masked_right, output.masked_count) == (0, 0, 0)
    assert output.loss == pytest.approx(output.next_loss / 4)
    grad = gradient(model, batch, key=KEY)
    assert np.isfinite(grad).all()
    for parameter in model.params:
        if parameter.name.startswith("cls.predictions"):
            assert not parameter.grad.any(), parameter.name
    assert model.params["bert.pooler.dense.weight"].grad.any()
    silent = batch._replace(next_labels=np.full_like(batch.next_labels, IGNORED))
    assert model.forward(silent, KEY)[0].loss == 0
    assert not gradient(model, silent, key=KEY).any()


@pytest.mark.parametrize("vocab_size", [50, 1000])
@pytest.mark.parametrize("key", [None, Key(1)])
def test_loss_at_the_start_is_ln_v_plus_ln_2(ops, dtype, vocab_size, key) -> None:
    config = BertConfig.preset("tiny", vocab_size=vocab_size)
    model = BertForPreTraining(config, ops, dtype)
    model.initialize(Key(0))
    output, _ = model.forward(make_batch(model, (30, 25, 30, 12)), key)
    assert abs(output.loss - (np.log(vocab_size) + np.log(2))) < 0.2


def test_bias_of_the_keys_has_no_gradient(ops, dtype) -> None:
    """It adds q · b to all scores of a query alike, and softmax does not see what all share."""
    model = make_model(ops, dtype)
    gradient(model, make_batch(model), key=KEY)
    names = [name for name in model.params.parameters if name.endswith("attention.self.key.bias")]
    assert len(names) == 2
    for name in names:
        sibling = model.params[name.replace("key", "query")].grad
        limit = 1e-5 if dtype == np.float32 else 1e-13
        assert np.abs(model.params[name].grad).max() <= limit * np.abs(sibling).max()
