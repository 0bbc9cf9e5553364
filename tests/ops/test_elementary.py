"""The functions that stand in for the C library's, against ``math`` in float64."""

import math
from typing import Any

import numpy as np
import pytest
from numba import types

from minibert import keys
from minibert.arrays import Array
from minibert.ops.cpu import elementary
from minibert.ops.cpu.jit import FLAGS, compiler

compiled = compiler(fastmath=FLAGS)


@compiled
def exp_all(x: Any, y: Any) -> None:
    for i in range(x.shape[0]):
        y[i] = elementary.exp(x[i])


@compiled
def normal_all(x: Any, cdf: Any, density: Any) -> None:
    for i in range(x.shape[0]):
        cdf[i], density[i] = elementary.normal(x[i])


@compiled
def tanh_all(x: Any, y: Any) -> None:
    for i in range(x.shape[0]):
        y[i] = elementary.tanh(x[i])


@compiled
def largest(x: Any) -> Any:
    key = elementary.sort_key(x[0])
    for i in range(x.shape[0]):
        key = max(key, elementary.sort_key(x[i]))
    return elementary.from_key(key)


@compiled
def bits_from(low: Any, high: Any, first: Any, out: Any) -> None:
    for i in range(out.shape[0]):
        out[i] = elementary.random_bits(low, high, np.uint32(first + np.uint32(i)))


def exact(function: Any, x: Array) -> Array:
    return np.array([function(v) for v in x.astype(np.float64).tolist()])


def test_exp_to_two_rounding_errors() -> None:
    x = np.linspace(-87.3, 88.7, 50_001).astype(np.float32)
    y, true = np.empty_like(x), exact(math.exp, x)
    exp_all(x, y)
    assert (np.abs(y - true) / true).max() <= 1.2e-7


def test_exp_below_the_normal_numbers() -> None:
    """Down to the least number there is, rounded to a multiple of it; then 0."""
    x = np.linspace(-110, -87.3, 20_001).astype(np.float32)
    y, true = np.empty_like(x), exact(math.exp, x)
    exp_all(x, y)
    assert np.abs(y - true).max() <= 1.5e-45


def test_exp_of_special_values() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, 89.0, -200.0], np.float32)
    y = np.empty_like(x)
    exp_all(x, y)
    np.testing.assert_array_equal(y, np.array([np.inf, 0, np.nan, 1, np.inf, 0], np.float32))


def test_normal_distribution() -> None:
    x = np.linspace(-13, 9, 50_001).astype(np.float32)
    cdf, density = np.empty_like(x), np.empty_like(x)
    normal_all(x, cdf, density)
    true = exact(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)), x)
    assert np.abs(cdf - true).max() <= 2.5e-7
    # in the left tail e^{-x²/2} loses digits as x² grows, as it must in float32
    assert (np.abs(cdf - true) / true)[x > -5].max() <= 1e-6
    assert (np.abs(cdf - true) / true).max() <= 5e-6
    true = exact(lambda v: math.exp(-v * v / 2) / math.sqrt(2 * math.pi), x)
    assert np.abs(density - true).max() <= 6e-8


def test_normal_distribution_of_special_values() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0.0, 1e30], np.float32)
    cdf, density = np.empty_like(x), np.empty_like(x)
    normal_all(x, cdf, density)
    np.testing.assert_array_equal(cdf, np.array([1, 0, np.nan, 0.5, 1], np.float32))
    np.testing.assert_array_equal(np.isnan(density), np.isnan(x))


def test_tanh() -> None:
    x = np.concatenate([np.linspace(-10, 10, 50_000), [1e-30, -1e-8, 0.625]]).astype(np.float32)
    y, true = np.empty_like(x), exact(math.tanh, x)
    tanh_all(x, y)
    assert (np.abs(y - true) / np.abs(true)).max() <= 2e-7
    x = np.array([np.inf, -np.inf, np.nan, 0.0], np.float32)
    y = np.empty_like(x)
    tanh_all(x, y)
    np.testing.assert_array_equal(y, np.array([1, -1, np.nan, 0], np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sort_keys_order_like_numbers(dtype) -> None:
    generator = np.random.default_rng(0)
    for scale in (1e-30, 1.0, 1e30):
        x = (generator.standard_normal(1001) * scale).astype(dtype)
        assert largest(x) == x.max()
        assert largest(-np.abs(x)) == -np.abs(x).min()
    x = np.array([-np.inf, -np.inf], dtype)
    assert largest(x) == -np.inf
    for nan in (np.nan, -np.nan):  # of either sign bit
        x[1] = nan
        assert np.isnan(largest(x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_kernels_get_the_form_for_their_dtype(dtype) -> None:
    """Python's own choice, with the compiler switched off, is the one made at compile time."""
    kind, key_kind = getattr(types, dtype), types.int32 if dtype == "float32" else types.int64
    x = np.dtype(dtype).type(0.7)
    with np.errstate(all="ignore"):
        for name in ("exp", "normal", "tanh", "sort_key"):
            chosen = getattr(elementary, name + "_for")(kind)
            assert chosen(x) == getattr(elementary, name)(x)
        key = elementary.sort_key(x)
        assert elementary.from_key_for(key_kind)(key) == elementary.from_key(key) == x
        wide = float(x)
        near = 1e-7 if dtype == "float32" else 1e-15
        assert elementary.exp(x) == pytest.approx(math.exp(wide), rel=near)
        assert elementary.tanh(x) == pytest.approx(math.tanh(wide), rel=near)
        assert elementary.normal(x)[0] == pytest.approx(0.758036347776927, rel=near)


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**32, 2**63 + 12345, 2**64 - 1])
def test_random_bits_are_those_of_keys(seed) -> None:
    expected = keys.random_bits(seed, 1000, np.empty(0))
    out = np.empty(900, np.uint32)
    bits_from(np.uint32(seed & 0xFFFFFFFF), np.uint32(seed >> 32), np.uint32(100), out)
    np.testing.assert_array_equal(out, expected[100:])
