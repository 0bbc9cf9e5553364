import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.gradcheck import check_gradients, check_pair
from minibert.layers.embedding import lookup_backward, lookup_forward

from .common import LEADING, SEEDS, SIZES, few, normal


def ids(seed: int, rows: int, *shape: int) -> np.ndarray:
    """Random ids; with few rows most of them repeat."""
    return np.random.default_rng(seed).integers(0, rows, shape).astype(np.int32)


def test_lookup_by_hand():
    table = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    np.testing.assert_array_equal(
        lookup_forward(np.array([2, 0, 2]), table), [[5.0, 6.0], [1.0, 2.0], [5.0, 6.0]]
    )
    # Row 2 was looked up twice and gets both gradients, row 1 never.  ``+=`` would keep the last.
    dtable = lookup_backward(
        np.array([[1.0, 2.0], [3.0, 4.0], [10.0, 20.0]]), np.array([2, 0, 2]), 3
    )
    np.testing.assert_array_equal(dtable, [[3.0, 4.0], [0.0, 0.0], [11.0, 22.0]])


def test_three_lookups_by_hand(ops):
    word = np.array([[1.0], [2.0], [4.0]])
    position = np.array([[10.0], [20.0], [40.0], [80.0]])
    token_type = np.array([[100.0], [200.0]])
    input_ids = np.array([[2, 0, 2], [1, 1, 2]], np.int32)
    token_type_ids = np.array([[0, 1, 1], [0, 0, 0]], np.int32)
    y = ops.embedding_forward(input_ids, token_type_ids, word, position, token_type)
    np.testing.assert_array_equal(
        y[..., 0],
        [[4 + 10 + 100, 1 + 20 + 200, 4 + 40 + 200], [2 + 10 + 100, 2 + 20 + 100, 4 + 40 + 100]],
    )
    dy = np.array([[[1.0], [2.0], [4.0]], [[8.0], [16.0], [32.0]]])
    dword, dposition, dtoken_type = ops.embedding_backward(dy, input_ids, token_type_ids, (3, 4, 2))
    np.testing.assert_array_equal(dword[:, 0], [2.0, 8.0 + 16.0, 1.0 + 4.0 + 32.0])
    np.testing.assert_array_equal(dposition[:, 0], [1.0 + 8.0, 2.0 + 16.0, 4.0 + 32.0, 0.0])
    np.testing.assert_array_equal(dtoken_type[:, 0], [1.0 + 8.0 + 16.0 + 32.0, 2.0 + 4.0])


@few
@given(seed=SEEDS, leading=LEADING, rows=SIZES, C=SIZES)
def test_lookup_gradients(seed, leading, rows, C):
    chosen = ids(seed, rows, *leading)
    check_pair(
        lambda table: lookup_forward(chosen, table),
        lambda dy, table: lookup_backward(dy, chosen, rows),
        {"table": normal(seed, rows, C)},
    )


@few
@given(seed=SEEDS, B=SIZES, T=SIZES, C=SIZES, V=SIZES, spare=st.integers(0, 2), types=SIZES)
def test_gradients(ops, seed, B, T, C, V, spare, types):
    input_ids, token_type_ids = ids(seed, V, B, T), ids(seed + 1, types, B, T)
    check_pair(
        lambda *tables: ops.embedding_forward(input_ids, token_type_ids, *tables),
        lambda dy, *tables: ops.embedding_backward(
            dy, input_ids, token_type_ids, tuple(map(len, tables))
        ),
        {
            "word": normal(seed, V, C),
            "position": normal(seed + 1, T + spare, C),
            "token_type": normal(seed + 2, types, C),
        },
    )


def test_equals_the_product_with_one_hot_rows(ops):
    input_ids, token_type_ids = ids(1, 5, 3, 7), ids(2, 2, 3, 7)
    one_hot, one_hot_type = np.eye(5)[input_ids], np.eye(2)[token_type_ids]
    dy = normal(3, 3, 7, 4)
    dword, dposition, dtoken_type = ops.embedding_backward(dy, input_ids, token_type_ids, (5, 9, 2))
    np.testing.assert_allclose(dword, np.einsum("btv,btc->vc", one_hot, dy), rtol=1e-12)
    np.testing.assert_allclose(dtoken_type, np.einsum("btv,btc->vc", one_hot_type, dy), rtol=1e-12)
    np.testing.assert_allclose(dposition[:7], np.einsum("btc->tc", dy), rtol=1e-12)
    np.testing.assert_array_equal(dposition[7:], 0)


def test_tied_table_gets_both_gradients(ops):
    # One table looked up by ids and used again to score the result, as BERT's decoder does.
    table, x = normal(1, 5, 3), ids(2, 5, 2, 4)
    position, token_type = normal(3, 4, 3), normal(4, 1, 3)
    types, labels, bias = np.zeros_like(x), ids(5, 5, 8), normal(6, 5)

    def forward():
        hidden = ops.embedding_forward(x, types, table, position, token_type).reshape(8, 3)
        return hidden, ops.vocab_cross_entropy_forward(hidden, table, bias, labels)

    hidden, (_, _, dlogits) = forward()
    dhidden, dtable, _ = ops.vocab_cross_entropy_backward(1.0, dlogits, hidden, table)
    dword, _, _ = ops.embedding_backward(dhidden.reshape(2, 4, 3), x, types, (5, 4, 1))
    check_gradients(lambda: forward()[1][0], {"table": (table, dtable + dword)})


def test_single_precision_and_untouched_inputs(ops):
    input_ids, token_type_ids = ids(1, 5, 3, 7), ids(2, 2, 3, 7)
    tables = [normal(seed, rows, 4).astype(np.float32) for seed, rows in ((1, 5), (2, 8), (3, 2))]
    dy = normal(4, 3, 7, 4).astype(np.float32)
    given_arrays = [input_ids, token_type_ids, dy, *tables]
    kept = [array.copy() for array in given_arrays]
    y = ops.embedding_forward(input_ids, token_type_ids, *tables)
    gradients = ops.embedding_backward(dy, input_ids, token_type_ids, (5, 8, 2))
    assert {array.dtype for array in (y, *gradients)} == {np.dtype(np.float32)}
    for array, before in zip(given_arrays, kept, strict=True):
        np.testing.assert_array_equal(array, before)


TABLES = (np.zeros((5, 2)), np.zeros((4, 2)), np.zeros((2, 2)))
GOOD = np.zeros((3, 4), np.int32)


@pytest.mark.parametrize("bad", [-1, 5, 2**31 - 1, -100])
def test_wrong_id_is_named(ops, bad):
    wrong = GOOD.copy()
    wrong[1, 2] = bad
    with pytest.raises(ValueError, match=f"input_ids holds {bad}, expected 0 to 4"):
        ops.embedding_forward(wrong, GOOD, *TABLES)
    with pytest.raises(ValueError, match=f"token_type_ids holds {bad}, expected 0 to 1"):
        ops.embedding_forward(GOOD, wrong, *TABLES)
    with pytest.raises(ValueError, match=f"input_ids holds {bad}, expected 0 to 4"):
        ops.embedding_backward(np.zeros((3, 4, 2)), wrong, GOOD, (5, 4, 2))
    with pytest.raises(ValueError, match=f"token_type_ids holds {bad}, expected 0 to 1"):
        ops.embedding_backward(np.zeros((3, 4, 2)), GOOD, wrong, (5, 4, 2))
    with pytest.raises(ValueError, match=f"ids holds {bad}, expected 0 to 4"):
        lookup_forward(wrong, TABLES[0])
    with pytest.raises(ValueError, match=f"ids holds {bad}, expected 0 to 4"):
        lookup_backward(np.zeros((3, 4, 2)), wrong, 5)


def test_wrong_shapes_and_dtypes_are_named(ops):
    with pytest.raises(TypeError, match="input_ids has dtype float64, expected integers"):
        ops.embedding_forward(GOOD.astype(np.float64), GOOD, *TABLES)
    with pytest.raises(TypeError, match="token_type_ids has dtype bool, expected integers"):
        ops.embedding_forward(GOOD, GOOD.astype(bool), *TABLES)
    with pytest.raises(ValueError, match=r"input_ids has shape \(4,?\), expected \(any, any\)"):
        ops.embedding_forward(GOOD[0], GOOD[0], *TABLES)
    with pytest.raises(ValueError, match=r"token_type_ids has shape \(3, 3\), expected \(3, 4\)"):
        ops.embedding_forward(GOOD, GOOD[:, :3], *TABLES)
    long = np.zeros((1, 5), np.int32)
    with pytest.raises(ValueError, match=r"input_ids has 5 tokens in a row, .* is 4: truncate"):
        ops.embedding_forward(long, long, *TABLES)
    for shape in [(3, 1, 2), (1, 4, 2), (4, 3, 2), (4, 2)]:
        with pytest.raises(ValueError, match=r"dy has shape .*, expected \(3, 4, 2\)"):
            ops.embedding_backward(np.zeros(shape), GOOD, GOOD, (5, 4, 2))
    with pytest.raises(ValueError, match=r"dy has shape \(4, 2\), expected \(3, 4, 2\)"):
        lookup_backward(np.zeros((4, 2)), GOOD, 5)
