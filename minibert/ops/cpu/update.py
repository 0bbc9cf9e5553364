"""AdamW in one pass over the flat buffers, and the gradient's norm."""

from __future__ import annotations

import math

import numpy as np
from numba import prange

from minibert.arrays import Array, check_float
from minibert.ops import update as reference
from minibert.ops.cpu.jit import kernel, parallel
from minibert.ops.cpu.memory import fit
from minibert.ops.cpu.threads import launch

CHUNK = 1 << 14


@kernel
def square_sum(x):
    total = 0.0
    for i in range(x.shape[0]):
        value = np.float64(x[i])
        total += value * value
    return total


@parallel
def square_sums(x, sums):  # x (n,), sums (chunks,)
    for chunk in prange(sums.shape[0]):
        sums[chunk] = square_sum(x[chunk * CHUNK : (chunk + 1) * CHUNK])


@kernel
def update_chunk(value, grad, moment1, moment2, factors, lr_decay):
    grad_scale, beta1, rest1, beta2, rest2, lr1, inverse2, eps = factors
    for i in range(value.shape[0]):
        g = grad[i] * grad_scale
        m = moment1[i] * beta1 + rest1 * g
        v = moment2[i] * beta2 + rest2 * g * g
        moment1[i], moment2[i] = m, v
        value[i] -= lr1 * m / (np.sqrt(v * inverse2) + eps) + lr_decay * value[i]


@parallel
def update_all(value, grad, moment1, moment2, factors, lr_decay, decayed):  # buffers (n,)
    for chunk in prange((value.shape[0] + CHUNK - 1) // CHUNK):
        start = chunk * CHUNK
        stop = min(start + CHUNK, value.shape[0])
        middle = min(max(start, decayed), stop)
        update_chunk(
            value[start:middle], grad[start:middle], moment1[start:middle], moment2[start:middle],
            factors, lr_decay,
        )  # fmt: skip
        update_chunk(
            value[middle:stop], grad[middle:stop], moment1[middle:stop], moment2[middle:stop],
            factors, value.dtype.type(0),
        )  # fmt: skip


def global_norm(
    grad: Array,  # (n,)
) -> float:
    """Return √Σ g², summed in float64."""
    check_float("grad", grad)
    sums = np.empty(-(-grad.size // CHUNK))
    launch(square_sums, grad.size, fit(grad).reshape(-1), sums)
    return math.sqrt(float(sums.sum()))


def adamw(
    value: Array,  # (n,), changed
    grad: Array,  # (n,)
    moment1: Array,  # (n,), changed
    moment2: Array,  # (n,), changed
    *,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    decayed: int,
    correction1: float,
    correction2: float,
    grad_scale: float,
) -> None:
    """Move ``value`` one AdamW step, in place.

    The kernel folds what is constant: lr/c₁ and 1/c₂ are formed once, and θ moves by
    lr/c₁ m / (√(v/c₂) + ε) + lr decay θ.
    """
    reference.check_adamw(
        value, grad, moment1, moment2, decayed, lr=lr, beta1=beta1, beta2=beta2, eps=eps,
        decay=decay, correction1=correction1, correction2=correction2, grad_scale=grad_scale,
    )  # fmt: skip
    changed = (value, moment1, moment2)
    if not all(array.flags.carray for array in changed):
        # a kernel would change a copy
        reference.adamw(
            value, grad, moment1, moment2, lr=lr, beta1=beta1, beta2=beta2, eps=eps, decay=decay,
            decayed=decayed, correction1=correction1, correction2=correction2,
            grad_scale=grad_scale,
        )  # fmt: skip
        return
    factors = (
        grad_scale,
        beta1,
        1 - beta1,
        beta2,
        1 - beta2,
        lr / correction1,
        1 / correction2,
        eps,
    )
    dtype = value.dtype.type
    launch(
        update_all, value.size,
        value, fit(grad), moment1, moment2,
        tuple(dtype(factor) for factor in factors), dtype(lr * decay), decayed,
    )  # fmt: skip
