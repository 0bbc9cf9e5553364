import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibert.scores import accuracy, confusion, macro_f1

LABELS = st.one_of(
    st.just(st.integers(-2, 4)),
    st.just(st.sampled_from(["entailment", "neutral", "contradiction"])),
    st.just(st.text(max_size=2)),
)
ROWS = LABELS.flatmap(lambda label: st.lists(st.tuples(label, label), min_size=1, max_size=30))
thorough = settings(max_examples=400)


def sides(rows):
    """The predicted and the right labels of (predicted, right) pairs."""
    return [guess for guess, _ in rows], [label for _, label in rows]


def test_by_hand():
    # a: 2 hits, predicted 3, right 2: F1 4/5.  b: 1 hit, 1 and 2: 2/3.  c: no hit: 0.
    predicted, right = ["a", "a", "a", "b", "c"], ["a", "a", "b", "b", "a"]
    right[4] = "d"  # never predicted: 0 as well
    assert accuracy(predicted, right) == 3 / 5
    assert macro_f1(predicted, right) == pytest.approx((4 / 5 + 2 / 3 + 0 + 0) / 4, rel=1e-15)
    labels, counts = confusion(predicted, right)
    assert labels == ["a", "b", "c", "d"]
    # rows are the right labels: the b taken for an a stands in b's row
    np.testing.assert_array_equal(counts, [[2, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]])
    assert counts.dtype == np.int64


def test_rare_label_weighs_as_much():
    # Nine of ten are right by always saying 0, whose F1 is 18/19; that of 1 is 0.
    predicted, right = [0] * 10, [0] * 9 + [1]
    assert accuracy(predicted, right) == 0.9
    assert macro_f1(predicted, right) == 9 / 19


def test_arrays_are_sequences_of_labels():
    predicted, right = np.array([0, 1, 1], np.int32), np.array([0, 1, 2])
    assert accuracy(predicted, right) == 2 / 3
    assert macro_f1(predicted, right) == pytest.approx((1 + 2 / 3 + 0) / 3, rel=1e-15)
    labels, counts = confusion(predicted, right)
    assert labels == [0, 1, 2]
    np.testing.assert_array_equal(counts, [[1, 0, 0], [0, 1, 0], [0, 1, 0]])
    assert {type(accuracy(predicted, right)), type(macro_f1(predicted, right))} == {float}


def test_equal_labels_are_one():
    assert accuracy([True, 1.0], [1, 1]) == 1.0
    assert macro_f1([True, 1.0], [1, 1]) == 1.0
    assert confusion([True, 1.0], [1, 1])[1].tolist() == [[2]]


@given(rows=ROWS)
def test_bounds_and_perfection(rows):
    predicted, right = sides(rows)
    for score in (accuracy, macro_f1):
        assert 0.0 <= score(predicted, right) <= 1.0
        assert (score(predicted, right) == 1.0) == (predicted == right)
        assert score(right, right) == 1.0
    assert (accuracy(predicted, right) == 0.0) == (macro_f1(predicted, right) == 0.0)


@given(rows=ROWS)
def test_swapped_sides(rows):
    predicted, right = sides(rows)
    assert accuracy(predicted, right) == accuracy(right, predicted)
    assert macro_f1(predicted, right) == macro_f1(right, predicted)
    labels, counts = confusion(predicted, right)
    swapped_labels, swapped = confusion(right, predicted)
    assert labels == swapped_labels
    np.testing.assert_array_equal(counts, swapped.T)


@given(rows=ROWS, data=st.data())
def test_order_changes_no_bit(rows, data):
    predicted, right = sides(rows)
    shuffled = sides(data.draw(st.permutations(rows)))
    assert accuracy(predicted, right) == accuracy(*shuffled)
    assert macro_f1(predicted, right) == macro_f1(*shuffled)
    np.testing.assert_array_equal(confusion(predicted, right)[1], confusion(*shuffled)[1])


def test_order_of_many_labels_changes_no_bit():
    # a dozen unequal F1s, whose plain sum depends on which label comes first
    rng = np.random.default_rng(1)
    predicted, right = rng.integers(0, 12, (2, 200))
    orders = [rng.permutation(200) for _ in range(20)]
    assert {macro_f1(predicted[order], right[order]) for order in orders} == {
        macro_f1(predicted, right)
    }


@given(rows=ROWS)
def test_names_do_not_matter(rows):
    predicted, right = sides([((guess, "x"), (label, "x")) for guess, label in rows])
    assert accuracy(predicted, right) == accuracy(*sides(rows))
    assert macro_f1(predicted, right) == macro_f1(*sides(rows))


@given(rows=ROWS)
def test_confusion_sums(rows):
    predicted, right = sides(rows)
    labels, counts = confusion(predicted, right)
    assert labels == sorted({*predicted, *right})
    assert counts.sum(axis=1).tolist() == [right.count(label) for label in labels]
    assert counts.sum(axis=0).tolist() == [predicted.count(label) for label in labels]
    assert counts.trace() / len(rows) == accuracy(predicted, right)
    f1 = 2 * counts.diagonal() / (counts.sum(axis=0) + counts.sum(axis=1))
    assert f1.mean() == pytest.approx(macro_f1(predicted, right), rel=1e-14)


@pytest.mark.parametrize("score", [accuracy, macro_f1, confusion])
def test_wrong_input_is_named(score):
    with pytest.raises(ValueError, match="predicted and right are empty, expected at least one"):
        score([], [])
    with pytest.raises(ValueError, match="predicted has 2 labels, but right has 3: give one of"):
        score([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="right holds a list at 1, expected labels that can be"):
        score([1, 2], [1, [2]])
    with pytest.raises(ValueError, match="predicted holds a ndarray at 0, expected labels"):
        score(np.zeros((2, 3)), [1, 2])
    with pytest.raises(ValueError, match="predicted holds nan at 1, which no label can equal"):
        score([1.0, float("nan")], [1.0, 2.0])


def test_labels_without_an_order():
    with pytest.raises(ValueError, match="labels of type int, str have no order: use all int or"):
        confusion([1, "a"], [1, "b"])
    assert accuracy([1, "a"], [1, "b"]) == 0.5


@pytest.fixture(scope="module")
def sklearn_metrics():
    return pytest.importorskip("sklearn.metrics")


@pytest.mark.parity
@thorough
@given(rows=ROWS)
def test_same_as_sklearn(sklearn_metrics, rows):
    predicted, right = sides(rows)
    f1 = sklearn_metrics.f1_score(right, predicted, average="macro", zero_division=0)
    assert macro_f1(predicted, right) == pytest.approx(f1, rel=1e-12)
    assert accuracy(predicted, right) == sklearn_metrics.accuracy_score(right, predicted)
    labels, counts = confusion(predicted, right)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of a single label
        expected = sklearn_metrics.confusion_matrix(right, predicted, labels=labels)
    np.testing.assert_array_equal(counts, expected)
