import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.keys import Key, random_bits

PARTS = st.one_of(st.integers(-3, 12), st.text(max_size=3))
PATHS = st.lists(PARTS, max_size=4).map(tuple)


def bits_by_hand(seed: int, index: int) -> int:
    """The hash of one index in Python's integers, which never overflow."""
    mask = 2**32 - 1
    x = (index + (seed & mask)) & mask
    for offset in (0, seed >> 32):
        x ^= offset
        x ^= x >> 16
        x = (x * 0x21F0AAAD) & mask
        x ^= x >> 15
        x = (x * 0x735A2D97) & mask
        x ^= x >> 15
    return x


@given(PATHS, PATHS)
def test_the_path_counts_not_how_it_was_walked(first, second):
    assert Key(7).child(*first).child(*second) == Key(7).child(*first, *second)
    assert Key(7).child(*first).child(*second).seed == Key(7).child(*first, *second).seed


@given(PATHS, PATHS, st.integers(0, 3), st.integers(0, 3))
def test_different_keys_draw_differently(first, second, root, other):
    a, b = Key(root, first), Key(other, second)
    assert (a == b) == (a.seed == b.seed)
    assert (a == b) == (a.digest(16) == b.digest(16))


def test_paths_that_look_alike_differ():
    keys = [
        Key(1).child("a", "b"),
        Key(1).child("ab"),
        Key(1).child("a").child("b", ""),
        Key(1).child("a, b"),
        Key(1).child("1"),
        Key(1).child(1),
        Key(1).child("'1'"),
        Key(11),
        Key(1),
    ]
    assert len({key.seed for key in keys}) == len(keys)


def test_values_are_the_same_for_ever():
    # A run resumes with the numbers it began with, on any machine and with any version.
    key = Key(7).child("step", 120)
    assert key.seed == 0x7BF5E7E6ECD442D5
    assert random_bits(key.seed, 3, np.zeros(1)).tolist() == [910672717, 1789238274, 1543110361]
    assert key.generator().integers(0, 1000, 4).tolist() == [36, 440, 23, 318]


def test_a_numpy_integer_as_root_is_the_same_key():
    assert Key(np.int64(7)).seed == Key(7).seed  # pyright: ignore[reportArgumentType]


def test_generator_starts_anew():
    key = Key(3).child("data")
    a, b = key.generator(), key.generator()
    np.testing.assert_array_equal(a.standard_normal(5), b.standard_normal(5))
    assert not np.array_equal(a.standard_normal(5), key.generator().standard_normal(5))


def test_key_is_immutable():
    key = Key(3)
    key.child("a")
    assert key == Key(3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        key.root = 4  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("part", [None, 1.5, True, ("a",), b"a"])
def test_wrong_part_is_named(part):
    with pytest.raises(TypeError, match=r"a key's path holds words and integers, not "):
        Key(1).child(part)


@given(st.integers(0, 2**64 - 1), st.integers(1, 40))
def test_random_bits_by_hand(seed, count):
    bits = random_bits(seed, count, np.zeros(1))
    assert bits.dtype == np.uint32
    assert bits.tolist() == [bits_by_hand(seed, index) for index in range(count)]


def test_random_bits_of_nothing():
    assert random_bits(1, 0, np.zeros(1)).shape == (0,)


def test_random_bits_are_limited():
    with pytest.raises(ValueError, match=r"numbers at most 2\*\*32 elements, not 4294967297"):
        random_bits(1, 2**32 + 1, np.zeros(1))


@pytest.mark.parametrize("seed", [0, 1, Key(1).seed, 2**63])
def test_random_bits_are_even(seed):
    bits = random_bits(seed, 65_536, np.zeros(1))
    # each of the 32 bits is 1 in half the numbers: 5 standard deviations are 640 of 65536
    ones = ((bits[:, None] >> np.arange(32, dtype=np.uint32)) & 1).sum(axis=0)
    assert np.abs(ones.astype(int) - 32_768).max() < 640
    # and says nothing about the same bit of the next number, or of the same number under seed + 1
    for other in (np.roll(bits, 1), random_bits(seed + 1, 65_536, np.zeros(1))):
        same = (((bits ^ other)[:, None] >> np.arange(32, dtype=np.uint32)) & 1).sum(axis=0)
        assert np.abs(same.astype(int) - 32_768).max() < 640
    # 16 equal shares of the range hold 4096 each, give or take five times √4096
    shares = np.bincount(bits >> np.uint32(28), minlength=16)
    assert np.abs(shares - 4096).max() < 320


def test_streams_of_two_seeds_are_not_shifted_copies():
    # Seeds that share their low half start at the same index; those that differ by one, a step on.
    first = set(random_bits(5, 2000, np.zeros(1)).tolist())
    for seed in (5 + (1 << 32), 6 + (1 << 32), 6 + (7 << 32)):
        assert len(first & set(random_bits(seed, 2000, np.zeros(1)).tolist())) < 5
