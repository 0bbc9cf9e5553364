"""Rounding to pairs of bfloat16: numbers, order, and the instructions for it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import TypingError, njit

from minibert.arrays import Array
from minibert.ops.cpu import pairs as module
from minibert.ops.cpu.pairs import (
    LANES,
    pair_across_in_numpy,
    pair_along_in_numpy,
    pairs,
)
from tests.ops.common import compile_for, compiled, draw, nearest_bfloat16


def test_rounding_to_bfloat16() -> None:
    def upper(bits: int) -> int:
        [[pair]] = pairs(np.array([[bits]], np.uint32).view(np.float32), across=False)
        return int(pair) & 0xFFFF

    assert upper(0x3F800000) == 0x3F80  # 1
    assert upper(0x3F808000) == 0x3F80  # half way: to the even one, down
    assert upper(0x3F818000) == 0x3F82  # and up
    assert upper(0x3F808001) == 0x3F81
    assert upper(0xBF80FFFF) == 0xBF81
    assert upper(0x7F7FFFFF) == 0x7F80  # the largest float32 lies nearest to infinity
    assert upper(0x7F800000) == 0x7F80
    for nan in (0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF):  # NaN must neither overflow nor become inf
        assert upper(nan) & 0x7FFF > 0x7F80


def test_pairs_lie_along_k() -> None:
    x = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], np.float32)
    along, across = (pairs(x, across=across) for across in (False, True))
    np.testing.assert_array_equal(along, pairs(x.T.copy(), across=True).T)
    halves = along.view(np.uint16).astype(np.uint32) << 16
    expected = [[1, 2, 3, 0], [4, 5, 6, 0], [7, 8, 9, 0]]
    np.testing.assert_array_equal(halves.view(np.float32), expected)
    assert across.shape == (2, 3)


@given(st.integers(0, 70), st.integers(0, 70), st.booleans())
def test_pairs_of_any_size(rows, columns, across) -> None:
    [x] = draw(rows, (rows, columns))
    lines = x.T if across else x
    made = pairs(x, across=across)
    made = np.ascontiguousarray(made.T if across else made)
    numbers = (made.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    np.testing.assert_array_equal(numbers[:, : lines.shape[1]], nearest_bfloat16(lines))
    assert (numbers[:, lines.shape[1] :] == 0).all()


def numbers_of_every_kind() -> Array:
    """Return 1,000 float32 of any bits, but for those that the instruction takes for 0."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, 1000, np.uint32)
    bits[:8] = 0, 1 << 31, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFFFFFFF, 0x3F808000, 0x3F818000
    x = bits.view(np.float32)
    return np.where((np.abs(x) < np.finfo(np.float32).tiny), np.float32(0), x)


@pytest.mark.parametrize("instruction", [True, False])
def test_vectors_equal_their_twins(monkeypatch, instruction) -> None:
    monkeypatch.setattr(module, "PAIRS", module.PAIRS and instruction)

    @njit
    def along(x, x0, out, out0):
        module.pair_along(x, x0, out, out0)

    @njit
    def across(x, x0, x1, out, out0):
        module.pair_across(x, x0, x1, out, out0)

    x = numbers_of_every_kind()
    for start in range(0, 1000 - 3 * LANES, 2 * LANES):
        for compiled_pair, twin, places in (
            (along, pair_along_in_numpy, (start,)),
            (across, pair_across_in_numpy, (start, start + 2 * LANES)),
        ):
            actual, expected = np.full((2, LANES + 5), 9, np.int32)
            compiled_pair(x, *places, actual, 3)
            twin(x, *places, expected, 3)
            np.testing.assert_array_equal(actual, expected)


def test_twins_by_hand() -> None:
    x, out = np.arange(1, 2 * LANES + 1, dtype=np.float32), np.zeros(LANES, np.int32)
    pair_along_in_numpy(x, 0, out, 0)
    assert [hex(pair) for pair in out[:2]] == ["0x40003f80", "0x40804040"]  # 1, 2 and 3, 4
    pair_across_in_numpy(x, 0, LANES, out, 0)
    assert hex(out[0]) == "0x41883f80"  # 1, 17


@compiled
def test_other_dtypes_and_strides_do_not_compile() -> None:
    @njit
    def along(x, out):
        module.pair_along(x, 0, out, 0)

    @njit
    def across(x, out):
        module.pair_across(x, 0, 1, out, 0)

    single, out = np.zeros(99, np.float32), np.zeros(99, np.int32)
    for function in (along, across):
        for x, to in ((single.astype(np.float64), out), (single, single), (single[::2], out)):
            with pytest.raises(TypingError):
                function(x, to)


COMPILE = """
from minibert.ops.cpu import pairs, tile, vectors
from numba import njit, types

assert (vectors.MR, vectors.NV, vectors.VECTOR, vectors.PAIRS) == (14, 2, 64, True)

@njit(types.void(types.int32[::1], types.int32[::1], types.int64, types.float32[:, ::1]))
def add(a, b, depth, c):
    tile.add_tile(a, 0, 1, 14, b, 0, 32, depth, c, 0, c.shape[1])

[assembly] = add.inspect_asm().values()
assert assembly.count("vdpbf16ps") >= 28, assembly.count("vdpbf16ps")
assert "vfmadd" not in assembly

@njit(types.void(types.float32[::1], types.int32[::1]))
def round_both(x, out):
    pairs.pair_along(x, 0, out, 0)
    pairs.pair_across(x, 0, 16, out, 16)

[assembly] = round_both.inspect_asm().values()
assert assembly.count("vcvtne2ps2bf16") == 2, assembly
"""


@pytest.mark.slow
@compiled
def test_the_instructions_for_pairs_are_used_where_there_are_some(tmp_path) -> None:
    """Compiled for such a processor, but not run: this one may not have it."""
    compile_for("znver4", "+avx512f,+avx512bf16", COMPILE, tmp_path)
