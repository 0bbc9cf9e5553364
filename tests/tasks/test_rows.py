"""Rows: padding that no one reads, and batches in which every row comes once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.keys import Key
from minibert.tasks.rows import POOL, Row, Tokens, batches_by_length, pad_rows, shuffled_batches

LENGTHS = st.lists(st.integers(1, 40), max_size=200)


def row(*lengths: int) -> Row:
    return Row(tuple(Tokens([7] * n, [0] + [1] * (n - 1)) for n in lengths), None, 0)


def test_padding_is_masked() -> None:
    batch = pad_rows([row(2), row(4), row(1)], 9, np.array([5, 6, 7]))
    assert batch.input_ids.tolist() == [[7, 7, 9, 9], [7, 7, 7, 7], [7, 9, 9, 9]]
    assert batch.attention_mask.tolist() == [
        [True, True, False, False],
        [True] * 4,
        [True, False, False, False],
    ]
    assert batch.token_type_ids.tolist() == [[0, 1, 0, 0], [0, 1, 1, 1], [0, 0, 0, 0]]
    assert batch.labels.tolist() == [5, 6, 7]
    assert batch.input_ids.dtype == batch.token_type_ids.dtype == np.int32
    assert batch.attention_mask.dtype == np.bool_


def test_the_two_sequences_of_a_row_follow_each_other() -> None:
    batch = pad_rows([row(1, 3), row(2, 2)], 0, np.zeros(2))
    assert batch.attention_mask.sum(axis=1).tolist() == [1, 3, 2, 2]
    assert row(1, 3).length == 3


@given(LENGTHS, st.integers(1, 9), st.integers(0, 5))
def test_every_row_comes_once_in_an_epoch(lengths: list[int], size: int, seed: int) -> None:
    batches = shuffled_batches(lengths, size, Key(seed))
    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    assert all(1 <= len(batch) <= size for batch in batches)
    assert len(batches) == -(-len(lengths) // size)
    assert batches == shuffled_batches(lengths, size, Key(seed))


def test_another_epoch_has_another_order_and_other_company() -> None:
    lengths = [3] * 40
    first, second = (shuffled_batches(lengths, 4, Key(0).child("epoch", n)) for n in (1, 2))
    assert first != second
    assert {frozenset(batch) for batch in first} != {frozenset(batch) for batch in second}


def test_the_rows_of_a_batch_are_about_as_long() -> None:
    """50 batches of 4 are put together at a time, so hardly anything is padding."""
    lengths = np.random.default_rng(0).integers(1, 101, 4 * POOL).tolist()
    batches = shuffled_batches(lengths, 4, Key(0))
    computed = sum(len(batch) * max(lengths[n] for n in batch) for batch in batches)
    assert computed < 1.02 * sum(lengths)
    order = [lengths[batch[0]] for batch in batches]
    assert order != sorted(order)  # the batches themselves come in no order


@given(LENGTHS, st.integers(1, 100))
def test_a_batch_keeps_to_its_budget(lengths: list[int], budget: int) -> None:
    batches = list(batches_by_length(lengths, budget))
    assert sorted(number for batch in batches for number in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[n] for n in batch) <= budget


@pytest.mark.parametrize(
    ("lengths", "batches"),
    [
        ([], []),
        ([9], [[0]]),
        ([5, 1, 2], [[1, 2], [0]]),  # 2 · 2 <= 6, but 3 · 5 is not
        ([3, 3, 3], [[0, 1], [2]]),
    ],
)
def test_batches_by_length(lengths: list[int], batches: list[list[int]]) -> None:
    assert list(batches_by_length(lengths, 6)) == batches
