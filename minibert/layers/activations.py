"""Activations: functions of one number, applied to every element.

BERT's feed-forward uses GELU.  ReLU is that of the original Transformer.  Sources: Hendrycks and
Gimpel, Gaussian Error Linear Units (2016); Vaswani et al. (2017), section 3.3.
"""

from __future__ import annotations

import math

import numpy as np

from minibert.arrays import Array

# erfc(z) e^{z²} / t with t = 2 / (2 + z) is smooth on 0 <= t <= 1; these are its Chebyshev
# coefficients in 2t - 1, computed to 40 digits.  The first one left out is 6e-17.
ERFC_COEFFICIENTS = (
    0.57703373861646968862, 0.35543692127049848731, 0.065095158828786524549,
    0.0036711423958366391657, -0.001112844743352632495, -0.00016075829915378080054,
    0.000032780315741731373782, 5.442441645505013567e-6, -1.5154665553171471278e-6,
    -1.4297608181169795084e-7, 8.2346088274192710588e-8, -1.2962846852275610911e-9,
    -4.1547216310182566037e-9, 6.3470582783840672479e-10, 1.4320822712199000964e-10,
    -6.1603901053191009082e-11, 2.061213857994799988e-12, 3.5714931456906607606e-12,
    -8.5864228146105681116e-13, -6.1456003870049405553e-14, 7.4187257581409639775e-14,
    -1.2895041190752966845e-14, -2.3587291454805303387e-15, 1.5729380795244999562e-15,
    -2.2783226175450761271e-16,
)  # fmt: skip


def erfc(x: Array) -> Array:
    """Return 1 - erf(x), the complementary error function, to rounding; NumPy has none.

    For z = |x|, erfc(z) = t e^{-z²} Σ_k c_k T_k(2t - 1), summed by Clenshaw's recurrence, and
    erfc(-z) = 2 - erfc(z).
    """
    z = np.abs(x)
    t = 2 / (2 + z)
    u = 4 * t - 2
    after, now = np.zeros_like(x), np.zeros_like(x)
    for coefficient in reversed(ERFC_COEFFICIENTS[1:]):
        now, after = coefficient + u * now - after, now
    tail = t * np.exp(-z * z) * (ERFC_COEFFICIENTS[0] + u / 2 * now - after)
    return np.where(x < 0, 2 - tail, tail)


def gelu_forward(x: Array) -> Array:
    """Return x Φ(x), with Φ the standard normal distribution function, ½ erfc(-x / √2)."""
    return x * (0.5 * erfc(-x / math.sqrt(2)))


def gelu_backward(dy: Array, x: Array) -> Array:
    """Send a gradient back through y = x Φ(x).

    By the product rule, with Φ' = φ, φ(x) = e^{-x²/2} / √(2π):

        dy/dx = Φ(x) + x φ(x)
    """
    cdf = 0.5 * erfc(-x / math.sqrt(2))
    pdf = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return dy * (cdf + x * pdf)


def gelu_tanh_forward(x: Array) -> Array:
    """Return ½ x (1 + tanh u) with u = √(2/π) (x + 0.044715 x³).

    The GELU paper's approximation, at most 4.8e-4 from the exact form.  Which of the two a model
    was trained with is in its configuration: ``gelu`` is exact, ``gelu_new`` is this one.
    """
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def gelu_tanh_backward(dy: Array, x: Array) -> Array:
    """Send a gradient back through the tanh form.

    With h = tanh u, dh/du = 1 - h² and du/dx = √(2/π) (1 + 3 · 0.044715 x²):

        dy/dx = ½ (1 + h) + ½ x (1 - h²) du/dx
    """
    c = math.sqrt(2 / math.pi)
    h = np.tanh(c * (x + 0.044715 * x * x * x))
    du = c * (1 + 3 * 0.044715 * x * x)
    return dy * (0.5 * (1 + h) + 0.5 * x * (1 - h * h) * du)


def relu_forward(x: Array) -> Array:
    """Return max(x, 0)."""
    return np.maximum(x, 0)


def relu_backward(dy: Array, x: Array) -> Array:
    """Send a gradient back through max(x, 0): it passes where x > 0.

    At x = 0 there is a kink and no derivative; like everyone we take 0.
    """
    return np.where(x > 0, dy, dy.dtype.type(0))


def tanh_forward(x: Array) -> Array:
    """Return tanh x, the pooler's activation."""
    return np.tanh(x)


def tanh_backward(dy: Array, y: Array) -> Array:
    """Send a gradient back through y = tanh x: dy/dx = 1 - y², from the output alone."""
    return dy * (1 - y * y)


ACTIVATIONS = {
    "gelu": ("gelu_forward", "gelu_backward"),
    "gelu_new": ("gelu_tanh_forward", "gelu_tanh_backward"),
    "gelu_pytorch_tanh": ("gelu_tanh_forward", "gelu_tanh_backward"),
    "relu": ("relu_forward", "relu_backward"),
}
"""``hidden_act`` of a configuration → the names of its pair in ``Ops``."""
