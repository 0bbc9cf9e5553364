"""One head of one sequence: attention and its backward, in the cache of one core.

The queries are cut into blocks so that a block's scores stay in the second-level cache, and
everything is done to them there.  A head is D columns of q, k and v from ``first`` on, and its
products are made like those of large matrices (see gemm.py): operands are packed into panels
straight from their places, and results are written straight to theirs.

    forward      scores = q kᵀ              context = a v
    backward     scores, da = dcontext vᵀ   dq = dscores k    dk += dscoresᵀ q    dv += aᵀ dcontext
"""

from __future__ import annotations

import numpy as np

from minibert.arrays import Array
from minibert.ops.cpu.dropout import drop_in_place
from minibert.ops.cpu.elementary import exp, random_bits
from minibert.ops.cpu.gemm import multiply_block, pack_columns, pack_lines, panels_size
from minibert.ops.cpu.jit import kernel
from minibert.ops.cpu.softmax import exp_row, row_max, scale_row
from minibert.ops.cpu.vectors import MR, tile_width


def room_bounds(block: int, S: int, C: int, D: int, width: int) -> Array:  # (7,) int64
    """Return how to cut a worker's memory for panels; ``room_of`` says what each part is for."""
    sizes = (
        max(panels_size(block, D, MR), panels_size(block, S, MR), panels_size(S, block, MR)),
        panels_size(S, D, width),
        max(panels_size(S, D, width), panels_size(D, S, width)),
        max(panels_size(D, S, width), panels_size(D, block, width)),
        max(C, S) + width,
        (MR + 1) * width,
    )
    return np.cumsum([0, *sizes], dtype=np.int64)


@kernel
def room_of(memory, bounds):  # memory (size,), bounds (7,)
    """Return panels of MR rows, for q, dcontext and scores in turn; panels of NR columns, for kᵀ,
    for v or vᵀ, and for k, q and dcontext; then the bias, here zeros, and the edge of a product.
    """
    nothing, edge = memory[bounds[4] : bounds[5]], memory[bounds[5] : bounds[6]]
    nothing[:] = 0
    edge[:] = 0
    return (
        memory[: bounds[1]], memory[bounds[1] : bounds[2]], memory[bounds[2] : bounds[3]],
        memory[bounds[3] : bounds[4]], nothing, edge,
    )  # fmt: skip


@kernel
def hide(row, mask):  # scores (S,), changed; mask (S,)
    nowhere = row.dtype.type(-np.inf)
    for j in range(row.shape[0]):
        row[j] = row[j] if mask[j] else nowhere


@kernel
def softmax_of_scores(row):  # (S,), changed
    """Write probabilities in place of scores; return the log of their normaliser."""
    real = row.dtype.type
    highest = row_max(row)
    if highest == real(-np.inf):  # the query may look nowhere
        row[:] = 0
        return real(np.inf)
    total = exp_row(row, highest)
    scale_row(row, real(1) / total)
    return highest + np.log(total)


@kernel
def attend_head(q, k, v, mask, first, D, scale, drops, index, context, lse, scores, memory, bounds):
    """q, context (T, C), k, v (S, C), mask (0, S), (1, S) or (T, S), lse (T,).

    Memory: scores (block, S), and panels, cut at ``bounds``.
    """
    width, zero = tile_width(q), np.int64(0)  # bare, a constant would be compiled for anew
    start = zero == 0
    keep_scale, low, high, threshold = drops
    T, S, block = q.shape[0], k.shape[0], scores.shape[0]
    rows, keys, values, _, nothing, edge = room_of(memory, bounds)
    pack_lines(k, zero, S, first, D, width, keys)
    pack_columns(v, first, D, zero, S, width, values)
    for n in range((T + block - 1) // block):
        t0, count = n * block, min(T - n * block, block)
        pack_lines(q, t0, count, first, D, MR, rows)
        multiply_block(rows, keys, nothing, start, scores, zero, count, zero, S, D, edge)
        for i in range(count):
            t, row = t0 + i, scores[i]
            scale_row(row, scale)
            if mask.shape[0] > 0:
                hide(row, mask[t if mask.shape[0] > 1 else 0])
            lse[t] = softmax_of_scores(row)
            if threshold > 0:
                drop_in_place(row, keep_scale, low, high, threshold, np.uint32(index + t * S))
        pack_lines(scores, zero, count, zero, S, MR, rows)
        multiply_block(rows, values, nothing, start, context, t0, count, first, D, S, edge)


@kernel
def scores_backward(p, da, a, scale, lse, keep_scale, low, high, threshold, index):
    """Of q kᵀ in p and the weights' gradient in da, make its gradient in p, the weights in a."""
    total = nothing = p.dtype.type(0)
    for j in range(p.shape[0]):
        p[j] = exp(p[j] - lse)
    if threshold > 0:
        for j in range(p.shape[0]):
            bits = random_bits(low, high, np.uint32(index + np.uint32(j)))
            kept = bits >= threshold
            a[j] = p[j] * keep_scale if kept else nothing
            da[j] = da[j] * keep_scale if kept else nothing
    else:
        for j in range(p.shape[0]):
            a[j] = p[j]
    for j in range(p.shape[0]):
        total += p[j] * da[j]
    for j in range(p.shape[0]):
        p[j] *= (da[j] - total) * scale


@kernel
def attend_head_backward(
    dcontext, q, k, v, mask, first, D, scale, drops, index, lse, dq, dk, dv, scores, memory, bounds
):
    """dcontext, q, dq (T, C), k, v, dk, dv (S, C), mask (0, S), (1, S) or (T, S), lse (T,).

    scores (3, block, S): the scores, the gradient of the weights, and the weights after dropout.
    """
    width, zero = tile_width(q), np.int64(0)
    start = zero == 0
    keep_scale, low, high, threshold = drops
    p, da, a = scores[0], scores[1], scores[2]
    T, S, block = q.shape[0], k.shape[0], p.shape[0]
    rows, keys, values, columns, nothing, edge = room_of(memory, bounds)
    pack_lines(k, zero, S, first, D, width, keys)
    pack_lines(v, zero, S, first, D, width, values)
    for n in range((T + block - 1) // block):
        t0, count = n * block, min(T - n * block, block)
        pack_lines(q, t0, count, first, D, MR, rows)
        multiply_block(rows, keys, nothing, start, p, zero, count, zero, S, D, edge)
        pack_lines(dcontext, t0, count, first, D, MR, rows)
        multiply_block(rows, values, nothing, start, da, zero, count, zero, S, D, edge)
        for i in range(count):
            t = t0 + i
            scale_row(p[i], scale)
            if mask.shape[0] > 0:
                hide(p[i], mask[t if mask.shape[0] > 1 else 0])
            scores_backward(
                p[i], da[i], a[i], scale, lse[t],
                keep_scale, low, high, threshold, np.uint32(index + t * S),
            )  # fmt: skip
        # p has become the gradient of q kᵀ
        pack_lines(p, zero, count, zero, S, MR, rows)
        pack_columns(k, first, D, zero, S, width, columns)
        multiply_block(rows, columns, nothing, start, dq, t0, count, first, D, S, edge)
        pack_columns(p, zero, S, zero, count, MR, rows)
        pack_columns(q, first, D, t0, count, width, columns)
        multiply_block(rows, columns, nothing, n == 0, dk, zero, S, first, D, count, edge)
        pack_columns(a, zero, S, zero, count, MR, rows)
        pack_columns(dcontext, first, D, t0, count, width, columns)
        multiply_block(rows, columns, nothing, n == 0, dv, zero, S, first, D, count, edge)
