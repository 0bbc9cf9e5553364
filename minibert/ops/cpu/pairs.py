"""Pairs of bfloat16 numbers, as matrix products take them.

A bfloat16 is the upper half of a float32: its sign, its exponent and the first 7 of its 23 digits.
Numbers 2k and 2k + 1 along K share 32 bits, the first in the lower half: the processor multiplies
both by another pair and adds both products to one sum, in one instruction.  An odd K ends in half a
pair, whose other half is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, prange, types
from numba.core import cgutils

from minibert.arrays import Array
from minibert.ops.cpu.jit import inlined, kernel, parallel, settings
from minibert.ops.cpu.memory import empty
from minibert.ops.cpu.threads import launch
from minibert.ops.cpu.vectors import I32, PAIRS, BFloat16, element

SHARE = 32  # rows to a chunk of work
LANES = 16
"""Pairs that are made at once."""

intrinsic: Any = extending.intrinsic  # Any: as in vectors.py


@inlined
def rounded(x):
    """Return the 16 bits of the nearest bfloat16, the even one of two; NaN stays NaN."""
    bits = np.int32(np.float32(x).view(np.int32))
    odd = np.int32(np.int32(bits >> np.int32(16)) & np.int32(1))
    up = np.int32(np.int32(bits + np.int32(0x7FFF)) + odd)
    kept = up if x == x else np.int32(bits | np.int32(0x400000))
    return np.int32(np.int32(kept >> np.int32(16)) & np.int32(0xFFFF))


@inlined
def pair(first, second):
    """Return two numbers' bfloat16 as one int32, the first in its lower half."""
    return np.int32(rounded(first) | np.int32(rounded(second) << np.int32(16)))


class Rounding:
    """Writes LLVM's instructions that round vectors of numbers, as ``rounded`` does."""

    halves = ir.VectorType(ir.IntType(16), 2 * LANES)
    numbers = ir.VectorType(ir.FloatType(), LANES)

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def load(self, pointer: Any) -> Any:
        value = self.builder.load(self.builder.bitcast(pointer, self.numbers.as_pointer()))
        value.align = 4
        return value

    def store(self, halves: Any, pointer: Any) -> None:
        target = self.builder.bitcast(pointer, self.halves.as_pointer())
        self.builder.store(halves, target).align = 4

    def both(self, first: Any, second: Any) -> Any:
        """Return the halves of two vectors, the second's behind the first's."""
        if PAIRS:  # one instruction, to which numbers below 1.2e-38 are 0, as in the product
            kind = ir.FunctionType(ir.VectorType(BFloat16(), 2 * LANES), [self.numbers] * 2)
            name = "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
            convert = cgutils.get_or_insert_function(self.builder.module, kind, name)
            return self.builder.bitcast(self.builder.call(convert, [second, first]), self.halves)
        places = ir.Constant(ir.VectorType(I32, 2 * LANES), list(range(2 * LANES)))
        return self.builder.shuffle_vector(self.one(first), self.one(second), places)

    def one(self, x: Any) -> Any:
        builder, whole = self.builder, ir.VectorType(I32, LANES)

        def each(number: int) -> Any:
            return ir.Constant(whole, [number] * LANES)

        bits = builder.bitcast(x, whole)
        odd = builder.and_(builder.lshr(bits, each(16)), each(1))
        up = builder.add(builder.add(bits, each(0x7FFF)), odd)
        is_nan = builder.fcmp_unordered("uno", x, x)
        kept = builder.select(is_nan, builder.or_(bits, each(0x400000)), up)
        narrow = ir.VectorType(ir.IntType(16), LANES)
        return builder.trunc(builder.lshr(kept, each(16)), narrow)

    def interleaved(self, halves: Any) -> Any:
        lanes = [lane for i in range(LANES) for lane in (i, LANES + i)]
        places = ir.Constant(ir.VectorType(I32, 2 * LANES), lanes)
        return self.builder.shuffle_vector(halves, halves, places)


def are_fit(x: Any, out: Any) -> bool:
    """Return whether arrays, given as types, are of the right dtypes, and without gaps."""
    return (x.dtype, out.dtype, x.layout, out.layout) == (types.float32, types.int32, "C", "C")


@intrinsic
def pair_along(typingctx: Any, x: Any, x0: Any, out: Any, out0: Any) -> Any:
    """Write the pairs of 2 LANES numbers from element x0 on; no bounds are checked."""
    if not are_fit(x, out):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        emit = Rounding(builder)
        source, target = (
            element(context, builder, sig.args[i], args[i], args[i + 1]) for i in (0, 2)
        )
        behind = builder.gep(source, [ir.Constant(I32, LANES)])
        emit.store(emit.both(emit.load(source), emit.load(behind)), target)
        return context.get_dummy_value()

    return types.void(x, types.intp, out, types.intp), codegen


@intrinsic
def pair_across(typingctx: Any, x: Any, x0: Any, x1: Any, out: Any, out0: Any) -> Any:
    """Write the pairs of LANES numbers from x0 on with as many from x1 on; as ``pair_along``."""
    if not are_fit(x, out):
        return None

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        emit, (array, first, second, *_) = Rounding(builder), args
        rows = (element(context, builder, sig.args[0], array, at) for at in (first, second))
        target = element(context, builder, sig.args[3], args[3], args[4])
        emit.store(emit.interleaved(emit.both(*map(emit.load, rows))), target)
        return context.get_dummy_value()

    return types.void(x, types.intp, types.intp, out, types.intp), codegen


def pairs_in_numpy(first: Any, second: Any) -> Any:
    """Return pairs of two arrays' numbers, as ``rounded`` makes them."""

    def half(x: Any) -> Any:
        bits = np.asarray(x).view(np.uint32)
        up = bits + np.uint32(0x7FFF) + (bits >> 16 & np.uint32(1))
        return np.where(np.isnan(x), bits | np.uint32(0x400000), up) >> 16

    return (half(first) | half(second) << 16).astype(np.uint32).view(np.int32)


def pair_along_in_numpy(x: Any, x0: int, out: Any, out0: int) -> None:
    """Do what ``pair_along`` does."""
    numbers = x.reshape(-1)[x0 + np.arange(2 * LANES)]
    out.reshape(-1)[out0 + np.arange(LANES)] = pairs_in_numpy(numbers[::2], numbers[1::2])


def pair_across_in_numpy(x: Any, x0: int, x1: int, out: Any, out0: int) -> None:
    """Do what ``pair_across`` does."""
    first, second = (x.reshape(-1)[start + np.arange(LANES)] for start in (x0, x1))
    out.reshape(-1)[out0 + np.arange(LANES)] = pairs_in_numpy(first, second)


if settings.DISABLE_JIT:
    pair_along, pair_across = pair_along_in_numpy, pair_across_in_numpy


@kernel
def pair_row(x, out):  # (K,) → (K / 2,), rounded up
    K, whole = x.shape[0], x.shape[0] // (2 * LANES)
    for vector in range(whole):
        pair_along(x, vector * 2 * LANES, out, vector * LANES)
    for k in range(whole * LANES, K // 2):
        out[k] = pair(x[2 * k], x[2 * k + 1])
    if K % 2 == 1:
        out[K // 2] = rounded(x[K - 1])


@kernel
def pair_rows(x, out):  # (2, N) → (N,)
    N, whole = out.shape[0], out.shape[0] // LANES
    for vector in range(whole):
        pair_across(x, vector * LANES, N + vector * LANES, out, vector * LANES)
    for n in range(whole * LANES, N):
        out[n] = pair(x[0, n], x[1, n])


@parallel
def pair_all(x, across, out):
    """x (M, K) → out (M, K / 2), or across rows: x (K, N) → out (K / 2, N); rounded up."""
    for share in prange((out.shape[0] + SHARE - 1) // SHARE):
        for i in range(share * SHARE, min(out.shape[0], (share + 1) * SHARE)):
            if not across:
                pair_row(x[i], out[i])
            elif 2 * i + 1 < x.shape[0]:
                pair_rows(x[2 * i : 2 * i + 2], out[i])
            else:
                for n in range(out.shape[1]):
                    out[i, n] = rounded(x[2 * i, n])


def pairs(
    x: Array,  # (M, K), or (K, N) if ``across``; float32, fit
    *,
    across: bool,
) -> Array:  # int32 (M, K / 2) or (K / 2, N), rounded up
    """Return the numbers along K in pairs of bfloat16."""
    rows, columns = x.shape
    shape = (-(-rows // 2), columns) if across else (rows, -(-columns // 2))
    out = empty(shape, np.dtype(np.int32))
    if out.size:
        launch(pair_all, x.size, x, across, out)
    return out
