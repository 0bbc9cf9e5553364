"""Correlation: how well scores given by a model follow those given by people.

Both coefficients are computed in float64 whatever comes in, and neither depends on the unit or the
zero point of either side.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from minibert.arrays import Array

Numbers: TypeAlias = Sequence[float] | Array


def pearson(
    x: Numbers,  # (N,)
    y: Numbers,  # (N,)
) -> float:
    """Return Pearson's coefficient: how near the points (x_n, y_n) lie to a straight line.

        r = Σ (x_n - x̄)(y_n - ȳ) / sqrt(Σ (x_n - x̄)² · Σ (y_n - ȳ)²),      -1 <= r <= 1

    If all of one side is the same number, as it is when N = 1, this is 0/0 and r is not defined.
    The function returns 0.0 then, without a warning: a model that says the same of everything has
    found nothing.  A nan would instead spoil every mean and every comparison it enters.

    Raises ValueError for no numbers, unequal lengths, and anything but finite real numbers.

    Source: Pearson 1895, "Note on regression and inheritance in the case of two parents"; a score
    of STS-B in GLUE (Wang et al. 2018).
    """
    x, y = _checked(x, y)
    if x.min() == x.max() or y.min() == y.max():
        return 0.0
    r = float((_unit(x) * _unit(y)).sum())
    return max(-1.0, min(1.0, r))  # rounding may lead beyond


def spearman(
    x: Numbers,  # (N,)
    y: Numbers,  # (N,)
) -> float:
    """Return Spearman's coefficient: how well y rises where x rises, be it straight or not.

    It is Pearson's coefficient of the ranks, where 1 is the smallest number's rank.  Equal numbers
    share the mean of the ranks that they take up together:

        x = [10, 30, 10, 20]      =>      ranks [1.5, 4, 1.5, 3]

    A constant side gives 0.0, and ValueError is raised, as in `pearson`.

    Source: Spearman 1904, "The proof and measurement of association between two things"; a score
    of STS-B in GLUE (Wang et al. 2018).
    """
    x, y = _checked(x, y)
    return pearson(_ranks(x), _ranks(y))


def _unit(
    values: Array,  # (N,), float64, not all the same
) -> Array:  # (N,), of mean 0 and length 1
    """Return the values moved to mean 0 and divided by their length.

    The sum of values near 1e308 would overflow and the squares of values near 1e-308 would be 0,
    so the largest is brought to [½, 1) first, by a power of two, which rounds nothing.  Values that
    differ only in the last bits have a mean that rounds by as much as they differ; what is left of
    it is taken away once more.
    """
    _, exponent = np.frexp(np.abs(values).max())
    values = np.ldexp(values, -exponent)
    values = values - values.mean()
    values -= values.mean()
    return values / np.sqrt((values * values).sum())


def _ranks(
    values: Array,  # (N,)
) -> Array:  # (N,), float64, 1 to N
    """Return each value's rank from below; k equal values end at rank e and share e - (k-1)/2."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def _checked(x: Numbers, y: Numbers) -> tuple[Array, Array]:
    """Return both as float64, or raise unless they are as many finite numbers, at least one."""
    x, y = _vector("x", x), _vector("y", y)
    if len(x) != len(y):
        raise ValueError(f"x has {len(x)} numbers, but y has {len(y)}: give pairs")
    if len(x) == 0:
        raise ValueError("x and y are empty, expected at least one pair of numbers")
    return x, y


def _vector(name: str, values: Numbers) -> Array:
    """Return the values as a vector of float64, or raise unless they are finite numbers."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of unequal length
        raise ValueError(f"{name} is nested, expected a sequence of numbers") from None
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}, expected (N,)")
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {array.dtype}, expected real numbers")
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(f"{name} holds {array[row]} at {row}, expected finite numbers")
    return array
