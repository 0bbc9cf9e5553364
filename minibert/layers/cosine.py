"""Cosine similarity: how far two vectors point the same way, whatever their lengths."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minibert.arrays import Array, check_float, check_shape

SHORTEST = 1e-12
"""A vector shorter than this has no direction, and is divided by this instead of its length."""


class CosineCache(NamedTuple):
    a: Array  # (N, C), of length 1
    b: Array  # (N, C), of length 1
    a_length: Array  # (N, 1)
    b_length: Array  # (N, 1)
    cosine: Array  # (N,)


def cosine_forward(
    a: Array,  # (N, C)
    b: Array,  # (N, C)
) -> tuple[Array, CosineCache]:  # (N,), from -1 to 1
    """Return a·b / (|a| |b|) for each row."""
    check_float("a", a)
    check_shape("a", a, (None, None))
    check_float("b", b, like=a)
    check_shape("b", b, a.shape)
    a_length, b_length = (
        np.maximum(np.sqrt(np.square(x).sum(axis=1, keepdims=True)), SHORTEST) for x in (a, b)
    )
    a, b = a / a_length, b / b_length
    cosine = (a * b).sum(axis=1)
    return cosine, CosineCache(a, b, a_length, b_length, cosine)


def cosine_backward(
    dcosine: Array,  # (N,)
    cache: CosineCache,
) -> tuple[Array, Array]:  # da (N, C), db (N, C)
    """Send a gradient back to both vectors.

    With â = a / |a|: only the part of a change of a that is perpendicular to a turns it, and the
    longer a is the less:

        dâ_i/da_j = (1[i=j] - â_i â_j) / |a|     =>     da = dcos (b̂ - cos â) / |a|

    and the same with a and b exchanged.  A vector too short to have a direction was divided by a
    constant, so the second term is not there.
    """
    check_float("dcosine", dcosine)
    check_shape("dcosine", dcosine, cache.cosine.shape)
    a, b, a_length, b_length, cosine = cache
    dcosine, cosine = dcosine[:, None], cosine[:, None]
    along_a = np.where(a_length > SHORTEST, cosine * a, 0)
    along_b = np.where(b_length > SHORTEST, cosine * b, 0)
    return dcosine * (b - along_a) / a_length, dcosine * (a - along_b) / b_length
