"""Checks of the operations on vectors and on single numbers, one pair of functions each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minibert.arrays import IGNORED, Array
from minibert.gradcheck import GradCheckError
from minibert.keys import random_bits
from minibert.ops import Ops
from tests.gradients.problems import (
    Problem,
    Setting,
    by_hand,
    gradient,
    normal,
    pair,
    same,
)

LABELS = np.array([3, IGNORED, 0, 3, IGNORED, 1, 0], np.int32)
EASY_LABELS = np.array([3, 1, 0, 3, 2, 1, 2], np.int32)


def gain(seed: int, width: int, setting: Setting) -> Array:
    return np.ones(width) if setting.fresh else normal(seed, width, mean=1.0, std=0.7)


def shift(seed: int, width: int, setting: Setting) -> Array:
    return np.zeros(width) if setting.fresh else normal(seed, width, std=0.7)


@gradient("softmax", "softmax_backward")
def softmax(ops: Ops, setting: Setting) -> Problem:
    return pair(
        ops.softmax_forward,
        lambda dy, x: ops.softmax_backward(dy, ops.softmax_forward(x)),
        {"x": normal(1, 2, 3, 5)},
        setting,
    )


@gradient("linear", "linear_backward")
def linear(ops: Ops, setting: Setting) -> Problem:
    inputs = {"x": normal(1, 2, 3, 5), "weight": normal(2, 4, 5), "bias": shift(3, 4, setting)}
    return pair(
        ops.linear_forward, lambda dy, x, w, b: ops.linear_backward(dy, x, w), inputs, setting
    )


@gradient("linear, square", "linear_backward")
def linear_square(ops: Ops, setting: Setting) -> Problem:
    """A transposed weight has the right shape here, so only its numbers can give it away."""
    inputs = {"x": normal(1, 2, 3, 4), "weight": normal(2, 4, 4), "bias": shift(3, 4, setting)}
    return pair(
        ops.linear_forward, lambda dy, x, w, b: ops.linear_backward(dy, x, w), inputs, setting
    )


def feedforward_problem(ops: Ops, setting: Setting, C: int, F: int) -> Problem:
    def backward(dy: Array, x: Array, w1: Array, b1: Array, w2: Array, b2: Array) -> Any:
        _, wide, bent = ops.feedforward_forward(x, w1, b1, w2, b2, "gelu")
        dx, dw1, db1, dw2, db2 = ops.feedforward_backward(dy, x, wide, bent, w1, w2, "gelu")
        return dx, dw1, db1, dw2, db2

    inputs = {
        "x": normal(1, 2, 3, C), "weight1": normal(2, F, C), "bias1": shift(3, F, setting),
        "weight2": normal(4, C, F), "bias2": shift(5, C, setting),
    }  # fmt: skip
    return pair(
        lambda *inputs: ops.feedforward_forward(*inputs, "gelu")[0], backward, inputs, setting
    )


@gradient("feedforward", "feedforward_backward")
def feedforward(ops: Ops, setting: Setting) -> Problem:
    return feedforward_problem(ops, setting, 4, 5)


@gradient("feedforward, square", "feedforward_backward")
def feedforward_square(ops: Ops, setting: Setting) -> Problem:
    """Where C = F, a weight, transposed or in the place of the other, has the right shape."""
    return feedforward_problem(ops, setting, 4, 4)


@gradient("layernorm", "layernorm_backward", "layernorm_forward")
def layernorm(ops: Ops, setting: Setting) -> Problem:
    eps = 0.1

    def backward(dy: Array, x: Array, weight: Array, bias: Array) -> tuple[Array, ...]:
        return ops.layernorm_backward(dy, *ops.layernorm_forward(x, weight, bias, eps)[1:], weight)

    return pair(
        lambda *inputs: ops.layernorm_forward(*inputs, eps)[0],
        backward,
        {"x": normal(1, 2, 3, 5), "weight": gain(2, 5, setting), "bias": shift(3, 5, setting)},
        setting,
    )


@by_hand("layernorm, value by hand", "layernorm_forward")
def layernorm_value(ops: Ops) -> None:
    """x = [1, 3, 5]: mean 3, variance 8/3 (not 4), and ε inside the root."""
    x, weight, bias = np.array([[1.0, 3.0, 5.0]]), np.array([2.0, 1.0, 3.0]), np.full(3, 0.5)
    y, _, _ = ops.layernorm_forward(x, weight, bias, 1 / 3)  # 8/3 + 1/3 = 3
    side = 2 / math.sqrt(3)
    same("LayerNorm's value", y, [[0.5 - 2 * side, 0.5, 0.5 + 3 * side]])


@gradient("add_norm", "add_norm_backward", "layernorm_backward")
def add_norm(ops: Ops, setting: Setting) -> Problem:
    eps, rate, seed = 1e-12, 0.3, 4

    def backward(
        dy: Array, x: Array, residual: Array, weight: Array, bias: Array
    ) -> tuple[Array, ...]:
        kept = ops.add_norm_forward(x, residual, weight, bias, eps, rate, seed)[1:]
        return ops.add_norm_backward(dy, *kept, weight, rate, seed)

    return pair(
        lambda *inputs: ops.add_norm_forward(*inputs, eps, rate, seed)[0],
        backward,
        {
            "x": normal(1, 2, 3, 5),
            "residual": normal(2, 2, 3, 5),
            "weight": gain(3, 5, setting),
            "bias": shift(4, 5, setting),
        },
        setting,
    )


@gradient("dropout", "dropout_backward", "dropout_forward", "keep_mask")
def dropout(ops: Ops, setting: Setting) -> Problem:
    return pair(
        lambda x: ops.dropout_forward(x, 0.4, 3),
        lambda dy, x: ops.dropout_backward(dy, 0.4, 3),
        {"x": normal(1, 5, 7)},
        setting,
    )


@by_hand("dropout, rates at the edge", "dropout_backward", "dropout_forward", "keep_mask")
def dropout_edges(ops: Ops) -> None:
    """Forward and backward agree where a random number equals the rate, and at rate 0."""
    bits = random_bits(3, 9, np.zeros(0))
    x = normal(1, 9)
    for rate in (0.0, *(float(b) / 2**32 for b in sorted(bits)[:6])):
        same(f"dropout at rate {rate}", ops.dropout_backward(x, rate, 3),
             ops.dropout_forward(x, rate, 3))  # fmt: skip


@gradient("gelu", "gelu_backward", "erfc")
def gelu(ops: Ops, setting: Setting) -> Problem:
    return pair(ops.gelu_forward, ops.gelu_backward, {"x": normal(1, 5, 7, std=2.0)}, setting)


@gradient("gelu_tanh", "gelu_tanh_backward")
def gelu_tanh(ops: Ops, setting: Setting) -> Problem:
    inputs = {"x": normal(1, 5, 7, std=2.0)}
    return pair(ops.gelu_tanh_forward, ops.gelu_tanh_backward, inputs, setting)


@gradient("relu", "relu_backward")
def relu(ops: Ops, setting: Setting) -> Problem:
    x = normal(1, 5, 7, std=2.0)
    x += np.where(x < 0, -0.1, 0.1)  # no difference quotient can cross the kink
    return pair(ops.relu_forward, ops.relu_backward, {"x": x}, setting)


@by_hand("relu at 0", "relu_backward")
def relu_at_zero(ops: Ops) -> None:
    """Between the slopes 0 and 1 the documented choice is 0."""
    x = np.array([-1.0, 0.0, 2.0])
    same("ReLU's gradient", ops.relu_backward(np.full(3, 5.0), x), [0.0, 0.0, 5.0])


@gradient("tanh", "tanh_backward")
def tanh(ops: Ops, setting: Setting) -> Problem:
    return pair(
        ops.tanh_forward,
        lambda dy, x: ops.tanh_backward(dy, ops.tanh_forward(x)),
        {"x": normal(1, 5, 7)},
        setting,
    )


@gradient("cross_entropy", "cross_entropy_backward", "cross_entropy_forward")
def cross_entropy(ops: Ops, setting: Setting) -> Problem:
    labels = EASY_LABELS if setting.easy else LABELS
    return pair(
        lambda logits: ops.cross_entropy_forward(logits, labels)[0],
        lambda dloss, logits: ops.cross_entropy_backward(
            dloss, ops.cross_entropy_forward(logits, labels)[1], labels
        ),
        {"logits": normal(1, 7, 4)},
        setting,
    )


@gradient("vocab_cross_entropy", "vocab_cross_entropy_backward", "vocab_cross_entropy_forward")
def vocab_cross_entropy(ops: Ops, setting: Setting) -> Problem:
    labels = EASY_LABELS if setting.easy else LABELS

    def backward(dloss: float, x: Array, table: Array, bias: Array) -> tuple[Array, ...]:
        dlogits = ops.vocab_cross_entropy_forward(x, table, bias, labels)[2]
        return ops.vocab_cross_entropy_backward(dloss, dlogits, x, table)

    return pair(
        lambda *inputs: ops.vocab_cross_entropy_forward(*inputs, labels)[0],
        backward,
        {"x": normal(1, 7, 3), "table": normal(2, 5, 3), "bias": shift(3, 5, setting)},
        setting,
    )


@by_hand("losses stay float32", "cross_entropy_backward", "vocab_cross_entropy_backward")
def single_precision(ops: Ops) -> None:
    """A float64 scalar as dloss must not make float64 gradients of float32 arrays."""
    x, table, bias = (normal(1, *shape).astype(np.float32) for shape in ((7, 3), (5, 3), (5,)))
    dloss: Any = np.float64(0.3)
    _, probs = ops.cross_entropy_forward(x @ table.T, LABELS)
    _, _, dlogits = ops.vocab_cross_entropy_forward(x, table, bias, LABELS)
    for found in (
        ops.cross_entropy_backward(dloss, probs, LABELS),
        *ops.vocab_cross_entropy_backward(dloss, dlogits, x, table),
    ):
        if found.dtype != np.float32:
            raise GradCheckError(f"a gradient of float32 arrays is wrong: it is {found.dtype}")
