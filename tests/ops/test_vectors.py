"""Vector instructions, compiled here, against their NumPy twins."""

import numpy as np
import pytest
from numba import njit

from minibert.ops.cpu import vectors
from minibert.ops.cpu.vectors import (
    NV,
    copy_vector_in_numpy,
    host_shape,
    tile_width,
    transpose_vectors_in_numpy,
)

DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])


@DTYPES
def test_copy_of_a_vector(dtype) -> None:
    @njit
    def copy(source, source0, target, target0):
        vectors.copy_vector(source, source0, target, target0)

    lanes = tile_width(np.zeros(1, dtype)) // NV
    source = np.arange(3 * lanes + 5).astype(dtype)
    expected, actual = np.zeros((2, 3 * lanes), dtype)
    copy_vector_in_numpy(source, 5, expected, 2)
    copy(source, 5, actual, 2)
    np.testing.assert_array_equal(actual, expected)
    np.testing.assert_array_equal(np.flatnonzero(actual), 2 + np.arange(lanes))


@DTYPES
def test_transposition_of_a_square(dtype) -> None:
    @njit
    def transpose(source, source0, source_row, target, target0, target_row):
        vectors.transpose_vectors(source, source0, source_row, target, target0, target_row)

    lanes = tile_width(np.zeros(1, dtype)) // NV
    source = np.arange((lanes + 1) * (lanes + 3)).reshape(lanes + 1, lanes + 3).astype(dtype)
    expected, actual = np.zeros((2, lanes + 2, lanes + 1), dtype)
    expected[1 : lanes + 1, 1 : lanes + 1] = source[1 : lanes + 1, 2 : lanes + 2].T
    start, row = source.shape[1] + 2, source.shape[1]
    transpose(source, start, row, actual, lanes + 2, lanes + 1)
    np.testing.assert_array_equal(actual, expected)
    actual[...] = 0
    transpose_vectors_in_numpy(source, start, row, actual, lanes + 2, lanes + 1)
    np.testing.assert_array_equal(actual, expected)


def test_the_width_of_a_tile_is_a_constant_in_kernels() -> None:
    for kind, dtype in ((vectors.types.float32, "float32"), (vectors.types.float64, "float64")):
        width = vectors._tile_width(kind[:])(None)
        assert width == tile_width(np.zeros(1, dtype))
    assert host_shape() == (vectors.MR, vectors.NV, vectors.VECTOR, vectors.FUSED, vectors.PAIRS)
