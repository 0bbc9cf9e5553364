"""Checks of the operations on sequences of tokens: look-ups and attention."""

from __future__ import annotations

import math

import numpy as np

from minibert.arrays import Array
from minibert.gradcheck import GradCheckError
from minibert.layers.embedding import lookup_backward, lookup_forward
from minibert.layers.encoder_layer import take_rows, take_rows_backward
from minibert.ops import Ops
from tests.gradients.problems import (
    Problem,
    Setting,
    by_hand,
    each_tensor,
    gradient,
    normal,
    pair,
    same,
)

IDS = np.array([[1, 4, 4, 0], [4, 2, 1, 3]], np.int32)
EASY_IDS = np.array([[1, 4, 5, 0], [6, 2, 7, 3]], np.int32)
TYPES = np.array([[0, 0, 1, 1], [0, 1, 1, 1]], np.int32)
LENGTHS = np.array([5, 3, 4])  # keys that may be looked at, of 5


def mask_for(setting: Setting) -> Array | None:  # (3, 1, 5)
    return None if setting.easy else np.arange(5) < LENGTHS[:, None, None]


@gradient("embedding", "embedding_backward")
def embedding(ops: Ops, setting: Setting) -> Problem:
    ids = EASY_IDS if setting.easy else IDS
    rows = (8, 6, 2)
    return pair(
        lambda *tables: ops.embedding_forward(ids, TYPES, *tables),
        lambda dy, *tables: ops.embedding_backward(dy, ids, TYPES, rows),
        {"word": normal(1, 8, 3), "position": normal(2, 6, 3), "token_type": normal(3, 2, 3)},
        setting,
    )


@gradient("lookup", "lookup_backward")
def lookup(ops: Ops, setting: Setting) -> Problem:
    """The reference pair itself, which the model uses to pick the rows of masked tokens."""
    ids = EASY_IDS if setting.easy else IDS
    return pair(
        lambda table: lookup_forward(ids, table),
        lambda dy, table: lookup_backward(dy, ids, 9),
        {"table": normal(1, 9, 3)},
        setting,
    )


@gradient("take_rows", "take_rows_backward")
def take(ops: Ops, setting: Setting) -> Problem:
    places = np.array([[0, 3, 1], [2, 1, 0]] if setting.easy else [[0, 3, 3], [2, 0, 0]], np.int32)
    return pair(
        lambda x: take_rows(x, places),
        lambda dy, x: take_rows_backward(dy, places, 5),
        {"x": normal(1, 2, 5, 4)},
        setting,
    )


def attention_problem(
    ops: Ops, setting: Setting, heads: int, width: int, queries: int, mask: Array | None
) -> Problem:
    rate, seed = 0.3, 5

    def backward(dcontext: Array, q: Array, k: Array, v: Array) -> tuple[Array, ...]:
        lse = ops.attention_forward(q, k, v, mask, heads, rate, seed)[1]
        return ops.attention_backward(dcontext, q, k, v, mask, lse, heads, rate, seed)

    C = heads * width
    return pair(
        lambda q, k, v: ops.attention_forward(q, k, v, mask, heads, rate, seed)[0],
        backward,
        {"q": normal(1, 3, queries, C), "k": normal(2, 3, 5, C), "v": normal(3, 3, 5, C)},
        setting,
    )


@gradient(
    "attention", "attention_backward", "attention_forward", "masked_scores", "scores_forward",
    "scores_backward", "weighted_mean_backward", "split_heads", "merge_heads", "softmax_backward",
    "dropout_backward", "dropout_forward",
)  # fmt: skip
def attention(ops: Ops, setting: Setting) -> Problem:
    """Four queries, five keys, two heads of three columns; rows padded to different lengths."""
    return attention_problem(ops, setting, 2, 3, 4, mask_for(setting))


@by_hand("attention, normaliser by hand", "attention_forward")
def attention_lse(ops: Ops) -> None:
    """Scores ln 2 and ln 3 have the normaliser 5; a query that may look nowhere gets +inf."""
    q, k, v = np.ones((1, 2, 1)), np.log([[[2.0], [3.0]]]), np.ones((1, 2, 1))
    mask = np.array([[[True, True], [False, False]]])
    _, lse = ops.attention_forward(q, k, v, mask, 1, 0.0, 0)
    if lse[0, 0, 1] != np.inf:
        raise GradCheckError(f"lse is wrong: {lse[0, 0, 1]} for a query that may look nowhere")
    same("lse", lse[0, 0, :1], [math.log(5)])


@gradient(
    "attention, each query its own mask",
    "attention_backward",
    "masked_scores",
    compare=each_tensor,
)
def attention_masks(ops: Ops, setting: Setting) -> Problem:
    """One query may look nowhere: it has no probabilities, and no gradient."""
    mask = np.random.default_rng(7).random((3, 4, 5)) < 0.6
    mask[1, 2] = False
    return attention_problem(ops, setting, 3, 2, 4, None if setting.easy else mask)
