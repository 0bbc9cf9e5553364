"""How rows are put together into batches changes nothing: padding, order, accumulation."""

from __future__ import annotations

import numpy as np
import pytest

from minibert.arrays import IGNORED
from minibert.models.pretraining import LossWeights, count_labels

from ..models.common import LENGTHS, gradient, make_batch, make_model, select
from .common import assert_near


def test_padding_changes_nothing(ops, dtype) -> None:
    """Outputs, loss and gradients, with ids and segments of any kind on the padding."""
    model = make_model(ops, dtype)
    batch = make_batch(model)
    wider = select(batch, list(range(5)), 11)
    wider.input_ids[~wider.attention_mask] = 28
    wider.token_type_ids[~wider.attention_mask] = 1
    hidden, pooled, _ = model.bert.forward(*batch[:3])
    wide_hidden, wide_pooled, _ = model.bert.forward(*wider[:3])
    real = batch.attention_mask
    assert_near(wide_hidden[:, :7][real], hidden[real], dtype)
    assert_near(wide_pooled, pooled, dtype)
    assert_near(model.forward(wider)[0].loss, model.forward(batch)[0].loss, dtype)
    assert_near(gradient(model, wider), gradient(model, batch), dtype)


@pytest.mark.parametrize("row", range(5))
def test_a_row_alone_is_the_row_in_a_batch(ops, dtype, row) -> None:
    model = make_model(ops, dtype)
    batch = make_batch(model)
    alone = select(batch, [row], LENGTHS[row])
    hidden, pooled, _ = model.bert.forward(*batch[:3])
    hidden_alone, pooled_alone, _ = model.bert.forward(*alone[:3])
    assert_near(hidden_alone[0], hidden[row, : LENGTHS[row]], dtype)
    assert_near(pooled_alone[0], pooled[row], dtype)


def test_order_of_the_rows_is_the_order_of_the_outputs(ops, dtype) -> None:
    model = make_model(ops, dtype)
    batch, order = make_batch(model), [3, 0, 4, 1, 2]
    moved = select(batch, order)
    for name in range(2):  # hidden, pooled
        plain = model.bert.forward(*batch[:3])[name]
        assert_near(model.bert.forward(*moved[:3])[name], plain[order], dtype)
    assert_near(model.forward(moved)[0].loss, model.forward(batch)[0].loss, dtype)
    assert_near(gradient(model, moved), gradient(model, batch), dtype)


@pytest.mark.parametrize(
    "parts",
    [[[0, 1, 2, 3, 4]], [[0], [1, 2, 3], [4]], [[4, 2], [0, 1, 3]], [[0], [1], [2], [3], [4]]],
)
def test_accumulated_gradient_is_that_of_one_big_batch(ops, dtype, parts) -> None:
    """Micro-batches of unequal masked counts, each padded to its own length, one of them empty."""
    model = make_model(ops, dtype)
    batch = make_batch(model)
    wanted, loss = gradient(model, batch), model.forward(batch)[0].loss
    micros = [select(batch, rows, max(LENGTHS[row] for row in rows)) for rows in parts]
    nothing = np.full_like(micros[0].masked_labels, IGNORED)
    micros.append(micros[0]._replace(
        masked_labels=nothing, next_labels=np.full_like(micros[0].next_labels, IGNORED)
    ))  # fmt: skip
    weights = LossWeights(
        1 / sum(count_labels(micro.masked_labels) for micro in micros),
        1 / sum(count_labels(micro.next_labels) for micro in micros),
    )
    model.params.zero_grad()
    total = 0.0
    for micro in micros:
        output, cache = model.forward(micro, weights=weights)
        model.backward(cache)
        total += output.loss
    assert_near(total, loss, dtype)
    assert_near(model.params.grad, wanted, dtype)
