import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.gradcheck import check_pair
from minibert.layers.activations import ACTIVATIONS, erfc

from .common import LEADING, SEEDS, SIZES, away_from_zero, few, normal

PAIRS = ["gelu", "gelu_tanh", "relu"]  # backward from the input; tanh has its own, from the output


def pair(ops, name):
    return getattr(ops, f"{name}_forward"), getattr(ops, f"{name}_backward")


def phi(x: float) -> float:
    """Φ(x), the standard normal distribution function, by the standard library."""
    return 0.5 * math.erfc(-x / math.sqrt(2))


def test_gelu_by_hand(ops):
    # Φ(0) = ½; Φ(1) = 0.8413447460685429; Φ(-1) = 1 - Φ(1)
    y = ops.gelu_forward(np.array([0.0, 1.0, -1.0, 2.0]))
    np.testing.assert_allclose(
        y, [0.0, 0.8413447460685429, -0.1586552539314571, 2 * 0.9772498680518208], rtol=1e-15
    )
    # Φ(x) + x φ(x): at 0 it is ½, at 1 it is 0.8413447460685429 + 0.2419707245191434
    dx = ops.gelu_backward(np.array([2.0, 3.0]), np.array([0.0, 1.0]))
    np.testing.assert_allclose(dx, [1.0, 3 * 1.0833154705876863], rtol=1e-15)


def test_gelu_tanh_by_hand(ops):
    # at 1: u = 0.7978845608028654 · 1.044715 = 0.8335619690,  ½ (1 + tanh u) = 0.8411919906
    y = ops.gelu_tanh_forward(np.array([0.0, 1.0, -1.0]))
    np.testing.assert_allclose(y, [0.0, 0.8411919906, -0.1588080094], atol=1e-10)
    # ½ (1 + h) + ½ (1 - h²) √(2/π) (1 + 0.134145) with h = 0.6823839812: ½ at 0 times dy = 2
    h = math.tanh(math.sqrt(2 / math.pi) * 1.044715)
    slope = 0.5 * (1 + h) + 0.5 * (1 - h * h) * math.sqrt(2 / math.pi) * 1.134145
    dx = ops.gelu_tanh_backward(np.array([2.0, 3.0]), np.array([0.0, 1.0]))
    np.testing.assert_allclose(dx, [1.0, 3 * slope], rtol=1e-14)


def test_the_two_gelus_differ_as_known(ops):
    x = np.linspace(-8, 8, 16_001)
    gap = np.abs(ops.gelu_forward(x) - ops.gelu_tanh_forward(x))
    assert gap.max() == pytest.approx(4.7324e-4, rel=1e-4)
    assert abs(x[gap.argmax()]) == pytest.approx(2.699, abs=1e-3)


def test_relu_by_hand(ops):
    x = np.array([-2.0, 0.0, 3.0])
    np.testing.assert_array_equal(ops.relu_forward(x), [0.0, 0.0, 3.0])
    np.testing.assert_array_equal(ops.relu_backward(np.array([5.0, 6.0, 7.0]), x), [0.0, 0.0, 7.0])


def test_tanh_by_hand(ops):
    # tanh(ln 2) = (2 - ½) / (2 + ½) = 3/5, and 1 - (3/5)² = 16/25
    y = ops.tanh_forward(np.array([0.0, math.log(2)]))
    np.testing.assert_allclose(y, [0.0, 0.6], rtol=1e-15)
    dx = ops.tanh_backward(np.array([3.0, 25.0]), np.array([0.0, 0.6]))
    np.testing.assert_allclose(dx, [3.0, 16.0], rtol=1e-15)


@pytest.mark.parametrize("name", PAIRS)
@few
@given(seed=SEEDS, leading=LEADING, C=SIZES)
def test_gradients(ops, name, seed, leading, C):
    forward, backward = pair(ops, name)
    x = normal(seed, *leading, C, std=2.0)
    if name == "relu":  # a negative number alone would have no gradient to be relative to
        x = away_from_zero(x)
        x.reshape(-1)[0] = 1.0
    check_pair(forward, backward, {"x": x})


@few
@given(seed=SEEDS, leading=LEADING, C=SIZES)
def test_tanh_gradients(ops, seed, leading, C):
    check_pair(
        ops.tanh_forward,
        lambda dy, x: ops.tanh_backward(dy, ops.tanh_forward(x)),
        {"x": normal(seed, *leading, C)},
    )


@pytest.mark.parametrize("name", [*PAIRS, "tanh"])
def test_single_precision_and_untouched_inputs(ops, name):
    forward, backward = pair(ops, name)
    double = away_from_zero(normal(3, 4, 7, std=3.0))
    x, dy = double.astype(np.float32), normal(4, 4, 7).astype(np.float32)
    kept_x, kept_dy = x.copy(), dy.copy()
    y = forward(x)
    dx = backward(dy, y if name == "tanh" else x)
    assert y.dtype == dx.dtype == np.float32
    np.testing.assert_array_equal(x, kept_x)
    np.testing.assert_array_equal(dy, kept_dy)
    np.testing.assert_allclose(y, forward(double), atol=1e-6)
    dx64 = backward(dy.astype(np.float64), forward(double) if name == "tanh" else double)
    np.testing.assert_allclose(dx, dx64, atol=2e-6)


@pytest.mark.parametrize("name", [*PAIRS, "tanh"])
def test_far_out(ops, dtype, name):
    # No overflow, no NaN, and no warning, which the settings of the tests would turn into errors.
    forward, backward = pair(ops, name)
    x = np.array([-1e4, -40.0, 40.0, 1e4], dtype)
    y = forward(x)
    dx = backward(np.ones_like(x), y if name == "tanh" else x)
    far, slope = (
        ([-1, -1, 1, 1], [0, 0, 0, 0]) if name == "tanh" else ([0, 0, 40, 1e4], [0, 0, 1, 1])
    )
    np.testing.assert_allclose(y, far, atol=1e-30)
    np.testing.assert_allclose(dx, slope, atol=1e-30)


@few
@given(st.lists(st.floats(-30, 30), min_size=1, max_size=20))
def test_gelu_is_x_phi_to_rounding(ops, numbers):
    y = ops.gelu_forward(np.array(numbers))
    for x, value in zip(numbers, y, strict=True):
        assert value == pytest.approx(x * phi(x), rel=2e-13, abs=1e-300)


@given(st.floats(-6, 26))
def test_erfc(x):
    # e^{-x²} doubles the rounding of x² at the far end: 26² · 2e-16
    assert erfc(np.array([x]))[0] == pytest.approx(math.erfc(x), rel=3e-13)


def test_erfc_around_zero():
    x = np.linspace(-3, 3, 6001)
    exact = np.array([math.erfc(float(v)) for v in x])
    assert np.abs(erfc(x) / exact - 1).max() < 4e-15


def test_erfc_against_its_series():
    # erf x = 2/√π Σ (-1)^n x^{2n+1} / (n! (2n+1)), summed in exact fractions at x = ½ and 1
    for x in (Fraction(1, 2), Fraction(1)):
        series = sum(
            Fraction((-1) ** n, math.factorial(n) * (2 * n + 1)) * x ** (2 * n + 1)
            for n in range(30)
        )
        expected = 1 - 2 / math.sqrt(math.pi) * float(series)
        assert erfc(np.array([float(x)]))[0] == pytest.approx(expected, rel=1e-14)


def test_hidden_act_chooses_forward_and_backward_of_one_form(ops):
    assert set(ACTIVATIONS) == {"gelu", "gelu_new", "gelu_pytorch_tanh", "relu"}
    for name, (forward, backward) in ACTIVATIONS.items():
        assert forward.removesuffix("_forward") == backward.removesuffix("_backward")
        check_pair(
            getattr(ops, forward),
            getattr(ops, backward),
            {"x": away_from_zero(normal(1, 3, 5))},
        )
        at_one = getattr(ops, forward)(np.array([1.0]))[0]
        known = {"gelu": 0.8413447, "relu": 1.0}.get(name, 0.8411920)
        assert at_one == pytest.approx(known, abs=5e-8)
