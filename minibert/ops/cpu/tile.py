"""The innermost step of every matrix product: one small tile of C, held in registers.

A product C = A B of M x K by K x N does M N K multiplications on far fewer numbers, so the art is
to use a number many times once it is loaded.  The fastest memory is the processor's vector
registers.  A tile of MR rows by NV vectors of C stays in them while k runs over the whole depth;
each k adds the outer product of a column of A and a row of B:

                     b[k, 0:LANES]   b[k, LANES:2 LANES]       NV vectors loaded
        a[0, k]  →    c00 += a0 b0        c01 += a0 b1
        a[1, k]  →    c10 += a1 b0        c11 += a1 b1         MR numbers loaded, each copied
           …               …                   …               to all lanes of one register

so MR + NV loads feed MR x NV fused multiply-adds.  MR NV + NV + 1 registers must exist: 16 with
AVX2 (6 x 2 x 8 lanes), 32 with AVX-512 (14 x 2 x 16) and on ARM (6 x 4 x 4).

numba keeps no array in registers, so the tile is written in LLVM's own instructions (see
vectors.py).  With the compiler switched off (NUMBA_DISABLE_JIT) NumPy does the same steps, and
checks bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

from minibert.ops.cpu.jit import settings
from minibert.ops.cpu.vectors import (
    I64,
    MR,
    NV,
    Emitter,
    element,
    same_real,
    tile_width,
)  # fmt: skip

UNROLLED = 4  # steps of k between two jumps
# Constants among the arguments are known to it.  Any: as in vectors.py
intrinsic: Any = extending.intrinsic(prefer_literal=True)


def sum_tile(
    emit: Emitter, a: Any, b: Any, strides: list[Any], depth: Any, sums: list[Any]
) -> list[Any]:
    """Add Σ_k a[r, k] b[k, :] to the tile's vectors, which are listed row by row."""
    a_row, a_step, b_step = strides

    def step(values: list[Any]) -> list[Any]:
        a, b, *old = values
        row = [emit.load(emit.vector_at(b, v)) for v in range(NV)]
        new = []
        for r in range(MR):
            a_rk = emit.to_all_lanes(emit.builder.load(emit.after(a, a_row, r)))
            new += [emit.multiply_add(a_rk, row[v], old[r * NV + v]) for v in range(NV)]
        return [emit.after(a, a_step), emit.after(b, b_step), *new]

    def steps(values: list[Any]) -> list[Any]:
        for _ in range(UNROLLED):
            values = step(values)
        return values

    whole = emit.builder.sdiv(depth, ir.Constant(I64, UNROLLED))
    rest = emit.builder.srem(depth, ir.Constant(I64, UNROLLED))
    values = emit.repeat(whole, [a, b, *sums], steps)
    return emit.repeat(rest, values, step)[2:]


def tile_function(module: Any, dtype: Any, constants: list[int | None], *, start: bool) -> Any:
    """Return the LLVM function that adds to a tile, or starts one; written on the first call.

    It takes addresses of a, b, c and the bias, depth, c_row, and three strides.  Those that are the
    same in every call are in the code.  It is called, not inlined: it works for a microsecond, and
    would be compiled anew wherever it stands.
    """
    emit = Emitter(None, dtype)
    numbers = "_".join("n" if number is None else str(number) for number in constants)
    name = f"minibert_{'start' if start else 'add'}_tile_{dtype}_{numbers}"
    read, written = (vector.element.as_pointer() for vector in (emit.vector, emit.sums))
    kind = ir.FunctionType(ir.VoidType(), [read, read, written, written] + [I64] * 5)
    function = cgutils.get_or_insert_function(module, kind, name)
    if function.blocks:
        return function
    function.linkage = "internal"  # every module has its own
    function.attributes.add("noinline")
    emit.builder = builder = ir.IRBuilder(function.append_basic_block("entry"))
    a, b, c, bias, depth, c_row, *given = function.args
    strides = [
        stride if number is None else ir.Constant(I64, number)
        for stride, number in zip(given, constants, strict=True)
    ]
    if start:
        sums = [emit.load(emit.vector_at(bias, v)) for v in range(NV)] * MR
    else:
        for r in range(MR):  # it will take a while until they are needed
            emit.prefetch(emit.after(c, c_row, r))
        sums = [ir.Constant(emit.sums, [0.0] * emit.lanes)] * (MR * NV)
    for number, value in enumerate(sum_tile(emit, a, b, strides, depth, sums)):
        pointer = emit.vector_at(emit.after(c, c_row, number // NV), number % NV)
        emit.store(value if start else builder.fadd(emit.load(pointer), value), pointer)
    builder.ret_void()
    return function


@intrinsic
def add_tile(
    typingctx: Any,
    a: Any, a0: Any, a_row: Any, a_step: Any,  # a[r, k] is element a0 + r a_row + k a_step
    b: Any, b0: Any, b_step: Any,  # b[k, j] is element b0 + k b_step + j
    depth: Any,
    c: Any, c0: Any, c_row: Any,  # c[r, j] is element c0 + r c_row + j
) -> Any:  # fmt: skip
    """Add Σ_{k < depth} a[r, k] b[k, j] to c[r, j] for r < MR and j < NR; no bounds are checked.

    ``a``, ``b`` and ``c`` are arrays, so they live as long as the call; all else counts elements.
    """
    if not fit_together(a, b, c):
        return None
    n, constants = types.intp, [literal(x) for x in (a_row, a_step, b_step)]
    a_row, a_step, b_step = map(stride_type, (a_row, a_step, b_step))

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at_a, at_b, at_c = (
            element(context, builder, sig.args[i], args[i], args[i + 1]) for i in (0, 4, 8)
        )
        add = tile_function(builder.module, sig.args[0].dtype, constants, start=False)
        builder.call(add, [at_a, at_b, at_c, at_c, args[7], args[10], args[2], args[3], args[6]])
        return context.get_dummy_value()

    return types.void(a, n, a_row, a_step, b, n, b_step, n, c, n, n), codegen


@intrinsic
def start_tile(
    typingctx: Any,
    a: Any, a0: Any, a_row: Any, a_step: Any,
    b: Any, b0: Any, b_step: Any,
    depth: Any,
    c: Any, c0: Any, c_row: Any,
    bias: Any, bias0: Any,  # bias[j] is element bias0 + j
) -> Any:  # fmt: skip
    """Set c[r, j] to bias[j] + Σ_{k < depth} a[r, k] b[k, j]; all else as in ``add_tile``."""
    if not fit_together(a, b, c, bias):
        return None
    n, constants = types.intp, [literal(x) for x in (a_row, a_step, b_step)]
    a_row, a_step, b_step = map(stride_type, (a_row, a_step, b_step))

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at_a, at_b, at_c, at_bias = (
            element(context, builder, sig.args[i], args[i], args[i + 1]) for i in (0, 4, 8, 11)
        )
        start = tile_function(builder.module, sig.args[0].dtype, constants, start=True)
        strides = [args[2], args[3], args[6]]
        builder.call(start, [at_a, at_b, at_c, at_bias, args[7], args[10], *strides])
        return context.get_dummy_value()

    return types.void(a, n, a_row, a_step, b, n, b_step, n, c, n, n, bias, n), codegen


def literal(kind: Any) -> int | None:
    """Return the number that an argument is known to be when a kernel is compiled, if it is."""
    return getattr(kind, "literal_value", None)


def stride_type(kind: Any) -> Any:
    """Return the type for the signature; numba finds code by it, so a constant must stand in it."""
    return types.intp if literal(kind) is None else kind


def fit_together(a: Any, b: Any, *written: Any) -> bool:
    """Return whether arrays, given as types, are the operands and the results of one product."""
    pairs = a.dtype == types.int32
    results = all(x.dtype == types.float32 for x in written) if pairs else same_real(a, *written)
    return same_real(a, b) and results


def add_tile_in_numpy(
    a: Any, a0: int, a_row: int, a_step: int,
    b: Any, b0: int, b_step: int,
    depth: int,
    c: Any, c0: int, c_row: int,
) -> None:  # fmt: skip
    """Do what ``add_tile`` does."""
    start_tile_in_numpy(
        a, a0, a_row, a_step, b, b0, b_step, depth, c, c0, c_row, c.reshape(-1),
        c0 + np.arange(MR)[:, None] * c_row,
    )  # fmt: skip


def start_tile_in_numpy(
    a: Any, a0: int, a_row: int, a_step: int,
    b: Any, b0: int, b_step: int,
    depth: int,
    c: Any, c0: int, c_row: int,
    bias: Any, bias0: Any,
) -> None:  # fmt: skip
    """Do what ``start_tile`` does."""
    row, step, column = np.arange(MR)[:, None], np.arange(depth), np.arange(tile_width(c))
    tile_a = a.reshape(-1)[a0 + row * a_row + step * a_step]
    tile_b = b.reshape(-1)[b0 + step[:, None] * b_step + column]
    product = (
        tile_a @ tile_b
        if a.dtype != np.int32
        else sum(half(tile_a) @ half(tile_b) for half in (lower_half, upper_half))
    )
    c.reshape(-1)[c0 + row * c_row + column] = bias[bias0 + column] + product


def lower_half(pairs: Any) -> Any:
    """Return the first numbers of pairs of bfloat16, as float32."""
    return (pairs << 16).view(np.float32)


def upper_half(pairs: Any) -> Any:
    return (pairs & -(1 << 16)).astype(np.int32).view(np.float32)


if settings.DISABLE_JIT:
    add_tile, start_tile = add_tile_in_numpy, start_tile_in_numpy
