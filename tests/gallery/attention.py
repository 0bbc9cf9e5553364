"""Mistakes in attention's backward: one line changed in a copy that is written out here."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minibert.arrays import Array
from minibert.layers.attention import masked_scores, merge_heads, split_heads
from minibert.layers.dropout import dropout_backward, dropout_forward
from minibert.layers.softmax import softmax_backward
from tests.gallery.mistake import Mistake

Change = Callable[..., dict[str, Any]]  # q, heads, mask, rate, seed → the lines that differ


def attention_with(change: Change) -> Callable[..., Any]:
    """Attention's backward with some of its lines replaced."""

    def backward(
        dcontext: Array, q: Array, k: Array, v: Array, mask: Array | None, lse: Array,
        heads: int, rate: float, seed: int,
    ) -> tuple[Array, ...]:  # fmt: skip
        line: dict[str, Any] = {
            "mask": mask,
            "scale": math.sqrt(heads / q.shape[-1]),
            "softmax": softmax_backward,
            "dropped": lambda probs: dropout_forward(probs, rate, seed),
            "dprobs": lambda da: dropout_backward(da, rate, seed),
            "merge": merge_heads,
            "dq": lambda dscores, qh, kh: dscores @ kh,
            "dk": lambda dscores, qh, kh: dscores.swapaxes(-1, -2) @ qh,
            "results": lambda dq, dk, dv: (dq, dk, dv),
        }
        line |= change(q, heads, mask, rate, seed)
        qh, kh, vh, dctx = (split_heads(x, heads) for x in (q, k, v, dcontext))
        probs = np.exp(masked_scores(qh, kh, line["mask"]) - lse[..., None])
        dv = line["dropped"](probs).swapaxes(-1, -2) @ dctx
        dprobs = line["dprobs"](dctx @ vh.swapaxes(-1, -2))
        dscores = line["softmax"](dprobs, probs) * q.dtype.type(line["scale"])
        dq, dk = line["dq"](dscores, qh, kh), line["dk"](dscores, qh, kh)
        return line["results"](*(line["merge"](x) for x in (dq, dk, dv)))

    return backward


def attention(name: str, why: str, change: Change, topic: str = "attention") -> Mistake:
    wrong = {"attention_backward": attention_with(change)}
    return Mistake(name, why, topic, "attention", wrong)


def columns_interleaved(x: Array) -> Array:  # (B, H, T, D) → (B, T, C), the heads' axis last
    B, H, T, D = x.shape
    return x.transpose(0, 2, 3, 1).reshape(B, T, H * D)


def heads_not_moved(x: Array) -> Array:
    B, H, T, D = x.shape
    return x.reshape(B, T, H * D)


MISTAKES = [
    attention(
        "missing 1/√D",
        "The scores were divided by √D, so the gradient of q and k is as well.",
        lambda *_: {"scale": 1.0},
    ),
    attention(
        "1/√C for 1/√D",
        "The width of the whole model in place of one head's: right with a single head only.",
        lambda q, *_: {"scale": 1 / math.sqrt(q.shape[-1])},
    ),
    attention(
        "1/D for 1/√D",
        "The scale is applied to the scores once, and to the gradient twice.",
        lambda q, heads, *_: {"scale": heads / q.shape[-1]},
    ),
    attention(
        "padding mask missing in the backward",
        "The probabilities are made again without the mask, and padding gets a gradient.",
        lambda *_: {"mask": None},
    ),
    attention(
        "attention's softmax without its sum term",
        "The row's other keys lose what one key gains, and this leaves it out.",
        lambda *_: {"softmax": lambda dy, y: dy * y},
    ),
    attention(
        "no dropout on the way to the scores",
        "A weight that was dropped still sends a gradient to its score.",
        lambda *_: {"dprobs": lambda da: da},
    ),
    attention(
        "undropped weights for dv",
        "The context was made with the dropped weights, so dv needs those.",
        lambda *_: {"dropped": lambda probs: probs},
    ),
    attention(
        "another dropout mask in attention's backward",
        "The mask is drawn anew, and the wrong weights are cut.",
        lambda q, heads, mask, rate, seed: {
            "dprobs": lambda da: dropout_backward(da, rate, seed + 1)
        },
    ),
    attention(
        "dq from q",
        "q's slope is k: each factor of a product is the other's derivative.",
        lambda *_: {"dq": lambda ds, qh, kh: ds.sum(axis=-1, keepdims=True) * qh},
    ),
    attention(
        "dk from k",
        "The same mistake on the other side.",
        lambda *_: {"dk": lambda ds, qh, kh: ds.sum(axis=-2)[..., None] * kh},
    ),
    attention(
        "dk and dv exchanged",
        "Keys and values have one shape, so the order of the results is all that tells.",
        lambda *_: {"results": lambda dq, dk, dv: (dq, dv, dk)},
    ),
    attention(
        "heads merged in the wrong order",
        "The columns of all heads are interleaved where the heads stand side by side.",
        lambda *_: {"merge": columns_interleaved},
    ),
    attention(
        "heads not moved back",
        "reshape without transpose: the shape is right, tokens and heads are mixed up.",
        lambda *_: {"merge": heads_not_moved},
    ),
]
