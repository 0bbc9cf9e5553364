"""What an operation cannot see: softmax a shift of all scores, LayerNorm a shift or a scale."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from .common import assert_near

SHIFTS = st.sampled_from([-64.0, -1.5, 0.25, 8.0, 512.0])


def normal(seed, dtype, *shape):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@given(seed=st.integers(0, 99), shift=SHIFTS)
def test_softmax_does_not_see_a_shift(ops, dtype, seed, shift) -> None:
    x = np.round(normal(seed, dtype, 3, 7) * 64) / dtype.type(64)  # so that the sum is exact
    y = ops.softmax_forward(x)
    assert ops.softmax_forward(x + dtype.type(shift)).tobytes() == y.tobytes()
    np.testing.assert_allclose(y.sum(-1), 1, rtol=1e-6)
    # so the gradient has no part along that direction
    dx = ops.softmax_backward(normal(seed + 1, dtype, 3, 7), y)
    assert_near(dx.sum(-1), np.zeros(3), dtype)


@given(seed=st.integers(0, 99), shift=SHIFTS, scale=st.sampled_from([0.5, 3.0, 100.0]))
def test_layernorm_sees_neither_shift_nor_scale(ops, dtype, seed, shift, scale) -> None:
    """With ε = 0, nearly: beside a variance near 1 this one is lost in rounding."""
    x, weight, bias = (normal(seed + n, dtype, *s) for n, s in enumerate([(3, 8), (8,), (8,)]))
    y, x_hat, rstd = ops.layernorm_forward(x, weight, bias, 1e-30)
    assert_near(ops.layernorm_forward(dtype.type(scale) * x, weight, bias, 1e-30)[0], y, dtype)
    # rounding of x + shift is a share of the shift, not of x: that much cannot come back
    lost = np.finfo(dtype).eps * abs(shift) * float(rstd.max()) * 10
    moved = ops.layernorm_forward(x + dtype.type(shift), weight, bias, 1e-30)[0]
    assert np.abs(moved - y).max() <= lost * np.abs(weight).max() + 10 * np.finfo(dtype).eps
    # so the gradient is at right angles to both
    dx = ops.layernorm_backward(normal(seed + 9, dtype, 3, 8), x_hat, rstd, weight)[0]
    size = float(np.abs(dx).max())
    assert_near(dx.sum(-1) / size, np.zeros(3), dtype)
    assert_near((dx * x_hat).sum(-1) / size, np.zeros(3), dtype)


@pytest.mark.parametrize("shift", [-3.0, 40.0])
def test_cross_entropy_does_not_see_a_shift(ops, dtype, shift) -> None:
    logits, labels = normal(1, dtype, 4, 9), np.array([0, 8, 3, -100], np.int32)
    loss, probs = ops.cross_entropy_forward(logits, labels)
    moved, moved_probs = ops.cross_entropy_forward(logits + dtype.type(shift), labels)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    assert moved == pytest.approx(loss, rel=tolerance)
    np.testing.assert_allclose(moved_probs, probs, rtol=tolerance)
