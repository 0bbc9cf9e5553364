"""Scores of a classifier: how often it is right, over all rows and averaged over the labels.

Labels are anything hashable: class ids, names, tuples.  Two are the same if they compare equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from math import fsum
from typing import Any, TypeAlias

import numpy as np

from minibert.arrays import Array

Labels: TypeAlias = Sequence[Hashable] | Array


def accuracy(
    predicted: Labels,  # N labels
    right: Labels,  # N labels
) -> float:
    """Return the share of rows whose predicted label is the right one.

        accuracy = 1/N Σ_n 1[predicted_n = right_n]

    Raises ValueError for no rows, where this is 0/0, and for unequal lengths.
    """
    pairs = _pairs(predicted, right)
    return sum(1 for guess, label in pairs if guess == label) / len(pairs)


def macro_f1(
    predicted: Labels,  # N labels
    right: Labels,  # N labels
) -> float:
    """Return the mean of the labels' F1, so that a rare label weighs as much as a common one.

    F1 is the harmonic mean of a label's precision p = hits / predicted and recall r = hits / right,
    where hits counts the rows that are both:

        F1_k = 2 p r / (p + r) = 2 hits_k / (predicted_k + right_k)
        macro-F1 = 1/K Σ_k F1_k

    k runs over the K labels seen on either side.  So the last fraction is never 0/0, though p or r
    may be: a label that is never predicted, or never right, has no hit and an F1 of 0.  A label
    that neither side holds does not count.

    Raises ValueError for no rows and for unequal lengths.

    Source: Opitz and Burst 2019, "Macro F1 and Macro F1", the mean of F1s; scikit-learn's
    ``f1_score(right, predicted, average="macro", zero_division=0)``.
    """
    pairs = _pairs(predicted, right)
    hits = Counter(label for guess, label in pairs if guess == label)
    # predicted_k + right_k: every label of either side, counted on both
    seen = Counter(label for pair in pairs for label in pair)
    # fsum rounds once, so the order of the labels, which is that of the rows, changes no bit.
    return fsum(2 * hits[label] / count for label, count in seen.items()) / len(seen)


def confusion(
    predicted: Labels,  # N labels
    right: Labels,  # N labels
) -> tuple[list[Any], Array]:  # the K labels, sorted; counts (K, K), int64
    """Count how often each label is taken for each other.

        counts[i, j] = Σ_n 1[right_n = labels_i, predicted_n = labels_j]

    The diagonal holds what is right, a row sums to how often its label is right, a column to how
    often it is predicted.  The labels are those seen on either side.

    Raises ValueError for no rows, for unequal lengths, and for labels that have no order.
    """
    pairs = Counter(_pairs(predicted, right))
    seen = {label for pair in pairs for label in pair}
    try:
        labels: list[Any] = sorted(seen)  # pyright: ignore[reportArgumentType]
    except TypeError:
        kinds = ", ".join(sorted({type(label).__name__ for label in seen}))
        raise ValueError(f"labels of type {kinds} have no order: use all int or all str") from None
    place = {label: k for k, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), np.int64)
    for (guess, label), count in pairs.items():
        counts[place[label], place[guess]] = count
    return labels, counts


def _pairs(predicted: Labels, right: Labels) -> list[tuple[Hashable, Hashable]]:
    """Return (predicted, right) row by row, or raise if there are none or one lacks its partner."""
    if len(predicted) != len(right):
        raise ValueError(
            f"predicted has {len(predicted)} labels, but right has {len(right)}: "
            "give one of each for every row"
        )
    if len(right) == 0:
        raise ValueError("predicted and right are empty, expected at least one label")
    for name, labels in (("predicted", predicted), ("right", right)):
        for row, label in enumerate(labels):
            try:
                hash(label)
            except TypeError:
                kind = type(label).__name__
                raise ValueError(
                    f"{name} holds a {kind} at {row}, expected labels that can be hashed, "
                    "such as int or str"
                ) from None
            if label != label:
                raise ValueError(f"{name} holds {label!r} at {row}, which no label can equal")
    return list(zip(predicted, right, strict=True))
