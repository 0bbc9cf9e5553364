"""Mistakes in LayerNorm, and in add & norm, which puts dropout and the residual in front of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minibert.arrays import Array
from minibert.layers.layernorm import layernorm_backward
from tests.gallery.mistake import NUMPY, Mistake


def mean(x: Array) -> Array:
    return x.mean(axis=-1, keepdims=True)


def layernorm(name: str, why: str, formula: Callable[..., Array]) -> Mistake:
    """``formula`` takes what the backward takes, and returns dx."""

    def backward(dy: Array, x_hat: Array, rstd: Array, weight: Array) -> tuple[Array, ...]:
        _, dweight, dbias = layernorm_backward(dy, x_hat, rstd, weight)
        return formula(dy, x_hat, rstd, weight), dweight, dbias

    return Mistake(name, why, "layernorm", "layernorm", {"layernorm_backward": backward})


def parameters(name: str, why: str, dweight: Callable[..., Array]) -> Mistake:
    def backward(dy: Array, x_hat: Array, rstd: Array, weight: Array) -> tuple[Array, ...]:
        dx, _, dbias = layernorm_backward(dy, x_hat, rstd, weight)
        return dx, dweight(dy, x_hat, weight).reshape(-1, len(weight)).sum(axis=0), dbias

    return Mistake(name, why, "layernorm", "layernorm", {"layernorm_backward": backward})


def forward_with(rstd_of: Callable[..., Array]) -> Callable[..., Any]:
    """LayerNorm's forward with another way from (centred x, ε) to 1 / deviation."""

    def forward(x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, ...]:
        centred = x - mean(x)
        rstd = rstd_of(centred, eps)
        return centred * rstd * weight + bias, centred * rstd, rstd

    return forward


def sample_rstd(centred: Array, eps: float) -> Array:
    """1 / √(variance + ε) with the variance divided by n - 1."""
    n = centred.shape[-1]
    return 1 / np.sqrt(mean(centred * centred) * (n / (n - 1)) + eps)


def sample_backward(dy: Array, x_hat: Array, rstd: Array, weight: Array) -> tuple[Array, ...]:
    """The right derivative of that other forward."""
    n, g = dy.shape[-1], dy * weight
    dx = rstd * (g - mean(g) - x_hat * (g * x_hat).sum(axis=-1, keepdims=True) / (n - 1))
    return dx, *layernorm_backward(dy, x_hat, rstd, weight)[1:]


def rstd_with_eps_outside(centred: Array, eps: float) -> Array:
    return 1 / (np.sqrt(mean(centred * centred)) + eps)


def add_norm(name: str, why: str, formula: Callable[..., tuple[Array, Array]]) -> Mistake:
    """``formula`` takes the right dx and dresidual, and returns wrong ones."""

    def backward(
        dy: Array, x_hat: Array, rstd: Array, weight: Array, rate: float, seed: int
    ) -> tuple[Array, ...]:
        dx, dresidual, *rest = NUMPY.add_norm_backward(dy, x_hat, rstd, weight, rate, seed)
        return *formula(dx, dresidual), *rest

    return Mistake(name, why, "add_norm", "add_norm", {"add_norm_backward": backward})


def sums_by_n_minus_1(dy: Array, x_hat: Array, rstd: Array, weight: Array) -> Array:
    n, g = dy.shape[-1], dy * weight
    return rstd * (g - mean(g) - x_hat * mean(g * x_hat) * (n / (n - 1)))


MISTAKES = [
    layernorm(
        "γ outside LayerNorm's means",
        "γ multiplies dy before the means are taken; outside it is right only while γ is constant.",
        lambda dy, x_hat, rstd, w: rstd * w * (dy - mean(dy) - x_hat * mean(dy * x_hat)),
    ),
    layernorm(
        "missing mean term",
        "x also moves the mean that is subtracted from every column.",
        lambda dy, x_hat, rstd, w: rstd * (dy * w - x_hat * mean(dy * w * x_hat)),
    ),
    layernorm(
        "missing variance term",
        "x also moves the deviation that every column is divided by.",
        lambda dy, x_hat, rstd, w: rstd * (dy * w - mean(dy * w)),
    ),
    layernorm(
        "mean and variance taken as constants",
        "dx = γ dy / σ is the slope of a scale and a shift that do not depend on x.",
        lambda dy, x_hat, rstd, w: rstd * dy * w,
    ),
    layernorm(
        "n - 1 in the backward",
        "The forward's variance divides by n, so the backward's mean must too.",
        sums_by_n_minus_1,
    ),
    layernorm(
        "γ forgotten in dx",
        "γ scales the output, so it scales the gradient on its way back.",
        lambda dy, x_hat, rstd, w: rstd * (dy - mean(dy) - x_hat * mean(dy * x_hat)),
    ),
    layernorm(
        "1/σ forgotten",
        "The bracket is right, but x̂ moves by 1/σ for every unit of x.",
        lambda dy, x_hat, rstd, w: dy * w - mean(dy * w) - x_hat * mean(dy * w * x_hat),
    ),
    layernorm(
        "means over the rows",
        "axis=0 is batch normalisation's; LayerNorm averages over the columns of one row.",
        lambda dy, x_hat, rstd, w: (
            rstd * (dy * w - (dy * w).mean(axis=0) - x_hat * (dy * w * x_hat).mean(axis=0))
        ),
    ),
    parameters(
        "dγ without x̂",
        "That is dβ; γ is multiplied by x̂, so x̂ is its slope.",
        lambda dy, x_hat, w: dy,
    ),
    parameters(
        "dγ with γ in it",
        "γ is in dx̂, which is at hand, but dγ = Σ dy x̂ needs dy itself.",
        lambda dy, x_hat, w: dy * w * x_hat,
    ),
    Mistake(
        "n - 1 variance in forward and backward",
        "The two agree, so no gradient check can see it; published weights expect n.",
        "layernorm",
        "layernorm, value by hand",
        {"layernorm_forward": forward_with(sample_rstd), "layernorm_backward": sample_backward},
        weak="layernorm",
    ),
    Mistake(
        "n - 1 variance in the forward",
        "np.std(ddof=1) or torch.std by default; the backward still assumes n.",
        "layernorm",
        "layernorm",
        {"layernorm_forward": forward_with(sample_rstd)},
    ),
    Mistake(
        "ε outside the root",
        "1 / (σ + ε) has another slope than 1 / √(σ² + ε), and ε = 1e-12 is lost in rounding.",
        "layernorm",
        "layernorm",
        {"layernorm_forward": forward_with(rstd_with_eps_outside)},
    ),
    add_norm(
        "residual branch forgotten",
        "The sum hands its gradient to both terms; without the residual's no depth is trainable.",
        lambda dx, dresidual: (dx, 0 * dresidual),
    ),
    add_norm(
        "dropout on the residual too",
        "Only the sub-layer's output was dropped; the residual passes untouched.",
        lambda dx, dresidual: (dx, dx),
    ),
    add_norm(
        "no dropout in the backward",
        "What was set to zero on the way up has no gradient on the way down.",
        lambda dx, dresidual: (dresidual, dresidual),
    ),
    add_norm(
        "gradient halved between the two terms",
        "A sum copies its gradient to its terms; it does not share it out.",
        lambda dx, dresidual: (dx / 2, dresidual / 2),
    ),
]
