import numpy as np
import pytest
from hypothesis import given

from minibert.arrays import Array
from minibert.gradcheck import check_pair
from minibert.layers.pooling import mean_pool_backward, mean_pool_forward

from .common import SEEDS, SIZES, few, normal


def mask_for(seed: int, B: int, T: int) -> Array:
    """A mask with holes, as any is allowed; the first row has a token at least."""
    mask = np.random.default_rng(seed).random((B, T)) < 0.6
    mask[0, -1] = True
    return mask


def test_padding_is_not_counted():
    # two tokens [1, 0] and two of padding: were these counted, the mean would be [0.5, 1]
    hidden = np.array([[[1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.0, 2.0]]])
    mask = np.array([[True, True, False, False]])
    np.testing.assert_array_equal(mean_pool_forward(hidden, mask), [[1.0, 0.0]])


def test_by_hand():
    # ([1, 2] + [3, 8]) / 2, and one token alone; each of two tokens gets half of the gradient
    hidden = np.array([[[1.0, 2.0], [9.0, 9.0], [3.0, 8.0]], [[5.0, 7.0], [9.0, 9.0], [9.0, 9.0]]])
    mask = np.array([[True, False, True], [True, False, False]])
    np.testing.assert_array_equal(mean_pool_forward(hidden, mask), [[2.0, 5.0], [5.0, 7.0]])
    dhidden = mean_pool_backward(np.array([[4.0, 6.0], [1.0, 3.0]]), mask)
    np.testing.assert_array_equal(
        dhidden, [[[2.0, 3.0], [0.0, 0.0], [2.0, 3.0]], [[1.0, 3.0], [0.0, 0.0], [0.0, 0.0]]]
    )


def test_a_row_of_padding_alone_gives_0(dtype):
    mask = np.array([[False, False], [True, True]])
    pooled = mean_pool_forward(np.ones((2, 2, 3), dtype), mask)
    np.testing.assert_array_equal(pooled, [[0.0] * 3, [1.0] * 3])
    dhidden = mean_pool_backward(np.ones((2, 3), dtype), mask)
    np.testing.assert_array_equal(dhidden[0], np.zeros((2, 3)))
    assert pooled.dtype == dhidden.dtype == dtype
    assert mean_pool_forward(np.zeros((2, 0, 3), dtype), mask[:, :0]).tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("garbage", [np.nan, np.inf, -np.inf])
def test_what_stands_on_padding_does_not_leak(dtype, garbage):
    hidden, mask = normal(1, 3, 5, 4).astype(dtype), mask_for(1, 3, 5)
    clean = np.where(mask[..., None], hidden, 0)
    hidden[~mask] = garbage
    pooled = mean_pool_forward(hidden, mask)
    np.testing.assert_array_equal(pooled, mean_pool_forward(clean, mask))
    assert np.isfinite(pooled).all()


@few
@given(seed=SEEDS, B=SIZES, T=SIZES, C=SIZES)
def test_gradients(seed, B, T, C):
    mask = mask_for(seed, B, T)
    check_pair(
        lambda hidden: mean_pool_forward(hidden, mask),
        lambda dpooled, hidden: mean_pool_backward(dpooled, mask),
        {"hidden": normal(seed, B, T, C)},
    )


def test_nothing_passed_in_is_changed():
    hidden, dpooled, mask = normal(1, 2, 3, 4), normal(2, 2, 4), mask_for(3, 2, 3)
    kept = [array.copy() for array in (hidden, dpooled, mask)]
    mean_pool_forward(hidden, mask)
    dhidden = mean_pool_backward(dpooled, mask)
    dhidden += 1.0  # is the caller's own, not a view of the upstream gradient
    for array, before in zip((hidden, dpooled, mask), kept, strict=True):
        np.testing.assert_array_equal(array, before)


def test_wrong_arguments_are_named():
    mask = np.ones((2, 3), np.bool_)
    with pytest.raises(ValueError, match=r"hidden has shape \(2, 3\), expected \(any, any, any\)"):
        mean_pool_forward(np.zeros((2, 3)), mask)
    with pytest.raises(ValueError, match=r"attention_mask has shape \(2, 3\), expected \(2, 4\)"):
        mean_pool_forward(np.zeros((2, 4, 5)), mask)
    with pytest.raises(TypeError, match="hidden has dtype int64, expected float32 or float64"):
        mean_pool_forward(np.zeros((2, 3, 5), int), mask)
    with pytest.raises(ValueError, match=r"dpooled has shape \(2,\), expected \(any, any\)"):
        mean_pool_backward(np.zeros(2), mask)
    with pytest.raises(ValueError, match=r"attention_mask has shape \(2, 3\), expected \(1, any\)"):
        mean_pool_backward(np.zeros((1, 5)), mask)
    with pytest.raises(TypeError, match="dpooled has dtype int64, expected float32 or float64"):
        mean_pool_backward(np.zeros((2, 5), int), mask)
