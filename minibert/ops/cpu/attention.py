"""Attention, one head of one sequence at a time: see attention_head.py.

The reference makes (B, H, T, S) arrays: scores, probabilities, mask, gradients, each written to
memory and read again.  Here each worker has memory for one head, and takes one after the other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange

from minibert.arrays import Array, check_float, check_shape
from minibert.layers.attention import check_attention
from minibert.ops.cpu.attention_head import attend_head, attend_head_backward, room_bounds
from minibert.ops.cpu.dropout import dropout_numbers
from minibert.ops.cpu.jit import parallel
from minibert.ops.cpu.memory import empty, fit
from minibert.ops.cpu.threads import launch, threads_for
from minibert.ops.cpu.vectors import MR, tile_width

SCORES = 1 << 15  # scores in a block of queries, about


@parallel
def attend(q, k, v, mask, heads, scale, drops, context, lse, scores, memory, bounds):
    B, T, C = q.shape
    S, D, workers = k.shape[1], C // heads, memory.shape[0]
    for worker in prange(workers):
        for task in range(worker, B * heads, workers):
            b, h = task // heads, task % heads
            attend_head(
                q[b], k[b], v[b], mask[b], h * D, D, scale, drops, task * T * S,
                context[b], lse[b, h], scores[worker, 0], memory[worker], bounds,
            )  # fmt: skip


@parallel
def attend_backward(
    dcontext, q, k, v, mask, heads, scale, drops, lse, dq, dk, dv, scores, memory, bounds
):
    B, T, C = q.shape
    S, D, workers = k.shape[1], C // heads, memory.shape[0]
    for worker in prange(workers):
        for task in range(worker, B * heads, workers):
            b, h = task // heads, task % heads
            attend_head_backward(
                dcontext[b], q[b], k[b], v[b], mask[b], h * D, D, scale, drops, task * T * S,
                lse[b, h], dq[b], dk[b], dv[b], scores[worker], memory[worker], bounds,
            )  # fmt: skip


def make_room(q: Array, S: int, heads: int, amount: int, kinds: int) -> tuple[Array, Array, Array]:
    """Return memory for as many workers as there is work for: scores of ``kinds`` kinds, panels,
    and how to cut these.
    """
    B, T, C = q.shape
    block = min(max(1, SCORES // (S * MR)), -(-T // MR)) * MR
    workers = min(threads_for(amount), B * heads)
    bounds = room_bounds(block, S, C, C // heads, tile_width(q))
    scores, memory = (workers, kinds, block, S), (workers, int(bounds[-1]))
    return empty(scores, q.dtype), empty(memory, q.dtype), bounds


def prepare(
    q: Array, k: Array, v: Array, mask: Array | None, heads: int, rate: float, seed: int
) -> tuple[Any, ...]:
    """Check everything, and return what both kernels take: q, k, v, mask, scale, drops."""
    check_attention(q, k, v, mask, heads)
    check_float("q", q)
    check_float("k", k, like=q)
    check_float("v", v, like=q)
    B, T, C = q.shape
    S = k.shape[1]
    low, high, threshold, keep_scale = dropout_numbers(rate, seed, q, B * heads * T * S)
    seen = np.empty((B, 0, S), np.bool_) if mask is None else fit(mask)
    scale = q.dtype.type(1 / math.sqrt(C // heads))
    return fit(q), fit(k), fit(v), seen, scale, (keep_scale, low, high, threshold)


def attention_forward(
    q: Array,  # (B, T, C)
    k: Array,  # (B, S, C)
    v: Array,  # (B, S, C)
    mask: Array | None,  # bool (B, 1, S) or (B, T, S)
    heads: int,
    rate: float,
    seed: int,
) -> tuple[Array, Array]:  # context (B, T, C), lse (B, H, T)
    """Return dropout(softmax(q kᵀ / √D)) v for each head, and the log of each row's normaliser."""
    q, k, v, seen, scale, drops = prepare(q, k, v, mask, heads, rate, seed)
    B, T, C = q.shape
    context, lse = empty(q.shape, q.dtype), empty((B, heads, T), q.dtype)
    if context.size:
        amount = q.size * k.shape[1] // 4
        room = make_room(q, k.shape[1], heads, amount, 1)
        launch(attend, amount, q, k, v, seen, heads, scale, drops, context, lse, *room)
    return context, lse


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
    """Return the gradients of q, k and v; the probabilities are made again from ``lse``."""
    q, k, v, seen, scale, drops = prepare(q, k, v, mask, heads, rate, seed)
    B, T, C = q.shape
    check_float("dcontext", dcontext, like=q)
    check_float("lse", lse, like=q)
    check_shape("dcontext", dcontext, q.shape)
    check_shape("lse", lse, (B, heads, T))
    dq, dk, dv = (empty(x.shape, q.dtype) for x in (q, k, v))
    if dq.size:
        amount = q.size * k.shape[1]
        room = make_room(q, k.shape[1], heads, amount, 3)
        launch(
            attend_backward, amount,
            fit(dcontext), q, k, v, seen, heads, scale, drops, fit(lse), dq, dk, dv, *room,
        )  # fmt: skip
    return dq, dk, dv
