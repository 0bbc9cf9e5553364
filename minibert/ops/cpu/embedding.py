"""Three look-ups in one pass, and their backward without a race.

Tokens of one batch share rows of the tables, so two threads that each take some tokens would add to
the same row at the same time.  Here each thread takes some *columns* and walks over all tokens in
order: no two threads touch one number, and every number is added to in one order.
"""

from __future__ import annotations

from numba import prange

from minibert.arrays import Array, check_float, check_shape
from minibert.layers.embedding import check_embedding_ids, check_tables
from minibert.ops.cpu.jit import kernel, parallel
from minibert.ops.cpu.memory import empty, fit, fit_ids
from minibert.ops.cpu.threads import launch, threads_for

LINE = 16  # columns that one thread takes at least: a cache line of float32


@kernel
def embed_sequence(ids, types, word, position, token_type, y):  # ids, types (T,), y (T, C)
    for t in range(ids.shape[0]):
        w, p, s, out = word[ids[t]], position[t], token_type[types[t]], y[t]
        for j in range(out.shape[0]):
            out[j] = w[j] + p[j] + s[j]


@parallel
def embed(ids, types, word, position, token_type, y):  # ids, types (B, T), y (B, T, C)
    for b in prange(ids.shape[0]):
        embed_sequence(ids[b], types[b], word, position, token_type, y[b])


@kernel
def add_to(total, x):  # (n,)
    for j in range(x.shape[0]):
        total[j] += x[j]


@kernel
def scatter(dy, ids, types, dword, dposition, dtoken_type, first, last):
    """Sum the columns first … last - 1 of dy (B, T, C) into those of the tables (rows, C)."""
    for table in (dword, dposition, dtoken_type):
        for row in range(table.shape[0]):
            table[row][first:last] = 0
    B, T = ids.shape
    for b in range(B):
        for t in range(T):
            d = dy[b, t][first:last]
            add_to(dword[ids[b, t]][first:last], d)
            add_to(dposition[t][first:last], d)
            add_to(dtoken_type[types[b, t]][first:last], d)


@parallel
def scatter_all(dy, ids, types, dword, dposition, dtoken_type, columns):
    C = dy.shape[2]
    for part in prange((C + columns - 1) // columns):
        first, last = part * columns, min(C, (part + 1) * columns)
        scatter(dy, ids, types, dword, dposition, dtoken_type, first, last)


def embedding_forward(
    input_ids: Array,  # (B, T)
    token_type_ids: Array,  # (B, T)
    word: Array,  # (V, C)
    position: Array,  # (longest, C)
    token_type: Array,  # (2, C)
) -> Array:  # y (B, T, C)
    """Return the sum of the three look-ups."""
    check_tables(word, position, token_type)
    check_embedding_ids(input_ids, token_type_ids, (len(word), len(position), len(token_type)))
    check_float("word", word)
    check_float("position", position, like=word)
    check_float("token_type", token_type, like=word)
    y = empty((*input_ids.shape, word.shape[1]), word.dtype)
    launch(
        embed,
        y.size,
        fit_ids(input_ids),
        fit_ids(token_type_ids),
        fit(word),
        fit(position),
        fit(token_type),
        y,
    )
    return y


def embedding_backward(
    dy: Array,  # (B, T, C)
    input_ids: Array,  # (B, T)
    token_type_ids: Array,  # (B, T)
    rows: tuple[int, int, int],
) -> tuple[Array, Array, Array]:  # dword (V, C), dposition (longest, C), dtoken_type (2, C)
    """Return each table's gradient: for every row, the sum of dy where it was looked up."""
    check_embedding_ids(input_ids, token_type_ids, rows)
    check_float("dy", dy)
    check_shape("dy", dy, (*input_ids.shape, *dy.shape[-1:]))
    C = dy.shape[-1]
    dword, dposition, dtoken_type = (empty((n, C), dy.dtype) for n in rows)
    share = -(-C // threads_for(dy.size))
    columns = max(-(-share // LINE) * LINE, LINE)
    launch(
        scatter_all, dy.size,
        fit(dy), fit_ids(input_ids), fit_ids(token_type_ids),
        dword, dposition, dtoken_type, columns,
    )  # fmt: skip
    return dword, dposition, dtoken_type
