"""GELU in both forms, ReLU and tanh, forward and backward.

Each is a plain loop over a chunk.  One parallel kernel deals out the chunks for all of them, since
compiling a parallel loop takes far longer than compiling what it runs.  Matrix products run the
same loops on what they have just computed, as their ``Epilogue``.

A backward works in place: it finds dy where it leaves dx.  With three arrays, of which two were
the same, the compiled loop would do without vectors, since it could not tell which.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from numba import prange

from minibert.arrays import Array, check_float, check_shape
from minibert.ops.cpu.elementary import exp, normal, tanh
from minibert.ops.cpu.jit import kernel, parallel
from minibert.ops.cpu.memory import empty, fit
from minibert.ops.cpu.threads import launch

CHUNK = 1 << 12
NOTHING = -1
GELU, GELU_BACKWARD, GELU_TANH, GELU_TANH_BACKWARD, RELU, RELU_BACKWARD, TANH, TANH_BACKWARD = (
    range(8)
)
KINDS = {
    "gelu_forward": GELU, "gelu_backward": GELU_BACKWARD,
    "gelu_tanh_forward": GELU_TANH, "gelu_tanh_backward": GELU_TANH_BACKWARD,
    "relu_forward": RELU, "relu_backward": RELU_BACKWARD,
}  # fmt: skip
"""Those of ``ACTIVATIONS``, by their names in ``Ops``."""
BACKWARDS = (GELU_BACKWARD, GELU_TANH_BACKWARD, RELU_BACKWARD)
FUSED = (GELU, GELU_BACKWARD)
"""What products do themselves.  Each of these loops is compiled into each kind of product, so the
rare ones are left out, and take a pass of their own."""
SLOPE, CUBIC = math.sqrt(8 / math.pi), 0.044715  # of 2 u = √(8/π) (x + 0.044715 x³)


@kernel
def gelu_chunk(x, y):
    for i in range(y.shape[0]):
        cdf, _ = normal(x[i])
        y[i] = x[i] * cdf


@kernel
def gelu_backward_chunk(x, dx):
    for i in range(dx.shape[0]):
        cdf, density = normal(x[i])
        dx[i] *= cdf + x[i] * density


@kernel
def gelu_tanh_chunk(x, y):
    """½ (1 + tanh u) = 1 / (1 + e^{-2u}), which keeps its digits where tanh u is near -1."""
    slope, cubic, one = y.dtype.type(SLOPE), y.dtype.type(CUBIC), y.dtype.type(1)
    for i in range(y.shape[0]):
        u2 = slope * (x[i] + cubic * x[i] * x[i] * x[i])
        y[i] = x[i] / (one + exp(-u2))


@kernel
def gelu_tanh_backward_chunk(x, dx):
    """With s = ½ (1 + tanh u): ½ (1 - tanh² u) = 2 s (1 - s)."""
    slope, cubic, one = dx.dtype.type(SLOPE), dx.dtype.type(CUBIC), dx.dtype.type(1)
    cubic3 = dx.dtype.type(3 * CUBIC)
    for i in range(dx.shape[0]):
        u2 = slope * (x[i] + cubic * x[i] * x[i] * x[i])
        s = one / (one + exp(-u2))
        du2 = slope * (one + cubic3 * x[i] * x[i])
        dx[i] *= s + x[i] * s * (one - s) * du2


@kernel
def relu_chunk(x, y):
    zero = y.dtype.type(0)
    for i in range(y.shape[0]):
        y[i] = zero if x[i] < zero else x[i]


@kernel
def relu_backward_chunk(x, dx):
    zero = dx.dtype.type(0)
    for i in range(dx.shape[0]):
        dx[i] = dx[i] if x[i] > zero else zero


@kernel
def tanh_chunk(x, y):
    for i in range(y.shape[0]):
        y[i] = tanh(x[i])


@kernel
def tanh_backward_chunk(y, dx):
    one = dx.dtype.type(1)
    for i in range(dx.shape[0]):
        dx[i] *= one - y[i] * y[i]


@kernel
def copy_chunk(x, y):
    for i in range(y.shape[0]):
        y[i] = x[i]


@kernel
def apply_chunk(which, x, out):  # both (n,)
    """Put act(x) into ``out``, or multiply what is there by act'(x)."""
    if which == GELU:
        gelu_chunk(x, out)
    elif which == GELU_BACKWARD:
        gelu_backward_chunk(x, out)
    elif which == GELU_TANH:
        gelu_tanh_chunk(x, out)
    elif which == GELU_TANH_BACKWARD:
        gelu_tanh_backward_chunk(x, out)
    elif which == RELU:
        relu_chunk(x, out)
    elif which == RELU_BACKWARD:
        relu_backward_chunk(x, out)
    elif which == TANH:
        tanh_chunk(x, out)
    elif which == TANH_BACKWARD:
        tanh_backward_chunk(x, out)


@kernel
def apply_rows(which, x, out, row, rows, column, columns):  # both (M, N)
    """Do so for a block of a matrix, if it is one of ``FUSED``."""
    j0, j1 = column, column + columns
    if which == GELU:
        for i in range(row, row + rows):
            gelu_chunk(x[i, j0:j1], out[i, j0:j1])
    elif which == GELU_BACKWARD:
        for i in range(row, row + rows):
            gelu_backward_chunk(x[i, j0:j1], out[i, j0:j1])


@parallel
def apply(which, before, x, out):  # x, out (n,); before (n,) is put into out first, or is (0,)
    for chunk in prange((out.shape[0] + CHUNK - 1) // CHUNK):
        start, stop = chunk * CHUNK, (chunk + 1) * CHUNK
        if before.shape[0]:
            copy_chunk(before[start:stop], out[start:stop])
        apply_chunk(which, x[start:stop], out[start:stop])


class Epilogue(NamedTuple):
    """What a matrix product does to a block of its result C while it still lies in the cache."""

    which: int
    other: Array  # like C; a forward puts act(C) there, a backward multiplies C by act'(other)

    def arguments(self, c: Array) -> tuple[int, Array, Array]:
        """Return what kernels call ``which``, ``x`` and ``out``."""
        backward = self.which in BACKWARDS
        return (self.which, self.other, c) if backward else (self.which, c, self.other)


def fused(epilogue: Epilogue | None, c: Array) -> tuple[int, Array, Array]:
    """Return what a product is to do itself, as ``apply_rows`` takes it."""
    if epilogue is None or epilogue.which not in FUSED:
        return NOTHING, c, c
    return epilogue.arguments(c)


def run_rest(epilogue: Epilogue | None, c: Array) -> None:
    """Do what the product has not done itself."""
    if epilogue and epilogue.which not in FUSED:
        run_alone(epilogue, c)


def run_alone(epilogue: Epilogue | None, c: Array) -> None:
    """Do it in a pass of its own, where the product cannot."""
    if epilogue and c.size:
        which, x, out = epilogue.arguments(c)
        launch(apply, 4 * c.size, which, x.reshape(-1)[:0], x.reshape(-1), out.reshape(-1))


def forward(which: int, x: Array) -> Array:
    check_float("x", x)
    y, flat = empty(x.shape, x.dtype), fit(x).reshape(-1)
    launch(apply, 4 * x.size, which, flat[:0], flat, y.reshape(-1))
    return y


def backward(which: int, dy: Array, name: str, saved: Array) -> Array:
    check_float("dy", dy)
    check_float(name, saved, like=dy)
    check_shape("dy", dy, saved.shape)
    dx = empty(dy.shape, dy.dtype)
    launch(
        apply, 4 * dy.size,
        which, fit(dy).reshape(-1), fit(saved).reshape(-1), dx.reshape(-1),
    )  # fmt: skip
    return dx


def gelu_forward(x: Array) -> Array:
    """Return x Φ(x)."""
    return forward(GELU, x)


def gelu_backward(dy: Array, x: Array) -> Array:
    """Return dy (Φ(x) + x φ(x))."""
    return backward(GELU_BACKWARD, dy, "x", x)


def gelu_tanh_forward(x: Array) -> Array:
    """Return ½ x (1 + tanh u) with u = √(2/π) (x + 0.044715 x³)."""
    return forward(GELU_TANH, x)


def gelu_tanh_backward(dy: Array, x: Array) -> Array:
    """Return dy times the slope of the tanh form."""
    return backward(GELU_TANH_BACKWARD, dy, "x", x)


def relu_forward(x: Array) -> Array:
    """Return max(x, 0)."""
    return forward(RELU, x)


def relu_backward(dy: Array, x: Array) -> Array:
    """Return dy where x > 0."""
    return backward(RELU_BACKWARD, dy, "x", x)


def tanh_forward(x: Array) -> Array:
    """Return tanh x."""
    return forward(TANH, x)


def tanh_backward(dy: Array, y: Array) -> Array:
    """Return dy (1 - y²)."""
    return backward(TANH_BACKWARD, dy, "y", y)
