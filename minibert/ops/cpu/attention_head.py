"""One head of one sequence: attention and its backward, in the cache of one core.

The queries are cut into blocks so that a block's scores stay in the second-level cache, and
everything is done to them there.  The products are made of the same tiles as a large matrix
product; their operands are small enough to be read where they lie, so only k and v are also
transposed.

All operands lie in one stretch of memory, ``work``, at places named ``at_…``, in rows that lie
``row_d`` or ``row_s`` apart: D or S, rounded up so that tiles may jut out over the edges.  What
they write there is never read back, or belongs to rows and columns that are cut off at the end.
"""

from __future__ import annotations

import numpy as np

from minibert.ops.cpu.dropout import drop_in_place
from minibert.ops.cpu.elementary import exp, random_bits
from minibert.ops.cpu.jit import kernel
from minibert.ops.cpu.softmax import exp_row, row_max, scale_row
from minibert.ops.cpu.tile import MR, add_tile, tile_width


@kernel
def up(size, step):
    """Return the size rounded up to a multiple of the step."""
    return (size + step - 1) // step * step


@kernel
def add_product(work, a, a_row, a_step, b, b_step, depth, c, c_row, M, N):
    """c (M, N) += A B; all lie in ``work``: a, b and c are where, the others the strides."""
    width = tile_width(work)
    for j in range((N + width - 1) // width):
        for i in range((M + MR - 1) // MR):
            add_tile(
                work, a + i * MR * a_row, a_row, a_step, work, b + j * width, b_step,
                depth, work, c + i * MR * c_row + j * width, c_row,
            )  # fmt: skip


@kernel
def copy_head(x, first, columns, factor, work, start, row):  # x (T, C); work: (T, D), rows apart
    for t in range(x.shape[0]):
        source, target = x[t][first : first + columns], work[start + t * row :]
        for d in range(columns):
            target[d] = source[d] * factor


@kernel
def copy_transposed(x, first, columns, work, start, row):  # x (S, C); work: (D, S)
    for d in range(columns):
        target = work[start + d * row : start + d * row + x.shape[0]]
        for s in range(x.shape[0]):
            target[s] = x[s, first + d]


@kernel
def put_back(work, start, row, factor, y, first, columns):  # work: (T, D), y (T, C)
    for t in range(y.shape[0]):
        source, target = work[start + t * row :], y[t][first : first + columns]
        for d in range(columns):
            target[d] = source[d] * factor


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
def attend_head(q, k, v, mask, first, D, block, scale, drops, index, context, lse, work):
    """q, context (T, C), k, v (S, C), mask (0, S), (1, S) or (T, S), lse (T,)."""
    real, width = q.dtype.type, tile_width(work)
    keep_scale, low, high, threshold = drops
    T, S = q.shape[0], k.shape[0]
    row_d, row_s = up(D, width), up(S + MR, width)
    at_kt, one = np.int64(0), np.int64(1)  # bare, each constant would be compiled for anew
    at_v = at_kt + D * row_s
    at_q = at_v + S * row_d
    at_p = at_q + block * row_d
    at_y = at_p + block * row_s
    copy_transposed(k, first, D, work, at_kt, row_s)
    copy_head(v, first, D, real(1), work, at_v, row_d)
    for n in range((T + block - 1) // block):
        t0, t1 = n * block, min(T, (n + 1) * block)
        copy_head(q[t0:t1], first, D, scale, work, at_q, row_d)
        work[at_p:] = 0
        add_product(work, at_q, row_d, one, at_kt, row_s, D, at_p, row_s, t1 - t0, S)
        for t in range(t0, t1):
            row = work[at_p + (t - t0) * row_s : at_p + (t - t0) * row_s + S]
            if mask.shape[0] > 0:
                hide(row, mask[t if mask.shape[0] > 1 else 0])
            lse[t] = softmax_of_scores(row)
            if threshold > 0:
                drop_in_place(row, keep_scale, low, high, threshold, np.uint32(index + t * S))
        add_product(work, at_p, row_s, one, at_v, row_d, S, at_y, row_d, t1 - t0, D)
        put_back(work, at_y, row_d, real(1), context[t0:t1], first, D)


@kernel
def scores_backward(p, da, a, lse, keep_scale, low, high, threshold, index):  # p, da, a (S,)
    """Of scores in p and the weights' gradient in da, make dscores in p and the weights in a."""
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
        p[j] *= da[j] - total


@kernel
def attend_head_backward(
    dcontext, q, k, v, mask, first, D, block, scale, drops, index, lse, dq, dk, dv, work
):
    """dcontext, q, dq (T, C), k, v, dk, dv (S, C), mask (0, S), (1, S) or (T, S), lse (T,)."""
    real, width = q.dtype.type, tile_width(work)
    keep_scale, low, high, threshold = drops
    T, S = q.shape[0], k.shape[0]
    row_d, row_s = up(D, width), up(S + MR, width)
    at_kt, one = np.int64(0), np.int64(1)  # bare, each constant would be compiled for anew
    at_vt = at_kt + D * row_s
    at_k = at_vt + D * row_s
    at_dk = at_k + S * row_d
    at_dv = at_dk + row_s * row_d
    at_q = at_dv + row_s * row_d
    at_dy = at_q + block * row_d
    at_a = at_dy + block * row_d
    at_p = at_a + block * row_s
    at_da = at_p + block * row_s
    at_dq = at_da + block * row_s
    copy_transposed(k, first, D, work, at_kt, row_s)
    copy_transposed(v, first, D, work, at_vt, row_s)
    copy_head(k, first, D, real(1), work, at_k, row_d)
    work[at_dk:at_q] = 0
    for n in range((T + block - 1) // block):
        t0, t1 = n * block, min(T, (n + 1) * block)
        count = t1 - t0
        copy_head(q[t0:t1], first, D, scale, work, at_q, row_d)
        copy_head(dcontext[t0:t1], first, D, real(1), work, at_dy, row_d)
        work[at_p:] = 0
        add_product(work, at_q, row_d, one, at_kt, row_s, D, at_p, row_s, count, S)
        add_product(work, at_dy, row_d, one, at_vt, row_s, D, at_da, row_s, count, S)
        for t in range(t0, t1):
            start = (t - t0) * row_s
            p = work[at_p + start : at_p + start + S]
            if mask.shape[0] > 0:
                hide(p, mask[t if mask.shape[0] > 1 else 0])
            scores_backward(
                p, work[at_da + start : at_da + start + S], work[at_a + start : at_a + start + S],
                lse[t], keep_scale, low, high, threshold, np.uint32(index + t * S),
            )  # fmt: skip
        # p now holds dscores, and q is scaled: dk needs no factor, dq gets it when put back
        add_product(work, at_a, one, row_s, at_dy, row_d, count, at_dv, row_d, S, D)
        add_product(work, at_p, one, row_s, at_q, row_d, count, at_dk, row_d, S, D)
        add_product(work, at_p, row_s, one, at_k, row_d, S, at_dq, row_d, count, D)
        put_back(work, at_dq, row_d, scale, dq[t0:t1], first, D)
    put_back(work, at_dk, row_d, real(1), dk, first, D)
    put_back(work, at_dv, row_d, real(1), dv, first, D)
