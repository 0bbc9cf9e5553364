"""The two functions written in LLVM's instructions, compiled here, against their NumPy twins."""

import numpy as np
import pytest
from numba import TypingError, njit

from minibert.ops.cpu import tile
from minibert.ops.cpu.tile import (
    MR,
    add_tile_in_numpy,
    copy_tile_row_in_numpy,
    host_shape,
    tile_width,
)

DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])


def compile_add_tile():
    """Return the tile as it is compiled now, which takes a second."""

    @njit
    def add(a, a0, a_row, a_step, b, b0, b_step, depth, c, c0, c_row):
        tile.add_tile(a, a0, a_row, a_step, b, b0, b_step, depth, c, c0, c_row)

    return add


def check_add_tile(add, dtype: str) -> None:
    width = tile_width(np.zeros(1, dtype))
    generator = np.random.default_rng(0)
    for depth in (1, 2, 7):
        a, b, c = (
            generator.integers(-9, 10, size).astype(dtype)  # whole, so that every sum is exact
            for size in (3 + MR * 20, 5 + 100 * depth, 7 + MR * 90)
        )
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


@DTYPES
def test_tile_equals_its_twin(dtype) -> None:
    check_add_tile(compile_add_tile(), dtype)


@DTYPES
def test_tile_without_fused_multiply_add(monkeypatch, dtype) -> None:
    monkeypatch.setattr(tile, "FUSED", False)
    check_add_tile(compile_add_tile(), dtype)


@DTYPES
def test_copy_of_a_row(dtype) -> None:
    @njit
    def copy(source, source0, target, target0):
        tile.copy_tile_row(source, source0, target, target0)

    width = tile_width(np.zeros(1, dtype))
    source = np.arange(3 * width).astype(dtype)
    expected, actual = np.zeros((2, 3 * width), dtype)
    copy_tile_row_in_numpy(source, 5, expected, 2)
    copy(source, 5, actual, 2)
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.flatnonzero(actual), 2 + np.arange(width))


@pytest.mark.skipif(tile.settings.DISABLE_JIT, reason="NumPy mixes dtypes")
def test_tile_of_mixed_dtypes_does_not_compile() -> None:
    single, double = np.zeros(500, np.float32), np.zeros(500)
    for arrays in ((single, double, single), (single, single, double), ([1], [2], [3])):
        a, b, c = (np.asarray(array) for array in arrays)
        with pytest.raises(TypingError):
            compile_add_tile()(a, 0, 1, 1, b, 0, 1, 1, c, 0, 1)


def test_the_width_of_a_tile_is_a_constant_in_kernels() -> None:
    for kind, dtype in ((tile.types.float32, "float32"), (tile.types.float64, "float64")):
        width = tile._tile_width(kind[:])(None)
        assert width == tile_width(np.zeros(1, dtype))
    assert host_shape() == (tile.MR, tile.NV, tile.VECTOR, tile.FUSED)
