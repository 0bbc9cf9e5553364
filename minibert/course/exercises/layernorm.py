"""Lesson 5: layer normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from minibert.arrays import Array
from minibert.course.exercise import Case, Exercise, Slip, Term
from minibert.layers.layernorm import layernorm_backward, layernorm_forward

EPS = 0.1  # large, so that where it stands can be seen


def mean(x: Array) -> Array:
    return x.mean(axis=-1, keepdims=True)


# --- forward


def forward_by_hand() -> Case:
    x = np.array([[[1.0, 0, 0, 0]]])
    return Case({"x": x, "weight": np.array([1.0, 2, 1, 1]), "bias": np.zeros(4), "eps": 1e-12})


def draw_forward(generator: np.random.Generator) -> Case:
    A, B, C = generator.permutation([2, 3, 5, 7])[:3]
    x, weight, bias = (generator.normal(size=shape) for shape in ((A, B, C), C, C))
    return Case({"x": x * 2 + 1, "weight": weight, "bias": bias, "eps": EPS})


def forward_with(change: Any) -> Any:
    """``change`` takes the centred x and eps and returns 1 / deviation."""

    def forward(x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, ...]:
        centred = x - mean(x)
        rstd = change(centred, eps)
        return centred * rstd * weight + bias, centred * rstd, rstd

    return forward


def over_rows(x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, ...]:
    centred = x - x.mean(axis=0, keepdims=True)
    rstd = 1 / np.sqrt((centred * centred).mean(axis=0, keepdims=True) + eps)
    return centred * rstd * weight + bias, centred * rstd, mean(rstd + 0 * x)


FORWARD = Exercise(
    lesson=5,
    answer=layernorm_forward,
    outputs=("y", "x_hat", "rstd"),
    by_hand=forward_by_hand,
    draw=draw_forward,
    hints=(
        "Over which axis is the mean taken, and does the result still fit x for a subtraction?",
        "keepdims=True keeps the axis, with size 1.  The variance is the mean of the squared, "
        "centred x; ε is added to it before the root.",
        "centred = x - mean;  rstd = 1 / sqrt(mean(centred²) + eps);  x_hat = centred * rstd;  "
        "y = x_hat * weight + bias.",
    ),
    slips=(
        Slip(
            "the variance divides by C - 1",
            "np.var(ddof=1) is the statistician's estimate; LayerNorm divides by C.",
            forward_with(
                lambda c, eps: 1 / np.sqrt((c * c).sum(-1, keepdims=True) / (c.shape[-1] - 1) + eps)
            ),
        ),
        Slip(
            "ε stands outside the root",
            "1 / (σ + ε) is another number: BERT's ε of 1e-12 belongs under the root.",
            forward_with(lambda c, eps: 1 / (np.sqrt(mean(c * c)) + eps)),
        ),
        Slip(
            "ε is missing",
            "a constant row would divide by 0.",
            forward_with(lambda c, eps: 1 / np.sqrt(mean(c * c))),
        ),
        Slip(
            "the variance is not squared",
            "it is the mean of the squared deviations; the deviations themselves add up to 0.",
            forward_with(lambda c, eps: 1 / np.sqrt(mean(c) + eps)),
        ),
        Slip(
            "the root is missing",
            "divide by the deviation, not by the variance.",
            forward_with(lambda c, eps: 1 / (mean(c * c) + eps)),
        ),
        Slip(
            "rstd is the deviation, not one over it",
            "x̂ = (x - mean) · rstd, so rstd = 1 / √(variance + ε).",
            forward_with(lambda c, eps: np.sqrt(mean(c * c) + eps)),
        ),
        Slip(
            "the mean is not subtracted from x in x̂",
            "x̂ is the centred x times rstd.",
            lambda x, weight, bias, eps: (
                x * layernorm_forward(x, weight, bias, eps)[2] * weight + bias,
                x * layernorm_forward(x, weight, bias, eps)[2],
                layernorm_forward(x, weight, bias, eps)[2],
            ),
        ),
        Slip(
            "the means run over the rows",
            "axis=0 is batch normalisation; LayerNorm looks at one row, axis=-1.",
            over_rows,
        ),
        Slip(
            "γ and β are left out of y",
            "x̂ has mean 0 and variance 1; y = γ x̂ + β may have any.",
            lambda x, weight, bias, eps: (
                layernorm_forward(x, weight, bias, eps)[1],
                *layernorm_forward(x, weight, bias, eps)[1:],
            ),
        ),
    ),
    terms={"y": (Term("bias β", "y = γ x̂ + β.", lambda x, weight, bias, eps: bias + 0 * x),)},
)


# --- backward


def backward_case(x: Array, weight: Array, dy: Array, eps: float) -> Case:
    bias = np.zeros(len(weight))
    _, x_hat, rstd = layernorm_forward(x, weight, bias, eps)

    def loss() -> float:
        return float(np.sum(dy * layernorm_forward(x, weight, bias, eps)[0]))

    return Case(
        {"dy": dy, "x_hat": x_hat, "rstd": rstd, "weight": weight},
        loss,
        {"dx": x, "dweight": weight, "dbias": bias},
    )


def backward_by_hand() -> Case:
    return backward_case(
        np.array([[[1.0, 3.0, 5.0]]]),
        np.array([1.0, 2.0, 1.0]),
        np.array([[[0.0, 1.0, 2.0]]]),
        1e-12,
    )


def draw_backward(generator: np.random.Generator) -> Case:
    A, B, C = generator.permutation([2, 3, 4, 5, 7])[:3]
    C = max(int(C), 3)
    x, dy = generator.normal(size=(A, B, C)), generator.normal(size=(A, B, C))
    x[..., 0] += 2
    return backward_case(x, generator.normal(size=C) + 0.5, dy, EPS)


def dx_with(formula: Any) -> Any:
    def backward(dy: Array, x_hat: Array, rstd: Array, weight: Array) -> tuple[Array, ...]:
        return formula(dy, x_hat, rstd, weight), *layernorm_backward(dy, x_hat, rstd, weight)[1:]

    return backward


def parameters_with(dweight: Any, dbias: Any = None) -> Any:
    """Both take dy, x_hat and weight as rows (N, C)."""

    def backward(dy: Array, x_hat: Array, rstd: Array, weight: Array) -> tuple[Array, ...]:
        dx, right, bias = layernorm_backward(dy, x_hat, rstd, weight)
        C = len(weight)
        rows = dy.reshape(-1, C), x_hat.reshape(-1, C), weight
        return dx, dweight(*rows) if dweight else right, dbias(*rows) if dbias else bias

    return backward


BACKWARD = Exercise(
    lesson=5,
    answer=layernorm_backward,
    outputs=("dx", "dweight", "dbias"),
    by_hand=backward_by_hand,
    draw=draw_backward,
    hints=(
        "By how many paths does one x reach the outputs of its row?  Which of them does each line "
        "of your code stand for?",
        "First dx̂ = dy · γ.  Then dx has three terms, all times rstd: dx̂ itself, minus its mean, "
        "minus x̂ times the mean of dx̂ · x̂.",
        "dx = rstd * (dx_hat - mean(dx_hat) - x_hat * mean(dx_hat * x_hat)), means over the last "
        "axis with keepdims=True;  dweight sums dy * x_hat, dbias sums dy, over all rows.",
    ),
    slips=(
        Slip(
            "γ stands outside the means",
            "γ multiplies dy before the means are taken: outside it is right only while γ is "
            "constant, which it is before the first step, so no test at γ = 1 can see this.",
            dx_with(lambda dy, xh, r, w: r * w * (dy - mean(dy) - xh * mean(dy * xh))),
        ),
        Slip(
            "γ is forgotten in dx",
            "γ scales the output, so it scales the gradient on its way back.",
            dx_with(lambda dy, xh, r, w: r * (dy - mean(dy) - xh * mean(dy * xh))),
        ),
        Slip(
            "mean and variance are taken as constants",
            "γ dy / σ is the slope of a scale and a shift that do not depend on x; these two do.",
            dx_with(lambda dy, xh, r, w: r * dy * w),
        ),
        Slip(
            "1/σ is forgotten",
            "the bracket is right, but x̂ moves by 1/σ for every unit of x.",
            dx_with(lambda dy, xh, r, w: dy * w - mean(dy * w) - xh * mean(dy * w * xh)),
        ),
        Slip(
            "σ multiplies where it should divide",
            "rstd is 1/σ already.",
            dx_with(lambda dy, xh, r, w: (dy * w - mean(dy * w) - xh * mean(dy * w * xh)) / r),
        ),
        Slip(
            "the means run over the rows",
            "axis=0 is batch normalisation's; LayerNorm averages over the columns of one row.",
            dx_with(
                lambda dy, xh, r, w: (
                    r * (dy * w - (dy * w).mean(axis=0) - xh * (dy * w * xh).mean(axis=0))
                )
            ),
        ),
        Slip(
            "sums stand where means belong",
            "each of the C columns moves the mean by 1/C.",
            dx_with(
                lambda dy, xh, r, w: (
                    r
                    * (
                        dy * w
                        - (dy * w).sum(-1, keepdims=True)
                        - xh * (dy * w * xh).sum(-1, keepdims=True)
                    )
                )
            ),
        ),
        Slip(
            "dy stands for dx̂ in the second mean",
            "γ belongs into both means: begin with dx̂ = dy γ, and never use dy again for dx.",
            dx_with(lambda dy, xh, r, w: r * (dy * w - mean(dy * w) - xh * mean(dy * xh))),
        ),
        Slip(
            "dy stands for dx̂ in the first mean",
            "γ belongs into both means: begin with dx̂ = dy γ, and never use dy again for dx.",
            dx_with(lambda dy, xh, r, w: r * (dy * w - mean(dy) - xh * mean(dy * w * xh))),
        ),
        Slip(
            "rstd multiplies the first term only",
            "it stands in front of the whole bracket.",
            dx_with(lambda dy, xh, r, w: r * dy * w - mean(dy * w) - xh * mean(dy * w * xh)),
        ),
        Slip(
            "x̂ stands inside the second mean twice",
            "the mean is of dx̂ x̂; the other x̂ is this column's own, and stays outside.",
            dx_with(lambda dy, xh, r, w: r * (dy * w - mean(dy * w) - mean(dy * w * xh * xh))),
        ),
        Slip(
            "only x_i's way to its own x̂_i is there",
            "x_i moves all columns of its row, through the mean and the deviation: sum over j.",
            dx_with(
                lambda dy, xh, r, w: r * dy * w * (1 - 1 / dy.shape[-1] - xh * xh / dy.shape[-1])
            ),
        ),
        Slip(
            "the backward divides by C - 1",
            "the forward's variance divides by C, so the backward's mean must too.",
            dx_with(
                lambda dy, xh, r, w: (
                    r
                    * (
                        dy * w
                        - mean(dy * w)
                        - xh * (dy * w * xh).sum(-1, keepdims=True) / (dy.shape[-1] - 1)
                    )
                )
            ),
        ),
        Slip(
            "dγ lacks x̂",
            "that is dβ; γ is multiplied by x̂, so x̂ is its slope.",
            parameters_with(lambda dy, xh, w: dy.sum(axis=0)),
        ),
        Slip(
            "dγ has γ in it",
            "dx̂ = dy γ is at hand, but dγ = Σ dy x̂ needs dy itself.",
            parameters_with(lambda dy, xh, w: (dy * w * xh).sum(axis=0)),
        ),
        Slip(
            "dβ has γ in it",
            "β is added after γ, and never passes through it.",
            parameters_with(None, lambda dy, xh, w: (dy * w).sum(axis=0)),
        ),
        Slip(
            "dβ is that of one row only",
            "β was added to every row, so the gradients of all rows add up.",
            parameters_with(None, lambda dy, xh, w: dy[0]),
        ),
    ),
    terms={
        "dx": (
            Term(
                "mean term",
                "x also moves the mean that is subtracted from every column: - rstd · mean(dx̂).",
                lambda dy, x_hat, rstd, weight: -rstd * mean(dy * weight) + 0 * dy,
            ),
            Term(
                "variance term",
                "x also moves the deviation that every column is divided by: "
                "- rstd · x̂ · mean(dx̂ x̂).",
                lambda dy, x_hat, rstd, weight: -rstd * x_hat * mean(dy * weight * x_hat),
            ),
        )
    },
    sizes=lambda dy, x_hat, rstd, weight: {
        "the number of rows": dy.size // dy.shape[-1],
        "C": dy.shape[-1],
    },
)

EXERCISES = (FORWARD, BACKWARD)
