"""Lesson 2: the linear layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from minibert.arrays import Array
from minibert.course.exercise import Case, Exercise, Slip, Term
from minibert.layers.linear import linear_backward, linear_forward


def rows(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])


def draw_sizes(generator: np.random.Generator) -> tuple[int, int, int, int]:
    """Return two sizes for the rows, then C_in and C_out.

    Where the first is 2, all differ, as in the case that shapes are compared in.  Else W is
    square, as in BERT's attention: there W in place of Wᵀ fits, and its numbers betray it.
    """
    A, B, C_in, C_out = (int(size) for size in generator.permutation([2, 3, 4, 5]))
    return A, B, C_in, C_out if A == 2 else C_in


# --- forward


def forward_by_hand() -> Case:
    return Case(
        {
            "x": np.array([[[1.0, 2], [3, 0]]]),
            "weight": np.array([[1.0, 1], [2, 0], [0, -1]]),
            "bias": np.array([0.0, 1, 10]),
        }
    )


def draw_forward(generator: np.random.Generator) -> Case:
    A, B, C_in, C_out = draw_sizes(generator)
    x, weight, bias = (
        generator.normal(size=shape) for shape in ((A, B, C_in), (C_out, C_in), C_out)
    )
    return Case({"x": x, "weight": weight, "bias": bias})


FORWARD = Exercise(
    lesson=2,
    answer=linear_forward,
    outputs=("y",),
    by_hand=forward_by_hand,
    draw=draw_forward,
    hints=(
        "Which axis of x and which axis of weight have the same length, and so are summed over?",
        "x @ something has the shape (..., C_out).  The last axis of x meets the first axis of "
        "what stands right of @, so that has to be (C_in, C_out).",
        "x @ weight.T + bias: broadcasting adds the bias to every row.",
    ),
    slips=(
        Slip(
            "the weight is not transposed",
            "weights are stored as (out, in), one row per output, so x meets Wᵀ; a square W fits "
            "either way, and only its numbers tell.",
            lambda x, weight, bias: x @ weight + bias,
        ),
        Slip(
            "y is laid out in columns",
            "W x is the formula for an x that is one column; here every x is a row, so it is x Wᵀ.",
            lambda x, weight, bias: weight @ np.swapaxes(x, -1, -2) + bias[:, None],
        ),
        Slip(
            "the products are averaged over the inputs",
            "every output is a sum over the inputs; nothing divides it by C_in.",
            lambda x, weight, bias: x @ weight.T / x.shape[-1] + bias,
        ),
        Slip(
            "the bias is multiplied, not added",
            "y = x Wᵀ + b: the bias is what y is where x is 0.",
            lambda x, weight, bias: x @ weight.T * bias,
        ),
        Slip(
            "an activation is applied as well",
            "what is below 0 stays below 0: a linear layer does not bend, that is the next "
            "layer's work.",
            lambda x, weight, bias: np.maximum(x @ weight.T + bias, 0),
        ),
        Slip(
            "the rows are not put back into their axes",
            "y has the leading axes of x; @ keeps them by itself, so no reshape is needed.",
            lambda x, weight, bias: rows(x) @ weight.T + bias,
        ),
    ),
    terms={
        "y": (
            Term(
                "bias",
                "y = x Wᵀ + b, with the same b in every row.",
                lambda x, weight, bias: bias + np.zeros((*x.shape[:-1], 1)),
            ),
        )
    },
)


# --- backward


def backward_case(x: Array, weight: Array, dy: Array) -> Case:
    bias = np.zeros(len(weight))

    def loss() -> float:
        return float(np.sum(dy * linear_forward(x, weight, bias)))

    return Case(
        {"dy": dy, "x": x, "weight": weight},
        loss,
        {"dx": x, "dweight": weight, "dbias": bias},
    )


def backward_by_hand() -> Case:
    x, weight, _ = forward_by_hand().arguments.values()
    return backward_case(x, weight, np.array([[[1.0, 0, 2], [0, 1, 0]]]))


def draw_backward(generator: np.random.Generator) -> Case:
    A, B, C_in, C_out = draw_sizes(generator)
    return backward_case(
        generator.normal(size=(A, B, C_in)),
        generator.normal(size=(C_out, C_in)),
        generator.normal(size=(A, B, C_out)),
    )


def backward_with(name: str, formula: Any) -> Any:
    """The backward with one of its results replaced."""

    def backward(dy: Array, x: Array, weight: Array) -> tuple[Array, ...]:
        found = dict(zip(BACKWARD.outputs, linear_backward(dy, x, weight), strict=True))
        found[name] = formula(dy, x, weight)
        return tuple(found.values())

    return backward


BACKWARD = Exercise(
    lesson=2,
    answer=linear_backward,
    outputs=("dx", "dweight", "dbias"),
    by_hand=backward_by_hand,
    draw=draw_backward,
    hints=(
        "For each of x, W and b: which numbers of y does it reach, in which rows?  That is what "
        "its gradient sums over.",
        "An x reaches all outputs of its own row: sum over the outputs.  A weight reaches one "
        "output of every row, and so does a bias: sum over the rows.  Make one axis of all rows "
        "with reshape(-1, ...).",
        "dx = dy @ weight.  With rows_dy = dy.reshape(-1, dy.shape[-1]) and rows_x likewise:  "
        "dweight = rows_dy.T @ rows_x,  dbias = rows_dy.sum(axis=0).",
    ),
    slips=(
        Slip(
            "W is transposed in dx",
            "the forward multiplies by Wᵀ, the backward by W: dx sums over the outputs, and those "
            "are W's rows.  A square W fits either way.",
            backward_with("dx", lambda dy, x, w: dy @ w.T),
        ),
        Slip(
            "dx is made from x, not from dy",
            "the slope of x Wᵀ is W, whatever x is; what it multiplies is the gradient that "
            "arrives.",
            backward_with("dx", lambda dy, x, w: x @ w),
        ),
        Slip(
            "dW is transposed",
            "xᵀ dy has the layout (in, out); weights are stored as (out, in), and their gradient "
            "lies like them: dyᵀ x.",
            backward_with("dweight", lambda dy, x, w: rows(x).T @ rows(dy)),
        ),
        Slip(
            "dW is averaged over the rows",
            "a weight is used in every row, and its gradients add up; a mean over rows is the "
            "loss's business, once.",
            backward_with("dweight", lambda dy, x, w: rows(dy).T @ rows(x) / len(rows(x))),
        ),
        Slip(
            "dW is that of the first sequence only",
            "every sequence of the batch used the same W, so all of them are summed over.",
            backward_with("dweight", lambda dy, x, w: dy[0].T @ x[0]),
        ),
        Slip(
            "dW has a matrix for every sequence",
            "there is one W for the whole batch, so its gradient sums over the sequences too.",
            backward_with("dweight", lambda dy, x, w: np.swapaxes(dy, -1, -2) @ x),
        ),
        Slip(
            "dW is made from W, not from x",
            "the slope of y at a weight is the x that it multiplies.",
            backward_with("dweight", lambda dy, x, w: rows(dy).T @ rows(dy @ w)),
        ),
        Slip(
            "db is that of one row only",
            "the bias was added to every row, so the gradients of all rows add up.",
            backward_with("dbias", lambda dy, x, w: rows(dy)[0].copy()),
        ),
        Slip(
            "db is averaged over the rows",
            "what is broadcast forward is summed backward; with a mean the bias learns N times "
            "too slowly.",
            backward_with("dbias", lambda dy, x, w: rows(dy).mean(axis=0)),
        ),
        Slip(
            "db has the weight in it",
            "the bias is added after the product, and never passes through W.",
            backward_with("dbias", lambda dy, x, w: rows(dy @ w).sum(axis=0)),
        ),
        Slip(
            "db is not summed at all",
            "dy has one gradient for every row; the bias is one vector for all of them.",
            backward_with("dbias", lambda dy, x, w: dy.copy()),
        ),
        Slip(
            "db is summed over the first axis only",
            "rows fill all axes but the last: sequences and tokens are both summed over.",
            backward_with("dbias", lambda dy, x, w: dy.sum(axis=0)),
        ),
        Slip(
            "db is summed over the outputs",
            "each output has its own bias, so the last axis stays and all others are summed.",
            backward_with("dbias", lambda dy, x, w: dy.sum(axis=-1)),
        ),
    ),
    sizes=lambda dy, x, weight: {
        "the number of rows": dy.size // dy.shape[-1],
        "C_in": x.shape[-1],
        "C_out": dy.shape[-1],
    },
)

EXERCISES = (FORWARD, BACKWARD)
