"""Lesson 4: ReLU, and GELU in its two forms."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from minibert.arrays import Array
from minibert.course.exercise import Case, Exercise, Slip, Term
from minibert.layers.activations import (
    erfc,
    gelu_backward,
    gelu_forward,
    gelu_tanh_backward,
    gelu_tanh_forward,
    relu_backward,
    relu_forward,
)

C_TANH = math.sqrt(2 / math.pi)


def draw_shape(generator: np.random.Generator) -> tuple[int, ...]:
    return tuple(generator.permutation([3, 4, 5, 7])[:3])


def slope(formula: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    """The backward that has this slope."""
    return lambda dy, x: dy * formula(x)


# --- ReLU


def relu_case(x: Array, dy: Array) -> Case:
    """The loss leaves the kinks at 0 out: the slope there is agreed upon, not measured."""
    smooth = x != 0

    def loss() -> float:
        return float(np.sum(dy * relu_forward(x) * smooth))

    return Case({"dy": dy, "x": x}, loss, {"dx": x})


def relu_by_hand() -> Case:
    return relu_case(np.array([[[-2.0, 0, 3]]]), np.array([[[5.0, 7, 11]]]))


def draw_relu(generator: np.random.Generator) -> Case:
    shape = draw_shape(generator)
    x = generator.normal(size=shape)
    x += 0.1 * np.sign(x)  # no kink within a difference's step
    x.flat[::5] = 0
    return relu_case(x, generator.normal(size=shape))


RELU = Exercise(
    lesson=4,
    answer=relu_backward,
    outputs=("dx",),
    by_hand=relu_by_hand,
    draw=draw_relu,
    hints=(
        "Where x is below 0, y is 0 whatever x is: what gradient does such an x get?",
        "The slope is 1 where x > 0, else 0.  So dx is dy in some places and 0 in the others, and "
        "x alone says which.",
        "np.where(x > 0, dy, 0).",
    ),
    slips=(
        Slip(
            "the gradient passes at x = 0",
            "at the kink there is no derivative, and the agreement is 0: pass where x > 0, not "
            "where x >= 0.",
            slope(lambda x: np.where(x >= 0, 1, 0)),
        ),
        Slip(
            "the slope at x = 0 is ½",
            "that is the mean of both sides, and what a finite difference says; the agreement "
            "is 0.",
            slope(lambda x: np.heaviside(x, 0.5)),
        ),
        Slip(
            "dy is multiplied by the value, not by the slope",
            "max(x, 0) is the output; its slope is 0 or 1.",
            slope(relu_forward),
        ),
        Slip(
            "the forward is applied to dy",
            "a negative gradient is a gradient like any other; it is x that decides what passes.",
            lambda dy, x: dy * (dy > 0),
        ),
        Slip(
            "every gradient passes",
            "where x is below 0 the output does not move with it, so its gradient is 0.",
            lambda dy, x: dy.copy(),
        ),
        Slip(
            "the gradient passes on the wrong side",
            "it passes where x is above 0.",
            slope(lambda x: np.where(x < 0, 1, 0)),
        ),
        Slip(
            "dy is left out",
            "0 or 1 is the slope alone; dx is the slope times what arrives.",
            lambda dy, x: (x > 0).astype(dy.dtype),
        ),
        Slip(
            "x passes in place of dy",
            "that is the forward again; what passes backward is dy.",
            lambda dy, x: relu_forward(x),
        ),
    ),
)

# --- GELU


def cdf(x: Array) -> Array:
    return 0.5 * erfc(-x / math.sqrt(2))


def pdf(x: Array) -> Array:
    return np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)


def gelu_case(forward: Callable[[Array], Array], x: Array, dy: Array) -> Case:
    def loss() -> float:
        return float(np.sum(dy * forward(x)))

    return Case({"dy": dy, "x": x}, loss, {"dx": x})


def gelu_by_hand() -> Case:
    return gelu_case(gelu_forward, np.array([[[-1.0, 0, 1]]]), np.array([[[1.0, 2, 1]]]))


def draw_gelu(generator: np.random.Generator) -> Case:
    shape = draw_shape(generator)
    return gelu_case(gelu_forward, 1.5 * generator.normal(size=shape), generator.normal(size=shape))


def gelu_with_width(x: Array) -> Array:
    """The slope of x Φ(√2 x): the √2 is forgotten everywhere."""
    return 0.5 * erfc(-x) + x * np.exp(-x * x) / math.sqrt(math.pi)


def sigmoid_slope(x: Array) -> Array:
    gate = 1 / (1 + np.exp(-1.702 * x))
    return gate + x * 1.702 * gate * (1 - gate)


GELU = Exercise(
    lesson=4,
    answer=gelu_backward,
    outputs=("dx",),
    by_hand=gelu_by_hand,
    draw=draw_gelu,
    hints=(
        "y = x · Φ(x) is a product of two things that move with x: how many terms has its slope?",
        "The slope is Φ(x) + x φ(x).  Φ(x) comes from erfc, φ(x) = e^(-x²/2) / √(2π), and dx is "
        "dy times the slope.",
        "cdf = 0.5 * erfc(-x / math.sqrt(2));  pdf = np.exp(-0.5 * x * x) / math.sqrt(2 * "
        "math.pi);  dx = dy * (cdf + x * pdf).",
    ),
    slips=(
        Slip(
            "it is the slope of the tanh form",
            "the tanh form is another function, nearly the same: a backward belongs to its own "
            "forward.",
            gelu_tanh_backward,
        ),
        Slip(
            "it is the slope of x σ(1.702 x)",
            "that is a rougher approximation of GELU, and a backward belongs to its own forward.",
            slope(sigmoid_slope),
        ),
        Slip(
            "φ lacks its factor x",
            "in the product rule one factor moves and the other stays: x stays beside φ.",
            slope(lambda x: cdf(x) + pdf(x)),
        ),
        Slip(
            "the factors have changed places",
            "Φ(x) + x φ(x): what x is multiplied by stands alone when x moves.",
            slope(lambda x: x * cdf(x) + pdf(x)),
        ),
        Slip(
            "φ lacks its 1 / √(2π)",
            "without it e^(-x²/2) is a curve of another height, and not Φ's derivative.",
            slope(lambda x: cdf(x) + x * np.exp(-0.5 * x * x)),
        ),
        Slip(
            "the √2 in Φ is forgotten",
            "Φ(x) = ½ erfc(-x / √2): erfc is made for a bell of another width.",
            slope(lambda x: 0.5 * erfc(-x) + x * pdf(x)),
        ),
        Slip(
            "the √2 is forgotten in Φ and in φ",
            "the standard bell has e^(-x²/2), and Φ(x) = ½ erfc(-x / √2).",
            slope(gelu_with_width),
        ),
        Slip(
            "Φ is taken at -x",
            "Φ(x) = ½ erfc(-x / √2), with a minus: erfc falls and Φ rises.",
            slope(lambda x: cdf(-x) + x * pdf(x)),
        ),
        Slip(
            "the ½ in φ's power is forgotten",
            "φ(x) = e^(-x²/2) / √(2π).",
            slope(lambda x: cdf(x) + x * np.exp(-x * x) / math.sqrt(2 * math.pi)),
        ),
        Slip(
            "dy is multiplied by the value, not by the slope",
            "x Φ(x) is the output; its slope is Φ(x) + x φ(x).",
            slope(gelu_forward),
        ),
        Slip(
            "dy is left out",
            "Φ(x) + x φ(x) is the slope alone; dx is the slope times what arrives.",
            lambda dy, x: cdf(x) + x * pdf(x),
        ),
    ),
    terms={
        "dx": (
            Term(
                "x φ(x) term",
                "x moves the gate Φ(x) too, and the gate is multiplied by x.",
                lambda dy, x: dy * x * pdf(x),
            ),
            Term(
                "Φ(x) term",
                "x is also multiplied by the gate directly: with the gate held still, y moves by "
                "Φ(x).",
                lambda dy, x: dy * cdf(x),
            ),
        )
    },
)

# --- GELU's tanh form


def tanh_by_hand() -> Case:
    return gelu_case(gelu_tanh_forward, *list(gelu_by_hand().arguments.values())[::-1])


def draw_tanh(generator: np.random.Generator) -> Case:
    return gelu_case(gelu_tanh_forward, *list(draw_gelu(generator).arguments.values())[::-1])


def tanh_slope(
    x: Array,
    cubic: float = 3 * 0.044715,
    scale: float = C_TANH,
    bend: Callable[[Array], Array] = lambda h: 1 - h * h,
) -> Array:
    h = np.tanh(C_TANH * (x + 0.044715 * x * x * x))
    return 0.5 * (1 + h) + 0.5 * x * bend(h) * scale * (1 + cubic * x * x)


def second_term(dy: Array, x: Array) -> Array:
    return dy * (tanh_slope(x) - tanh_slope(x, bend=lambda h: 0 * h))


TANH = Exercise(
    lesson=4,
    answer=gelu_tanh_backward,
    outputs=("dx",),
    by_hand=tanh_by_hand,
    draw=draw_tanh,
    hints=(
        "Which three functions stand inside each other here, and what is the slope of each?",
        "By the product rule the slope is ½ (1 + h) + ½ x · dh/dx.  By the chain rule dh/dx is "
        "(1 - h²) · du/dx, and u is a polynomial.",
        "du = c * (1 + 3 * 0.044715 * x * x);  dx = dy * (0.5 * (1 + h) + 0.5 * x * (1 - h * h) * "
        "du), with c = math.sqrt(2 / math.pi).",
    ),
    slips=(
        Slip(
            "it is the slope of the exact GELU",
            "the exact form is another function, nearly the same: a backward belongs to its own "
            "forward.",
            gelu_backward,
        ),
        Slip(
            "the cubic's 3 is missing",
            "the derivative of 0.044715 x³ is 3 · 0.044715 x².",
            slope(lambda x: tanh_slope(x, cubic=0.044715)),
        ),
        Slip(
            "0.134 stands for 3 · 0.044715",
            "a constant rounded to three digits spoils the fourth digit of every gradient; let "
            "the machine multiply.",
            slope(lambda x: tanh_slope(x, cubic=0.134)),
        ),
        Slip(
            "the cubic is left out of du",
            "u = √(2/π) (x + 0.044715 x³), so the cube has a slope too.",
            slope(lambda x: tanh_slope(x, cubic=0)),
        ),
        Slip(
            "du lacks its √(2/π)",
            "the factor multiplies all of u, and so it multiplies u's slope.",
            slope(lambda x: tanh_slope(x, scale=1)),
        ),
        Slip(
            "1 - h² has lost its square",
            "the slope of h = tanh u is 1 - h².",
            slope(lambda x: tanh_slope(x, bend=lambda h: 1 - h)),
        ),
        Slip(
            "tanh has the slope of the logistic function",
            "h (1 - h) belongs to 1 / (1 + e^-u); for tanh it is 1 - h².",
            slope(lambda x: tanh_slope(x, bend=lambda h: h * (1 - h))),
        ),
        Slip(
            "du is left out",
            "by the chain rule dh/dx = (1 - h²) · du/dx.",
            lambda dy, x: dy * tanh_slope(x, cubic=0, scale=1),
        ),
        Slip(
            "dy is multiplied by the value, not by the slope",
            "½ x (1 + h) is the output; its slope has two terms.",
            slope(gelu_tanh_forward),
        ),
        Slip(
            "dy is left out",
            "that is the slope alone; dx is the slope times what arrives.",
            lambda dy, x: tanh_slope(x),
        ),
    ),
    terms={
        "dx": (
            Term(
                "second term of the product rule",
                "x moves the gate ½ (1 + h) too: ½ x (1 - h²) du/dx.",
                second_term,
            ),
            Term(
                "first term of the product rule",
                "with the gate held still, y moves by ½ (1 + h).",
                lambda dy, x: dy * tanh_slope(x, bend=lambda h: 0 * h),
            ),
        )
    },
)

EXERCISES = (RELU, GELU, TANH)
