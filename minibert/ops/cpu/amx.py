"""The matrix unit of Intel's processors (AMX): the innermost step of a product of bfloat16.

It has eight registers of its own, each of 16 rows of 64 bytes, and multiplies whole registers:

    C += A B        C  16 x 16 float32      one row to a row of the register
                    A  16 x 32 bfloat16     one row to a row, 16 pairs along k
                    B  32 x 16 bfloat16     two rows to a row: 16 columns, each a pair along k

That is 8,192 multiplications in one instruction.  It takes 16 cycles, in which the two vector units
make 512 of float32.  Four registers hold a tile of C, 32 x 32; for every 32 steps of k, two of A
and two of B are loaded, and each is used twice:

                       b[:, 0:16]      b[:, 16:32]
        a[0:16, :]   →   C00 +=          C01 +=
        a[16:32, :]  →   C10 +=          C11 +=

A program has to ask Linux before it may use the unit, and each thread says first how large its
registers shall be.  With the compiler switched off (NUMBA_DISABLE_JIT) NumPy does the same steps.

Source: Intel, Architecture Instruction Set Extensions Programming Reference, chapter on AMX.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from minibert.ops.cpu.jit import settings
from minibert.ops.cpu.vectors import I32, I64, Emitter, element, host_features

SIDE = 16  # rows of a register, and pairs or sums in a row
LINES = 2 * SIDE  # rows of A, and columns of B, that are multiplied at once
STEP = 2 * SIDE  # numbers along k in a register
SQUARE = SIDE * SIDE  # pairs or sums in a register: 16 x 16
ROW = 4 * SIDE  # bytes
BYTE = ir.IntType(8)

ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18  # numbers of Linux on x86-64
# Palette 1, and for each register the bytes in a row and its rows (Intel, table "TILECFG")
REGISTERS = struct.pack("<16B16H16B", 1, *[0] * 15, *[ROW] * 8, *[0] * 8, *[SIDE] * 8, *[0] * 8)
SUMS, OF_A, OF_B = (0, 1, 2, 3), (4, 5), (6, 7)  # the registers' numbers

intrinsic: Any = extending.intrinsic  # Any: as in vectors.py


@cache
def has_matrix_unit() -> bool:
    """Return whether kernels may use the unit: asks the processor's features, then the system."""
    if settings.DISABLE_JIT or not {"+amx-tile", "+amx-bf16", "+avx512f"} <= host_features():
        return False
    if not sys.platform.startswith("linux"):
        return False
    try:
        system = ctypes.CDLL(None)
        return system.syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) == 0
    except (OSError, AttributeError):
        return False


class MatrixUnit:
    """Writes the unit's instructions."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def call(self, name: str, *arguments: Any) -> None:
        kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
        function = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.x86.{name}")
        self.builder.call(function, arguments)

    def number(self, register: int) -> Any:
        return ir.Constant(BYTE, register)

    def bytes_at(self, pointer: Any, elements: int) -> Any:
        place = self.builder.gep(pointer, [ir.Constant(I32, elements)])
        return self.builder.bitcast(place, BYTE.as_pointer())

    def load(self, register: int, pointer: Any, elements: int, row: Any) -> None:
        """Load a register from so many elements behind a pointer, its rows ``row`` bytes apart."""
        self.call("tileloadd64", self.number(register), self.bytes_at(pointer, elements), row)

    def store(self, register: int, pointer: Any, elements: int, row: Any) -> None:
        self.call("tilestored64", self.number(register), self.bytes_at(pointer, elements), row)

    def multiply_add(self, c: int, a: int, b: int) -> None:
        self.call("tdpbf16ps", *map(self.number, (c, a, b)))

    def configure(self) -> None:
        kind, name = ir.ArrayType(BYTE, len(REGISTERS)), "minibert_amx_registers"
        table: Any = self.builder.module.globals.get(name)
        if table is None:
            table = ir.GlobalVariable(self.builder.module, kind, name)
            table.linkage, table.global_constant = "internal", True
            table.initializer = ir.Constant(kind, bytearray(REGISTERS))
        self.call("ldtilecfg", self.builder.bitcast(table, BYTE.as_pointer()))


def tile_function(module: Any) -> Any:
    """Return the LLVM function behind ``multiply_tile``; written on the first call.

    It takes addresses of a, b, what C starts from, and C; the steps; and the bytes between two rows
    of the start and of C.
    """
    reads, sums = I32.as_pointer(), ir.FloatType().as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [reads, reads, sums, sums, I64, I64, I64])
    function = cgutils.get_or_insert_function(module, kind, "minibert_amx_tile")
    if function.blocks:
        return function
    function.linkage = "internal"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    unit, emit = MatrixUnit(builder), Emitter(builder, types.int32)
    a, b, start, c, steps, start_row, c_row = function.args
    quarters = [(i, j) for i in range(2) for j in range(2)]

    def line(pointer: Any, row: Any, number: int) -> Any:
        """Return the address of a line's first element, ``row`` bytes being between two."""
        first = builder.bitcast(pointer, BYTE.as_pointer())
        return builder.bitcast(emit.after(first, row, number), pointer.type)

    for r in range(LINES):  # it will take a while until they are needed
        for j in range(2):
            emit.prefetch(builder.gep(line(c, c_row, r), [ir.Constant(I32, j * SIDE)]))
    for register, (i, j) in zip(SUMS, quarters, strict=True):
        unit.load(register, line(start, start_row, i * SIDE), j * SIDE, start_row)

    def step(values: list[Any]) -> list[Any]:
        a, b = values
        for half in range(2):
            unit.load(OF_A[half], a, half * SQUARE, ir.Constant(I64, ROW))
            unit.load(OF_B[half], b, half * SQUARE, ir.Constant(I64, ROW))
        for register, (i, j) in zip(SUMS, quarters, strict=True):
            unit.multiply_add(register, OF_A[i], OF_B[j])
        both = ir.Constant(I64, 2 * SQUARE)
        return [emit.after(a, both), emit.after(b, both)]

    emit.repeat(steps, [a, b], step)
    for register, (i, j) in zip(SUMS, quarters, strict=True):
        unit.store(register, line(c, c_row, i * SIDE), j * SIDE, c_row)
    builder.ret_void()
    return function


@intrinsic
def multiply_tile(
    typingctx: Any,
    a: Any, a0: Any,  # from element a0 on, registers of A: upper and lower, for every step
    b: Any, b0: Any,  # of B: left and right
    steps: Any,
    start: Any, start0: Any, start_row: Any,  # start[r, j] is element start0 + r start_row + j
    c: Any, c0: Any, c_row: Any,
) -> Any:  # fmt: skip
    """Set a tile of LINES x LINES elements of c to start + A B; no bounds are checked.

    ``start`` may be c itself, or with a ``start_row`` of 0 one row for all, as a bias is.  The
    thread must have called ``configure_registers``.
    """
    n = types.intp

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        places = [
            element(context, builder, sig.args[i], args[i], args[i + 1]) for i in (0, 2, 5, 8)
        ]
        size = ir.Constant(I64, 4)
        rows = [builder.mul(args[i], size) for i in (7, 10)]
        builder.call(tile_function(builder.module), [*places, args[4], *rows])
        return context.get_dummy_value()

    return types.void(a, n, b, n, n, start, n, n, c, n, n), codegen


@intrinsic
def configure_registers(typingctx: Any) -> Any:
    """Make the thread's eight registers 16 rows of 64 bytes."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        MatrixUnit(builder).configure()
        return context.get_dummy_value()

    return types.void(), codegen


@intrinsic
def release_registers(typingctx: Any) -> Any:
    """Give the registers up, so that the system has nothing of them to save."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        MatrixUnit(builder).call("tilerelease")
        return context.get_dummy_value()

    return types.void(), codegen


def multiply_tile_in_numpy(
    a: Any, a0: int,
    b: Any, b0: int,
    steps: int,
    start: Any, start0: int, start_row: int,
    c: Any, c0: int, c_row: int,
) -> None:  # fmt: skip
    """Do what ``multiply_tile`` does."""

    def registers(panel: Any, first: int) -> Any:  # (steps, half, row, in a row, of a pair)
        count = steps * 2 * SQUARE
        halves = panel.reshape(-1)[first : first + count].view(np.uint16)
        numbers = (halves.astype(np.uint32) << 16).view(np.float32)
        return numbers.reshape(steps, 2, SIDE, SIDE, 2)

    product = np.einsum("shrkp,sgkjp->hrgj", registers(a, a0), registers(b, b0))
    row, column = np.arange(LINES)[:, None], np.arange(LINES)
    started = start.reshape(-1)[start0 + row * start_row + column]
    c.reshape(-1)[c0 + row * c_row + column] = started + product.reshape(LINES, LINES)


def nothing_in_numpy() -> None:
    """Stand for ``configure_registers`` and ``release_registers``."""


if settings.DISABLE_JIT:
    multiply_tile = multiply_tile_in_numpy
    configure_registers = release_registers = nothing_in_numpy
