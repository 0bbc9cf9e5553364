"""Products by the matrix unit: where the processor has one, or as plain Python on any."""

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibert.arrays import Array
from minibert.ops.cpu import gemm_amx
from minibert.ops.cpu.amx import LINES
from minibert.ops.cpu.gemm_amx import BLOCK, CHUNK, DEPTH, matmul
from tests.ops.common import compiled, draw, matrix_unit, nearest_bfloat16

pytestmark = matrix_unit
sizes = st.sampled_from([1, 2, 3, 15, 16, 17, 31, 32, 33, 63, 64, 65])


def check(M: int, K: int, N: int, *, a_t: bool, b_t: bool, bias: bool = True) -> Array:
    a, b, row = draw(M + K + N, (K, M) if a_t else (M, K), (N, K) if b_t else (K, N), (N,))
    c = matmul(a, b, row if bias else None, transpose_a=a_t, transpose_b=b_t)
    near_a, near_b = (nearest_bfloat16(x.T if t else x) for x, t in ((a, a_t), (b, b_t)))
    expected = near_a @ near_b + (row if bias else 0)
    assert c.dtype == np.float32
    assert c.shape == (M, N)
    assert np.abs(c - expected).max() <= 2e-6 * np.sqrt(K) * np.abs(expected).max()
    return c


@given(sizes, sizes, sizes, st.booleans(), st.booleans(), st.booleans())
@settings(max_examples=60)
def test_any_layout_and_size(M, K, N, a_t, b_t, bias) -> None:
    check(M, K, N, a_t=a_t, b_t=b_t, bias=bias)


@pytest.mark.parametrize("a_t", [False, True])
@pytest.mark.parametrize("b_t", [False, True])
def test_deep_products_of_several_chunks_and_blocks(a_t, b_t) -> None:
    check(BLOCK * LINES + LINES + 1, 2 * DEPTH + 3, CHUNK + 33, a_t=a_t, b_t=b_t)


@given(sizes, sizes, sizes, st.booleans(), st.booleans())
@settings(max_examples=25)
def test_nothing_is_written_beyond_an_array(M, K, N, a_t, b_t) -> None:
    check_within_guards(M, K, N, a_t=a_t, b_t=b_t)


@pytest.mark.parametrize("a_t", [False, True])
def test_deep_products_of_several_workers_stay_in_their_arrays(monkeypatch, a_t) -> None:
    monkeypatch.setattr(gemm_amx, "threads_for", lambda work: 4)  # workers, on any threads
    workers, *_ = check_within_guards(300, 600, 1100, a_t=a_t, b_t=False)
    assert workers > 1


def check_within_guards(M: int, K: int, N: int, *, a_t: bool, b_t: bool) -> tuple[int, ...]:
    """Watch what lies around the arrays; return the shape of the panels' one."""
    guard, taken, shapes = 256, [], []

    def empty(shape: tuple[int, ...], kind: np.dtype) -> Array:
        whole = np.full(int(np.prod(shape)) + 2 * guard, 7, kind)
        taken.append(whole)
        shapes.append(shape)
        return whole[guard:-guard].reshape(shape)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gemm_amx, "empty", empty)
        check(M, K, N, a_t=a_t, b_t=b_t)
    assert len(taken) == 3  # C, the panels, the edge
    for whole in taken:
        assert (whole[:guard] == 7).all()
        assert (whole[-guard:] == 7).all()
    return shapes[1]


@compiled
@pytest.mark.parametrize(("M", "K", "N"), [(300, 700, 500), (40, 1100, 900)])
def test_deep_products_have_the_same_bytes_for_any_number_of_threads(M, K, N) -> None:
    before, found = numba.get_num_threads(), set()
    try:
        for count in range(1, before + 1):
            numba.set_num_threads(count)
            found.add(check(M, K, N, a_t=True, b_t=False).tobytes())
    finally:
        numba.set_num_threads(before)
    assert len(found) == 1


def test_no_terms_and_no_rows() -> None:
    none = np.zeros((3, 0), np.float32)
    np.testing.assert_array_equal(matmul(none, none, transpose_b=True), np.zeros((3, 3)))
    row = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(matmul(none, none, row, transpose_b=True)[2], row)
    assert matmul(none, none, transpose_a=True).shape == (0, 0)


def test_operands_of_any_stride() -> None:
    wide = np.arange(9 * 40, dtype=np.float32).reshape(9, 40) % 7
    a, b = wide[::2, 1::3], wide[::-1][:5, 3:16].T
    np.testing.assert_array_equal(matmul(a, b), a @ b)
    np.testing.assert_array_equal(matmul(a.T, b, transpose_a=True), a @ b)


def test_nan_stays_in_its_row_and_column() -> None:
    a, b = np.ones((40, 33), np.float32), np.ones((33, 40), np.float32)
    a[17, 32], b[2, 39] = np.nan, np.inf
    c = matmul(a, b)
    assert np.isnan(c[17]).all()
    assert np.isinf(np.delete(c[:, 39], 17)).all()
    assert (np.delete(np.delete(c, 17, axis=0), 39, axis=1) == 33).all()
