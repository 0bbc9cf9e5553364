"""Lesson 3: softmax and cross-entropy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minibert.arrays import IGNORED, Array
from minibert.course.exercise import Case, Exercise, Rows, Slip, Term
from minibert.layers.cross_entropy import (
    cross_entropy_backward,
    cross_entropy_forward,
    row_losses,
)
from minibert.layers.softmax import softmax_backward, softmax_forward

# --- softmax, backward


def total(x: Array) -> Array:
    return x.sum(axis=-1, keepdims=True)


def softmax_case(x: Array, dy: Array) -> Case:
    def loss() -> float:
        return float(np.sum(dy * softmax_forward(x)))

    return Case({"dy": dy, "y": softmax_forward(x)}, loss, {"dx": x})


def softmax_by_hand() -> Case:
    return softmax_case(np.log(np.array([[[2.0, 1, 1]]])), np.array([[[1.0, 0, 0]]]))


def draw_softmax(generator: np.random.Generator) -> Case:
    shape = tuple(generator.permutation([2, 3, 5, 7])[:3])
    return softmax_case(generator.normal(size=shape), generator.normal(size=shape))


SOFTMAX = Exercise(
    lesson=3,
    answer=softmax_backward,
    outputs=("dx",),
    by_hand=softmax_by_hand,
    draw=draw_softmax,
    hints=(
        "One score moves all probabilities of its row: by how much its own, and by how much each "
        "other?",
        "dx_j is y_j times a difference: dy_j minus one number that the whole row shares.  That "
        "number is a sum over the last axis.",
        "y * (dy - s), with s = (dy * y).sum(axis=-1, keepdims=True).",
    ),
    slips=(
        Slip(
            "softmax is taken as if element by element",
            "y (1 - y) is how a probability moves with its own score; it moves with all others "
            "of its row as well.",
            lambda dy, y: dy * y * (1 - y),
        ),
        Slip(
            "the sum is not weighted by y",
            "what the row shares is the sum of dy · y, the mean gradient as the probabilities "
            "weigh it.",
            lambda dy, y: y * (dy - total(dy)),
        ),
        Slip(
            "the sum runs over the wrong axis",
            "probabilities add up to 1 along the last axis, so that is where they depend on each "
            "other.",
            lambda dy, y: y * (dy - (dy * y).sum(axis=-2, keepdims=True)),
        ),
        Slip(
            "the sum runs over all rows",
            "a sum without axis= mixes the rows; each row is a softmax of its own.",
            lambda dy, y: y * (dy - (dy * y).sum()),
        ),
        Slip(
            "a mean stands where the sum belongs",
            "the weights y add up to 1 already, so dividing by their number weighs twice.",
            lambda dy, y: y * (dy - (dy * y).mean(axis=-1, keepdims=True)),
        ),
        Slip(
            "the y in front is missing",
            "the bracket is right, but a probability near 0 hardly moves, so each score's "
            "gradient is scaled by its own y.",
            lambda dy, y: dy - total(dy * y),
        ),
        Slip(
            "softmax is taken of y again",
            "y is the forward's output, so it holds the probabilities already.",
            lambda dy, y: softmax_backward(dy, softmax_forward(y)),
        ),
    ),
    terms={
        "dx": (
            Term(
                "sum term",
                "every score is in the normaliser of its row, which divides all probabilities: "
                "- y · Σ dy y.",
                lambda dy, y: -y * total(dy * y),
            ),
        )
    },
    sizes=lambda dy, y: {"T": y.shape[-1], "the number of rows": y.size // y.shape[-1]},
)

# --- the loss of each row

HIGH = 800.0  # e^800 is more than a float64 can hold, and e^-800 less


def losses_by_hand() -> Case:
    return Case(
        {
            "logits": np.log(np.array([[2.0, 1, 1], [2, 1, 1], [2, 1, 1]])),
            "labels": np.array([0, 2, IGNORED]),
        }
    )


def draw_labels(generator: np.random.Generator, N: int, V: int) -> Array:
    """Return labels with 0, with one that comes twice, and with two ignored ones."""
    labels = generator.integers(1, V, size=N)
    labels[:5] = IGNORED, 0, V - 1, V - 1, IGNORED
    return labels


def draw_losses(generator: np.random.Generator) -> Case:
    """Two of the rows would overflow: one is high as a whole, one has its label far down."""
    N, V = int(generator.integers(8, 11)), int(generator.integers(4, 7))
    logits, labels = generator.normal(size=(N, V)) * 2, draw_labels(generator, N, V)
    logits[-1] += HIGH
    logits[-2, labels[-2]] -= HIGH
    return Case({"logits": logits, "labels": labels})


def is_high(logits: Array, labels: Array) -> Array:
    return (logits.max(axis=-1) > HIGH / 2) & (labels != IGNORED)


def is_far(logits: Array, labels: Array) -> Array:
    return (logits.min(axis=-1) < -HIGH / 2) & (labels != IGNORED)


def losses_with(formula: Callable[..., Array]) -> Any:
    """``formula`` takes the shifted logits, those at the label, log Σ e^x, the maximum.

    All but the first are (N,); what comes out is set to 0 in ignored rows.
    """

    def losses(logits: Array, labels: Array) -> Array:
        counted = labels != IGNORED
        top = logits.max(axis=-1)
        shifted = logits - top[:, None]
        target = np.take_along_axis(shifted, np.where(counted, labels, 0)[:, None], -1)[:, 0]
        found = formula(shifted, target, np.log(np.exp(shifted).sum(axis=-1)), top)
        return np.where(counted, found, 0)

    return losses


def label_term(logits: Array, labels: Array) -> Array:
    return losses_with(lambda shifted, target, log_total, top: -target)(logits, labels)


OVERFLOW = (
    "e^x of a large x is inf.  Take each row's maximum off first: the loss stays the same, and "
    "no power is above 1."
)
UNDERFLOW = (
    "a probability that has rounded to 0 has no logarithm.  log Σ e^x - x_label never forms the "
    "probability."
)

LOSSES = Exercise(
    lesson=3,
    answer=row_losses,
    outputs=("losses",),
    by_hand=losses_by_hand,
    draw=draw_losses,
    hints=(
        "What is log(e^a / s), written without a division?  And what becomes of s if the same "
        "number is taken off all logits of a row?",
        "shifted = logits minus each row's maximum (keepdims=True).  The loss is the log of the "
        "sum of e^shifted, minus shifted at the label.  -100 is no column: look up another one "
        "in its place, and set the row to 0 afterwards.",
        "counted = labels != IGNORED;  safe = np.where(counted, labels, 0);  target = "
        "shifted[np.arange(len(labels)), safe];  np.where(counted, log_total - target, 0).",
    ),
    slips=(
        Slip(
            "ignored rows are taken as label 0",
            "-100 became 0 so that the look-up works, and then the row was not set to 0: nothing "
            "is known about it, so it costs nothing.",
            lambda logits, labels: row_losses(logits, np.where(labels == IGNORED, 0, labels)),
        ),
        Slip(
            "label 0 is taken as ignored",
            "0 is the first class; only -100 is ignored, so compare with IGNORED.",
            lambda logits, labels: row_losses(logits, np.where(labels > 0, labels, IGNORED)),
        ),
        Slip(
            "the label's logit is not shifted",
            "the maximum is taken off in Σ e^x but not in x_label: both or neither.",
            losses_with(lambda shifted, target, log_total, top: log_total - (target + top)),
        ),
        Slip(
            "only the label's logit is shifted",
            "the maximum was put back into log Σ e^x but not into x_label: both or neither.",
            losses_with(lambda shifted, target, log_total, top: log_total + top - target),
        ),
        Slip(
            "the label's logit is missing",
            "log Σ e^x is the logarithm of the normaliser; the loss is that minus x_label.",
            losses_with(lambda shifted, target, log_total, top: log_total + top),
        ),
        Slip(
            "the logarithm of the sum is missing",
            "-log(e^a / s) = log s - a, and not s - a.",
            losses_with(lambda shifted, target, log_total, top: np.exp(log_total) - target),
        ),
        Slip(
            "the loss is 1 - p, not -log p",
            "that is bounded, and hardly pulls where the model is sure and wrong.",
            losses_with(lambda shifted, target, log_total, top: 1 - np.exp(target - log_total)),
        ),
        Slip(
            "the logarithm has base 2",
            "loss and gradient fit together only with the natural logarithm, np.log.",
            losses_with(lambda shifted, target, log_total, top: (log_total - target) / np.log(2)),
        ),
        Slip(
            "the losses are summed up already",
            "one loss for each row is asked for, of shape (N,); whoever knows all rows adds "
            "them up.",
            lambda logits, labels: row_losses(logits, labels).sum(),
        ),
        Slip(
            "the losses are averaged already",
            "one loss for each row is asked for, of shape (N,); whoever knows all rows divides.",
            lambda logits, labels: row_losses(logits, labels).sum() / (labels != IGNORED).sum(),
        ),
        Slip(
            "ignored rows are left out",
            "there is one loss for each row of logits, 0 in an ignored one, so that rows keep "
            "their places.",
            lambda logits, labels: row_losses(logits, labels)[labels != IGNORED],
        ),
    ),
    terms={
        "losses": (
            Term(
                "label's logit",
                "log Σ e^x is the logarithm of the normaliser; the loss is that minus x_label.",
                label_term,
            ),
        )
    },
    rows={
        "losses": (
            Rows("rows with large logits overflow", OVERFLOW, is_high),
            Rows("rows whose label is very unlikely are lost", UNDERFLOW, is_far),
            Rows(
                "one maximum is taken for all rows",
                "far below the highest row every e^x is 0, and log 0 is -inf: each row needs "
                "its own maximum, axis=-1.",
                lambda logits, labels: ~is_high(logits, labels) & (labels != IGNORED),
            ),
            Rows(
                "the logarithm is taken of a probability",
                f"{OVERFLOW}  Then, {UNDERFLOW}",
                lambda logits, labels: is_high(logits, labels) | is_far(logits, labels),
            ),
            Rows(
                "ignored rows have a loss",
                "a label of -100 says that nothing is known about the row: its loss is 0.",
                lambda logits, labels: labels == IGNORED,
            ),
        )
    },
)

# --- cross-entropy, backward


def backward_case(logits: Array, labels: Array, dloss: float) -> Case:
    def loss() -> float:
        return dloss * cross_entropy_forward(logits, labels)[0]

    probs = softmax_forward(logits)
    return Case({"dloss": dloss, "probs": probs, "labels": labels}, loss, {"dlogits": logits})


def backward_by_hand() -> Case:
    arguments = losses_by_hand().arguments
    return backward_case(arguments["logits"], arguments["labels"], 0.5)


def draw_backward(generator: np.random.Generator) -> Case:
    N, V = int(generator.integers(8, 11)), int(generator.integers(4, 7))
    logits, labels = generator.normal(size=(N, V)), draw_labels(generator, N, V)
    return backward_case(logits, labels, float(generator.uniform(0.2, 0.8)))


def dlogits_with(formula: Callable[..., Array]) -> Any:
    """``formula`` takes dloss, probs, the labels as one-hot rows, and counted (N, 1)."""

    def backward(dloss: float, probs: Array, labels: Array) -> Array:
        counted = labels != IGNORED
        one_hot = np.zeros_like(probs)
        one_hot[np.flatnonzero(counted), labels[counted]] = 1
        return formula(dloss, probs, one_hot, counted[:, None])

    return backward


BACKWARD = Exercise(
    lesson=3,
    answer=cross_entropy_backward,
    outputs=("dlogits",),
    by_hand=backward_by_hand,
    draw=draw_backward,
    hints=(
        "What is the derivative of log Σ e^x with respect to one x?  You have met the result "
        "before.",
        "Begin with a new array, probs * dloss.  At each label's place dloss is taken off; an "
        "ignored row is 0 and has no such place.",
        "counted = labels != IGNORED;  dlogits = np.where(counted[:, None], probs * dloss, 0);  "
        "rows = np.flatnonzero(counted);  dlogits[rows, labels[rows]] -= dloss.",
    ),
    slips=(
        Slip(
            "ignored rows get a gradient",
            "they have no part in the loss, so nothing may be changed on their account.",
            dlogits_with(lambda d, p, hot, counted: d * (p - hot)),
        ),
        Slip(
            "ignored rows are taken as label 0",
            "-100 became 0 so that the look-up works, and then the row was not set to 0.",
            dlogits_with(
                lambda d, p, hot, counted: d * (p - hot - ~counted * np.eye(p.shape[1])[0])
            ),
        ),
        Slip(
            "label 0 is taken as ignored",
            "0 is the first class, and would never be learned; only -100 is ignored.",
            dlogits_with(lambda d, p, hot, counted: d * (p - hot) * counted * (1 - hot[:, :1])),
        ),
        Slip(
            "dloss is forgotten",
            "p - 1[label] is the gradient of the sum; what comes after the sum, such as the 1/N "
            "of a mean, arrives as dloss.",
            dlogits_with(lambda d, p, hot, counted: (p - hot) * counted),
        ),
        Slip(
            "dloss multiplies only p",
            "the whole bracket p - 1[label] is multiplied, so dloss is what is taken off at the "
            "label.",
            dlogits_with(lambda d, p, hot, counted: (d * p - hot) * counted),
        ),
        Slip(
            "it is divided by the number of rows",
            "the loss is a sum; if someone makes a mean of it, the 1/N is in dloss already.",
            dlogits_with(lambda d, p, hot, counted: d * (p - hot) * counted / len(p)),
        ),
        Slip(
            "it is divided by the number of counted rows",
            "the loss is a sum; if someone makes a mean of it, the 1/N is in dloss already, and "
            "this would be 1/N².",
            dlogits_with(lambda d, p, hot, counted: d * (p - hot) * counted / counted.sum()),
        ),
        Slip(
            "only the label has a gradient",
            "raising another logit lowers the label's probability, so it has a gradient too: p.",
            dlogits_with(lambda d, p, hot, counted: d * (p - 1) * hot),
        ),
        Slip(
            "softmax's backward is applied twice",
            "p - 1[label] is the gradient of softmax and logarithm together, at the logits.",
            dlogits_with(lambda d, p, hot, counted: d * counted * softmax_backward(p - hot, p)),
        ),
        Slip(
            "it stops at the probabilities",
            "-1/p at the label is the logarithm's gradient alone; softmax's backward is still to "
            "come, and both together are p - 1[label].",
            dlogits_with(lambda d, p, hot, counted: -d * hot / p),
        ),
        Slip(
            "softmax is taken of probs again",
            "probs holds probabilities already.",
            dlogits_with(lambda d, p, hot, counted: d * (softmax_forward(p) - hot) * counted),
        ),
    ),
    terms={
        "dlogits": (
            Term(
                "label's 1",
                "the loss has - x_label in it, so the label's own logit gets - dloss.",
                dlogits_with(lambda d, p, hot, counted: -d * hot),
            ),
        )
    },
    rows={
        "dlogits": (
            Rows(
                "ignored rows are not 0",
                "they have no part in the loss, so nothing may be changed on their account.",
                lambda dloss, probs, labels: labels == IGNORED,
            ),
        )
    },
)

EXERCISES = (SOFTMAX, LOSSES, BACKWARD)
