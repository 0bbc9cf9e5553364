import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibert.scores import pearson, spearman

both = pytest.mark.parametrize("score", [pearson, spearman])
INTEGERS = st.integers(-1000, 1000)
FEW = st.integers(0, 3)  # many ties
FINITE = st.floats(allow_nan=False, allow_infinity=False)
PAIRS = st.one_of(
    st.lists(st.tuples(left, right), min_size=1, max_size=40)
    for left in (INTEGERS, FEW)
    for right in (INTEGERS, FEW)
)
thorough = settings(max_examples=400)


def sides(pairs):
    return [x for x, _ in pairs], [y for _, y in pairs]


def constant(values):
    return len(set(values)) == 1


def exact_pearson(x, y):
    """The coefficient with one rounding: all sums are exact, as fractions."""
    x, y = ([Fraction(value) for value in side] for side in (x, y))
    x, y = ([value - sum(side) / len(side) for value in side] for side in (x, y))
    covariance = sum(a * b for a, b in zip(x, y, strict=True))
    square = covariance**2 / (sum(a * a for a in x) * sum(b * b for b in y))
    return math.sqrt(square) if covariance > 0 else -math.sqrt(square)


def test_pearson_by_hand():
    # x - 2 = [-1, 0, 1] and y - 2 = [-1, 1, 0] (y = [1, 3, 2]): 1 / sqrt(2 · 2)
    assert pearson([1, 2, 3], [1, 3, 2]) == pytest.approx(0.5, rel=1e-14)
    # x - 1 = [-1, 0, 1], y - 3 = [-3, -2, 5]: 8 / sqrt(2 · 38)
    assert pearson([0, 1, 2], [0, 1, 8]) == pytest.approx(8 / math.sqrt(76), rel=1e-14)
    assert pearson([0.0, 1.0], [5.0, -5.0]) == pytest.approx(-1.0, rel=1e-14)
    assert pearson([-1, 0, 1], [1, 0, 1]) == 0.0


def test_spearman_by_hand():
    # y = x³ is not straight, but it always rises.
    assert spearman([0, 1, 2], [0, 1, 8]) == pytest.approx(1.0, rel=1e-14)
    # ranks [1.5, 4, 1.5, 3] and [1, 2, 3, 4]; minus 2.5: [-1, 1.5, -1, .5], [-1.5, -.5, .5, 1.5]
    # sum of products 1.5 - .75 - .5 + .75 = 1, of squares 4.5 and 5
    assert spearman([10, 30, 10, 20], [5, 6, 7, 8]) == pytest.approx(1 / math.sqrt(22.5), rel=1e-14)


@both
@pytest.mark.parametrize("same", [0.0, 0.1, -1e308, 5e-324])
def test_constant_side_gives_zero(score, same):
    # The mean of ten times 0.1 is not 0.1: what is left must not be taken for a correlation.
    rising = list(range(10))
    for x, y in (([same] * 10, rising), (rising, [same] * 10), ([same] * 10, [same] * 10)):
        assert score(x, y) == 0.0
    assert score([same], [1.0]) == 0.0


@both
def test_signed_zeros_are_the_same(score):
    assert score([0.0, -0.0, 0.0], [1, 2, 3]) == 0.0


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-160, 1e160, 8e307])
def test_huge_and_small_numbers(scale):
    # 1e-320 keeps three digits only; the others keep all
    x = np.array([-2.0, -1.0, 0.0, 2.0]) * scale
    y = [3.0, 1.0, 4.0, 1.0]
    assert pearson(x, y) == pytest.approx(exact_pearson([-2, -1, 0, 2], y), rel=1e-3)
    assert pearson(x, y) == pytest.approx(exact_pearson(x, y), rel=1e-14)
    assert pearson(x, x) == pytest.approx(1.0, rel=1e-14)
    assert pearson(x, -x) == pytest.approx(-1.0, rel=1e-14)
    assert spearman(x, y) == spearman([-2, -1, 0, 2], y)


def test_numbers_far_from_zero():
    # They differ in the last bit only: their mean is no number that float64 holds.
    x = [1.0, 1.0 + 2**-52]
    assert pearson(x, [0, 1]) == pytest.approx(1.0, rel=1e-14)
    x = 1e15 + np.array([0.0, 1.0, 2.0])
    assert pearson(x, [1, 3, 2]) == pytest.approx(0.5, rel=1e-14)


@thorough
@given(pairs=st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=20))
def test_any_numbers(pairs):
    x, y = sides(pairs)
    for score in (pearson, spearman):
        assert -1.0 <= score(x, y) <= 1.0
    if constant(x) or constant(y):
        assert pearson(x, y) == 0.0
    else:
        # The terms of the sum are at most 1 together, so its error is absolute.
        assert pearson(x, y) == pytest.approx(exact_pearson(x, y), rel=0, abs=1e-14)


@both
@given(pairs=PAIRS)
def test_symmetry_changes_no_bit(score, pairs):
    x, y = sides(pairs)
    assert score(x, y) == score(y, x)
    assert score(np.negative(x), y) == pytest.approx(-score(x, y), rel=0, abs=1e-14)
    assert score(x, x) == pytest.approx(0.0 if constant(x) else 1.0, rel=1e-14)


@both
@given(pairs=PAIRS, data=st.data())
def test_order_does_not_matter(score, pairs, data):
    shuffled = data.draw(st.permutations(pairs))
    assert score(*sides(pairs)) == pytest.approx(score(*sides(shuffled)), rel=0, abs=1e-14)


@given(pairs=PAIRS, factor=st.integers(1, 50), offset=INTEGERS)
def test_pearson_ignores_unit_and_zero_point(pairs, factor, offset):
    x, y = sides(pairs)
    moved = [factor * value + offset for value in x]
    assert pearson(moved, y) == pytest.approx(pearson(x, y), rel=0, abs=1e-14)
    # a power of two is exact
    assert pearson(np.ldexp(x, 900), y) == pearson(x, y)


@given(pairs=PAIRS)
def test_spearman_ignores_monotone_maps(pairs):
    x, y = sides(pairs)
    for rising in (lambda v: v**3, lambda v: math.atan(v), lambda v: math.exp(v / 10)):
        assert spearman([rising(value) for value in x], y) == spearman(x, y)


@both
def test_types_and_untouched_inputs(score):
    x, y = np.array([1, 2, 4], np.float32), np.array([3, 1, 7], np.int16)
    kept = x.copy(), y.copy()
    assert type(score(x, y)) is float
    assert score(x, y) == score([1.0, 2.0, 4.0], (3, 1, 7))
    np.testing.assert_array_equal(x, kept[0])
    np.testing.assert_array_equal(y, kept[1])


@both
def test_single_precision_is_widened(score):
    # In float32, 2²⁴ + 1 is 2²⁴, so sums of these would lose the last digit.
    x = np.array([2**24, 2**24 - 1, 2**24 - 2], np.float32)
    assert score(x, [1, 3, 2]) == pytest.approx(-0.5, rel=1e-14)


@both
def test_wrong_input_is_named(score):
    with pytest.raises(ValueError, match="x and y are empty, expected at least one pair"):
        score([], [])
    with pytest.raises(ValueError, match="x has 2 numbers, but y has 3: give pairs"):
        score([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match=r"y has shape \(2, 1\), expected \(N,\)"):
        score([1, 2], np.zeros((2, 1)))
    with pytest.raises(ValueError, match="x is nested, expected a sequence of numbers"):
        score([[1], [1, 2]], [1, 2])
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match=f"y holds {bad} at 1, expected finite numbers"):
            score([1, 2, 3], [1, bad, bad])
    for bad in (["1", "2"], [1j, 2], [None, 1.0]):
        with pytest.raises(ValueError, match=r"x has dtype \S+, expected real numbers"):
            score(bad, [1, 2])


@pytest.fixture(scope="module")
def scipy_stats():
    return pytest.importorskip("scipy.stats")


@pytest.mark.parity
@thorough
@given(pairs=PAIRS.filter(lambda pairs: not any(map(constant, sides(pairs)))))
def test_same_as_scipy(scipy_stats, pairs):
    x, y = sides(pairs)
    for score, oracle in ((pearson, scipy_stats.pearsonr), (spearman, scipy_stats.spearmanr)):
        assert score(x, y) == pytest.approx(oracle(x, y).statistic, rel=0, abs=1e-13)


@pytest.mark.parity
@thorough
@given(seed=st.integers(0, 2**32 - 1), N=st.integers(2, 200), noise=st.sampled_from([0.01, 1, 9]))
def test_same_as_scipy_with_noise(scipy_stats, seed, N, noise):
    rng = np.random.default_rng(seed)
    x = rng.normal(2.5, 1.0, N)
    y = x + noise * rng.normal(size=N)
    for score, oracle in ((pearson, scipy_stats.pearsonr), (spearman, scipy_stats.spearmanr)):
        assert score(x, y) == pytest.approx(oracle(x, y).statistic, rel=0, abs=1e-13)
