"""Vector instructions: what numba has no words for is written in LLVM's own.

An ``@intrinsic`` is Python that runs once, when a kernel is compiled, and emits instructions into
it.  LLVM spells vectors out for any processor, so the same code runs, slowly, where there is no
vector unit.  With the compiler switched off (NUMBA_DISABLE_JIT) NumPy does the same steps, and
checks bounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils
from numba.core.registry import cpu_target

from minibert.ops.cpu.jit import settings  # it starts the compiler

# Any: calls of an intrinsic do not pass the typing context, which type checkers cannot know
intrinsic: Any = extending.intrinsic
I32, I64 = ir.IntType(32), ir.IntType(64)


class TileShape(NamedTuple):
    MR: int  # rows
    NV: int  # vectors to a row
    vector: int  # bytes in a vector
    fused: bool  # has the processor a fused multiply-add?
    pairs: bool = False  # does it multiply pairs of bfloat16?


def choose_shape(triple: str, features: str) -> TileShape:
    """Return the tile that fits the registers of the processor that numba compiles for."""
    has = set(features.split(","))
    if "+avx512f" in has:
        return TileShape(14, 2, 64, fused=True, pairs="+avx512bf16" in has)
    if {"+avx2", "+fma"} <= has:
        return TileShape(6, 2, 32, fused=True)
    if triple.startswith(("aarch64", "arm64")):
        return TileShape(6, 4, 16, fused=True)
    return TileShape(4, 2, 16, fused=False)


def host() -> tuple[str, str]:
    """Return the triple and the features of the processor that numba compiles for."""
    context: Any = cpu_target.target_context
    triple, _, features = context.codegen().magic_tuple()
    return triple, features


def host_shape() -> TileShape:
    return choose_shape(*host())


def host_features() -> set[str]:
    """Return what the processor has, each with a plus sign before it."""
    return set(host()[1].split(","))


MR, NV, VECTOR, FUSED, PAIRS = host_shape()
NR32, NR64 = NV * VECTOR // 4, NV * VECTOR // 8  # columns of a tile of float32 and float64

REALS = {types.float32: ir.FloatType(), types.float64: ir.DoubleType(), types.int32: I32}


class BFloat16(ir.Type):
    """LLVM's type, which llvmlite does not know."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloat16)

    def __hash__(self) -> int:
        return hash("bfloat")


class Emitter:
    """Writes LLVM's instructions on vectors of one dtype: what several intrinsics need.

    Of int32, each element is a pair of bfloat16 numbers, and sums of their products are float32.
    """

    def __init__(self, builder: Any, dtype: Any) -> None:
        self.builder, self.size = builder, dtype.bitwidth // 8
        self.real, self.lanes = REALS[dtype], VECTOR // self.size
        self.vector = ir.VectorType(self.real, self.lanes)
        self.sums = (
            ir.VectorType(ir.FloatType(), self.lanes) if dtype == types.int32 else self.vector
        )

    def after(self, pointer: Any, stride: Any, count: int = 1) -> Any:
        return self.builder.gep(pointer, [self.builder.mul(stride, ir.Constant(I64, count))])

    def vector_at(self, pointer: Any, number: int = 0) -> Any:
        element = self.builder.gep(pointer, [ir.Constant(I64, number * self.lanes)])
        kind = ir.VectorType(pointer.type.pointee, self.lanes)
        return self.builder.bitcast(element, kind.as_pointer())

    def load(self, pointer: Any) -> Any:
        value = self.builder.load(pointer)
        value.align = self.size
        return value

    def store(self, value: Any, pointer: Any) -> None:
        self.builder.store(value, pointer).align = self.size

    def shuffle(self, x: Any, y: Any, lanes: list[int]) -> Any:
        """Pick lanes of x, and of y behind them."""
        places = ir.Constant(ir.VectorType(I32, len(lanes)), lanes)
        return self.builder.shuffle_vector(x, y, places)

    def to_all_lanes(self, x: Any) -> Any:
        nothing = ir.Constant(self.vector, ir.Undefined)
        one = self.builder.insert_element(nothing, x, ir.Constant(I32, 0))
        return self.shuffle(one, nothing, [0] * self.lanes)

    def multiply_add(self, x: Any, y: Any, z: Any) -> Any:
        """Return x y + z; of pairs, both products are added."""
        if self.vector == self.sums:
            return self.fused(x, y, z)
        if PAIRS:
            halves = ir.VectorType(BFloat16(), 2 * self.lanes)
            kind = ir.FunctionType(self.sums, [self.sums, halves, halves])
            name = f"llvm.x86.avx512bf16.dpbf16ps.{8 * VECTOR}"
            dot = cgutils.get_or_insert_function(self.builder.module, kind, name)
            x, y = (self.builder.bitcast(pair, halves) for pair in (x, y))
            return self.builder.call(dot, [z, x, y])
        for half in (self.upper_half, self.lower_half):
            z = self.fused(half(x), half(y), z)
        return z

    def upper_half(self, pairs: Any) -> Any:
        """Return the second numbers of pairs as float32: a bfloat16 is the upper half of one."""
        mask = ir.Constant(self.vector, [-(1 << 16)] * self.lanes)
        return self.builder.bitcast(self.builder.and_(pairs, mask), self.sums)

    def lower_half(self, pairs: Any) -> Any:
        shift = ir.Constant(self.vector, [16] * self.lanes)
        return self.builder.bitcast(self.builder.shl(pairs, shift), self.sums)

    def fused(self, x: Any, y: Any, z: Any) -> Any:
        if not FUSED:
            return self.builder.fadd(self.builder.fmul(x, y), z)
        name = f"llvm.fma.v{self.lanes}f{8 * self.size}"
        kind = ir.FunctionType(self.sums, [self.sums] * 3)
        fma = cgutils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(fma, [x, y, z])

    def prefetch(self, pointer: Any) -> None:
        """Ask for a line of memory that will be read and written soon."""
        byte = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, I32, I32, I32])
        ask = cgutils.get_or_insert_function(self.builder.module, kind, "llvm.prefetch.p0i8")
        to_write, keep, data = (ir.Constant(I32, n) for n in (1, 3, 1))
        self.builder.call(ask, [self.builder.bitcast(pointer, byte), to_write, keep, data])

    def repeat(self, rounds: Any, start: list[Any], body: Any) -> list[Any]:
        """Let ``body`` make new values of old ones, ``rounds`` times; return the last."""
        builder, before, zero = self.builder, self.builder.block, ir.Constant(I64, 0)
        loop, done = builder.append_basic_block("loop"), builder.append_basic_block("done")
        builder.cbranch(builder.icmp_signed(">", rounds, zero), loop, done)
        builder.position_at_end(loop)
        old = [builder.phi(value.type) for value in (rounds, *start)]
        left = builder.sub(old[0], ir.Constant(I64, 1))
        new = [left, *body(old[1:])]
        for phi, first, following in zip(old, (rounds, *start), new, strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed(">", left, zero), loop, done)
        builder.position_at_end(done)
        last = [builder.phi(value.type) for value in start]
        for phi, first, following in zip(last, start, new[1:], strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(following, loop)
        return last


def element(context: Any, builder: Any, kind: Any, array: Any, number: Any) -> Any:
    """Return the address of an array's element."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [number])


def same_real(*arrays: Any) -> bool:
    """Return whether arrays, given as types, are of one dtype that tiles are made of."""
    first = arrays[0].dtype
    return first in REALS and all(x.dtype == first for x in arrays)


def tile_width(array: Any) -> int:
    """Return NR, the columns of a tile of the array's dtype; in kernels, a constant."""
    return NR64 if array.dtype == "float64" else NR32


@extending.overload(tile_width, inline="always")
def _tile_width(array):
    width = NR64 if array.dtype == types.float64 else NR32
    return lambda array: width


@intrinsic
def copy_vector(typingctx: Any, source: Any, source0: Any, target: Any, target0: Any) -> Any:
    """Copy as many elements as a vector has lanes, between two places of two arrays.

    LLVM would write a loop of so few steps out, number by number.
    """
    if not same_real(source, target):
        return None
    signature = types.void(source, types.intp, target, types.intp)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        emit = Emitter(builder, sig.args[0].dtype)
        source, target = (
            element(context, builder, sig.args[i], args[i], args[i + 1]) for i in (0, 2)
        )
        emit.store(emit.load(emit.vector_at(source)), emit.vector_at(target))
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def transpose_vectors(
    typingctx: Any,
    source: Any, source0: Any, source_row: Any,
    target: Any, target0: Any, target_row: Any,
) -> Any:  # fmt: skip
    """Copy a square of as many rows as a vector has lanes, its rows becoming columns.

    Interleaving rows i and i + n/2 is one step of a perfect shuffle; after log2 n of them,
    number j of row i has become number i of row j.
    """
    if not same_real(source, target):
        return None
    size = types.intp
    signature = types.void(source, size, size, target, size, size)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        emit = Emitter(builder, sig.args[0].dtype)
        n = emit.lanes
        source, target = (
            element(context, builder, sig.args[i], args[i], args[i + 1]) for i in (0, 3)
        )
        rows = [emit.load(emit.vector_at(emit.after(source, args[2], r))) for r in range(n)]
        low = [lane for i in range(n // 2) for lane in (i, n + i)]
        high = [lane + n // 2 for lane in low]
        for _ in range(n.bit_length() - 1):
            pairs = zip(rows[: n // 2], rows[n // 2 :], strict=True)
            rows = [emit.shuffle(x, y, lanes) for x, y in pairs for lanes in (low, high)]
        for r, row in enumerate(rows):
            emit.store(row, emit.vector_at(emit.after(target, args[5], r)))
        return context.get_dummy_value()

    return signature, codegen


def copy_vector_in_numpy(source: Any, source0: int, target: Any, target0: int) -> None:
    """Do what ``copy_vector`` does."""
    n = tile_width(source) // NV
    target.reshape(-1)[target0 : target0 + n] = source.reshape(-1)[source0 : source0 + n]


def transpose_vectors_in_numpy(
    source: Any, source0: int, source_row: int, target: Any, target0: int, target_row: int
) -> None:
    """Do what ``transpose_vectors`` does."""
    i = np.arange(tile_width(source) // NV)
    square = source.reshape(-1)[source0 + i[:, None] * source_row + i]
    target.reshape(-1)[target0 + i[:, None] * target_row + i] = square.T


if settings.DISABLE_JIT:
    copy_vector, transpose_vectors = copy_vector_in_numpy, transpose_vectors_in_numpy
