"""Rows: an example, or a part of one, as token ids; and batches of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from minibert.arrays import Array
from minibert.keys import Key
from minibert.models.classifier import TaskBatch

POOL = 50
"""So many batches are put together from rows that were sorted by length."""


class Tokens(NamedTuple):
    """One sequence with its special tokens, ready to be padded."""

    input_ids: list[int]
    token_type_ids: list[int]


class Row(NamedTuple):
    """What one forward computes an answer for.

    A long passage gives several rows, each a window of it; two sentences that are read apart are
    one row of two sequences.
    """

    sequences: tuple[Tokens, ...]
    label: Any  # in the form of the model's labels; None where it is not known
    example: int  # the number of the example that it is from
    origin: Any = None  # what the task needs to turn scores into an answer

    @property
    def length(self) -> int:
        return max(len(tokens.input_ids) for tokens in self.sequences)


def pad_rows(rows: Sequence[Row], pad_id: int, labels: Array) -> TaskBatch:
    """Lay the rows' sequences under one another, padded on the right to the longest."""
    sequences = [tokens for row in rows for tokens in row.sequences]
    B, T = len(sequences), max(row.length for row in rows)
    input_ids = np.full((B, T), pad_id, np.int32)
    token_type_ids = np.zeros((B, T), np.int32)
    attention_mask = np.zeros((B, T), np.bool_)
    for number, tokens in enumerate(sequences):
        length = len(tokens.input_ids)
        input_ids[number, :length] = tokens.input_ids
        token_type_ids[number, :length] = tokens.token_type_ids
        attention_mask[number, :length] = True
    return TaskBatch(input_ids, token_type_ids, attention_mask, labels)


def shuffled_batches(lengths: Sequence[int], batch_size: int, key: Key) -> list[list[int]]:
    """Return the numbers of all rows, each once, in batches of rows of about the same length.

    The order is random; within stretches of ``POOL`` batches the rows are sorted by length, cut
    into batches, and the batches shuffled.  So hardly any padding is computed, and which rows meet
    in a batch is still another draw in each epoch.
    """
    generator = key.generator()
    order = generator.permutation(len(lengths)).tolist()
    batches: list[list[int]] = []
    for start in range(0, len(order), POOL * batch_size):
        pool = sorted(order[start : start + POOL * batch_size], key=lengths.__getitem__)
        batches += [pool[at : at + batch_size] for at in range(0, len(pool), batch_size)]
    return [batches[number] for number in generator.permutation(len(batches))]


def batches_by_length(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Yield the numbers of all rows, short ones first, in batches of at most so many tokens.

    A batch holds at least one row, however long.
    """
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[number] > tokens:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
