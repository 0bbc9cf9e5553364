"""Weights that are shared, recomputed or frozen: the whole model, whole training steps."""

from __future__ import annotations

import numpy as np
import pytest

from minibert.layers.combinators import Checkpoint, Repeat
from minibert.layers.encoder_layer import EncoderLayer
from minibert.models.pretraining import BertForPreTraining
from minibert.params import Scope
from minibert.training.adamw import AdamW

from ..models.common import gradient, make_batch, make_model, small_config
from .common import KEY, assert_near, training_step


def test_checkpointed_model_equals_the_plain_one_bit_for_bit(ops, dtype) -> None:
    """With dropout on, through three updates."""
    plain, again = make_model(ops, dtype), make_model(ops, dtype)
    again.bert.layers = [Checkpoint(layer) for layer in again.bert.layers]
    batch = make_batch(plain)
    optimizers = [AdamW(model.params, ops) for model in (plain, again)]
    for number in range(3):
        steps = [
            training_step(model, batch, optimizer, KEY.child(number))
            for model, optimizer in zip((plain, again), optimizers, strict=True)
        ]
        for one, other in zip(*steps, strict=True):
            assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def shared_and_separate(ops, dtype, times=3) -> tuple[BertForPreTraining, BertForPreTraining]:
    """A model that runs its one layer several times, and one with as many equal layers."""
    shared = make_model(ops, dtype, num_hidden_layers=1)
    shared.bert.layers = [Repeat(shared.bert.layers[0], times)]
    separate = make_model(ops, dtype, num_hidden_layers=times)
    for parameter in separate.params:
        name = parameter.name
        for number in range(times):
            name = name.replace(f"layer.{number}.", "layer.0.")
        parameter.value[...] = shared.params[name].value
    return shared, separate


def test_layer_run_three_times_is_three_equal_layers(ops, dtype) -> None:
    """Loss and outputs are theirs, and its gradient is the sum of their three."""
    shared, separate = shared_and_separate(ops, dtype)
    batch = make_batch(shared)
    assert_near(shared.forward(batch)[0].loss, separate.forward(batch)[0].loss, dtype)
    gradient(separate, batch)
    gradient(shared, batch)
    for parameter in shared.params:
        if "layer.0." in parameter.name:
            names = [parameter.name.replace("layer.0", f"layer.{n}") for n in range(3)]
            wanted = sum(separate.params[name].grad for name in names)
        else:
            wanted = separate.params[parameter.name].grad
        assert_near(parameter.grad, wanted, dtype)


@pytest.mark.parametrize(
    "which",
    [
        lambda name: "embeddings" in name,
        lambda name: "layer.0" in name or "LayerNorm" in name,
        lambda name: name.startswith("cls"),
        lambda name: not name.endswith("query.bias"),
    ],
)
def test_frozen_parameters_stay_bit_for_bit(ops, dtype, which) -> None:
    model = make_model(ops, dtype)
    batch, optimizer = make_batch(model), AdamW(model.params, ops, weight_decay=0.1)
    first = training_step(model, batch, optimizer)  # moments that are not 0
    full = gradient(model, batch, key=KEY)
    model.params.freeze(which)
    assert any(p.frozen for p in model.params)
    assert not all(p.frozen for p in model.params)
    steps = [training_step(model, batch, optimizer) for _ in range(4)]
    for start, stop, parameter in model.params.layout:
        part = slice(start, stop)
        if parameter.frozen:
            for last, before in zip(steps[-1][3:], first[3:], strict=True):
                assert last[part].tobytes() == before[part].tobytes(), parameter.name
            assert all(not step.grad[part].any() for step in steps)
        else:
            # the others get the very gradient they would get, and move by it
            assert steps[0].grad[part].tobytes() == full[part].tobytes()
            assert not np.array_equal(steps[-1].value[part], first.value[part]), parameter.name
    rest = np.concatenate([p.grad.reshape(-1) for p in model.params if not p.frozen])
    assert steps[-1].norm == pytest.approx(np.linalg.norm(rest.astype(np.float64)), rel=1e-6)


def test_tied_table_stays_tied_and_moves_once(ops, dtype) -> None:
    model = make_model(ops, dtype)
    table = model.bert.embeddings.word
    assert model.masked_head.table is table
    training_step(model, make_batch(model), AdamW(model.params, ops))
    assert model.masked_head.table.value is table.value
    assert sum(p.value.shape == (29, 12) for p in model.params) == 1


def test_repeated_layer_declares_its_parameters_once(ops) -> None:
    model = make_model(ops)
    config = small_config()
    store = type(model.params)()
    Repeat(EncoderLayer(Scope(store, "layer."), config, ops), 5)
    assert len(store) == 16
