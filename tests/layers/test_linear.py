from functools import partial

import numpy as np
import pytest
from hypothesis import given

from minibert.gradcheck import check_layer, check_pair
from minibert.layers.linear import Linear
from minibert.params import ParamStore

from .common import LEADING, SEEDS, SIZES, assert_keeps_promises, build, few, normal


def test_forward_by_hand(ops):
    x = np.array([[1.0, 2.0], [0.0, -1.0]])
    weight = np.array([[1.0, 0.0], [2.0, -1.0], [0.0, 3.0]])
    bias = np.array([0.5, -0.5, 1.0])
    # row 0: [1·1 + 2·0 + ½, 1·2 - 2·1 - ½, 1·0 + 2·3 + 1]
    # row 1: [     0 - 0 + ½,      0 + 1 - ½,      0 - 3 + 1]
    np.testing.assert_array_equal(
        ops.linear_forward(x, weight, bias), [[1.5, -0.5, 7.0], [0.5, 0.5, -2.0]]
    )


def test_backward_by_hand(ops):
    x = np.array([[1.0, 2.0], [0.0, -1.0]])
    weight = np.array([[1.0, 0.0], [2.0, -1.0], [0.0, 3.0]])
    dy = np.array([[1.0, -1.0, 2.0], [3.0, 0.0, 1.0]])
    dx, dweight, dbias = ops.linear_backward(dy, x, weight)
    # dx, row 0: 1·[1, 0] - 1·[2, -1] + 2·[0, 3];  row 1: 3·[1, 0] + 1·[0, 3]
    np.testing.assert_array_equal(dx, [[-1.0, 7.0], [3.0, 3.0]])
    # dweight, output o: dy_0o · [1, 2] + dy_1o · [0, -1]
    np.testing.assert_array_equal(dweight, [[1.0, -1.0], [-1.0, -2.0], [2.0, 3.0]])
    np.testing.assert_array_equal(dbias, [4.0, -1.0, 3.0])


@few
@given(seed=SEEDS, leading=LEADING, c_in=SIZES, c_out=SIZES)
def test_pair_gradients(ops, seed, leading, c_in, c_out):
    check_pair(
        ops.linear_forward,
        lambda dy, x, weight, bias: ops.linear_backward(dy, x, weight),
        {
            "x": normal(seed, *leading, c_in),
            "weight": normal(seed + 1, c_out, c_in),
            "bias": normal(seed + 2, c_out),
        },
    )


@few
@given(seed=SEEDS, leading=LEADING, c_in=SIZES, c_out=SIZES)
def test_layer_gradients(ops, seed, leading, c_in, c_out):
    layer, store = build(partial(Linear, in_features=c_in, out_features=c_out, ops=ops), seed)
    check_layer(layer, store, {"x": normal(seed, *leading, c_in)})


def test_promises(ops):
    make = partial(Linear, in_features=5, out_features=3, ops=ops)
    assert_keeps_promises(make, {"x": normal(1, 2, 7, 5)}, {"x": normal(2, 4, 5)})


def test_names_and_decay(ops):
    store = ParamStore()
    Linear(store.scope("a", "dense"), 3, 2, ops)
    assert [(p.name, p.shape, p.spec.init, p.spec.decay) for p in store] == [
        ("a.dense.weight", (2, 3), "normal", True),
        ("a.dense.bias", (2,), "zeros", False),
    ]


def test_wrong_input_is_named(ops):
    layer, _ = build(partial(Linear, in_features=3, out_features=2, ops=ops))
    with pytest.raises(ValueError, match=r"x has shape \(4, 2\), expected \(4, 3\)"):
        layer.forward(np.zeros((4, 2)))
    with pytest.raises(ValueError, match=r"x has shape \(\), expected \(3,?\)"):
        layer.forward(np.zeros(()))
    with pytest.raises(TypeError, match="x is float32 but the parameters are float64"):
        layer.forward(np.zeros((4, 3), np.float32))
    with pytest.raises(TypeError, match="x has dtype int64, expected float32 or float64"):
        layer.forward(np.zeros((4, 3), np.int64))


def test_wrong_gradient_is_named(ops):
    layer, _ = build(partial(Linear, in_features=3, out_features=2, ops=ops))
    _, cache = layer.forward(np.ones((4, 3)))
    for shape in [(4, 3), (2, 2), (2,), (1, 2)]:  # NumPy would broadcast the last two
        with pytest.raises(ValueError, match=r"dy has shape .*, expected \(4, 2\)"):
            layer.backward(np.ones(shape), cache)
