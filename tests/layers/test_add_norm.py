from functools import partial
from math import sqrt

import numpy as np
import pytest
from hypothesis import given

from minibert.gradcheck import check_layer, check_pair
from minibert.keys import Key
from minibert.layers.add_norm import AddNorm
from minibert.params import ParamStore

from .common import (
    LEADING,
    RATES,
    SEEDS,
    WIDTHS,
    assert_keeps_promises,
    assert_same,
    build,
    few,
    normal,
    spread_rows,
)


def test_forward_by_hand(ops):
    # residual + x = [1, 0, 0, 0], as in the LayerNorm example: x̂ = [√3, -1/√3, -1/√3, -1/√3]
    x = np.array([[0.25, 1.0, -2.0, 3.0]])
    residual = np.array([[0.75, -1.0, 2.0, -3.0]])
    y, x_hat, rstd = ops.add_norm_forward(
        x, residual, np.full(4, 2.0), np.full(4, 0.5), 1e-12, 0.0, 0
    )
    expected = np.array([[sqrt(3), -1 / sqrt(3), -1 / sqrt(3), -1 / sqrt(3)]])
    np.testing.assert_allclose(x_hat, expected, rtol=1e-11)
    np.testing.assert_allclose(y, 2 * expected + 0.5, rtol=1e-11)
    assert rstd[0, 0] == pytest.approx(4 / sqrt(3), rel=1e-11)


def test_backward_by_hand(ops):
    # The gradient [0, 2, -1, -1] · 4/√3 of the LayerNorm example goes to both terms of the sum.
    x, residual = np.array([[1.0, 2.0, 0.0, 0.0]]), np.array([[0.0, -2.0, 0.0, 0.0]])
    weight = np.array([1.0, 3.0, 1.0, 1.0])
    _, x_hat, rstd = ops.add_norm_forward(x, residual, weight, np.zeros(4), 1e-12, 0.0, 0)
    dx, dresidual, dweight, dbias = ops.add_norm_backward(
        np.array([[0.0, 1.0, 0.0, 0.0]]), x_hat, rstd, weight, 0.0, 0
    )
    expected = np.array([[0.0, 2.0, -1.0, -1.0]]) * 4 / sqrt(3)
    np.testing.assert_allclose(dx, expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(dresidual, expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(dweight, [0.0, -1 / sqrt(3), 0.0, 0.0], rtol=1e-11)
    np.testing.assert_array_equal(dbias, [0.0, 1.0, 0.0, 0.0])


@few
@given(seed=SEEDS, leading=LEADING, C=WIDTHS, rate=RATES)
def test_pair_gradients(ops, seed, leading, C, rate):
    def forward(x, residual, weight, bias):
        return ops.add_norm_forward(x, residual, weight, bias, 0.3, rate, seed)

    check_pair(
        lambda *inputs: forward(*inputs)[0],
        lambda dy, *inputs: ops.add_norm_backward(dy, *forward(*inputs)[1:], inputs[2], rate, seed),
        {
            "x": normal(seed, *leading, C),
            "residual": spread_rows(normal(seed + 1, *leading, C)),
            "weight": normal(seed + 2, C, mean=1.0),
            "bias": normal(seed + 3, C),
        },
    )


@few
@given(seed=SEEDS, leading=LEADING, C=WIDTHS, rate=RATES)
def test_layer_gradients(ops, seed, leading, C, rate):
    layer, store = build(partial(AddNorm, width=C, eps=0.3, rate=rate, ops=ops), seed)
    inputs = {
        "x": normal(seed, *leading, C),
        "residual": spread_rows(normal(seed + 1, *leading, C)),
        "key": Key(seed),
    }
    check_layer(layer, store, inputs)


def test_bert_eps(ops):
    layer, store = build(partial(AddNorm, width=7, eps=1e-12, rate=0.1, ops=ops))
    inputs = {"x": normal(1, 3, 5, 7), "residual": normal(2, 3, 5, 7), "key": Key(4)}
    check_layer(layer, store, inputs)


def test_key_decides_the_mask_and_none_switches_it_off(ops):
    layer, _ = build(partial(AddNorm, width=8, eps=1e-12, rate=0.5, ops=ops))
    plain, _ = build(partial(AddNorm, width=8, eps=1e-12, rate=0.0, ops=ops))
    x, residual = normal(1, 5, 8), normal(2, 5, 8)
    first, _ = layer.forward(x, residual, Key(1))
    assert_same(layer.forward(x, residual, Key(1))[0], first)
    assert np.abs(layer.forward(x, residual, Key(2))[0] - first).max() > 0.1
    assert_same(layer.forward(x, residual, None)[0], plain.forward(x, residual, Key(1))[0])


def test_promises(ops):
    make = partial(AddNorm, width=5, eps=1e-12, rate=0.5, ops=ops)
    assert_keeps_promises(
        make,
        {"x": normal(1, 2, 7, 5), "residual": normal(2, 2, 7, 5), "key": Key(1)},
        {"x": normal(3, 4, 5), "residual": normal(4, 4, 5), "key": Key(2)},
    )


def test_names_and_decay(ops):
    store = ParamStore()
    AddNorm(store.scope("LayerNorm"), 3, 1e-12, 0.1, ops)
    assert [(p.name, p.shape, p.spec.init, p.spec.decay) for p in store] == [
        ("LayerNorm.weight", (3,), "ones", False),
        ("LayerNorm.bias", (3,), "zeros", False),
    ]


def test_wrong_shapes_and_dtypes_are_named(ops):
    layer, _ = build(partial(AddNorm, width=3, eps=1e-12, rate=0.1, ops=ops))
    x = normal(0, 4, 3)
    with pytest.raises(ValueError, match=r"x has shape \(4, 1\), expected \(4, 3\)"):
        layer.forward(x[:, :1], x, None)
    for shape in [(1, 3), (3,), (4, 1)]:  # all of which NumPy would broadcast
        with pytest.raises(ValueError, match=r"residual has shape .*, expected \(4, 3\)"):
            layer.forward(x, np.zeros(shape), None)
    with pytest.raises(TypeError, match="x is float32 but the parameters are float64"):
        layer.forward(x.astype(np.float32), x, None)
    with pytest.raises(TypeError, match="residual is float32 but the parameters are float64"):
        layer.forward(x, x.astype(np.float32), None)
    _, cache = layer.forward(x, x, None)
    for shape in [(4, 2), (3,), (1, 3)]:
        with pytest.raises(ValueError, match=r"dy has shape .*, expected \(4, 3\)"):
            layer.backward(np.ones(shape), cache)
