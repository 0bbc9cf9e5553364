from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.config import ACTIVATION_NAMES
from minibert.gradcheck import check_layer
from minibert.layers.feedforward import FeedForward
from minibert.params import ParamStore

from .common import LEADING, SEEDS, SIZES, assert_keeps_promises, build, few, normal


def make(C, F, act, ops):
    return lambda scope: FeedForward(scope.child("widen"), scope.child("narrow"), C, F, act, ops)


def set_values(store, values):
    for name, value in values.items():
        store["part." + name].value[...] = value


def test_by_hand(ops):
    # C = 1, F = 2, ReLU.  x = 2: wide = [3 · 2 - 1, -4 · 2 + 1] = [5, -7], ReLU gives [5, 0],
    # y = 2 · 5 + 6 · 0 + ½ = 10.5
    layer, store = build(make(1, 2, "relu", ops))
    set_values(
        store,
        {
            "widen.weight": [[3.0], [-4.0]],
            "widen.bias": [-1.0, 1.0],
            "narrow.weight": [[2.0, 6.0]],
            "narrow.bias": [0.5],
        },
    )
    y, cache = layer.forward(np.array([[2.0]]))
    np.testing.assert_array_equal(y, [[10.5]])
    # dy = 1: only the first unit passes.  dwide = [2, 0], dx = 2 · 3
    np.testing.assert_array_equal(layer.backward(np.array([[1.0]]), cache), [[6.0]])
    np.testing.assert_array_equal(store["part.widen.weight"].grad, [[4.0], [0.0]])
    np.testing.assert_array_equal(store["part.widen.bias"].grad, [2.0, 0.0])
    np.testing.assert_array_equal(store["part.narrow.weight"].grad, [[5.0, 0.0]])
    np.testing.assert_array_equal(store["part.narrow.bias"].grad, [1.0])


@pytest.mark.parametrize("act", ["gelu", "gelu_new", "gelu_pytorch_tanh"])
@few
@given(seed=SEEDS, leading=LEADING, C=SIZES, F=SIZES)
def test_gradients(ops, act, seed, leading, C, F):
    layer, store = build(make(C, F, act, ops), seed)
    check_layer(layer, store, {"x": normal(seed, *leading, C)})


@few
@given(seed=SEEDS, N=st.integers(1, 3), C=SIZES, F=SIZES)
def test_relu_gradients(ops, seed, N, C, F):
    layer, store = build(make(C, F, "relu", ops), seed)
    # Biases of ±4 put every unit far on one side of its kink, by turns; rows are short.
    store["part.widen.bias"].value[...] = np.where(np.arange(F) % 2 == 0, 4.0, -4.0)
    x = normal(seed, N, C)
    x *= 1.0 / np.abs(store["part.widen.weight"].value @ x.T).max()
    check_layer(layer, store, {"x": x})


def test_hidden_act_is_obeyed(ops):
    results = {}
    for act in ACTIVATION_NAMES:
        layer, store = build(make(1, 1, act, ops))
        set_values(
            store,
            {"widen.weight": 1.0, "widen.bias": 0.0, "narrow.weight": 1.0, "narrow.bias": 0.0},
        )
        results[act] = float(layer.forward(np.array([[1.0]]))[0][0, 0])
    assert results["gelu"] == pytest.approx(0.8413447, abs=1e-7)
    assert results["gelu_new"] == pytest.approx(0.8411920, abs=1e-7)
    assert results["gelu_pytorch_tanh"] == results["gelu_new"]
    assert results["relu"] == 1.0


def test_promises(ops):
    assert_keeps_promises(
        make(5, 7, "gelu", ops), {"x": normal(1, 2, 3, 5)}, {"x": normal(2, 4, 5)}
    )


def test_names_and_shapes(ops):
    store = ParamStore()
    FeedForward(
        store.scope("intermediate", "dense"), store.scope("output", "dense"), 3, 5, "gelu", ops
    )
    assert [(p.name, p.shape) for p in store] == [
        ("intermediate.dense.weight", (5, 3)),
        ("intermediate.dense.bias", (5,)),
        ("output.dense.weight", (3, 5)),
        ("output.dense.bias", (3,)),
    ]


def test_wrong_shapes_and_dtypes_are_named(ops):
    layer, _ = build(partial(make(3, 5, "gelu", ops)))
    with pytest.raises(ValueError, match=r"x has shape \(4, 5\), expected \(4, 3\)"):
        layer.forward(np.zeros((4, 5)))
    with pytest.raises(TypeError, match="x is float32 but the parameters are float64"):
        layer.forward(np.zeros((4, 3), np.float32))
    _, cache = layer.forward(np.zeros((4, 3)))
    with pytest.raises(ValueError, match=r"dy has shape \(3,?\), expected \(4, 3\)"):
        layer.backward(np.zeros(3), cache)
