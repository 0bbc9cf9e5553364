import math

import numpy as np
from hypothesis import given

from minibert.gradcheck import check_pair

from .common import LEADING, SEEDS, SIZES, few, normal


def test_forward_by_hand(ops):
    # e^{ln 1}, e^{ln 2}, e^{ln 5} = 1, 2, 5, which sum to 8
    y = ops.softmax_forward(np.log([[1.0, 2.0, 5.0], [3.0, 3.0, 2.0]]))
    np.testing.assert_allclose(y, [[1 / 8, 2 / 8, 5 / 8], [3 / 8, 3 / 8, 2 / 8]], rtol=1e-15)


def test_backward_by_hand(ops):
    # y = [1, 2, 5] / 8 and dy = [1, 0, 0]: Σ dy y = 1/8, so dx = y (dy - 1/8)
    #     = [1/8 · 7/8, -2/8 · 1/8, -5/8 · 1/8] = [7, -2, -5] / 64
    dx = ops.softmax_backward(np.array([[1.0, 0.0, 0.0]]), np.array([[1.0, 2.0, 5.0]]) / 8)
    np.testing.assert_array_equal(dx, np.array([[7.0, -2.0, -5.0]]) / 64)


@few
@given(seed=SEEDS, leading=LEADING, T=SIZES.filter(lambda T: T > 1))
def test_gradients(ops, seed, leading, T):
    check_pair(
        ops.softmax_forward,
        lambda dy, x: ops.softmax_backward(dy, ops.softmax_forward(x)),
        {"x": normal(seed, *leading, T, std=2.0)},
    )


def test_one_score_has_no_gradient(ops):
    check_pair(
        ops.softmax_forward,
        lambda dy, x: ops.softmax_backward(dy, ops.softmax_forward(x)),
        {"x": normal(1, 5, 1)},
        absolute=["x"],
    )


def test_same_upstream_for_all_gives_nothing(ops):
    y = ops.softmax_forward(normal(1, 3, 5))
    np.testing.assert_allclose(ops.softmax_backward(np.full((3, 5), 2.5), y), 0, atol=1e-15)


def test_far_scores_do_not_overflow(ops, dtype):
    x = np.array([[1e4, 0.0, -1e4], [-1e4, -1e4, -1e4], [80.0, 80.0, -80.0]], dtype)
    y = ops.softmax_forward(x)
    assert y.dtype == dtype
    third = 1 / 3
    expected = [[1, 0, 0], [third, third, third], [0.5, 0.5, 0]]
    np.testing.assert_allclose(y, expected, rtol=1e-6, atol=1e-30)


@few
@given(seed=SEEDS, T=SIZES)
def test_rows_sum_to_one_and_ignore_a_shift(ops, seed, T):
    x = normal(seed, 4, T, std=3.0)
    y = ops.softmax_forward(x)
    assert (y > 0).all()
    np.testing.assert_allclose(y.sum(axis=-1), 1, rtol=1e-14)
    np.testing.assert_allclose(ops.softmax_forward(x + 50.0), y, rtol=1e-12)


def test_single_precision_and_untouched_inputs(ops):
    x, dy = normal(1, 2, 3, 7).astype(np.float32), normal(2, 2, 3, 7).astype(np.float32)
    kept_x, kept_dy = x.copy(), dy.copy()
    y = ops.softmax_forward(x)
    kept_y = y.copy()
    dx = ops.softmax_backward(dy, y)
    assert y.dtype == dx.dtype == np.float32
    for array, kept in ((x, kept_x), (dy, kept_dy), (y, kept_y)):
        np.testing.assert_array_equal(array, kept)
    exact = ops.softmax_forward(x.astype(np.float64))
    np.testing.assert_allclose(y, exact, rtol=2e-6)
    assert math.isclose(float(y.sum()), 6.0, rel_tol=1e-6)
