"""e^x, the normal distribution and tanh as kernels use them, and the hash behind dropout.

numba turns ``math.exp`` in a loop into one call of the C library for each number, and a loop with
a call in it is not vectorised.  In float32 a polynomial does better: plain arithmetic, so 8 or 16
numbers at once.  All coefficients are minimax fits (Remez's algorithm in 50 digits) made for this
file; the error of the fit stands beside them, the error of the whole is tested against ``math``.
float64 is for gradient checks, which need every digit more than speed, and calls ``math``.

Each function has two forms, and kernels get the one for their dtype when they are compiled: that
is what ``overload`` is for.  From Python, with the compiler switched off, it looks for itself.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from minibert.ops.cpu.jit import INLINE_EXACT, inlined

f32 = np.float32
LOG2_E = f32(1.44269504088896)
LN2_HIGH, LN2_LOW = f32(0.693359375), f32(-2.12194440054691e-4)  # their sum is ln 2
ROUND = f32(12582912.0)  # 1.5 * 2**23: so large that float32 has no digits after the point
LOWEST, HIGHEST = f32(-104.0), f32(89.0)  # beyond them e^x is 0, or infinite
E2, E3, E4, E5, E6 = (
    f32(0.499999934514), f32(0.166665206896), f32(0.0416683874426), f32(0.00836870986161),
    f32(0.00138146088035),
)  # fmt: skip
"""e^r = 1 + r + r² (E2 + E3 r + …) for |r| <= ln(2)/2, to 3.1e-9."""

TAIL_RATE = f32(0.35)
T1, T2, T3, T4, T5, T6, T7, T8, T9 = (
    f32(0.139621259184), f32(0.139864320654), f32(0.119815620741), f32(0.105574279992),
    f32(-0.02326252511), f32(0.159390912788), f32(-0.255900042585), f32(0.144059892016),
    f32(-0.0291637336847),
)  # fmt: skip
"""(1 - Φ(z)) e^{z²/2} = T1 t + T2 t² + … with t = 1 / (1 + 0.35 z), for z >= 0, to 3.2e-8."""

H1, H2, H3, H4, H5 = (
    f32(-0.333332839249), f32(0.133314912744), f32(-0.0537434970803), f32(0.0206505842721),
    f32(-0.00571704190922),
)  # fmt: skip
"""tanh x = x (1 + H1 x² + H2 x⁴ + …) for |x| <= 0.625, to 4.2e-9."""

SQRT_HALF, INV_SQRT_2PI = math.sqrt(0.5), 1 / math.sqrt(2 * math.pi)


def exp32(x):
    # x = n ln 2 + r with a whole n, so e^x = 2^n e^r.  Adding ROUND leaves no room for digits
    # after the point: the processor rounds, and n stands in the last bits of the sum.
    x = LOWEST if x < LOWEST else x  # written so that NaN stays
    x = HIGHEST if x > HIGHEST else x
    shifted = x * LOG2_E + ROUND
    n = shifted - ROUND
    r = x - n * LN2_HIGH - n * LN2_LOW
    e_r = f32(1) + (r + r * r * (E2 + r * (E3 + r * (E4 + r * (E5 + r * E6)))))
    # 2^n is the bit pattern (n + 127) << 23.  In two halves, each of which is a normal number
    # where 2^n itself may be too small or too large to be one.
    whole = np.int32(f32(shifted).view(np.int32) - f32(ROUND).view(np.int32))
    half = np.int32(whole >> 1)
    low = np.int32((half + 127) << 23)
    high = np.int32((whole - half + 127) << 23)
    return e_r * np.int32(low).view(np.float32) * np.int32(high).view(np.float32)


def exp(x: Any) -> Any:
    """Return e^x; in float32 to 1.5 units in the last place, with 0 for -inf and NaN for NaN."""
    return exp32(x) if x.dtype == np.float32 else np.exp(x)


@overload(exp, jit_options=INLINE_EXACT)
def exp_for(x):
    return (lambda x: math.exp(x)) if x == types.float64 else exp32


def normal64(x):
    return 0.5 * math.erfc(-x * SQRT_HALF), math.exp(-0.5 * x * x) * INV_SQRT_2PI


def normal32(x):
    # The tail beyond |x| is small, and exact in its own digits; Φ is it, or 1 minus it.
    z = abs(x)
    t = f32(1) / (f32(1) + TAIL_RATE * z)
    bell = exp(f32(-0.5) * z * z)
    fit = T1 + t * (T2 + t * (T3 + t * (T4 + t * (T5 + t * (T6 + t * (T7 + t * (T8 + t * T9)))))))
    tail = t * fit * bell
    return (tail if x < f32(0) else f32(1) - tail), bell * f32(INV_SQRT_2PI)


def normal(x: Any) -> Any:
    """Return Φ(x) and φ(x), the standard normal's distribution function and density."""
    return normal32(x) if x.dtype == np.float32 else normal64(x)


@overload(normal, jit_options=INLINE_EXACT)
def normal_for(x):
    return normal64 if x == types.float64 else normal32


def tanh32(x):
    z = abs(x)
    u = x * x
    near = x + x * u * (H1 + u * (H2 + u * (H3 + u * (H4 + u * H5))))
    far = f32(1) - f32(2) / (exp(z + z) + f32(1))
    return near if z < f32(0.625) else (far if x > f32(0) else -far)


def tanh(x: Any) -> Any:
    """Return tanh x."""
    return tanh32(x) if x.dtype == np.float32 else math.tanh(x)


@overload(tanh, jit_options=INLINE_EXACT)
def tanh_for(x):
    return (lambda x: math.tanh(x)) if x == types.float64 else tanh32


def key64(x):
    bits = np.float64(x).view(np.int64)
    key = bits ^ ((bits >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF))
    return key if x == x else np.int64(0x7FF8000000000000)


def key32(x):
    bits = np.float32(x).view(np.int32)
    key = np.int32(bits ^ np.int32(np.int32(bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))
    return key if x == x else np.int32(0x7FC00000)


def sort_key(x: Any) -> Any:
    """Return an integer that orders like x, with NaN above all.

    Read as integers, the bits of positive floating numbers order like the numbers, and those of
    negative ones in reverse.  The largest integer of a row is found 8 or 16 numbers at a time; the
    largest number is not, since the rules for NaN forbid to compare in another order.
    """
    return key32(x) if x.dtype == np.float32 else key64(x)


@overload(sort_key, jit_options=INLINE_EXACT)
def sort_key_for(x):
    return key64 if x == types.float64 else key32


def number64(key):
    mask = (key >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF)
    return np.int64(key ^ mask).view(np.float64)


def number32(key):
    mask = np.int32(np.int32(key >> np.int32(31)) & np.int32(0x7FFFFFFF))
    return np.int32(key ^ mask).view(np.float32)


def from_key(key: Any) -> Any:
    """Return the number that has this sort key."""
    return number32(key) if key.dtype == np.int32 else number64(key)


@overload(from_key, jit_options=INLINE_EXACT)
def from_key_for(key):
    return number64 if key == types.int64 else number32


@inlined
def mix(bits):
    """One round of ``keys.random_bits``; numba would widen every result to 64 bits."""
    bits = np.uint32(bits ^ np.uint32(bits >> np.uint32(16)))
    bits = np.uint32(bits * np.uint32(0x21F0AAAD))
    bits = np.uint32(bits ^ np.uint32(bits >> np.uint32(15)))
    bits = np.uint32(bits * np.uint32(0x735A2D97))
    return np.uint32(bits ^ np.uint32(bits >> np.uint32(15)))


@inlined
def random_bits(low, high, index):  # all uint32
    """Return what ``keys.random_bits`` has at ``index`` for the seed high * 2**32 + low."""
    return mix(np.uint32(mix(np.uint32(index + low)) ^ high))
