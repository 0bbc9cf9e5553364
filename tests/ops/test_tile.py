"""The tile, compiled here, against its NumPy twin."""

import numpy as np
import pytest
from numba import TypingError, njit

from minibert.ops.cpu import tile, vectors
from minibert.ops.cpu.tile import add_tile_in_numpy, start_tile_in_numpy
from minibert.ops.cpu.vectors import MR, tile_width

DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])


def compile_add_tile():
    """Return the tile as it is compiled now, which takes a second."""

    @njit
    def add(a, a0, a_row, a_step, b, b0, b_step, depth, c, c0, c_row):
        tile.add_tile(a, a0, a_row, a_step, b, b0, b_step, depth, c, c0, c_row)

    return add


def compile_start_tile():
    @njit
    def start(a, a0, a_row, a_step, b, b0, b_step, depth, c, c0, c_row, bias, bias0):
        tile.start_tile(a, a0, a_row, a_step, b, b0, b_step, depth, c, c0, c_row, bias, bias0)

    return start


def compile_packed_tiles():
    """Return both tiles with strides that are known when they are compiled, as in gemm.py."""

    @njit
    def add(a, a0, b, b0, depth, c, c0, c_row):
        width = tile_width(c)
        tile.add_tile(a, a0, 1, MR, b, b0, width, depth, c, c0, c_row)

    @njit
    def start(a, a0, b, b0, depth, c, c0, c_row, bias, bias0):
        width = tile_width(c)
        tile.start_tile(a, a0, 1, MR, b, b0, width, depth, c, c0, c_row, bias, bias0)

    return add, start


def whole_numbers(dtype: str, *sizes: int) -> list[np.ndarray]:
    """Return arrays whose sums of products are exact in any order."""
    generator = np.random.default_rng(0)
    return [generator.integers(-9, 10, size).astype(dtype) for size in sizes]


def check_add_tile(add, dtype: str) -> None:
    width = tile_width(np.zeros(1, dtype))
    for depth in (0, 1, 2, 4, 7, 13):
        a, b, c = whole_numbers(dtype, 3 + MR * 20, 5 + 100 * max(depth, 1), 7 + MR * 90)
        for a_row, a_step in ((20, 1), (1, MR)):
            expected, actual = c.copy(), c.copy()
            add_tile_in_numpy(a, 3, a_row, a_step, b, 5, 100, depth, expected, 7, 90)
            add(a, 3, a_row, a_step, b, 5, 100, depth, actual, 7, 90)
            np.testing.assert_array_equal(actual, expected)
            changed = np.flatnonzero(expected != c) - 7
            assert (changed % 90 < width).all()
            assert (changed // 90 < MR).all()


@DTYPES
def test_tile_by_hand(dtype) -> None:
    """a is 1, 2, 3 … down and b is 10, 11, 12 … along: c is their outer product."""
    width = tile_width(np.zeros(1, dtype))
    a, b = np.arange(1, MR + 1).astype(dtype), np.arange(10, 10 + width).astype(dtype)
    c = np.ones((MR, width), dtype)
    compile_add_tile()(a, 0, 1, MR, b, 0, width, 1, c, 0, width)
    np.testing.assert_array_equal(c, 1 + np.outer(a, b))
    bias = np.arange(width + 1).astype(dtype)
    compile_start_tile()(a, 0, 1, MR, b, 0, width, 1, c, 0, width, bias, 1)
    np.testing.assert_array_equal(c, bias[1:] + np.outer(a, b))


@DTYPES
def test_tile_equals_its_twin(dtype) -> None:
    check_add_tile(compile_add_tile(), dtype)


@DTYPES
@pytest.mark.parametrize("depth", [0, 1, 4, 7, 256])
def test_tiles_of_packed_panels(dtype, depth) -> None:
    width = tile_width(np.zeros(1, dtype))
    add, start = compile_packed_tiles()
    a, b, c, bias = whole_numbers(
        dtype, 3 + max(depth, 1) * MR, 5 + max(depth, 1) * width, 7 + MR * 90, 9 + width
    )
    twins = ((add, add_tile_in_numpy, ()), (start, start_tile_in_numpy, (bias, 9)))
    for compiled, twin, row in twins:
        expected, actual = c.copy(), c.copy()
        twin(a, 3, 1, MR, b, 5, width, depth, expected, 7, 90, *row)
        compiled(a, 3, b, 5, depth, actual, 7, 90, *row)
        np.testing.assert_array_equal(actual, expected)


@DTYPES
def test_tile_without_fused_multiply_add(monkeypatch, dtype) -> None:
    monkeypatch.setattr(vectors, "FUSED", False)
    check_add_tile(compile_add_tile(), dtype)


@pytest.mark.skipif(vectors.settings.DISABLE_JIT, reason="NumPy mixes dtypes")
def test_tile_of_mixed_dtypes_does_not_compile() -> None:
    single, double = np.zeros(500, np.float32), np.zeros(500)
    for arrays in ((single, double, single), (single, single, double), ([1], [2], [3])):
        a, b, c = (np.asarray(array) for array in arrays)
        with pytest.raises(TypingError):
            compile_add_tile()(a, 0, 1, 1, b, 0, 1, 1, c, 0, 1)
