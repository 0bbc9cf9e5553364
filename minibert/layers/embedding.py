"""Embeddings: a look-up is an index into a table, and its backward is a sum per row.

Some articles call the look-up a matrix product with one-hot rows.  The two are equal, y = O E
with O_ni = 1[id_n = i], and the equality is how the backward is derived; but the product would
read all V rows of the table to use one.
"""

from __future__ import annotations

import numpy as np

from minibert.arrays import Array, check_ids, check_shape


def lookup_forward(
    ids: Array,  # (...), integers in [0, rows)
    table: Array,  # (rows, C)
) -> Array:  # y (..., C)
    """Return row ``ids[n]`` of the table for every n."""
    check_shape("table", table, (None, None))
    check_ids("ids", ids, table.shape[0])
    return table[ids]


def lookup_backward(
    dy: Array,  # (..., C)
    ids: Array,  # (...)
    rows: int,
) -> Array:  # dtable (rows, C)
    """Send a gradient back to the rows that were looked up.

    As a product with one-hot rows, y = O E, the backward is that of a linear layer:

        dE = Oᵀ dy      =>      dE_i = Σ_{n: id_n = i} dy_n

    A row that was looked up twice has two gradients, and they add.  ``dE[ids] += dy`` would keep
    only the last of them, since NumPy reads, adds and writes once per index; ``np.add.at`` adds
    every one.
    """
    check_ids("ids", ids, rows)
    check_shape("dy", dy, (*ids.shape, *dy.shape[-1:]))
    C = dy.shape[-1]
    dtable = np.zeros_like(dy, shape=(rows, C))
    np.add.at(dtable, ids.reshape(-1), dy.reshape(-1, C))
    return dtable


def embedding_forward(
    input_ids: Array,  # (B, T)
    token_type_ids: Array,  # (B, T): 0 in the first segment, 1 in the second
    word: Array,  # (V, C)
    position: Array,  # (longest, C)
    token_type: Array,  # (2, C)
) -> Array:  # y (B, T, C)
    """Return the sum of three look-ups: the token, its place in the row, and its segment.

    Source: Devlin et al., BERT (2019), section 3 and figure 2.
    """
    check_tables(word, position, token_type)
    check_embedding_ids(input_ids, token_type_ids, (len(word), len(position), len(token_type)))
    B, T = input_ids.shape
    return word[input_ids] + position[:T] + token_type[token_type_ids]


def embedding_backward(
    dy: Array,  # (B, T, C)
    input_ids: Array,  # (B, T)
    token_type_ids: Array,  # (B, T)
    rows: tuple[int, int, int],  # rows of the three tables
) -> tuple[Array, Array, Array]:  # dword (V, C), dposition (longest, C), dtoken_type (2, C)
    """Send a gradient back to three tables.

    A sum hands its gradient to every term unchanged, so each look-up receives dy whole.  Position
    t is looked up once in each of the B rows: its gradient is dy summed over the batch.
    """
    check_embedding_ids(input_ids, token_type_ids, rows)
    B, T = input_ids.shape
    check_shape("dy", dy, (B, T, *dy.shape[-1:]))
    dposition = np.zeros_like(dy, shape=(rows[1], dy.shape[-1]))
    dposition[:T] = dy.sum(axis=0)
    return (
        lookup_backward(dy, input_ids, rows[0]),
        dposition,
        lookup_backward(dy, token_type_ids, rows[2]),
    )


def check_tables(word: Array, position: Array, token_type: Array) -> None:
    """Raise unless the three tables are as wide as each other."""
    check_shape("word", word, (None, None))
    for name, table in (("position", position), ("token_type", token_type)):
        check_shape(name, table, (None, word.shape[1]))


def check_embedding_ids(
    input_ids: Array, token_type_ids: Array, rows: tuple[int, int, int]
) -> None:
    """Raise unless both ids are (B, T), within their tables, and T is within the positions."""
    words, positions, token_types = rows
    check_shape("input_ids", input_ids, (None, None))
    check_shape("token_type_ids", token_type_ids, input_ids.shape)
    T = input_ids.shape[1]
    if T > positions:
        raise ValueError(
            f"input_ids has {T} tokens in a row, but max_position_embeddings is {positions}: "
            "truncate or split the text"
        )
    check_ids("input_ids", input_ids, words)
    check_ids("token_type_ids", token_type_ids, token_types)
