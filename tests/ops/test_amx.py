"""The matrix unit: its instructions, its NumPy twin, and whether it may be used."""

import struct

import numpy as np
import pytest
from numba import njit

from minibert.arrays import Array
from minibert.ops.cpu import amx
from minibert.ops.cpu.amx import LINES, SIDE, SQUARE, has_matrix_unit, multiply_tile_in_numpy
from tests.ops.common import compile_for, compiled, matrix_unit


@matrix_unit
def test_a_tile_by_hand() -> None:
    """Row r of A is r + 1 in its first number of k, column j of B is j + 1 in its first."""

    @njit
    def multiply(a, b, start, c):
        amx.configure_registers()
        amx.multiply_tile(a, 0, b, SQUARE, 1, start, 2, 0, c, 3, 40)
        amx.release_registers()

    a, b = np.zeros(2 * SQUARE, np.int32), np.zeros(3 * SQUARE, np.int32)
    lines = np.arange(1, LINES + 1, dtype=np.float32)
    a.reshape(2, SIDE, SIDE)[:, :, 0] = upper_bits(lines).reshape(2, SIDE)
    b[SQUARE:].reshape(2, SIDE, SIDE)[:, 0, :] = upper_bits(lines).reshape(2, SIDE)
    bias, c = np.arange(40, dtype=np.float32), np.full(3 + 40 * LINES, -1, np.float32)
    multiply(a, b, bias, c)
    square = c[3:].reshape(LINES, 40)
    np.testing.assert_array_equal(square[:, :LINES], np.outer(lines, lines) + bias[2:34])
    assert (square[:, LINES:] == -1).all()
    assert (c[:3] == -1).all()


def upper_bits(x: Array) -> Array:
    return (x.view(np.uint32) >> 16).astype(np.int32)


@matrix_unit
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_tile_equals_its_twin(steps) -> None:
    """Sums of whole numbers are exact, in any order."""

    @njit
    def multiply(a, b, steps, c):
        amx.configure_registers()
        amx.multiply_tile(a, 5, b, 6, steps, c, 7, 50, c, 7, 50)
        amx.release_registers()

    generator = np.random.default_rng(steps)
    count = 7 + steps * 2 * SQUARE
    a, b = (
        generator.integers(-9, 10, 2 * count).astype(np.float32).view(np.uint32) for _ in range(2)
    )
    a, b = ((x[::2] >> 16 | x[1::2]).view(np.int32) for x in (a, b))
    actual = generator.integers(-9, 10, 7 + 50 * LINES).astype(np.float32)
    expected = actual.copy()
    multiply_tile_in_numpy(a, 5, b, 6, steps, expected, 7, 50, expected, 7, 50)
    multiply(a, b, steps, actual)
    np.testing.assert_array_equal(actual, expected)


def test_registers_are_all_of_one_size() -> None:
    """By the table of Intel's manual: bytes in a row from byte 16 on, rows from byte 48 on."""
    assert len(amx.REGISTERS) == 64
    assert amx.REGISTERS[:2] == b"\x01\x00"  # palette 1, start at row 0
    assert struct.unpack_from("<8H", amx.REGISTERS, 16) == (64,) * 8
    assert struct.unpack_from("<8B", amx.REGISTERS, 48) == (16,) * 8


COMPILE = """
from minibert.ops.cpu import amx
from numba import njit, types

ints, floats = types.int32[::1], types.float32[:, ::1]

@njit(types.void(ints, ints, types.int64, floats))
def multiply(a, b, steps, c):
    amx.configure_registers()
    amx.multiply_tile(a, 0, b, 0, steps, c, 0, 32, c, 0, 32)
    amx.release_registers()

[assembly] = multiply.inspect_asm().values()
for name, count in (("ldtilecfg", 1), ("tdpbf16ps", 4), ("tilestored", 4), ("tilerelease", 1)):
    assert assembly.count(name) >= count, name
"""


@pytest.mark.slow
@compiled
def test_its_instructions_are_used(tmp_path) -> None:
    compile_for("sapphirerapids", "+avx512f,+avx512bf16,+amx-tile,+amx-bf16", COMPILE, tmp_path)


ALL = {"+avx512f", "+amx-tile", "+amx-bf16"}


class System:
    """Answers system calls with a number, and keeps them."""

    def __init__(self, answer: int) -> None:
        self.answer, self.calls = answer, []

    def syscall(self, *numbers: int) -> int:
        self.calls.append(numbers)
        return self.answer


@compiled
@pytest.mark.parametrize(
    ("features", "platform", "answer", "expected"),
    [
        (ALL, "linux", 0, True),
        (ALL, "linux", -1, False),  # an old kernel, or one that refuses
        (ALL, "win32", 0, False),
        (ALL - {"+amx-bf16"}, "linux", 0, False),
        ({"+avx2"}, "linux", 0, False),
    ],
)
def test_the_system_is_asked_where_the_processor_has_the_unit(
    monkeypatch, features, platform, answer, expected
) -> None:
    system = System(answer)
    monkeypatch.setattr(amx, "host_features", lambda: features)
    monkeypatch.setattr(amx.sys, "platform", platform)
    monkeypatch.setattr(amx.ctypes, "CDLL", lambda name: system)
    assert has_matrix_unit.__wrapped__() is expected
    asked = platform == "linux" and features == ALL
    assert system.calls == [(158, 0x1023, 18)] * asked


def nothing_to_load(name: None) -> None:
    raise OSError("no C library")


@compiled
@pytest.mark.parametrize("load", [nothing_to_load, lambda name: object()])
def test_a_system_without_system_calls(monkeypatch, load) -> None:
    monkeypatch.setattr(amx, "host_features", lambda: ALL)
    monkeypatch.setattr(amx.sys, "platform", "linux")
    monkeypatch.setattr(amx.ctypes, "CDLL", load)
    assert has_matrix_unit.__wrapped__() is False


def test_plain_python_has_no_matrix_unit(monkeypatch) -> None:
    monkeypatch.setattr(amx.settings, "DISABLE_JIT", 1)
    monkeypatch.setattr(amx, "host_features", lambda: ALL)
    monkeypatch.setattr(amx.ctypes, "CDLL", None)  # is not asked
    assert has_matrix_unit.__wrapped__() is False
