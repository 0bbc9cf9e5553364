from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.data.shuffle import shuffled
from minibert.keys import Key

SIZES = st.integers(1, 3_000)
SEEDS = st.integers(0, 2**64 - 1)


@given(SIZES, SEEDS)
def test_it_is_a_permutation(size, seed):
    assert np.array_equal(np.sort(shuffled(np.arange(size), size, seed)), np.arange(size))


@given(SIZES, SEEDS, st.data())
def test_each_place_is_computed_alone(size, seed, data):
    index = np.array(data.draw(st.lists(st.integers(0, size - 1), max_size=9)), np.int64)
    before = index.copy()
    assert np.array_equal(shuffled(index, size, seed), shuffled(np.arange(size), size, seed)[index])
    assert np.array_equal(index, before)


def test_all_orders_are_equally_likely():
    """Chi-squared over the 24 orders of 4 things: 23 degrees of freedom, 49.7 at p = 0.001."""
    tries = 4_000
    orders = Counter(
        tuple(shuffled(np.arange(4), 4, Key(seed).seed).tolist()) for seed in range(tries)
    )
    expected = tries / 24
    statistic = sum((orders[p] - expected) ** 2 / expected for p in permutations(range(4)))
    assert statistic < 49.7


@pytest.mark.parametrize("size", [999, 65_536, 250_001])
def test_neighbours_are_torn_apart(size):
    order = shuffled(np.arange(size), size, Key(1).seed)
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 5 / size**0.5
    assert abs(np.corrcoef(order, np.arange(size))[0, 1]) < 5 / size**0.5


def test_sizes_beyond_memory():
    size = 10**15
    index = np.array([0, 1, size - 1])
    places = shuffled(index, size, 7)
    assert ((places >= 0) & (places < size)).all()
    assert len(set(places.tolist())) == 3
