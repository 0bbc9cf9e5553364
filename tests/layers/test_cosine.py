import math

import numpy as np
import pytest
from hypothesis import given

from minibert.gradcheck import check_pair
from minibert.layers.cosine import SHORTEST, cosine_backward, cosine_forward

from .common import SEEDS, SIZES, WIDTHS, few, normal


def cosine(a, b):
    return cosine_forward(a, b)[0]


def backward(dcosine, a, b):
    return cosine_backward(dcosine, cosine_forward(a, b)[1])


def test_by_hand():
    # (3, 4)·(4, 3) / 25; at right angles; the same way whatever the lengths; the other way
    a = np.array([[3.0, 4.0], [2.0, 0.0], [1.0, 1.0], [0.5, -1.0]])
    b = np.array([[4.0, 3.0], [0.0, 5.0], [7.0, 7.0], [-2.0, 4.0]])
    np.testing.assert_allclose(cosine(a, b), [24 / 25, 0.0, 1.0, -1.0], rtol=1e-15, atol=1e-16)


def test_backward_by_hand():
    # a = (2, 0) and b = (0, 5): a turns towards b, by 1 / |a| = ½ a step; b towards a, by ⅕.
    # a = (3, 3) and b = (1, 1) are parallel: no turn makes the cosine grow.
    a, b = np.array([[2.0, 0.0], [3.0, 3.0]]), np.array([[0.0, 5.0], [1.0, 1.0]])
    da, db = backward(np.array([10.0, 10.0]), a, b)
    np.testing.assert_allclose(da, [[0.0, 5.0], [0.0, 0.0]], atol=1e-15)
    np.testing.assert_allclose(db, [[2.0, 0.0], [0.0, 0.0]], atol=1e-15)


@few
@given(seed=SEEDS, N=SIZES, C=WIDTHS)
def test_gradients(seed, N, C):
    check_pair(cosine, backward, {"a": normal(seed, N, C, std=3.0), "b": normal(seed + 1, N, C)})


@few
@given(seed=SEEDS, N=SIZES)
def test_one_number_has_a_sign_but_no_direction_to_turn_to(seed, N):
    a, b = normal(seed, N, 1), normal(seed + 1, N, 1)
    check_pair(cosine, backward, {"a": a, "b": b}, absolute=("a", "b"))
    np.testing.assert_array_equal(cosine(a, b), np.sign(a * b)[:, 0])


def test_a_vector_of_no_length_stays_finite(dtype):
    zero, one = np.zeros((1, 3), dtype), np.array([[0.0, 2.0, 0.0]], dtype)
    for a, b in ((zero, one), (one, zero), (zero, zero)):
        found, cache = cosine_forward(a, b)
        assert found == [0.0]
        for gradient in cosine_backward(np.ones(1, dtype), cache):
            assert np.isfinite(gradient).all()
            assert gradient.dtype == dtype


def test_gradients_of_vectors_that_are_too_short():
    """Divided by a constant, they are no longer turned only, but may grow as well."""
    short = SHORTEST / 4 * normal(1, 3, 4)
    assert (np.sqrt((short * short).sum(axis=1)) < SHORTEST).all()
    check_pair(cosine, backward, {"a": short, "b": normal(2, 3, 4)})
    check_pair(cosine, backward, {"a": normal(2, 3, 4), "b": short})


@few
@given(seed=SEEDS, C=SIZES)
def test_lengths_do_not_matter(seed, C):
    a, b = normal(seed, 3, C), normal(seed + 1, 3, C)
    wanted = cosine(a, b)
    assert (abs(wanted) <= 1 + 1e-15).all()
    np.testing.assert_allclose(cosine(1e-4 * a, 1e6 * b), wanted, rtol=1e-13, atol=1e-14)
    np.testing.assert_array_equal(cosine(b, a), wanted)
    long, short = (backward(np.ones(3), scale * a, b) for scale in (2.0, 1.0))
    np.testing.assert_allclose(2 * long[0], short[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(long[1], short[1], rtol=1e-12, atol=1e-14)


def test_single_precision_and_untouched_inputs():
    a, b, dcosine = (
        normal(seed, *shape).astype(np.float32) for seed, shape in enumerate([(5, 4), (5, 4), (5,)])
    )
    kept = [array.copy() for array in (a, b, dcosine)]
    found, cache = cosine_forward(a, b)
    held = [array.copy() for array in cache]
    da, db = cosine_backward(dcosine, cache)
    assert {array.dtype for array in (found, *cache, da, db)} == {np.dtype(np.float32)}
    for array, before in zip((a, b, dcosine, *cache), (*kept, *held), strict=True):
        np.testing.assert_array_equal(array, before)
    double = [array.astype(np.float64) for array in (a, b, dcosine)]
    np.testing.assert_allclose(found, cosine(*double[:2]), atol=1e-6)
    np.testing.assert_allclose(da, backward(double[2], *double[:2])[0], atol=1e-5)


def test_no_row_at_all(dtype):
    nothing = np.zeros((0, 3), dtype)
    found, cache = cosine_forward(nothing, nothing)
    assert found.shape == (0,)
    assert cosine_backward(found, cache)[0].shape == (0, 3)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"a has shape \(3,\), expected \(any, any\)"):
        cosine_forward(np.zeros(3), np.zeros(3))
    with pytest.raises(ValueError, match=r"b has shape \(1, 3\), expected \(2, 3\)"):
        cosine_forward(np.zeros((2, 3)), np.zeros((1, 3)))
    with pytest.raises(TypeError, match="a has dtype int64, expected float32 or float64"):
        cosine_forward(np.zeros((2, 3), int), np.zeros((2, 3), int))
    with pytest.raises(TypeError, match="b is float32"):
        cosine_forward(np.zeros((2, 3)), np.zeros((2, 3), np.float32))
    _, cache = cosine_forward(np.ones((2, 3)), np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"dcosine has shape \(2, 1\), expected \(2\)"):
        cosine_backward(np.zeros((2, 1)), cache)
    assert math.isclose(cache.cosine[0], 1.0)
