from __future__ import annotations

import numpy as np
import pytest

from minibert.models.bert import Bert
from minibert.ops import Ops, get_ops
from minibert.params import ParamStore

from .common import LENGTHS, make_batch, make_model, small_config

TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


def inputs(batch):
    return batch.input_ids, batch.token_type_ids, batch.attention_mask


def test_shapes_and_dtype(ops: Ops, dtype: np.dtype) -> None:
    model = make_model(ops, dtype)
    hidden, pooled, cache = model.bert.forward(*inputs(make_batch(model)))
    assert hidden.shape == (5, 7, 12)
    assert pooled.shape == (5, 12)
    assert len(cache.layers) == 2
    assert hidden.dtype == pooled.dtype == dtype


def test_padding_changes_nothing(ops: Ops, dtype: np.dtype) -> None:
    """A row gives the same alone, in a batch of longer rows, and whatever the padding's ids are."""
    model = make_model(ops, dtype)
    ids, types, mask = inputs(make_batch(model))
    hidden, pooled, _ = model.bert.forward(ids, types, mask)
    other_ids, other_types = np.where(mask, ids, 28), np.where(mask, types, 1)
    again, pooled_again, _ = model.bert.forward(other_ids, other_types, mask)
    tolerance = TOLERANCE[str(dtype)]
    np.testing.assert_allclose(again[mask], hidden[mask], atol=tolerance, rtol=0)
    np.testing.assert_allclose(pooled_again, pooled, atol=tolerance, rtol=0)
    for row, length in enumerate(LENGTHS):
        part = np.s_[row : row + 1, :length]
        alone, pooled_alone, _ = model.bert.forward(ids[part], types[part], mask[part])
        np.testing.assert_allclose(alone[0], hidden[row, :length], atol=tolerance, rtol=0)
        np.testing.assert_allclose(pooled_alone[0], pooled[row], atol=tolerance, rtol=0)


def test_order_of_the_rows_changes_nothing(ops: Ops, dtype: np.dtype) -> None:
    model = make_model(ops, dtype)
    ids, types, mask = inputs(make_batch(model))
    hidden, pooled, _ = model.bert.forward(ids, types, mask)
    order = [3, 0, 4, 1, 2]
    moved, pooled_moved, _ = model.bert.forward(ids[order], types[order], mask[order])
    tolerance = TOLERANCE[str(dtype)]
    np.testing.assert_allclose(moved, hidden[order], atol=tolerance, rtol=0)
    np.testing.assert_allclose(pooled_moved, pooled[order], atol=tolerance, rtol=0)


def test_a_row_of_padding_alone_stays_finite(ops: Ops, dtype: np.dtype) -> None:
    model = make_model(ops, dtype)
    ids, types, mask = inputs(make_batch(model))
    wanted, _, _ = model.bert.forward(ids, types, mask)
    mask[1] = False
    hidden, pooled, cache = model.bert.forward(ids, types, mask)
    assert np.isfinite(hidden).all()
    np.testing.assert_array_equal(hidden[0], wanted[0])
    model.params.zero_grad()
    model.bert.backward(np.ones_like(hidden), np.ones_like(pooled), cache)
    assert np.isfinite(model.params.grad).all()


def test_position_and_segment_matter(ops: Ops) -> None:
    model = make_model(ops)
    ids = np.array([[5, 6, 6, 5]], np.int32)
    zeros, mask = np.zeros_like(ids), np.ones(ids.shape, np.bool_)
    hidden, _, _ = model.bert.forward(ids, zeros, mask)
    assert abs(hidden[0, 1] - hidden[0, 2]).max() > 1e-3  # one token, two places
    other, _, _ = model.bert.forward(ids, zeros + 1, mask)
    assert abs(hidden - other).max() > 1e-3


def test_pooler_is_square(ops: Ops) -> None:
    bert = Bert(ParamStore().scope("bert"), small_config(), ops)
    assert bert.pooler.dense.weight.shape == (12, 12)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda i, t, m: (i + 24, t, m), ValueError, "input_ids holds .* expected 0 to 28"),
        (lambda i, t, m: (i - 1, t, m), ValueError, "input_ids holds -1"),
        (lambda i, t, m: (i.astype(float), t, m), TypeError, "input_ids has dtype float64"),
        (lambda i, t, m: (i, t + 1, m), ValueError, "token_type_ids holds 2, expected 0 to 1"),
        (lambda i, t, m: (i, t[:, :3], m), ValueError, r"token_type_ids has shape \(5, 3\)"),
        (lambda i, t, m: (i, t, m[:4]), ValueError, r"attention_mask has shape \(4, 7\)"),
        (lambda i, t, m: (i, t, m.astype(int)), TypeError, "expected bool: use mask == 1"),
        (
            lambda i, t, m: tuple(np.tile(x, 2) for x in (i, t, m)),
            ValueError,
            "14 tokens in a row, but max_position_embeddings is 11: truncate or split",
        ),
        (lambda i, t, m: (i[0], t[0], m[0]), ValueError, "input_ids has shape"),
    ],
)
def test_wrong_input_is_refused(ops: Ops, change, error: type, message: str) -> None:
    model = make_model(ops)
    with pytest.raises(error, match=message):
        model.bert.forward(*change(*inputs(make_batch(model))))


def test_backends_agree(ops: Ops, dtype: np.dtype) -> None:
    reference, model = make_model(get_ops("numpy"), dtype), make_model(ops, dtype)
    batch = inputs(make_batch(model))
    for wanted, got in zip(
        reference.bert.forward(*batch)[:2], model.bert.forward(*batch)[:2], strict=True
    ):
        np.testing.assert_allclose(got, wanted, atol=TOLERANCE[str(dtype)], rtol=0)
