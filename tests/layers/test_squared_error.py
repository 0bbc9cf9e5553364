import numpy as np
import pytest
from hypothesis import given

from minibert.gradcheck import check_pair
from minibert.layers.squared_error import squared_error_backward, squared_error_forward

from .common import SEEDS, SIZES, few, normal


def test_by_hand():
    # (1 - 3)² + (2 - 2)² + (5 - 4.5)² = 4 + 0 + 0.25; the derivative of 3 of them: 6 (x - t)
    x, target = np.array([1.0, 2.0, 5.0]), np.array([3.0, 2.0, 4.5])
    loss = squared_error_forward(x, target)
    assert loss == 4.25
    assert isinstance(loss, float)
    np.testing.assert_array_equal(squared_error_backward(3.0, x, target), [-12.0, 0.0, 3.0])


@few
@given(seed=SEEDS, N=SIZES)
def test_gradients(seed, N):
    target = normal(seed + 1, N)
    check_pair(
        lambda x: squared_error_forward(x, target),
        lambda dloss, x: squared_error_backward(dloss, x, target),
        {"x": normal(seed, N)},
    )


def test_no_row_is_no_loss(dtype):
    nothing = np.zeros(0, dtype)
    assert squared_error_forward(nothing, nothing) == 0.0
    dx = squared_error_backward(1.0, nothing, nothing)
    assert dx.shape == (0,)
    assert dx.dtype == dtype


def test_single_precision_stays_and_sums_in_double():
    # 2²⁴ ones and one more: float32 cannot count so far one by one
    x = np.ones(2**24 + 1, np.float32)
    assert squared_error_forward(x, np.zeros_like(x)) == 2**24 + 1
    given_arrays = normal(1, 5).astype(np.float32), normal(2, 5).astype(np.float32)
    kept = [array.copy() for array in given_arrays]
    dloss = np.float64(0.3)  # a NumPy number must not make the gradient float64
    assert squared_error_backward(dloss, *given_arrays).dtype == np.float32
    for array, before in zip(given_arrays, kept, strict=True):
        np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize(
    ("x", "target", "error", "message"),
    [
        (np.zeros((3, 1)), np.zeros(3), ValueError, r"x has shape \(3, 1\), expected \(any\)"),
        (np.zeros(3), np.zeros((3, 1)), ValueError, r"target has shape \(3, 1\), expected \(3\)"),
        (np.zeros(3), np.zeros(1), ValueError, r"target has shape \(1,\), expected \(3\)"),
        (np.zeros(3, int), np.zeros(3), TypeError, "x has dtype int64, expected float32"),
        (np.zeros(3), np.zeros(3, int), TypeError, "target has dtype int64, expected float32"),
        (np.zeros(3, np.float32), np.zeros(3), TypeError, "target is float64"),
        ([1.0], np.zeros(1), TypeError, "x is a list, expected an array"),
    ],
)
def test_wrong_arguments_are_named(x, target, error, message):
    with pytest.raises(error, match=message):
        squared_error_forward(x, target)
    with pytest.raises(error, match=message):
        squared_error_backward(1.0, x, target)


def test_dloss_is_a_number():
    with pytest.raises(TypeError, match="dloss is '1', expected a number"):
        squared_error_backward("1", np.zeros(2), np.zeros(2))  # pyright: ignore
