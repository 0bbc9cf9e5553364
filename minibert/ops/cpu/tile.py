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

numba keeps no array in registers, so the tile is written in LLVM's own instructions by an
``@intrinsic``: Python that runs once, at compile time, and emits them.  LLVM spells vectors out for
any processor, so the same code runs, slowly, where there is no vector unit.

With the compiler switched off (NUMBA_DISABLE_JIT) NumPy does the same steps, and checks bounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils, config
from numba.core.registry import cpu_target

settings: Any = config
# Any: calls of an intrinsic do not pass the typing context, which type checkers cannot know
intrinsic: Any = extending.intrinsic


class TileShape(NamedTuple):
    MR: int  # rows
    NV: int  # vectors to a row
    vector: int  # bytes in a vector
    fused: bool  # has the processor a fused multiply-add?


def choose_shape(triple: str, features: str) -> TileShape:
    """Return the tile that fits the registers of the processor that numba compiles for."""
    has = set(features.split(","))
    if "+avx512f" in has:
        return TileShape(14, 2, 64, fused=True)
    if {"+avx2", "+fma"} <= has:
        return TileShape(6, 2, 32, fused=True)
    if triple.startswith(("aarch64", "arm64")):
        return TileShape(6, 4, 16, fused=True)
    return TileShape(4, 2, 16, fused=False)


def host_shape() -> TileShape:
    context: Any = cpu_target.target_context
    triple, _, features = context.codegen().magic_tuple()
    return choose_shape(triple, features)


MR, NV, VECTOR, FUSED = host_shape()
NR32, NR64 = NV * VECTOR // 4, NV * VECTOR // 8  # columns of a tile of float32 and float64


@intrinsic
def add_tile(
    typingctx: Any,
    a: Any, a0: Any, a_row: Any, a_step: Any,  # a[r, k] is element a0 + r a_row + k a_step
    b: Any, b0: Any, b_step: Any,  # b[k, j] is element b0 + k b_step + j
    depth: Any,  # at least 1
    c: Any, c0: Any, c_row: Any,  # c[r, j] is element c0 + r c_row + j
) -> Any:  # fmt: skip
    """Add Σ_{k < depth} a[r, k] b[k, j] to c[r, j] for r < MR and j < NR; no bounds are checked.

    ``a``, ``b`` and ``c`` are arrays, so they live as long as the call; all else counts elements.
    """
    if a.dtype not in (types.float32, types.float64) or not a.dtype == b.dtype == c.dtype:
        return None
    single, size = a.dtype == types.float32, types.intp
    signature = types.void(a, size, size, size, b, size, size, size, c, size, size)
    lanes = VECTOR // (4 if single else 8)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        real = ir.FloatType() if single else ir.DoubleType()
        vector, i32, i64 = ir.VectorType(real, lanes), ir.IntType(32), ir.IntType(64)
        tile = [(r, v) for r in range(MR) for v in range(NV)]
        _, _, a_row, a_step, _, _, b_step, depth, _, _, c_row = args

        def first_element(position: int) -> Any:
            array = context.make_array(sig.args[position])(context, builder, args[position])
            return builder.gep(array.data, [args[position + 1]])

        def along(pointer: Any, row: Any, r: int) -> Any:
            return builder.gep(pointer, [builder.mul(row, ir.Constant(i64, r))])

        def vector_at(pointer: Any, v: int) -> Any:
            element = builder.gep(pointer, [ir.Constant(i64, v * lanes)])
            return builder.bitcast(element, vector.as_pointer())

        def load(pointer: Any) -> Any:
            value = builder.load(pointer)
            value.align = 4 if single else 8
            return value

        def to_all_lanes(x: Any) -> Any:
            nothing = ir.Constant(vector, ir.Undefined)
            one = builder.insert_element(nothing, x, ir.Constant(i32, 0))
            zeros = ir.Constant(ir.VectorType(i32, lanes), [0] * lanes)
            return builder.shuffle_vector(one, nothing, zeros)

        def multiply_add(x: Any, y: Any, z: Any) -> Any:
            if not FUSED:
                return builder.fadd(builder.fmul(x, y), z)
            name = f"llvm.fma.v{lanes}f{32 if single else 64}"
            kind = ir.FunctionType(vector, [vector] * 3)
            fma = cgutils.get_or_insert_function(builder.module, kind, name)
            return builder.call(fma, [x, y, z])

        a, b, c = first_element(0), first_element(4), first_element(8)
        before = builder.block
        loop, done = builder.append_basic_block("depth"), builder.append_basic_block("done")
        builder.branch(loop)

        builder.position_at_end(loop)
        k, a_k, b_k = builder.phi(i64), builder.phi(a.type), builder.phi(b.type)
        sums = {rv: builder.phi(vector) for rv in tile}
        row_b = [load(vector_at(b_k, v)) for v in range(NV)]
        new_sums = {}
        for r in range(MR):
            a_rk = to_all_lanes(builder.load(along(a_k, a_row, r)))
            for v in range(NV):
                new_sums[r, v] = multiply_add(a_rk, row_b[v], sums[r, v])
        next_k = builder.add(k, ir.Constant(i64, 1))
        for phi, first, following in (
            (k, ir.Constant(i64, 0), next_k),
            (a_k, a, builder.gep(a_k, [a_step])),
            (b_k, b, builder.gep(b_k, [b_step])),
            *((sums[rv], ir.Constant(vector, [0.0] * lanes), new_sums[rv]) for rv in tile),
        ):
            phi.add_incoming(first, before)
            phi.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", next_k, depth), loop, done)

        builder.position_at_end(done)
        for r, v in tile:
            pointer = vector_at(along(c, c_row, r), v)
            store = builder.store(builder.fadd(load(pointer), new_sums[r, v]), pointer)
            store.align = 4 if single else 8
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def copy_tile_row(typingctx: Any, source: Any, source0: Any, target: Any, target0: Any) -> Any:
    """Copy NR elements from ``source``, starting at element source0, to ``target``.

    LLVM would write a loop of so few steps out, number by number.
    """
    single, size = source.dtype == types.float32, types.intp
    signature = types.void(source, size, target, size)
    lanes = VECTOR // (4 if single else 8)

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = ir.VectorType(ir.FloatType() if single else ir.DoubleType(), lanes)
        for v in range(NV):
            pointers = []
            for position in (0, 2):
                array = context.make_array(sig.args[position])(context, builder, args[position])
                first = builder.add(args[position + 1], ir.Constant(ir.IntType(64), v * lanes))
                element = builder.gep(array.data, [first])
                pointers.append(builder.bitcast(element, vector.as_pointer()))
            value = builder.load(pointers[0])
            store = builder.store(value, pointers[1])
            value.align = store.align = 4 if single else 8
        return context.get_dummy_value()

    return signature, codegen


def tile_width(array: Any) -> int:
    """Return NR, the columns of a tile of the array's dtype; in kernels, a constant."""
    return NR32 if array.dtype == "float32" else NR64


@extending.overload(tile_width, inline="always")
def _tile_width(array):
    width = NR32 if array.dtype == types.float32 else NR64
    return lambda array: width


def add_tile_in_numpy(
    a: Any, a0: int, a_row: int, a_step: int,
    b: Any, b0: int, b_step: int,
    depth: int,
    c: Any, c0: int, c_row: int,
) -> None:  # fmt: skip
    """Do what ``add_tile`` does."""
    row, step, column = np.arange(MR)[:, None], np.arange(depth), np.arange(tile_width(c))
    tile_a = a.reshape(-1)[a0 + row * a_row + step * a_step]
    tile_b = b.reshape(-1)[b0 + step[:, None] * b_step + column]
    c.reshape(-1)[c0 + row * c_row + column] += tile_a @ tile_b


def copy_tile_row_in_numpy(source: Any, source0: int, target: Any, target0: int) -> None:
    """Do what ``copy_tile_row`` does."""
    width = tile_width(source)
    target[target0 : target0 + width] = source[source0 : source0 + width]


if settings.DISABLE_JIT:
    add_tile, copy_tile_row = add_tile_in_numpy, copy_tile_row_in_numpy
