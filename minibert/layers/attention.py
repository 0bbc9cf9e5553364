"""Multi-head self-attention: every token asks all others, and takes a weighted mean of answers.

Source: Vaswani et al., Attention Is All You Need (2017), section 3.2.  What the backward keeps
from the forward is one number per row, as in Dao et al., FlashAttention (2022), section 3.1.

    q (B, T, C) ─ split ─ (B, H, T, D) ┐
                                       ├─ scores (B, H, T, S) ─ softmax ─ dropout ┐
    k (B, S, C) ─ split ─ (B, H, S, D) ┘                                          ├─ (B, H, T, D)
    v (B, S, C) ─ split ─ (B, H, S, D) ───────────────────────────────────────────┘   │ merge
                                                                    context (B, T, C) ┘
In self-attention q, k and v come from one sequence and S = T.
"""

from __future__ import annotations

import math
from operator import index
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from minibert.arrays import Array, check_array, check_shape
from minibert.keys import Key
from minibert.layers.dropout import dropout_backward, dropout_forward
from minibert.layers.linear import Linear, LinearCache
from minibert.layers.softmax import softmax_backward
from minibert.params import Scope

if TYPE_CHECKING:
    from minibert.ops import Ops


def split_heads(x: Array, heads: int) -> Array:  # (B, T, C) → (B, H, T, D)
    """Cut the width into heads: head h has columns h D … (h + 1) D - 1."""
    B, T, C = x.shape
    return x.reshape(B, T, heads, C // heads).transpose(0, 2, 1, 3)


def merge_heads(x: Array) -> Array:  # (B, H, T, D) → (B, T, C)
    """Undo ``split_heads``: the heads side by side again.

    Both only move numbers, so each is the other's backward.
    """
    B, H, T, D = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B, T, H * D)


def scores_forward(
    q: Array,  # (..., T, D)
    k: Array,  # (..., S, D)
) -> Array:  # scores (..., T, S)
    """Return q kᵀ / √D.

    A dot product of D independent terms of variance 1 has variance D; the root keeps the scores
    at variance 1, where softmax still has a slope.
    """
    return (q @ k.swapaxes(-1, -2)) * q.dtype.type(1 / math.sqrt(q.shape[-1]))


def scores_backward(
    dscores: Array,  # (..., T, S)
    q: Array,  # (..., T, D)
    k: Array,  # (..., S, D)
) -> tuple[Array, Array]:  # dq (..., T, D), dk (..., S, D)
    """Send a gradient back to queries and keys.

    With s_ij = Σ_d q_id k_jd / √D each query meets every key, and each key every query:

        dq_id = Σ_j ds_ij k_jd / √D      =>      dq = dscores k / √D
        dk_jd = Σ_i ds_ij q_id / √D      =>      dk = dscoresᵀ q / √D
    """
    dscores = dscores * q.dtype.type(1 / math.sqrt(q.shape[-1]))
    return dscores @ k, dscores.swapaxes(-1, -2) @ q


def weighted_mean_forward(
    weights: Array,  # (..., T, S)
    v: Array,  # (..., S, D)
) -> Array:  # context (..., T, D)
    """Return each query's mean of the values, by its weights."""
    return weights @ v


def weighted_mean_backward(
    dcontext: Array,  # (..., T, D)
    weights: Array,  # (..., T, S)
    v: Array,  # (..., S, D)
) -> tuple[Array, Array]:  # dweights (..., T, S), dv (..., S, D)
    """Send a gradient back to the weights and the values.

    With c_id = Σ_j w_ij v_jd a weight serves all columns of one query, a value all queries:

        dw_ij = Σ_d dc_id v_jd      =>      dweights = dcontext vᵀ
        dv_jd = Σ_i w_ij dc_id      =>      dv = weightsᵀ dcontext
    """
    return dcontext @ v.swapaxes(-1, -2), weights.swapaxes(-1, -2) @ dcontext


def masked_scores(
    q: Array,  # (B, H, T, D)
    k: Array,  # (B, H, S, D)
    mask: Array | None,  # bool (B, 1, S) or (B, T, S): True where a query may look
) -> Array:  # scores (B, H, T, S), -inf where the mask forbids
    """Return the scores of every head, each under the same mask."""
    scores = scores_forward(q, k)
    return scores if mask is None else np.where(mask[:, None], scores, scores.dtype.type(-np.inf))


def attention_forward(
    q: Array,  # (B, T, C)
    k: Array,  # (B, S, C)
    v: Array,  # (B, S, C)
    mask: Array | None,  # bool (B, 1, S) or (B, T, S): True where a query may look
    heads: int,
    rate: float,
    seed: int,
) -> tuple[Array, Array]:  # context (B, T, C), lse (B, H, T)
    """Return dropout(softmax(q kᵀ / √D)) v, head by head, and the log of each row's normaliser.

    lse = log Σ_j e^{score_j} is all that backward needs to make the probabilities again:
    p = e^{score - lse}.  A query that may look nowhere gets lse = +inf, so p = 0, context 0 and
    no gradient (PyTorch's "safe softmax" does the same; -inf alone would give NaN).
    """
    check_attention(q, k, v, mask, heads)
    qh, kh, vh = (split_heads(x, heads) for x in (q, k, v))
    scores = masked_scores(qh, kh, mask)
    highest = scores.max(axis=-1, keepdims=True)
    blind = highest == -np.inf
    highest = np.where(blind, 0, highest)
    e = np.exp(scores - highest)
    total = e.sum(axis=-1, keepdims=True)
    probs = e / np.where(blind, 1, total)
    lse = np.where(blind, np.inf, highest + np.log(np.where(blind, 1, total)))[..., 0]
    context = weighted_mean_forward(dropout_forward(probs, rate, seed), vh)
    return merge_heads(context), lse


def attention_backward(
    dcontext: Array,  # (B, T, C)
    q: Array,  # (B, T, C)
    k: Array,  # (B, S, C)
    v: Array,  # (B, S, C)
    mask: Array | None,  # bool (B, 1, S) or (B, T, S)
    lse: Array,  # (B, H, T)
    heads: int,
    rate: float,
    seed: int,
) -> tuple[Array, Array, Array]:  # dq (B, T, C), dk (B, S, C), dv (B, S, C)
    """Send a gradient back through attention, each forward line reversed in turn.

    context = a v           da = dcontext vᵀ,  dv = aᵀ dcontext
    a = dropout(p)          dp = da where kept
    p = softmax(scores)     dscores = p (dp - Σ dp p)      (0 where masked, since p = 0 there)
    scores = q kᵀ / √D      dq = dscores k / √D,  dk = dscoresᵀ q / √D
    """
    check_attention(q, k, v, mask, heads)
    check_shape("dcontext", dcontext, q.shape)
    qh, kh, vh, dctx = (split_heads(x, heads) for x in (q, k, v, dcontext))
    probs = np.exp(masked_scores(qh, kh, mask) - lse[..., None])
    dweights, dv = weighted_mean_backward(dctx, dropout_forward(probs, rate, seed), vh)
    dprobs = dropout_backward(dweights, rate, seed)
    dq, dk = scores_backward(softmax_backward(dprobs, probs), qh, kh)
    return merge_heads(dq), merge_heads(dk), merge_heads(dv)


def attention_probs(q: Array, k: Array, mask: Array | None, heads: int, lse: Array) -> Array:
    """Return the attention weights before dropout (B, H, T, S), to look at."""
    qh, kh = split_heads(q, heads), split_heads(k, heads)
    return np.exp(masked_scores(qh, kh, mask) - lse[..., None])


def check_attention(q: Array, k: Array, v: Array, mask: Array | None, heads: int) -> None:
    """Raise unless the shapes fit together and the mask is boolean."""
    check_shape("q", q, (None, None, None))
    B, T, C = q.shape
    check_shape("k", k, (B, None, C))
    check_shape("v", v, k.shape)
    if index(heads) < 1 or C % heads or not C:
        raise ValueError(f"the width {C} does not divide into {heads} heads")
    if k.shape[1] == 0:
        raise ValueError("k has no row, expected at least 1: there is nothing to attend to")
    if mask is not None:
        check_array("mask", mask)
        if mask.dtype != np.bool_:
            raise TypeError(f"mask has dtype {mask.dtype}, expected bool, True where attended")
        check_shape(
            "mask", mask, (B, T if mask.ndim == 3 and mask.shape[1] != 1 else 1, k.shape[1])
        )


class AttentionCache(NamedTuple):
    query: LinearCache
    key: LinearCache
    value: LinearCache
    q: Array  # (B, T, C)
    k: Array  # (B, S, C)
    v: Array  # (B, S, C)
    mask: Array | None  # (B, 1, S) or (B, T, S)
    lse: Array  # (B, H, T)
    rate: float
    seed: int


class MultiHeadAttention:
    """Three projections and the attention between them; the output projection is the caller's."""

    def __init__(self, scope: Scope, width: int, heads: int, rate: float, ops: Ops) -> None:
        self.ops, self.heads, self.rate = ops, heads, rate
        self.query = Linear(scope.child("query"), width, width, ops)
        self.key = Linear(scope.child("key"), width, width, ops)
        self.value = Linear(scope.child("value"), width, width, ops)

    def forward(
        self,
        x: Array,  # (B, T, C), asks
        mask: Array | None,  # bool (B, 1, S) or (B, T, S)
        key: Key | None,
        memory: Array | None = None,  # (B, S, C), answers; x itself in self-attention
    ) -> tuple[Array, AttentionCache]:  # context (B, T, C)
        memory = x if memory is None else memory
        q, query_cache = self.query.forward(x)
        k, key_cache = self.key.forward(memory)
        v, value_cache = self.value.forward(memory)
        rate, seed = (self.rate, key.seed) if key else (0.0, 0)
        context, lse = self.ops.attention_forward(q, k, v, mask, self.heads, rate, seed)
        return context, AttentionCache(
            query_cache, key_cache, value_cache, q, k, v, mask, lse, rate, seed
        )

    def backward(self, dcontext: Array, cache: AttentionCache) -> tuple[Array, Array]:
        """Return dx (B, T, C) and dmemory (B, S, C); in self-attention the caller adds the two."""
        dq, dk, dv = self.ops.attention_backward(
            dcontext, cache.q, cache.k, cache.v, cache.mask, cache.lse,
            self.heads, cache.rate, cache.seed,
        )  # fmt: skip
        dx = self.query.backward(dq, cache.query)
        dmemory = self.key.backward(dk, cache.key)
        dmemory += self.value.backward(dv, cache.value)
        return dx, dmemory
