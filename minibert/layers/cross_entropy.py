"""Softmax cross-entropy: the negative log probability that the model gives to the right answer.

Losses are sums over the rows that count.  Who divides is who knows the whole: with gradient
accumulation that is the number of masked tokens of all micro-batches together.
"""

from __future__ import annotations

import numpy as np

from minibert.arrays import IGNORED, Array, check_float, check_ids, check_number, check_shape
from minibert.layers.softmax import softmax_forward


def cross_entropy_forward(
    logits: Array,  # (N, V)
    labels: Array,  # (N,), integers in [0, V), or IGNORED
) -> tuple[float, Array]:  # sum of the losses, probs (N, V)
    """Return Σ_n -log softmax(logits_n)[label_n] over the rows that are not ignored.

    -log p = log Σ_j e^{x_j} - x_label, formed from the logits: the logarithm of a probability
    that has rounded to 0 would be -inf.  No row at all gives loss 0, not 0/0.
    """
    return float(row_losses(logits, labels).sum(dtype=np.float64)), softmax_forward(logits)


def row_losses(logits: Array, labels: Array) -> Array:  # (N, V), (N,) → (N,)
    """Return each row's log Σ_j e^{x_j} - x_label, 0 for an ignored row.

    The row's maximum is taken off both terms, which changes nothing but keeps e^x from
    overflowing.
    """
    check_cross_entropy(logits, labels)
    counted = labels != IGNORED
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_total = np.log(np.exp(shifted).sum(axis=-1))
    target = np.take_along_axis(shifted, np.where(counted, labels, 0)[:, None], axis=-1)[:, 0]
    return np.where(counted, log_total - target, 0)


def cross_entropy_backward(
    dloss: float,
    probs: Array,  # (N, V)
    labels: Array,  # (N,)
) -> Array:  # dlogits (N, V)
    """Send a gradient back through softmax and logarithm at once.

    loss = log Σ_j e^{x_j} - x_label, and the gradient of the first term is softmax:

        dx_j = dloss (p_j - 1[j = label]),      0 in an ignored row
    """
    check_cross_entropy(probs, labels)
    check_float("probs", probs)
    check_number("dloss", dloss)
    dloss, counted = probs.dtype.type(dloss), labels != IGNORED
    dlogits = np.where(counted[:, None], probs * dloss, probs.dtype.type(0))
    rows = np.flatnonzero(counted)
    dlogits[rows, labels[rows]] -= dloss
    return dlogits


def weighted_cross_entropy_forward(
    logits: Array,  # (N, K)
    labels: Array,  # (N,), integers in [0, K), or IGNORED
    weights: Array,  # (K,), of the classes
) -> tuple[float, Array]:  # sum of the weighted losses, probs (N, K)
    """Return Σ_n w[label_n] loss_n: rare classes may count for more than frequent ones.

    To make it a mean, divide by Σ_n w[label_n].
    """
    check_weights(weights, logits)
    losses = row_losses(logits, labels) * row_weights(labels, weights)
    return float(losses.sum(dtype=np.float64)), softmax_forward(logits)


def weighted_cross_entropy_backward(
    dloss: float,
    probs: Array,  # (N, K)
    labels: Array,  # (N,)
    weights: Array,  # (K,)
) -> Array:  # dlogits (N, K)
    """Send a gradient back: a row's loss was multiplied by a constant, so its gradient is too."""
    check_weights(weights, probs)
    dlogits = cross_entropy_backward(dloss, probs, labels)
    return dlogits * row_weights(labels, weights)[:, None]


def row_weights(labels: Array, weights: Array) -> Array:  # (N,), (K,) → (N,)
    """Return the weight of each row's class, 0 for an ignored row."""
    check_ids("labels", labels, len(weights), ignored=True)
    counted = labels != IGNORED
    return np.where(counted, weights[np.where(counted, labels, 0)], weights.dtype.type(0))


def vocab_cross_entropy_forward(
    x: Array,  # (M, C), the transformed vectors of the masked positions
    table: Array,  # (V, C), the token embedding, used again
    bias: Array,  # (V,)
    labels: Array,  # (M,), integers in [0, V), or IGNORED
) -> tuple[float, int, Array]:  # sum of the losses, right answers, dlogits (M, V)
    """Return the loss of logits = x Eᵀ + b against the labels, and how many labels rank first.

    The logits are by far the largest array of a step.  So they exist once: softmax minus the
    label's 1, which is their gradient up to the factor dloss, takes their place.
    """
    check_shape("table", table, (None, None))
    check_shape("x", x, (None, table.shape[1]))
    check_shape("bias", bias, (table.shape[0],))
    logits = x @ table.T + bias
    loss, probs = cross_entropy_forward(logits, labels)
    right = int(((logits.argmax(axis=-1) == labels) & (labels != IGNORED)).sum()) if len(x) else 0
    return loss, right, cross_entropy_backward(1.0, probs, labels)


def vocab_cross_entropy_backward(
    dloss: float,
    dlogits: Array,  # (M, V), as the forward returned it
    x: Array,  # (M, C)
    table: Array,  # (V, C)
) -> tuple[Array, Array, Array]:  # dx (M, C), dtable (V, C), dbias (V,)
    """Send a gradient back through the tied decoder: a linear layer's backward.

    The table's other use, as embedding, sends it a second gradient; the two add.
    """
    check_number("dloss", dloss)
    dloss = dlogits.dtype.type(dloss)
    dx = (dlogits @ table) * dloss
    dtable = (dlogits.T @ x) * dloss
    return dx, dtable, dlogits.sum(axis=0) * dloss


def check_weights(weights: Array, logits: Array) -> None:
    """Raise unless there is one weight for each class."""
    check_float("logits", logits)
    check_shape("logits", logits, (None, None))
    check_float("weights", weights, like=logits)
    check_shape("weights", weights, (logits.shape[1],))


def check_cross_entropy(logits: Array, labels: Array) -> None:
    """Raise unless there is one valid label for each row of logits."""
    check_shape("logits", logits, (None, None))
    check_shape("labels", labels, (logits.shape[0],))
    check_ids("labels", labels, logits.shape[1], ignored=True)
