"""Cross-entropy: softmax and loss in one visit to each row of logits."""

from __future__ import annotations

import numpy as np
from numba import prange

from minibert.arrays import IGNORED, Array, check_float, check_number, check_shape
from minibert.layers.cross_entropy import check_cross_entropy, cross_entropy_backward
from minibert.ops.cpu.gemm import matmul
from minibert.ops.cpu.jit import kernel, parallel
from minibert.ops.cpu.linear import Product, column_sums
from minibert.ops.cpu.memory import empty, fit, fit_ids
from minibert.ops.cpu.softmax import exp_row, row_max, scale_row
from minibert.ops.cpu.threads import launch

__all__ = [
    "cross_entropy_backward",  # the reference: a few rows of few classes, one pass
    "cross_entropy_forward",
    "vocab_cross_entropy_backward",
    "vocab_cross_entropy_forward",
]


@kernel
def ranks_first(row, label, highest):
    """Is the label's logit the largest, and the first of that size, as ``argmax`` has it?"""
    if row[label] != highest:
        return False
    before = 0
    for j in range(label):
        before += row[j] == highest
    return before == 0


@parallel
def softmax_loss(logits, labels, losses, right, subtract):  # logits (N, V), changed; rest (N,)
    """Put probabilities in the place of logits, minus 1 at the label if ``subtract`` is set.

    Then the row is the gradient of its loss, and an ignored row is 0.
    """
    one = logits.dtype.type(1)
    for n in prange(logits.shape[0]):
        row, label = logits[n], labels[n]
        if subtract and label == IGNORED:
            row[:] = 0
            losses[n], right[n] = 0, False
        else:
            highest = row_max(row)
            if label == IGNORED:
                losses[n], right[n] = 0, False
                scale_row(row, one / exp_row(row, highest))
            else:
                target = row[label] - highest
                right[n] = ranks_first(row, label, highest)
                total = exp_row(row, highest)
                losses[n] = np.log(total) - target
                scale_row(row, one / total)
                if subtract:
                    row[label] -= one


def loss_in_place(logits: Array, labels: Array, *, subtract: bool) -> tuple[float, int]:
    N = logits.shape[0]
    if logits.size == 0:
        return 0.0, 0
    losses, right = np.empty(N, logits.dtype), np.empty(N, np.bool_)
    launch(softmax_loss, 4 * logits.size, logits, fit_ids(labels), losses, right, subtract)
    return float(losses.sum(dtype=np.float64)), int(right.sum())


def cross_entropy_forward(
    logits: Array,  # (N, V)
    labels: Array,  # (N,)
) -> tuple[float, Array]:  # sum of the losses, probs (N, V)
    """Return Σ_n -log softmax(logits_n)[label_n] over the rows that are not ignored."""
    check_cross_entropy(logits, labels)
    check_float("logits", logits)
    probs = empty(logits.shape, logits.dtype)
    np.copyto(probs, logits)
    loss, _ = loss_in_place(probs, labels, subtract=False)
    return loss, probs


def vocab_cross_entropy_forward(
    x: Array,  # (M, C)
    table: Array,  # (V, C)
    bias: Array,  # (V,)
    labels: Array,  # (M,)
) -> tuple[float, int, Array]:  # sum of the losses, right answers, dlogits (M, V)
    """Return the loss of logits = x Eᵀ + b, and their gradient where they stood."""
    return vocab_forward_by(matmul, x, table, bias, labels)


def vocab_cross_entropy_backward(
    dloss: float,
    dlogits: Array,  # (M, V)
    x: Array,  # (M, C)
    table: Array,  # (V, C)
) -> tuple[Array, Array, Array]:  # dx (M, C), dtable (V, C), dbias (V,)
    """Return dloss times a linear layer's backward; it goes to the smaller factor or product."""
    return vocab_backward_by(matmul, dloss, dlogits, x, table)


def vocab_forward_by(
    product: Product, x: Array, table: Array, bias: Array, labels: Array
) -> tuple[float, int, Array]:
    """Do what ``vocab_cross_entropy_forward`` does, with one of several ways to multiply."""
    check_shape("table", table, (None, None))
    check_float("x", x, like=table)
    check_float("bias", bias, like=table)
    check_shape("x", x, (None, table.shape[1]))
    check_shape("bias", bias, (table.shape[0],))
    # labels are checked against the shape before the product is spent on them
    check_cross_entropy(np.broadcast_to(bias, (len(x), len(bias))), labels)
    logits = product(fit(x), fit(table), fit(bias), transpose_b=True)
    loss, right = loss_in_place(logits, labels, subtract=True)
    return loss, right, logits


def vocab_backward_by(
    product: Product, dloss: float, dlogits: Array, x: Array, table: Array
) -> tuple[Array, Array, Array]:
    """Do what ``vocab_cross_entropy_backward`` does, with one of several ways to multiply."""
    check_shape("table", table, (None, None))
    check_float("x", x, like=table)
    check_float("dlogits", dlogits, like=table)
    check_shape("x", x, (None, table.shape[1]))
    check_shape("dlogits", dlogits, (len(x), len(table)))
    check_number("dloss", dloss)
    dlogits, scale = fit(dlogits), table.dtype.type(dloss)
    dx = product(dlogits, fit(table))
    dtable = product(dlogits, fit(x * scale), transpose_a=True)
    return dx * scale, dtable, column_sums(dlogits) * scale
