"""Lesson 9: one attention head."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minibert.arrays import Array
from minibert.course.exercise import Case, Exercise, Slip
from minibert.layers.attention import (
    scores_backward,
    scores_forward,
    weighted_mean_backward,
    weighted_mean_forward,
)
from minibert.layers.softmax import softmax_backward, softmax_forward

LN3 = math.log(3)
Q = np.array([[2.0, 0, 0, 0]])  # one query: its scores are 0 and ln 3, its weights ¼ and ¾
K = np.array([[0.0, 1, 0, 0], [LN3, 0, 0, 0]])
V = np.array([[4.0, 0, 1, 0], [8.0, 4, 1, 0]])


def normal(generator: np.random.Generator, *shapes: tuple[int, ...]) -> list[Array]:
    return [generator.normal(size=shape) for shape in shapes]


def draw_sizes(generator: np.random.Generator) -> tuple[int, int, int, int]:
    """Return B, T, S and D, all different."""
    B, T, S, D = (int(size) for size in generator.permutation([2, 3, 5, 7]))
    return B, T, S, D


def width(x: Array) -> int:
    return x.shape[-1]


def turned(x: Array) -> Array:
    return x.swapaxes(-1, -2)


# --- scores


def draw_scores(generator: np.random.Generator) -> Case:
    B, T, S, D = draw_sizes(generator)
    q, k = normal(generator, (B, T, D), (B, S, D))
    return Case({"q": q, "k": k})


def unit(x: Array) -> Array:
    return x / np.sqrt(np.square(x).sum(axis=-1, keepdims=True))


SCORES = Exercise(
    lesson=9,
    answer=scores_forward,
    outputs=("scores",),
    by_hand=lambda: Case({"q": Q, "k": K}),
    draw=draw_scores,
    hints=(
        "Every query meets every key in a dot product over the D columns.  Which matrix product "
        "has all T · S of them at once?",
        "q (.., T, D) times k turned over, (.., D, S).  k.T would exchange all axes, the batch's "
        "too: k.swapaxes(-1, -2) exchanges the last two.",
        "scores = q @ k.swapaxes(-1, -2) / math.sqrt(D), with D = q.shape[-1].",
    ),
    slips=(
        Slip(
            "the root of D is missing",
            "without it the scores' deviation is √D, and softmax puts all its weight on one key.",
            lambda q, k: q @ turned(k),
        ),
        Slip(
            "the scores are divided by D, not by its root",
            "the variance is D, so the deviation is √D: divided by D, the scores are close to 0 "
            "and all weights close to equal.",
            lambda q, k: q @ turned(k) / width(q),
        ),
        Slip(
            "the scores are multiplied by the root of D",
            "dividing brings their variance back from D to 1; this makes it D².",
            lambda q, k: q @ turned(k) * math.sqrt(width(q)),
        ),
        Slip(
            "the root is of the number of keys",
            "a score is a sum over the D columns, so D decides how large it is; S does not.",
            lambda q, k: q @ turned(k) / math.sqrt(k.shape[-2]),
        ),
        Slip(
            "the root is of the number of queries",
            "a score is a sum over the D columns, so D decides how large it is; T does not.",
            lambda q, k: q @ turned(k) / math.sqrt(q.shape[-2]),
        ),
        Slip(
            "the softmax is in it already",
            "scores are what softmax gets: it follows as a step of its own.",
            lambda q, k: softmax_forward(scores_forward(q, k)),
        ),
        Slip(
            "queries and keys are made unit vectors first",
            "this is the cosine.  Attention's score is the plain dot product: the length of a key "
            "counts.",
            lambda q, k: unit(q) @ turned(unit(k)),
        ),
    ),
    sizes=lambda q, k: {"D": width(q), "S": k.shape[-2], "T": q.shape[-2]},
)


# --- the weighted mean, back


def mean_case(weights: Array, v: Array, dcontext: Array) -> Case:
    return Case(
        {"dcontext": dcontext, "weights": weights, "v": v},
        lambda: float(np.sum(dcontext * weighted_mean_forward(weights, v))),
        {"dweights": weights, "dv": v},
    )


def draw_mean(generator: np.random.Generator) -> Case:
    B, T, S, D = draw_sizes(generator)
    scores, v, dcontext = normal(generator, (B, T, S), (B, S, D), (B, T, D))
    return mean_case(softmax_forward(scores), v, dcontext)


def mean_with(dweights: Any = None, dv: Any = None) -> Any:
    def backward(dcontext: Array, weights: Array, v: Array) -> tuple[Array, Array]:
        right = weighted_mean_backward(dcontext, weights, v)
        return (
            dweights(dcontext, weights, v) if dweights else right[0],
            dv(dcontext, weights, v) if dv else right[1],
        )

    return backward


MEAN = Exercise(
    lesson=9,
    answer=weighted_mean_backward,
    outputs=("dweights", "dv"),
    by_hand=lambda: mean_case(np.array([[0.25, 0.75]]), V, np.array([[1.0, 0, 0, 0]])),
    draw=draw_mean,
    hints=(
        "context = weights @ v is a matrix product, as in a linear layer.  What does each of two "
        "factors get?",
        "Each factor's gradient is dcontext times the other factor turned over; the shapes leave "
        "one way to put the two together.",
        "dweights = dcontext @ v.swapaxes(-1, -2);  dv = weights.swapaxes(-1, -2) @ dcontext.",
    ),
    slips=(
        Slip(
            "dweights has the weights in it",
            "weights · dcontext vᵀ is the first half of softmax's backward, which comes next; the "
            "slope of weights · v in the weights is v alone.",
            mean_with(lambda dc, w, v: w * (dc @ turned(v))),
        ),
        Slip(
            "softmax's backward is in dweights already",
            "it is a step of its own: this function knows the weights, not where they come from.",
            mean_with(lambda dc, w, v: softmax_backward(dc @ turned(v), w)),
        ),
        Slip(
            "1/√D is in dweights",
            "the root belongs to the scores; the mean of the values has no scale.",
            mean_with(lambda dc, w, v: dc @ turned(v) / math.sqrt(width(v))),
        ),
        Slip(
            "dweights is made of products, not of their sums over the columns",
            "every weight multiplies a whole vector v_j, so all D columns add to its gradient.",
            mean_with(lambda dc, w, v: dc[..., :1] @ turned(v[..., :1])),
        ),
        Slip(
            "dv is spread evenly over the keys",
            "a value that had no weight had no part in the context: it gets dcontext by its "
            "weight.",
            mean_with(None, lambda dc, w, v: np.full_like(turned(w), 1 / width(w)) @ dc),
        ),
        Slip(
            "dv has no weights in it",
            "a value enters the context multiplied by its weight, so its gradient is too.",
            mean_with(None, lambda dc, w, v: np.ones_like(turned(w)) @ dc),
        ),
        Slip(
            "dv is made from v",
            "v's slope is the weights: each factor of a product is the other's derivative.",
            mean_with(None, lambda dc, w, v: w.sum(axis=-2)[..., None] * v),
        ),
        Slip(
            "dv is that of the first query only",
            "all queries read the same values, so the gradients of all of them add up.",
            mean_with(None, lambda dc, w, v: turned(w)[..., :1] @ dc[..., :1, :]),
        ),
    ),
    sizes=lambda dcontext, weights, v: {
        "D": width(v),
        "S": width(weights),
        "T": weights.shape[-2],
    },
)


# --- the scores, back


def scores_case(q: Array, k: Array, dscores: Array) -> Case:
    return Case(
        {"dscores": dscores, "q": q, "k": k},
        lambda: float(np.sum(dscores * scores_forward(q, k))),
        {"dq": q, "dk": k},
    )


def draw_scores_backward(generator: np.random.Generator) -> Case:
    B, T, S, D = draw_sizes(generator)
    return scores_case(*normal(generator, (B, T, D), (B, S, D), (B, T, S)))


def scores_with(dq: Any = None, dk: Any = None) -> Any:
    """Both take g = dscores / √D, q and k."""

    def backward(dscores: Array, q: Array, k: Array) -> tuple[Array, Array]:
        right = scores_backward(dscores, q, k)
        g = dscores / math.sqrt(width(q))
        return dq(g, q, k) if dq else right[0], dk(g, q, k) if dk else right[1]

    return backward


def scaled(scale: Any) -> Any:
    """``scale`` takes D, T and S."""

    def backward(dscores: Array, q: Array, k: Array) -> tuple[Array, Array]:
        g = dscores * scale(width(q), q.shape[-2], k.shape[-2])
        return g @ k, turned(g) @ q

    return backward


SCORES_BACKWARD = Exercise(
    lesson=9,
    answer=scores_backward,
    outputs=("dq", "dk"),
    by_hand=lambda: scores_case(Q, K, np.array([[-0.75, 0.75]])),
    draw=draw_scores_backward,
    hints=(
        "What did the forward do to the product q kᵀ, and where does that come back?",
        "The forward divided by √D, so both gradients are divided by √D.  Then it is a product of "
        "two factors again: dq is made with k, dk with q.",
        "dscores = dscores / math.sqrt(D);  dq = dscores @ k;  dk = dscores.swapaxes(-1, -2) @ q.",
    ),
    slips=(
        Slip(
            "1/√D is missing on the way back",
            "the forward divided by √D, and a constant factor comes back as the same factor.",
            scaled(lambda D, T, S: 1.0),
        ),
        Slip(
            "1/D stands for 1/√D",
            "q kᵀ was divided by √D once, so the gradient is too; dividing q and k by √D each "
            "would be twice.",
            scaled(lambda D, T, S: 1 / D),
        ),
        Slip(
            "√D multiplies where it divides",
            "a factor comes back as the same factor, not as its inverse.",
            scaled(lambda D, T, S: math.sqrt(D)),
        ),
        Slip(
            "the root is of the number of keys",
            "the forward's factor was 1/√D, whatever the number of keys.",
            scaled(lambda D, T, S: 1 / math.sqrt(S)),
        ),
        Slip(
            "dq is made from q",
            "q's slope is k: each factor of a product is the other's derivative.",
            scores_with(lambda g, q, k: g.sum(axis=-1, keepdims=True) * q),
        ),
        Slip(
            "dk is made from k",
            "k's slope is q: each factor of a product is the other's derivative.",
            scores_with(None, lambda g, q, k: g.sum(axis=-2)[..., None] * k),
        ),
        Slip(
            "dq is a mean over the keys",
            "every key's score sends its gradient back whole: they are added.",
            scores_with(lambda g, q, k: g @ k / k.shape[-2]),
        ),
        Slip(
            "dk is a mean over the queries",
            "every query's score sends its gradient back whole: they are added.",
            scores_with(None, lambda g, q, k: turned(g) @ q / q.shape[-2]),
        ),
        Slip(
            "dk is that of the first query only",
            "a key is met by all queries, so the gradients of all of them add up.",
            scores_with(None, lambda g, q, k: turned(g)[..., :1] @ q[..., :1, :]),
        ),
    ),
    sizes=lambda dscores, q, k: {"D": width(q), "S": k.shape[-2], "T": q.shape[-2]},
)

EXERCISES = (SCORES, MEAN, SCORES_BACKWARD)
