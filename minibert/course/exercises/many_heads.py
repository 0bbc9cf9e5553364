"""Lesson 10: many heads, and the padding mask."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minibert.arrays import Array
from minibert.course.exercise import Case, Exercise, Rows, Slip
from minibert.layers.attention import (
    attention_backward,
    attention_forward,
    masked_scores,
    merge_heads,
    split_heads,
)
from minibert.layers.dropout import dropout_backward, dropout_forward
from minibert.layers.softmax import softmax_backward


def draw_sizes(generator: np.random.Generator) -> tuple[int, int, int, int]:
    """Return B, T, H and D, all different."""
    B, T, H, D = (int(size) for size in generator.permutation([2, 3, 5, 7]))
    return B, T, H, D


# --- splitting


def draw_split(generator: np.random.Generator) -> Case:
    B, T, H, D = draw_sizes(generator)
    return Case({"x": generator.normal(size=(B, T, H * D)), "heads": H})


def cut(change: Callable[..., Array]) -> Callable[..., Array]:
    """``change`` takes x and all its sizes."""

    def split(x: Array, heads: int) -> Array:
        B, T, C = x.shape
        return change(x, B, T, heads, C // heads)

    return split


SPLIT = Exercise(
    lesson=10,
    answer=split_heads,
    outputs=("split",),
    by_hand=lambda: Case({"x": np.arange(12.0).reshape(1, 2, 6), "heads": 2}),
    draw=draw_split,
    hints=(
        "Which numbers lie next to each other in memory?  So which axes can reshape make out of "
        "C, and in which order?",
        "reshape cuts the last axis in two, (B, T, H, D): the order of the numbers stays.  Then "
        "transpose moves the heads' axis in front of the tokens'.",
        "x.reshape(B, T, heads, C // heads).transpose(0, 2, 1, 3).",
    ),
    slips=(
        Slip(
            "reshape stands alone, without transpose",
            "reshape keeps the order of the numbers, so (B, H, T, D) straight away gives head 0 "
            "the first tokens, whole, in place of its columns of every token.",
            cut(lambda x, B, T, H, D: x.reshape(B, H, T, D)),
        ),
        Slip(
            "the heads' columns are interleaved",
            "reshape(B, T, D, H) gives head h every H-th column; it owns columns h·D … h·D + D - 1,"
            " so the heads' axis comes before D.",
            cut(lambda x, B, T, H, D: x.reshape(B, T, D, H).transpose(0, 3, 1, 2)),
        ),
        Slip(
            "the axes are exchanged before the cut",
            "x turned over is (B, C, T); a reshape then fills each head's (T, D) with the columns "
            "one after the other.",
            cut(lambda x, B, T, H, D: x.swapaxes(1, 2).reshape(B, H, T, D)),
        ),
        Slip(
            "the heads are stacked in front of the batch",
            "(H, B, T, D) needs a transpose to become (B, H, T, D); a reshape mixes up sentences.",
            cut(
                lambda x, B, T, H, D: (
                    x.reshape(B, T, H, D).transpose(2, 0, 1, 3).reshape(B, H, T, D)
                )
            ),
        ),
        Slip(
            "every head has the columns of head 0",
            "head h begins at column h·D.",
            cut(lambda x, B, T, H, D: np.repeat(x[:, None, :, :D], H, axis=1)),
        ),
        Slip(
            "the heads are in the opposite order",
            "the first columns are head 0's, as in published checkpoints.",
            cut(lambda x, B, T, H, D: split_heads(x, H)[:, ::-1]),
        ),
    ),
)


# --- merging


def draw_merge(generator: np.random.Generator) -> Case:
    B, T, H, D = draw_sizes(generator)
    return Case({"x": generator.normal(size=(B, H, T, D))})


def joined(change: Callable[..., Array]) -> Callable[..., Array]:
    def merge(x: Array) -> Array:
        B, H, T, D = x.shape
        return change(x).reshape(B, T, H * D)

    return merge


MERGE = Exercise(
    lesson=10,
    answer=merge_heads,
    outputs=("merged",),
    by_hand=lambda: Case({"x": split_heads(np.arange(12.0).reshape(1, 2, 6), 2)}),
    draw=draw_merge,
    hints=(
        "What were the two steps of split_heads, and in which order are they undone?",
        "Exchange the heads' and the tokens' axes back first: only when H and D stand side by side "
        "at the end can reshape join them.",
        "x.transpose(0, 2, 1, 3).reshape(B, T, H * D).",
    ),
    slips=(
        Slip(
            "the heads are not moved back before reshape",
            "reshape joins axes that are neighbours: in (B, H, T, D) those are tokens and columns, "
            "not heads and columns.",
            joined(lambda x: x),
        ),
        Slip(
            "the heads' columns are interleaved",
            "with the heads' axis last, column 0 of every head comes first; the heads stand side "
            "by side, so D is last.",
            joined(lambda x: x.transpose(0, 2, 3, 1)),
        ),
        Slip(
            "columns and tokens are exchanged",
            "reshape then reads each head column by column; the order has to be tokens, heads, "
            "columns.",
            joined(lambda x: x.transpose(0, 1, 3, 2)),
        ),
        Slip(
            "the tokens come before the batch",
            "transpose(2, 0, 1, 3) mixes up the sentences: axis 0 stays where it is.",
            joined(lambda x: x.transpose(2, 0, 1, 3)),
        ),
        Slip(
            "the heads are in the opposite order",
            "head 0 has the first columns.",
            joined(lambda x: x[:, ::-1].transpose(0, 2, 1, 3)),
        ),
    ),
)


# --- attention, back


def attention_case(
    q: Array, k: Array, v: Array, dcontext: Array, mask: Array, heads: int, rate: float, seed: int
) -> Case:
    _, lse = attention_forward(q, k, v, mask, heads, rate, seed)

    def loss() -> float:
        return float(np.sum(dcontext * attention_forward(q, k, v, mask, heads, rate, seed)[0]))

    arguments = {
        "dcontext": dcontext, "q": q, "k": k, "v": v, "mask": mask, "lse": lse, "heads": heads,
        "rate": rate, "seed": seed,
    }  # fmt: skip
    return Case(arguments, loss, {"dq": q, "dk": k, "dv": v})


def attention_by_hand() -> Case:
    """Two heads of width 1, three keys of which the last is padding: weights ½ ½ and ¼ ¾."""
    q, k = np.array([[[1.0, 1]]]), np.array([[[0, 0], [0, math.log(3)], [9, 9]]])
    v = np.array([[[2.0, 4], [4, 8], [9, 9]]])
    mask = np.array([[[True, True, False]]])
    return attention_case(q, k, v, np.array([[[1.0, 1]]]), mask, 2, 0.0, 0)


def draw_attention(generator: np.random.Generator) -> Case:
    """Rows of different lengths, one of them with nothing to look at, and dropout."""
    B, T, S = (int(size) for size in generator.permutation([3, 4, 5]))
    H, D = (int(size) for size in generator.permutation([2, 6]))
    q, k, v, dcontext = (generator.normal(size=(B, rows, H * D)) for rows in (T, S, S, T))
    lengths = 2 + np.arange(B) % (S - 2)
    lengths[generator.integers(B)] = 0
    mask = (np.arange(S) < lengths[:, None])[:, None]
    rate, seed = float(generator.uniform(0.2, 0.4)), int(generator.integers(2**60))
    return attention_case(q, k, v, dcontext, mask, H, rate, seed)


def with_lines(change: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    """The backward with some lines replaced; ``change`` takes q, heads, rate and seed."""

    def backward(
        dcontext: Array, q: Array, k: Array, v: Array, mask: Array | None, lse: Array,
        heads: int, rate: float, seed: int,
    ) -> tuple[Array, ...]:  # fmt: skip
        line: dict[str, Any] = {
            "mask": mask,
            "lse": lambda lse: lse,
            "scale": math.sqrt(heads / q.shape[-1]),
            "softmax": lambda dprobs, probs, dropped: softmax_backward(dprobs, probs),
            "dropped": lambda probs: dropout_forward(probs, rate, seed),
            "dprobs": lambda dweights: dropout_backward(dweights, rate, seed),
            "merge": merge_heads,
            "dq": lambda dscores, qh, kh: dscores @ kh,
            "dk": lambda dscores, qh, kh: dscores.swapaxes(-1, -2) @ qh,
            "results": lambda dq, dk, dv: (dq, dk, dv),
        }
        line |= change(q, heads, rate, seed)
        qh, kh, vh, dctx = (split_heads(x, heads) for x in (q, k, v, dcontext))
        probs = np.exp(masked_scores(qh, kh, line["mask"]) - line["lse"](lse)[..., None])
        dropped = line["dropped"](probs)
        dprobs = line["dprobs"](dctx @ vh.swapaxes(-1, -2))
        dscores = line["softmax"](dprobs, probs, dropped) * q.dtype.type(line["scale"])
        parts = line["dq"](dscores, qh, kh), line["dk"](dscores, qh, kh)
        return line["results"](
            *(line["merge"](x) for x in (*parts, dropped.swapaxes(-1, -2) @ dctx))
        )

    return backward


def blind_queries(
    dcontext: Array, q: Array, k: Array, v: Array, mask: Array, lse: Array,
    heads: int, rate: float, seed: int,
) -> Array:  # fmt: skip
    return np.broadcast_to(~mask.any(axis=-1), q.shape[:2])


def blind_sentences(
    dcontext: Array, q: Array, k: Array, v: Array, mask: Array, lse: Array,
    heads: int, rate: float, seed: int,
) -> Array:  # fmt: skip
    return np.broadcast_to(np.expand_dims(~mask.any(axis=(-1, -2)), 1), k.shape[:2])


BLIND = "a query that may look nowhere is wrong"
BLIND_WHY = (
    "all its scores are -inf, so softmax anew divides 0 by 0; the forward gave it lse = +inf, and "
    "e^(score - lse) is 0."
)

ATTENTION = Exercise(
    lesson=10,
    answer=attention_backward,
    outputs=("dq", "dk", "dv"),
    by_hand=attention_by_hand,
    draw=draw_attention,
    hints=(
        "Write the forward's lines under each other: split, scores, softmax, dropout, mean, merge. "
        "What undoes the last one, and what does it need?",
        "Split q, k, v and dcontext.  Make the probabilities again from the masked scores and lse. "
        "Then go up: weighted_mean_backward with the dropped weights, dropout_backward, "
        "softmax_backward with the undropped ones, scores_backward, and merge all three.",
        "probs = np.exp(masked_scores(qh, kh, mask) - lse[..., None]);  dweights, dv = "
        "weighted_mean_backward(dctx, dropout_forward(probs, rate, seed), vh);  dprobs = "
        "dropout_backward(dweights, rate, seed);  dq, dk = "
        "scores_backward(softmax_backward(dprobs, probs), qh, kh);  then merge_heads of each.",
    ),
    slips=(
        Slip(
            "1/√D is missing on the way back",
            "the scores were divided by √D, so the gradient of q and k is too.",
            with_lines(lambda *_: {"scale": 1.0}),
        ),
        Slip(
            "the root is of C, not of D",
            "a head's score is a sum over its own D columns; √C is right with a single head only.",
            with_lines(lambda q, *_: {"scale": 1 / math.sqrt(q.shape[-1])}),
        ),
        Slip(
            "1/D stands for 1/√D",
            "the forward divided by √D once, and so does the backward.",
            with_lines(lambda q, heads, *_: {"scale": heads / q.shape[-1]}),
        ),
        Slip(
            "the padding mask is missing",
            "made again without the mask, padding has probabilities that the forward never gave "
            "it, and gets a gradient.",
            with_lines(lambda *_: {"mask": None}),
        ),
        Slip(
            "lse is not subtracted",
            "e^score has no normaliser: p = e^(score - lse) adds up to 1.",
            with_lines(lambda *_: {"lse": np.zeros_like}),
        ),
        Slip(
            "softmax's backward lacks its sum",
            "what one key gains the others of its row lose: dscores = p (dp - Σ dp p).",
            with_lines(lambda *_: {"softmax": lambda dp, p, dropped: dp * p}),
        ),
        Slip(
            "softmax's sum runs over the queries",
            "each query's row is a softmax of its own: the sum is over its keys, axis=-1.",
            with_lines(
                lambda *_: {
                    "softmax": lambda dp, p, dropped: (
                        p * (dp - (dp * p).sum(axis=-2, keepdims=True))
                    )
                }
            ),
        ),
        Slip(
            "softmax's backward uses the dropped weights",
            "dropout came after softmax: softmax's own output, which its backward needs, is what "
            "was there before.",
            with_lines(
                lambda *_: {"softmax": lambda dp, p, dropped: softmax_backward(dp, dropped)}
            ),
        ),
        Slip(
            "no dropout on the way to the scores",
            "a weight that was dropped did nothing, so it sends nothing to its score.",
            with_lines(lambda *_: {"dprobs": lambda dweights: dweights}),
        ),
        Slip(
            "dv uses the weights before dropout",
            "the context was made with the dropped weights, so dv needs those.",
            with_lines(lambda *_: {"dropped": lambda probs: probs}),
        ),
        Slip(
            "dropout's backward has another mask than its forward",
            "the seed is the mask: with another seed the wrong weights are cut.",
            with_lines(
                lambda q, heads, rate, seed: {
                    "dprobs": lambda dweights: dropout_backward(dweights, rate, seed + 1)
                }
            ),
        ),
        Slip(
            "the kept weights are not scaled up",
            "dropout divides what it keeps by 1 - rate, forward and backward.",
            with_lines(
                lambda q, heads, rate, seed: {
                    "dropped": lambda probs: dropout_forward(probs, rate, seed) * (1 - rate),
                    "dprobs": lambda dweights: dropout_backward(dweights, rate, seed) * (1 - rate),
                }
            ),
        ),
        Slip(
            "dq is made from q",
            "q's slope is k: each factor of a product is the other's derivative.",
            with_lines(lambda *_: {"dq": lambda ds, qh, kh: ds.sum(axis=-1, keepdims=True) * qh}),
        ),
        Slip(
            "dk is made from k",
            "k's slope is q: each factor of a product is the other's derivative.",
            with_lines(lambda *_: {"dk": lambda ds, qh, kh: ds.sum(axis=-2)[..., None] * kh}),
        ),
        Slip(
            "the heads' columns are interleaved",
            "the heads stand side by side: merge with merge_heads.",
            with_lines(lambda *_: {"merge": joined(lambda x: x.transpose(0, 2, 3, 1))}),
        ),
        Slip(
            "the heads are not moved back before reshape",
            "reshape alone joins tokens and columns: merge with merge_heads.",
            with_lines(lambda *_: {"merge": joined(lambda x: x)}),
        ),
    ),
    rows={
        "dq": (Rows(BLIND, BLIND_WHY, blind_queries),),
        "dk": (Rows(BLIND, BLIND_WHY, blind_sentences),),
        "dv": (Rows(BLIND, BLIND_WHY, blind_sentences),),
    },
    sizes=lambda dcontext, q, k, v, mask, lse, heads, rate, seed: {
        "C": q.shape[-1],
        "D": q.shape[-1] // heads,
        "H": heads,
    },
)

EXERCISES = (SPLIT, MERGE, ATTENTION)
