import numpy as np
import pytest
from hypothesis import given

from minibert.gradcheck import check_pair
from minibert.keys import Key
from minibert.layers.dropout import keep_mask

from .common import LEADING, RATES, SEEDS, SIZES, few, normal


def test_by_hand(ops):
    # rate ½: what is kept is doubled.  The mask comes from outside the functions under test.
    x = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]])
    keep = keep_mask(x.shape, 0.5, 7, x)
    assert 0 < keep.sum() < 5
    expected = [[2 * value if kept else 0.0 for value, kept in zip(x[0], keep[0], strict=True)]]
    np.testing.assert_array_equal(ops.dropout_forward(x, 0.5, 7), expected)
    np.testing.assert_array_equal(ops.dropout_backward(x, 0.5, 7), expected)


@few
@given(seed=SEEDS, leading=LEADING, C=SIZES, rate=RATES)
def test_gradients(ops, seed, leading, C, rate):
    check_pair(
        lambda x: ops.dropout_forward(x, rate, seed),
        lambda dy, x: ops.dropout_backward(dy, rate, seed),
        {"x": normal(seed, *leading, C)},
        # with everything dropped the true gradient is 0, and so is every difference
    )


def test_no_rate_changes_nothing(ops):
    x = normal(1, 3, 5)
    np.testing.assert_array_equal(ops.dropout_forward(x, 0.0, 9), x)
    np.testing.assert_array_equal(ops.dropout_backward(x, 0.0, 9), x)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_share_and_mean(ops, dtype, rate):
    n = 100_000
    y = ops.dropout_forward(np.ones((100, n // 100), dtype), rate, Key(3).seed)
    dropped = int((y == 0).sum())
    # n independent draws: five standard deviations of their number
    assert abs(dropped - n * rate) < 5 * np.sqrt(n * rate * (1 - rate))
    assert y.dtype == dtype
    kept = np.unique(y[y != 0])
    assert kept.tolist() == [dtype.type(1 / (1 - rate))]


def test_mask_depends_on_the_seed_and_the_place():
    x = np.zeros(1)
    masks = np.array([keep_mask((64, 64), 0.5, seed, x) for seed in (1, 2, 3, 2**40 + 1)])
    for i in range(len(masks)):
        for j in range(i):
            # independent masks agree at half of 4096 places, ± 5 · √4096 / 2
            assert abs(int((masks[i] == masks[j]).sum()) - 2048) < 160
    for mask in masks:  # neither rows nor columns repeat, nor does the second half
        for a, b in [(mask[0::2], mask[1::2]), (mask[:, 0::2], mask[:, 1::2]), (mask, mask[::-1])]:
            assert 0.4 < (a == b).mean() < 0.6


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan")])
def test_wrong_rate_is_named(rate):
    with pytest.raises(ValueError, match=r"dropout rate is .*, expected 0 <= rate < 1"):
        keep_mask((3,), rate, 1, np.zeros(3))
