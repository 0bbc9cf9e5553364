"""Losses that overflow are told apart by the rows in which they do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from minibert.arrays import IGNORED, Array
from minibert.course.checking import check_function
from minibert.course.exercises.softmax import LOSSES
from minibert.layers.softmax import softmax_forward


def at_labels(x: Array, labels: Array) -> Array:
    return x[np.arange(len(labels)), np.where(labels == IGNORED, 0, labels)]


def unshifted(logits: Array, labels: Array) -> Array:
    return np.log(np.exp(logits).sum(axis=-1)) - at_labels(logits, labels)


def one_shift(logits: Array, labels: Array) -> Array:
    return unshifted(logits - logits.max(), labels)


def from_probabilities(logits: Array, labels: Array) -> Array:
    return -np.log(at_labels(softmax_forward(logits), labels))


def with_epsilon(logits: Array, labels: Array) -> Array:
    return -np.log(at_labels(softmax_forward(logits), labels) + 1e-12)


def from_unshifted_probabilities(logits: Array, labels: Array) -> Array:
    e = np.exp(logits)
    return -np.log(at_labels(e / e.sum(axis=-1, keepdims=True), labels))


def nan_for_ignored(logits: Array, labels: Array) -> Array:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return np.where(labels == IGNORED, np.nan, unshifted(shifted, labels))


LOST = "losses: rows whose label is very unlikely are lost"


@pytest.mark.parametrize(
    ("wrong", "title"),
    [
        (unshifted, "losses: rows with large logits overflow"),
        (one_shift, "losses: one maximum is taken for all rows"),
        (from_probabilities, LOST),
        (with_epsilon, LOST),
        (from_unshifted_probabilities, "losses: the logarithm is taken of a probability"),
        (nan_for_ignored, "losses: ignored rows have a loss"),
    ],
)
def test_it_is_named(wrong: Callable[[Array, Array], Array], title: str) -> None:
    def losses(logits: Array, labels: Array) -> Array:
        value = wrong(logits, labels)
        return np.where((labels == IGNORED) & ~np.isnan(value), 0, value)

    with np.errstate(all="ignore"):
        verdict = check_function(LOSSES, losses)
    assert verdict.diagnoses == [title], "\n".join(verdict.lines)
