"""Operations of the optimizers: the gradient's norm, AdamW's update, and Muon's."""

from __future__ import annotations

import math
from operator import index

import numpy as np

from minibert.arrays import Array, check_float, check_number, check_shape


def global_norm(
    grad: Array,  # (n,), all gradients in one buffer
) -> float:
    """Return √Σ g², summed in float64.

    Source: Pascanu, Mikolov and Bengio, On the difficulty of training RNNs (2013), section 3.2.
    """
    return math.sqrt(float(np.sum(grad * grad, dtype=np.float64)))


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

        g = grad · grad_scale                  the factor of gradient clipping
        m ← β₁ m + (1 - β₁) g                  mean of the gradients
        v ← β₂ v + (1 - β₂) g²                 mean of their squares
        θ ← θ - lr (m/c₁ / (√(v/c₂) + ε) + decay · θ)

    m and v start at 0, so early means are too small by c₁ = 1 - β₁ᵗ and c₂ = 1 - β₂ᵗ at step t;
    c₁ = c₂ = 1 leaves that uncorrected, as BERT's own optimizer does.  Only the first ``decayed``
    elements decay.  Source: Loshchilov and Hutter, Decoupled Weight Decay Regularization (2019),
    algorithm 2.
    """
    check_adamw(
        value, grad, moment1, moment2, decayed, lr=lr, beta1=beta1, beta2=beta2, eps=eps,
        decay=decay, correction1=correction1, correction2=correction2, grad_scale=grad_scale,
    )  # fmt: skip
    dtype = value.dtype.type
    g = grad * dtype(grad_scale)
    moment1 *= dtype(beta1)
    moment1 += dtype(1 - beta1) * g
    moment2 *= dtype(beta2)
    moment2 += dtype(1 - beta2) * g * g
    step = (moment1 / dtype(correction1)) / (np.sqrt(moment2 / dtype(correction2)) + dtype(eps))
    step[:decayed] += dtype(decay) * value[:decayed]
    value -= dtype(lr) * step


NEWTON_SCHULZ = 3.4445, -4.7750, 2.0315
"""a, b, c of the polynomial a s + b s³ + c s⁵ that is applied again and again to singular values.

It lifts small ones fast, times 3.4 each, and then keeps them between 0.68 and 1.13; coefficients
that end at 1 exactly need twice as many rounds.
"""


NOISE = 1e-7
MOST_ITERATIONS = 100


def orthogonalize(
    matrices: Array,  # (n, M, N)
    iterations: int,
) -> Array:  # (n, M, N)
    """Return roughly U Vᵀ of each matrix U Σ Vᵀ: singular values near 1, the directions kept.

    A matrix polynomial of X in odd powers, a X + b X Xᵀ X + …, is U p(Σ) Vᵀ: it acts on the
    singular values, and nobody has to find them.  So Newton-Schulz iteration needs products only:

        X = matrix / (‖matrix‖ + 1e-7)              no singular value is above 1
        A = X Xᵀ,   X ← (a I + b A + c A²) X        ``iterations`` times

    on the transpose where that has fewer rows.  A gradient that is 0 but for rounding, as that of
    queries and keys where there is one token to look at, stays small by the 1e-7.
    Source: Jordan et al., Muon (2024); Higham, Functions of Matrices (2008), section 8.3.
    """
    x = lying(matrices, iterations)
    a, b, c = (x.dtype.type(number) for number in NEWTON_SCHULZ)
    norm = np.sqrt(np.sum(x * x, axis=(1, 2), keepdims=True, dtype=np.float64))
    x = x * (1 / (norm + NOISE)).astype(x.dtype)
    for _ in range(iterations):
        gram = x @ x.swapaxes(1, 2)
        polynomial = b * gram + c * (gram @ gram)
        polynomial[:, *np.diag_indices(x.shape[1])] += a
        x = polynomial @ x
    return x if x.shape == matrices.shape else np.ascontiguousarray(x.swapaxes(1, 2))


def lying(matrices: Array, iterations: int) -> Array:  # (n, M, N) → (n, min, max)
    """Check the arguments; return the matrices, or their transposes if these have fewer rows."""
    check_float("matrices", matrices)
    check_shape("matrices", matrices, (None, None, None))
    if not 0 <= index(iterations) <= MOST_ITERATIONS:
        raise ValueError(f"iterations is {iterations}, expected 0 to {MOST_ITERATIONS}")
    _, M, N = matrices.shape
    return matrices if M <= N else matrices.swapaxes(1, 2)


def check_adamw(
    value: Array, grad: Array, moment1: Array, moment2: Array, decayed: int, **numbers: float
) -> None:
    """Raise before anything is changed, so that no buffer is left half updated."""
    check_float("value", value)
    check_shape("value", value, (None,))
    for name, array in (("grad", grad), ("moment1", moment1), ("moment2", moment2)):
        check_float(name, array, like=value)
        check_shape(name, array, value.shape)
    for name, array in (("value", value), ("moment1", moment1), ("moment2", moment2)):
        if not getattr(array.flags, "writeable", True):  # CuPy has no such flag
            raise ValueError(f"{name} is read-only, and has to be changed: pass a copy")
    if not 0 <= index(decayed) <= len(value):
        raise ValueError(f"decayed is {decayed}, expected 0 to {len(value)}")
    for name, number in numbers.items():
        check_number(name, number)
        if name.startswith("correction") and not number > 0:
            raise ValueError(f"{name} is {number}, expected a number above 0")
