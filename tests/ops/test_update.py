"""The update on the whole buffer, against numbers by hand and exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

BETAS = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8}


def adamw(ops, value, grad, m, v, **changes):
    options = {
        **BETAS,
        "lr": 0.1,
        "decay": 0.0,
        "decayed": 0,
        "correction1": 1.0,
        "correction2": 1.0,
        "grad_scale": 1.0,
    }
    ops.adamw(value, grad, m, v, **{**options, **changes})


def corrections(step: int) -> dict[str, float]:
    return {"correction1": 1 - 0.9**step, "correction2": 1 - 0.999**step}


def test_first_step_by_hand(ops, dtype):
    # m = 0.1 · 2, m/c₁ = 2;  v = 0.001 · 4, √(v/c₂) = 2: the step is lr · 2 / 2, whatever g is.
    value = np.array([1.0, 1.0, 1.0], dtype)
    grad = np.array([2.0, -8.0, 0.0], dtype)
    m, v = np.zeros(3, dtype), np.zeros(3, dtype)
    adamw(ops, value, grad, m, v, **corrections(1))
    np.testing.assert_allclose(value, [0.9, 1.1, 1.0], rtol=1e-6)
    np.testing.assert_allclose(m, [0.2, -0.8, 0.0], rtol=1e-6)
    np.testing.assert_allclose(v, [0.004, 0.064, 0.0], rtol=1e-6)
    np.testing.assert_array_equal(grad, np.array([2.0, -8.0, 0.0], dtype))
    assert value.dtype == m.dtype == v.dtype == dtype


def test_without_correction_the_first_step_is_3_times_as_long(ops):
    # BERT's own optimizer: 0.1 g / √(0.001 g²) = 3.1623
    value, m, v = np.zeros(1), np.zeros(1), np.zeros(1)
    adamw(ops, value, np.ones(1), m, v, lr=1.0)
    assert value[0] == pytest.approx(-0.1 / (math.sqrt(0.001) + 1e-8), rel=1e-12)
    assert value[0] == pytest.approx(-3.1623, abs=1e-4)


def test_decay_acts_on_the_leading_elements_only_and_not_through_the_moments(ops):
    value, m, v = np.full(4, 2.0), np.zeros(4), np.zeros(4)
    adamw(ops, value, np.zeros(4), m, v, lr=0.5, decay=0.1, decayed=2)
    # g = 0: θ ← θ - lr · decay · θ = 2 (1 - 0.05)
    np.testing.assert_allclose(value, [1.9, 1.9, 2.0, 2.0], rtol=1e-15)
    np.testing.assert_array_equal(m, 0)
    np.testing.assert_array_equal(v, 0)


def test_eps_stands_outside_the_root(ops):
    value, m, v = np.zeros(1), np.zeros(1), np.zeros(1)
    adamw(ops, value, np.array([3.0]), m, v, lr=1.0, eps=2.0, **corrections(1))
    assert value[0] == pytest.approx(-3 / (3 + 2), rel=1e-12)


def test_gradient_is_scaled_before_the_moments(ops):
    one, m1, v1 = np.zeros(5), np.zeros(5), np.zeros(5)
    two, m2, v2 = np.zeros(5), np.zeros(5), np.zeros(5)
    grad = np.arange(5.0) - 2
    adamw(ops, one, grad, m1, v1, grad_scale=0.25, **corrections(1))
    adamw(ops, two, grad / 4, m2, v2, **corrections(1))
    for a, b in ((one, two), (m1, m2), (v1, v2)):
        np.testing.assert_allclose(a, b, rtol=1e-15)


@settings(max_examples=15)
@given(
    grads=st.lists(st.integers(-8, 8).filter(bool), min_size=1, max_size=6),
    start=st.integers(-4, 4),
    decayed=st.booleans(),
)
def test_several_steps_against_fractions(ops, grads, start, decayed):
    value, m, v = np.array([float(start)]), np.zeros(1), np.zeros(1)
    beta1, beta2 = Fraction(9, 10), Fraction(999, 1000)
    theta, mean, square = float(start), Fraction(0), Fraction(0)
    for step, g in enumerate(grads, start=1):
        adamw(
            ops,
            value,
            np.array([float(g)]),
            m,
            v,
            decay=0.01,
            decayed=int(decayed),
            **corrections(step),
        )
        mean = beta1 * mean + (1 - beta1) * g
        square = beta2 * square + (1 - beta2) * g * g
        first, second = mean / (1 - beta1**step), square / (1 - beta2**step)
        move = float(first) / (math.sqrt(second) + 1e-8) + decayed * 0.01 * theta
        theta -= 0.1 * move
        assert m[0] == pytest.approx(float(mean), rel=1e-12, abs=1e-15)
        assert v[0] == pytest.approx(float(square), rel=1e-12)
    assert value[0] == pytest.approx(theta, rel=1e-10, abs=1e-12)


def test_every_element_of_a_long_buffer_moves_for_itself(ops):
    # Longer than any block, and not a round number; each element must come out as it does alone.
    n = 10_007
    rng = np.random.default_rng(0)
    value, grad, m = rng.standard_normal((3, n))
    v = rng.random(n)
    expected = [array.copy() for array in (value, m, v)]
    adamw(ops, value, grad, m, v, decay=0.1, decayed=4_001, grad_scale=0.5, **corrections(3))
    for index in (0, 1, 63, 64, 4_000, 4_001, 4_002, 8_191, 8_192, n - 1):
        alone = [array[index : index + 1].copy() for array in expected]
        adamw(
            ops,
            alone[0],
            grad[index : index + 1],
            alone[1],
            alone[2],
            decay=0.1,
            decayed=int(index < 4_001),
            grad_scale=0.5,
            **corrections(3),
        )
        for whole, part in zip((value, m, v), alone, strict=True):
            assert whole[index] == pytest.approx(part[0], rel=1e-14)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"decayed": -1}, ValueError, "decayed is -1, expected 0 to 4"),
        ({"decayed": 5}, ValueError, "decayed is 5, expected 0 to 4"),
        ({"decayed": 2.0}, TypeError, "float"),
        ({"correction1": 0.0}, ValueError, "correction1 is 0.0, expected a number above 0"),
        ({"correction2": math.nan}, ValueError, "correction2 is nan, expected a number above 0"),
        ({"lr": "0.1"}, TypeError, "lr is '0.1', expected a number"),
        ({"eps": [1]}, TypeError, r"eps is \[1\], expected a number"),
        ({"m": np.ones(3)}, ValueError, r"moment1 has shape \(3,\), expected \(4\)"),
        ({"v": np.ones(4, np.float32)}, TypeError, "moment2 is float32"),
        ({"v": np.broadcast_to(1.0, 4)}, ValueError, "moment2 is read-only"),
    ],
)
def test_what_is_refused_leaves_everything_as_it_was(ops, changes, error, message):
    buffers = {name: np.ones(4) for name in ("value", "grad", "m", "v")}
    options = {name: value for name, value in changes.items() if name not in buffers}
    buffers |= {name: value for name, value in changes.items() if name in buffers}
    with pytest.raises(error, match=message):
        adamw(ops, *buffers.values(), **options)
    assert all((array == 1).all() for array in buffers.values())


@pytest.mark.parametrize("buffer", ["value", "m", "v"])
def test_buffers_of_any_layout(ops, buffer):
    start = {name: np.arange(4.0) + 1 for name in ("value", "grad", "m", "v")}
    plain, spread = ({name: x.copy() for name, x in start.items()} for _ in range(2))
    spread[buffer] = np.repeat(start[buffer], 2)[::2]
    for buffers in (plain, spread):
        adamw(ops, *buffers.values(), decay=0.1, decayed=2, **corrections(3))
    for name in start:
        np.testing.assert_allclose(spread[name], plain[name], rtol=1e-14)


def test_empty_buffer(ops):
    adamw(ops, np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0))
    assert ops.global_norm(np.zeros(0)) == 0.0


def test_global_norm_by_hand(ops, dtype):
    norm = ops.global_norm(np.array([3.0, -4.0, 12.0], dtype))
    assert norm == 13.0
    assert isinstance(norm, float)


def test_global_norm_sums_in_double(ops):
    # 10⁷ squares of 1: single precision alone, added one by one, stops growing at 2²⁴.
    # Here the squares are of 0.1, and the last digits of float32 would be lost.
    n = 3_000_017
    grad = np.full(n, 0.1, np.float32)
    exact = math.sqrt(n * float(np.float32(0.1)) ** 2)
    assert ops.global_norm(grad) == pytest.approx(exact, rel=1e-7)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_global_norm_shows_what_is_not_finite(ops, dtype, bad):
    # clipping and the NaN stop rely on it; fast-math would hide it
    grad = np.zeros(1000, dtype)
    grad[777] = bad
    assert not math.isfinite(ops.global_norm(grad))


def test_global_norm_leaves_the_gradient_alone(ops):
    grad = np.random.default_rng(0).standard_normal(100)
    kept = grad.copy()
    assert ops.global_norm(grad) == pytest.approx(
        math.sqrt(math.fsum(g * g for g in kept)), rel=1e-14
    )
    np.testing.assert_array_equal(grad, kept)
