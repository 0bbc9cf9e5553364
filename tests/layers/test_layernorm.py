from functools import partial
from math import sqrt

import numpy as np
import pytest
from hypothesis import given

from minibert.gradcheck import check_layer, check_pair
from minibert.layers.layernorm import LayerNorm
from minibert.params import ParamStore

from .common import (
    EPS,
    LEADING,
    SEEDS,
    WIDTHS,
    assert_keeps_promises,
    build,
    few,
    normal,
    spread_rows,
)


def forward(ops, x, eps):
    x = np.array([x])
    C = x.shape[-1]
    return ops.layernorm_forward(x, np.ones(C), np.zeros(C), eps)


def test_forward_by_hand(ops):
    # mean ¼, variance (¾² + 3 · ¼²) / 4 = 3/16, so x̂ = [¾, -¼, -¼, -¼] · 4/√3.
    # Dividing by n - 1 = 3 would give a standard deviation of ½, and [1.5, -½, -½, -½].
    y, x_hat, rstd = forward(ops, [1.0, 0.0, 0.0, 0.0], 1e-12)
    expected = [[sqrt(3), -1 / sqrt(3), -1 / sqrt(3), -1 / sqrt(3)]]
    np.testing.assert_allclose(y, expected, rtol=1e-11)
    np.testing.assert_allclose(x_hat, expected, rtol=1e-11)
    assert rstd.shape == (1, 1)
    assert rstd[0, 0] == pytest.approx(4 / sqrt(3), rel=1e-11)


def test_scale_and_shift_by_hand(ops):
    # x̂ = [1, -1]: mean 0, variance 1 with ε = 0 inside; y = γ x̂ + β
    y, _, _ = ops.layernorm_forward(
        np.array([[1.0, -1.0]]), np.array([3.0, 5.0]), np.array([10.0, 20.0]), 1e-300
    )
    np.testing.assert_array_equal(y, [[13.0, 15.0]])


@pytest.mark.parametrize(
    ("eps", "expected"), [(1e-12, 7.5e-4 / sqrt(1.87501e-7)), (1e-5, 7.5e-4 / sqrt(1.01875e-5))]
)
def test_eps_stands_inside_the_root(ops, eps, expected):
    # x = [1e-3, 0, 0, 0]: x - mean = 7.5e-4 and the variance is 3/16 · 1e-6 = 1.875e-7
    y, _, _ = forward(ops, [1e-3, 0.0, 0.0, 0.0], eps)
    assert y[0, 0] == pytest.approx(expected, rel=1e-12)
    assert y[0, 0] == pytest.approx({1e-12: 1.73205, 1e-5: 0.23498}[eps], abs=6e-6)


def test_backward_by_hand(ops):
    # x as above, γ = [1, 3, 1, 1], dy = [0, 1, 0, 0], so dx̂ = [0, 3, 0, 0], m(dx̂) = ¾ and
    # m(dx̂ x̂) = 3 · (-1/√3) / 4 = -√3/4:
    #     dx_0     = rstd (0 - ¾ + √3 · √3/4)        =  0
    #     dx_1     = rstd (3 - ¾ - 1/√3 · √3/4)      =  2 rstd
    #     dx_2 = … = rstd (0 - ¾ - 1/√3 · √3/4)      = -1 rstd,    rstd = 4/√3
    _, x_hat, rstd = forward(ops, [1.0, 0.0, 0.0, 0.0], 1e-12)
    dx, dweight, dbias = ops.layernorm_backward(
        np.array([[0.0, 1.0, 0.0, 0.0]]), x_hat, rstd, np.array([1.0, 3.0, 1.0, 1.0])
    )
    expected = np.array([[0.0, 2.0, -1.0, -1.0]]) * 4 / sqrt(3)
    np.testing.assert_allclose(dx, expected, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(dweight, [0.0, -1 / sqrt(3), 0.0, 0.0], rtol=1e-11)
    np.testing.assert_array_equal(dbias, [0.0, 1.0, 0.0, 0.0])


@few
@given(seed=SEEDS, leading=LEADING, C=WIDTHS, eps=EPS)
def test_pair_gradients(ops, seed, leading, C, eps):
    eps = 0.3 if C == 2 else eps  # two numbers become ±1, and only ε leaves them a slope
    check_pair(
        lambda x, weight, bias: ops.layernorm_forward(x, weight, bias, eps)[0],
        lambda dy, x, weight, bias: ops.layernorm_backward(
            dy, *ops.layernorm_forward(x, weight, bias, eps)[1:], weight
        ),
        {
            "x": spread_rows(normal(seed, *leading, C)),
            "weight": normal(seed + 1, C, mean=1.0),
            "bias": normal(seed + 2, C),
        },
    )


@few
@given(seed=SEEDS, leading=LEADING, C=WIDTHS)
def test_layer_gradients(ops, seed, leading, C):
    layer, store = build(partial(LayerNorm, width=C, eps=0.3, ops=ops), seed)
    check_layer(layer, store, {"x": spread_rows(normal(seed, *leading, C))})


@few
@given(seed=SEEDS, leading=LEADING)
def test_one_number_has_no_gradient(ops, seed, leading):
    # A row of one number is its own mean: x̂ = 0 whatever x is.
    layer, store = build(partial(LayerNorm, width=1, eps=1e-12, ops=ops), seed)
    check_layer(layer, store, {"x": normal(seed, *leading, 1)}, absolute=["x", "part.weight"])


def test_constant_row_is_finite(ops, dtype):
    x = np.full((2, 5), 3.0, dtype)
    weight, bias = np.ones(5, dtype), np.full(5, 0.25, dtype)
    y, x_hat, rstd = ops.layernorm_forward(x, weight, bias, 1e-12)
    np.testing.assert_array_equal(y, np.full((2, 5), 0.25))
    gradients = ops.layernorm_backward(normal(1, 2, 5).astype(dtype), x_hat, rstd, weight)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


@few
@given(seed=SEEDS, C=WIDTHS)
def test_shift_and_scale_change_nothing(ops, seed, C):
    x = spread_rows(normal(seed, 3, C))
    weight, bias = normal(seed + 1, C), normal(seed + 2, C)
    plain = ops.layernorm_forward(x, weight, bias, 1e-300)[0]
    np.testing.assert_allclose(
        ops.layernorm_forward(8 * x + 5, weight, bias, 1e-300)[0], plain, rtol=0, atol=1e-12
    )


def test_promises(ops):
    make = partial(LayerNorm, width=5, eps=1e-12, ops=ops)
    assert_keeps_promises(make, {"x": normal(1, 2, 7, 5)}, {"x": normal(2, 4, 5)})


def test_names_and_decay(ops):
    store = ParamStore()
    LayerNorm(store.scope("LayerNorm"), 3, 1e-12, ops)
    assert [(p.name, p.shape, p.spec.init, p.spec.decay) for p in store] == [
        ("LayerNorm.weight", (3,), "ones", False),
        ("LayerNorm.bias", (3,), "zeros", False),
    ]


def test_wrong_shapes_and_dtypes_are_named(ops):
    layer, _ = build(partial(LayerNorm, width=3, eps=1e-12, ops=ops))
    with pytest.raises(ValueError, match=r"x has shape \(4, 1\), expected \(4, 3\)"):
        layer.forward(np.zeros((4, 1)))
    with pytest.raises(TypeError, match="x is float32 but the parameters are float64"):
        layer.forward(np.zeros((4, 3), np.float32))
    _, cache = layer.forward(normal(0, 4, 3))
    for shape in [(4, 2), (3,), (1, 3)]:
        with pytest.raises(ValueError, match=r"dy has shape .*, expected \(4, 3\)"):
            layer.backward(np.ones(shape), cache)
