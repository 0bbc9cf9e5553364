"""The matrix product: every layout and size, no write beyond C, and the tile for each processor."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibert.arrays import Array
from minibert.ops.cpu import gemm
from minibert.ops.cpu.gemm import BLOCK, CHUNK, DEPTH, choose_grid, matmul
from minibert.ops.cpu.vectors import MR, choose_shape, tile_width
from minibert.ops.cpu.vectors import settings as settings_of_numba

TOLERANCE = {"float32": 2e-6, "float64": 4e-15}  # times √K, of the largest
dtypes = st.sampled_from(["float32", "float64"])
sizes = st.sampled_from([1, 2, 3, 5, 6, 7, 12, 15, 16, 17, 31, 32, 33, 70])


def check(
    M: int, K: int, N: int, dtype: str, *, a_t: bool, b_t: bool, bias: bool, add: bool = False
) -> None:
    generator = np.random.default_rng((M, K, N))

    def normal(*shape: int) -> Array:
        return generator.standard_normal(shape).astype(dtype)

    a = normal(K, M) if a_t else normal(M, K)
    b = normal(N, K) if b_t else normal(K, N)
    row = normal(N) if bias else None
    before = normal(M, N) if add else None
    target = None if before is None else before.copy()
    c = matmul(a, b, row, transpose_a=a_t, transpose_b=b_t, add_to=target)
    wide_a, wide_b = (x.astype(np.float64) for x in (a.T if a_t else a, b.T if b_t else b))
    expected = wide_a @ wide_b + (0 if row is None else row) + (0 if before is None else before)
    assert c.dtype == dtype
    assert c.shape == (M, N)
    assert np.abs(c - expected).max() <= TOLERANCE[dtype] * np.sqrt(K) * np.abs(expected).max()


@given(sizes, sizes, sizes, dtypes, st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=60)
def test_any_layout_and_size(M, K, N, dtype, a_t, b_t, bias) -> None:
    check(M, K, N, dtype, a_t=a_t, b_t=b_t, bias=bias)
    check(M, K, N, dtype, a_t=a_t, b_t=b_t, bias=False, add=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("a_t", [False, True])
@pytest.mark.parametrize("b_t", [False, True])
def test_more_than_one_piece_chunk_and_block(dtype, a_t, b_t) -> None:
    M, K, N = BLOCK * MR + MR + 1, 2 * DEPTH + 3, CHUNK + 33
    check(M, K, N, dtype, a_t=a_t, b_t=b_t, bias=True)
    check(M, K, N, dtype, a_t=a_t, b_t=b_t, bias=False, add=True)


@given(sizes, sizes, sizes, dtypes, st.booleans())
@settings(max_examples=25)
def test_nothing_is_written_beyond_an_array(M, K, N, dtype, a_t) -> None:
    """Tiles work on bare addresses, so what lies around their arrays is watched here."""
    guard, taken = 256, []

    def empty(shape: tuple[int, ...], kind: np.dtype) -> Array:
        whole = np.full(int(np.prod(shape)) + 2 * guard, 7.0, kind)
        taken.append(whole)
        return whole[guard:-guard].reshape(shape)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gemm, "empty", empty)
        check(M, K, N, dtype, a_t=a_t, b_t=True, bias=True)
    assert len(taken) == 3  # C, the panels, the edge
    for whole in taken:
        assert (whole[:guard] == 7).all()
        assert (whole[-guard:] == 7).all()


@pytest.mark.skipif(settings_of_numba.DISABLE_JIT, reason="NumPy sums in an order of its own")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_row_has_the_same_bytes_wherever_it_stands(dtype) -> None:
    """So a sentence has the same vector in every batch."""
    generator = np.random.default_rng(8)
    a, b, bias = (generator.standard_normal(s).astype(dtype) for s in ((41, 300), (300, 37), (37,)))
    whole = matmul(a, b, bias)
    for start, stop in ((0, 1), (3, 4), (5, 29), (40, 41)):
        assert matmul(a[start:stop], b, bias).tobytes() == whole[start:stop].tobytes()
    for column in (1, 16, 36):
        part = matmul(a, b[:, :column].copy(), bias[:column].copy())
        assert part.tobytes() == whole[:, :column].tobytes()


def test_operands_of_any_stride() -> None:
    wide = np.arange(9 * 40, dtype=np.float64).reshape(9, 40)
    a, b = wide[::2, 1::3], wide[::-1][:5, 3:16].T
    np.testing.assert_array_equal(matmul(a, b), a @ b)
    np.testing.assert_array_equal(matmul(a.T, b, transpose_a=True), a @ b)


def test_no_terms_at_all() -> None:
    a, b, c = np.zeros((3, 0)), np.zeros((0, 4)), np.ones((3, 4))
    np.testing.assert_array_equal(matmul(a, b), np.zeros((3, 4)))
    np.testing.assert_array_equal(matmul(a, b, np.arange(4.0))[2], np.arange(4))
    assert matmul(a, b, add_to=c) is c
    np.testing.assert_array_equal(c, np.ones((3, 4)))


def test_nan_stays_in_its_row_and_column() -> None:
    a, b = np.ones((20, 9), np.float32), np.ones((9, 40), np.float32)
    a[7, 3], b[2, 33] = np.nan, np.inf
    c = matmul(a, b)
    assert np.isnan(c[7]).all()
    assert np.isinf(np.delete(c[:, 33], 7)).all()
    rest = np.delete(np.delete(c, 7, axis=0), 33, axis=1)
    assert (rest == 9).all()


@given(st.integers(1, 400), st.integers(1, 300), st.integers(1, 96))
@settings(max_examples=60)
def test_grid_fits_the_panels_and_the_workers(row_panels, panels, workers) -> None:
    down, across = choose_grid(row_panels, panels, workers)
    assert 1 <= down <= row_panels
    assert 1 <= across <= panels
    assert down * across <= workers
    # the largest rectangle is near the fair share, wherever there are enough panels to share
    fair = -(-row_panels // down) * -(-panels // across) * workers / (row_panels * panels)
    assert fair <= 4 or row_panels * panels < 8 * workers


def test_tile_for_each_processor() -> None:
    """Accumulators, a row of B and a number of A must fit in the registers there are."""
    for triple, features, registers in (
        ("x86_64-unknown-linux-gnu", "+avx2,+fma,+avx512f", 32),
        ("x86_64-unknown-linux-gnu", "+avx,+avx2,+fma", 16),
        ("x86_64-unknown-linux-gnu", "+sse4.2", 16),
        ("aarch64-apple-darwin", "+neon", 32),
    ):
        shape = choose_shape(triple, features)
        assert shape.MR * shape.NV + shape.NV + 1 <= registers
        assert CHUNK % (shape.NV * shape.vector // 4) == 0
        assert shape.fused == ("sse" not in features)
    assert choose_shape("x86_64-pc-windows-msvc", "-avx2,+avx").fused is False
    assert tile_width(np.zeros(1, np.float32)) == 2 * tile_width(np.zeros(1, np.float64))


@pytest.mark.slow
@pytest.mark.skipif("not __import__('platform').machine() in ('x86_64', 'AMD64')")
def test_a_processor_without_fused_multiply_add() -> None:
    code = (
        "import numpy as np; from minibert.ops.cpu import gemm, vectors;"
        "assert not vectors.FUSED;"
        "a = np.arange(35.0).reshape(5, 7); b = np.arange(63.0).reshape(7, 9);"
        "assert (gemm.matmul(a, b) == a @ b).all()"
    )
    environment = {"NUMBA_CPU_NAME": "nehalem", "NUMBA_CPU_FEATURES": "+sse4.2"}
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **environment})
