import math

import numpy as np
import pytest
from hypothesis import given

from minibert.arrays import IGNORED
from minibert.gradcheck import check_gradients, check_pair
from minibert.layers.cross_entropy import (
    cross_entropy_backward,
    cross_entropy_forward,
    row_weights,
    weighted_cross_entropy_backward,
    weighted_cross_entropy_forward,
)

from .common import SEEDS, SIZES, few, normal


def labels_for(seed: int, N: int, V: int, ignored: float = 0.3) -> np.ndarray:
    """Random labels; about a third of the rows are ignored, but never the first."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, V, N).astype(np.int32)
    labels[rng.random(N) < ignored] = IGNORED
    labels[:1] = rng.integers(0, V, 1)
    return labels


def test_forward_by_hand(ops):
    # probabilities [1, 3]/4 and [1, 2, …]: e^{ln 1}, e^{ln 3}.  Row 0, label 1: -ln ¾.
    # Row 1 is ignored.  Row 2, label 0, which is a label like any other: -ln ¼.
    logits = np.log(np.array([[1.0, 3.0], [5.0, 1.0], [1.0, 3.0]]))
    loss, probs = ops.cross_entropy_forward(logits, np.array([1, IGNORED, 0], np.int32))
    assert loss == pytest.approx(math.log(4 / 3) + math.log(4), rel=1e-15)
    np.testing.assert_allclose(probs, [[1 / 4, 3 / 4], [5 / 6, 1 / 6], [1 / 4, 3 / 4]], rtol=1e-15)


def test_backward_by_hand(ops):
    # 2 (p - one-hot): 2 · [¼, ¾ - 1], nothing in the ignored row, 2 · [¼ - 1, ¾]
    probs = np.array([[1 / 4, 3 / 4], [5 / 6, 1 / 6], [1 / 4, 3 / 4]])
    dlogits = ops.cross_entropy_backward(2.0, probs, np.array([1, IGNORED, 0], np.int32))
    np.testing.assert_array_equal(dlogits, [[0.5, -0.5], [0.0, 0.0], [-1.5, 1.5]])


def test_vocab_by_hand(ops):
    # x Eᵀ + b = [0, 0] + [ln 3, 0]; were the bias added twice, 3 would become 9.
    # label 0: -ln ¾, and it ranks first; label 1: -ln ¼, and it does not.
    x, table, bias = np.ones((3, 4)), np.zeros((2, 4)), np.array([math.log(3), 0.0])
    labels = np.array([0, 1, IGNORED], np.int32)
    loss, right, dlogits = ops.vocab_cross_entropy_forward(x, table, bias, labels)
    assert loss == pytest.approx(math.log(4 / 3) + math.log(4), rel=1e-15)
    assert right == 1
    assert isinstance(loss, float)
    assert isinstance(right, int)
    dx, dtable, dbias = ops.vocab_cross_entropy_backward(2.0, dlogits, x, table)
    # dlogits: [¾ - 1, ¼], [¾, ¼ - 1] and nothing; times 2 and summed over the rows: [1, -1]
    np.testing.assert_allclose(dbias, [1.0, -1.0], rtol=1e-15)
    np.testing.assert_allclose(dtable, [[1.0] * 4, [-1.0] * 4], rtol=1e-15)
    np.testing.assert_array_equal(dx, np.zeros((3, 4)))


def test_vocab_dx_by_hand(ops):
    # one row, logits 0 and 0: dlogits = 5 · [½ - 1, ½], dx = 5 · (-½ · [1, 0] + ½ · [3, 2])
    table = np.array([[1.0, 0.0], [3.0, 2.0]])
    x = np.zeros((1, 2))
    _, right, dlogits = ops.vocab_cross_entropy_forward(
        x, table, np.zeros(2), np.array([0], np.int32)
    )
    dx, dtable, dbias = ops.vocab_cross_entropy_backward(5.0, dlogits, x, table)
    np.testing.assert_allclose(dx, [[5.0, 5.0]], rtol=1e-15)
    np.testing.assert_array_equal(dtable, np.zeros((2, 2)))
    np.testing.assert_allclose(dbias, [-2.5, 2.5], rtol=1e-15)
    assert right == 1  # of equal scores the first counts


@few
@given(seed=SEEDS, N=SIZES, V=SIZES.filter(lambda V: V > 1))
def test_gradients(ops, seed, N, V):
    labels = labels_for(seed, N, V)
    check_pair(
        lambda logits: ops.cross_entropy_forward(logits, labels)[0],
        lambda dloss, logits: ops.cross_entropy_backward(
            dloss, ops.cross_entropy_forward(logits, labels)[1], labels
        ),
        {"logits": normal(seed, N, V, std=2.0)},
    )


@few
@given(seed=SEEDS, M=SIZES, C=SIZES, V=SIZES.filter(lambda V: V > 1))
def test_vocab_gradients(ops, seed, M, C, V):
    labels = labels_for(seed, M, V)

    def backward(dloss, x, table, bias):
        _, _, dlogits = ops.vocab_cross_entropy_forward(x, table, bias, labels)
        return ops.vocab_cross_entropy_backward(dloss, dlogits, x, table)

    check_pair(
        lambda x, table, bias: ops.vocab_cross_entropy_forward(x, table, bias, labels)[0],
        backward,
        {"x": normal(seed, M, C), "table": normal(seed + 1, V, C), "bias": normal(seed + 2, V)},
    )


def test_vocab_larger_than_any_block(ops):
    # More rows of vocabulary than a kernel may treat at once, and not a round number of them.
    labels = labels_for(1, 37, 1031)
    x, table, bias = normal(1, 37, 5), normal(2, 1031, 5), normal(3, 1031)
    _, _, dlogits = ops.vocab_cross_entropy_forward(x, table, bias, labels)
    gradients = ops.vocab_cross_entropy_backward(0.25, dlogits, x, table)
    values = {"x": x, "table": table, "bias": bias}
    check_gradients(
        lambda: 0.25 * ops.vocab_cross_entropy_forward(x, table, bias, labels)[0],
        {name: (value, g) for (name, value), g in zip(values.items(), gradients, strict=True)},
    )


def test_one_class_has_no_gradient(ops):
    labels = np.zeros(3, np.int32)
    loss, probs = ops.cross_entropy_forward(normal(1, 3, 1), labels)
    assert loss == 0.0
    np.testing.assert_array_equal(ops.cross_entropy_backward(1.5, probs, labels), np.zeros((3, 1)))


@pytest.mark.parametrize("N", [0, 3])
def test_no_label_counts(ops, dtype, N):
    # The smallest batch that destroyed models elsewhere: no masked token, and 0/0.
    labels = np.full(N, IGNORED, np.int32)
    x, table, bias = (
        normal(s, *shape).astype(dtype) for s, shape in enumerate([(N, 4), (5, 4), (5,)])
    )
    loss, right, dlogits = ops.vocab_cross_entropy_forward(x, table, bias, labels)
    assert (loss, right) == (0.0, 0)
    for gradient in ops.vocab_cross_entropy_backward(1.0, dlogits, x, table):
        assert gradient.dtype == dtype
        np.testing.assert_array_equal(gradient, np.zeros_like(gradient))
    loss, probs = ops.cross_entropy_forward(normal(1, N, 5).astype(dtype), labels)
    assert loss == 0.0
    np.testing.assert_array_equal(ops.cross_entropy_backward(1.0, probs, labels), np.zeros((N, 5)))


def test_ignored_rows_change_nothing(ops):
    x, table, bias = normal(1, 6, 4), normal(2, 5, 4), normal(3, 5)
    labels = np.array([3, IGNORED, 0, IGNORED, 4, 3], np.int32)
    counted = labels != IGNORED
    loss, right, dlogits = ops.vocab_cross_entropy_forward(x, table, bias, labels)
    loss2, right2, dlogits2 = ops.vocab_cross_entropy_forward(
        np.ascontiguousarray(x[counted]), table, bias, labels[counted]
    )
    assert loss == pytest.approx(loss2, rel=1e-14)
    assert right == right2
    dx, dtable, dbias = ops.vocab_cross_entropy_backward(0.5, dlogits, x, table)
    dx2, dtable2, dbias2 = ops.vocab_cross_entropy_backward(
        0.5, dlogits2, np.ascontiguousarray(x[counted]), table
    )
    np.testing.assert_array_equal(dx[~counted], 0)
    for a, b in ((dx[counted], dx2), (dtable, dtable2), (dbias, dbias2)):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_right_answers_are_counted(ops):
    x, table = np.eye(4), np.eye(4)  # logits are the identity: row n ranks n first
    labels = np.array([0, 1, 3, IGNORED], np.int32)
    assert ops.vocab_cross_entropy_forward(x, table, np.zeros(4), labels)[1] == 2


def test_far_logits_give_a_finite_loss(ops, dtype):
    # p rounds to 0, but its logarithm is -1000 all the same.
    logits = np.array([[1000.0, 0.0], [-1000.0, 1000.0]], dtype)
    labels = np.array([1, 0], np.int32)
    loss, probs = ops.cross_entropy_forward(logits, labels)
    assert loss == 1000.0 + 2000.0
    np.testing.assert_array_equal(
        ops.cross_entropy_backward(1.0, probs, labels), [[1.0, -1.0], [-1.0, 1.0]]
    )


def test_single_precision_and_untouched_inputs(ops):
    x, table, bias = (
        normal(s, *shape).astype(np.float32) for s, shape in enumerate([(7, 4), (5, 4), (5,)])
    )
    labels = labels_for(1, 7, 5)
    given_arrays = [x, table, bias, labels]
    kept = [array.copy() for array in given_arrays]
    loss, _, dlogits = ops.vocab_cross_entropy_forward(x, table, bias, labels)
    kept_dlogits = dlogits.copy()
    gradients = ops.vocab_cross_entropy_backward(0.5, dlogits, x, table)
    logits = x @ table.T + bias
    kept_logits = logits.copy()
    loss2, probs = ops.cross_entropy_forward(logits, labels)
    kept_probs = probs.copy()
    dlogits2 = ops.cross_entropy_backward(0.5, probs, labels)
    found = [dlogits, *gradients, probs, dlogits2]
    assert {array.dtype for array in found} == {np.dtype(np.float32)}
    assert loss == pytest.approx(loss2, rel=1e-5)
    pairs = [(dlogits, kept_dlogits), (logits, kept_logits), (probs, kept_probs)]
    for array, before in [*zip(given_arrays, kept, strict=True), *pairs]:
        np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize("bad", [-1, 5, -99, 2**31 - 1])
def test_wrong_label_is_named(ops, bad):
    labels = np.array([0, bad, 1], np.int32)
    message = rf"labels holds {bad}, expected 0 to 4 or -100 \(ignored\)"
    with pytest.raises(ValueError, match=message):
        ops.cross_entropy_forward(np.zeros((3, 5)), labels)
    with pytest.raises(ValueError, match=message):
        ops.vocab_cross_entropy_forward(np.zeros((3, 2)), np.zeros((5, 2)), np.zeros(5), labels)


def test_wrong_shapes_and_dtypes_are_named(ops):
    labels = np.zeros(3, np.int32)
    with pytest.raises(ValueError, match=r"labels has shape \(3,?\), expected \(4,?\)"):
        ops.cross_entropy_forward(np.zeros((4, 5)), labels)
    with pytest.raises(ValueError, match=r"logits has shape \(3,?\), expected \(any, any\)"):
        ops.cross_entropy_forward(np.zeros(3), labels)
    with pytest.raises(TypeError, match="labels has dtype float64, expected integers"):
        ops.cross_entropy_forward(np.zeros((3, 5)), np.zeros(3))
    with pytest.raises(ValueError, match=r"x has shape \(3, 3\), expected \(any, 2\)"):
        ops.vocab_cross_entropy_forward(np.zeros((3, 3)), np.zeros((5, 2)), np.zeros(5), labels)
    with pytest.raises(ValueError, match=r"bias has shape \(1,?\), expected \(5,?\)"):
        ops.vocab_cross_entropy_forward(np.zeros((3, 2)), np.zeros((5, 2)), np.zeros(1), labels)
    with pytest.raises(ValueError, match=r"labels has shape \(4,?\), expected \(3,?\)"):
        ops.vocab_cross_entropy_forward(
            np.zeros((3, 2)), np.zeros((5, 2)), np.zeros(5), np.zeros(4, np.int32)
        )


def test_weighted_by_hand():
    # rows of test_forward_by_hand; class 0 counts for 2, class 1 for 10:
    # 10 · -ln ¾ + 2 · -ln ¼, and 3 · [10 · [¼, ¾ - 1], nothing, 2 · [¼ - 1, ¾]]
    logits = np.log(np.array([[1.0, 3.0], [5.0, 1.0], [1.0, 3.0]]))
    labels, weights = np.array([1, IGNORED, 0], np.int32), np.array([2.0, 10.0])
    loss, probs = weighted_cross_entropy_forward(logits, labels, weights)
    assert loss == pytest.approx(10 * math.log(4 / 3) + 2 * math.log(4), rel=1e-15)
    assert isinstance(loss, float)
    np.testing.assert_allclose(probs, [[1 / 4, 3 / 4], [5 / 6, 1 / 6], [1 / 4, 3 / 4]], rtol=1e-15)
    dlogits = weighted_cross_entropy_backward(3.0, probs, labels, weights)
    np.testing.assert_allclose(dlogits, [[7.5, -7.5], [0.0, 0.0], [-4.5, 4.5]], rtol=1e-14)
    np.testing.assert_array_equal(row_weights(labels, weights), [10.0, 0.0, 2.0])


@few
@given(seed=SEEDS, N=SIZES, K=SIZES.filter(lambda K: K > 1))
def test_weighted_gradients(seed, N, K):
    labels, weights = labels_for(seed, N, K), 0.1 + abs(normal(seed + 1, K))
    check_pair(
        lambda logits: weighted_cross_entropy_forward(logits, labels, weights)[0],
        lambda dloss, logits: weighted_cross_entropy_backward(
            dloss, weighted_cross_entropy_forward(logits, labels, weights)[1], labels, weights
        ),
        {"logits": normal(seed, N, K, std=2.0)},
    )


@few
@given(seed=SEEDS, N=SIZES, K=SIZES)
def test_weights_of_1_change_no_bit(dtype, seed, N, K):
    logits, labels = normal(seed, N, K, std=2.0).astype(dtype), labels_for(seed, N, K)
    ones = np.ones(K, dtype)
    plain, probs = cross_entropy_forward(logits, labels)
    weighted, same_probs = weighted_cross_entropy_forward(logits, labels, ones)
    assert weighted == plain
    np.testing.assert_array_equal(same_probs, probs)
    dlogits = weighted_cross_entropy_backward(0.7, probs, labels, ones)
    np.testing.assert_array_equal(dlogits, cross_entropy_backward(0.7, probs, labels))
    assert dlogits.dtype == dtype


def test_weight_of_2_is_a_row_twice_and_0_is_ignored():
    logits, labels = normal(1, 4, 3), np.array([0, 1, 2, 1], np.int32)
    loss, probs = weighted_cross_entropy_forward(logits, labels, np.array([1.0, 2.0, 0.0]))
    twice = np.array([0, 1, 1, 3, 3])
    assert loss == pytest.approx(cross_entropy_forward(logits[twice], labels[twice])[0], rel=1e-14)
    dlogits = weighted_cross_entropy_backward(1.0, probs, labels, np.array([1.0, 2.0, 0.0]))
    np.testing.assert_array_equal(dlogits[2], [0.0] * 3)


@pytest.mark.parametrize("N", [0, 3])
def test_weighted_without_a_label_is_0(dtype, N):
    labels, weights = np.full(N, IGNORED, np.int32), np.full(5, 2.0, dtype)
    loss, probs = weighted_cross_entropy_forward(normal(1, N, 5).astype(dtype), labels, weights)
    assert loss == 0.0
    dlogits = weighted_cross_entropy_backward(1.0, probs, labels, weights)
    assert dlogits.dtype == dtype
    np.testing.assert_array_equal(dlogits, np.zeros((N, 5)))


@pytest.mark.parametrize(
    ("weights", "error", "message"),
    [
        (np.ones(6), ValueError, r"weights has shape \(6,\), expected \(5\)"),
        (np.ones((5, 1)), ValueError, r"weights has shape \(5, 1\), expected \(5\)"),
        (np.ones(5, int), TypeError, "weights has dtype int64, expected float32 or float64"),
        (np.ones(5, np.float32), TypeError, "weights is float32"),
        ([1.0] * 5, TypeError, "weights is a list, expected an array"),
    ],
)
def test_wrong_weights_are_named(weights, error, message):
    logits, labels = np.zeros((3, 5)), np.zeros(3, np.int32)
    with pytest.raises(error, match=message):
        weighted_cross_entropy_forward(logits, labels, weights)
    with pytest.raises(error, match=message):
        weighted_cross_entropy_backward(1.0, logits, labels, weights)


def test_wrong_labels_beside_weights_are_named():
    weights = np.ones(5)
    with pytest.raises(ValueError, match=r"labels holds 5, expected 0 to 4 or -100 \(ignored\)"):
        weighted_cross_entropy_forward(np.zeros((1, 5)), np.array([5], np.int32), weights)
    with pytest.raises(ValueError, match=r"labels has shape \(2,\), expected \(3\)"):
        weighted_cross_entropy_forward(np.zeros((3, 5)), np.zeros(2, np.int32), weights)
    with pytest.raises(ValueError, match=r"labels holds -1, expected 0 to 4"):
        row_weights(np.array([-1], np.int32), weights)
