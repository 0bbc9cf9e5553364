"""A random order of 0 … size-1 that is computed, not stored.

To visit every sentence once an epoch one would shuffle their numbers.  That takes 8 bytes for each,
and a resumed run must first shuffle again.  A Feistel network gives the same by arithmetic: write
the number as two digits (left, right) in base a, and repeat

    left, right  =  right, (left + hash(round, right)) mod a

Each round can be undone (subtract the hash again), so different numbers stay different: it is a
permutation of the a² numbers, and a few rounds mix it well.  With a = ceil(sqrt(size)) hardly any
of them are too large; one that is gets permuted again until it is not ("cycle walking": its cycle
leads back into the range, since it came from there).

Sources: Luby and Rackoff, How to Construct Pseudorandom Permutations (1988); Black and Rogaway,
Ciphers with Arbitrary Finite Domains (2002), section 4 and 5.
"""

from __future__ import annotations

from math import isqrt

import numpy as np

from minibert.arrays import Array

_ROUNDS = 6


def shuffled(
    index: Array,  # (N,) int64, each in [0, size)
    size: int,
    seed: int,  # 64 bits
) -> Array:  # (N,) int64, the places of these indices in the order that the seed names
    """Permute indices: over all of 0 … size-1, every result occurs exactly once.

    >>> sorted(shuffled(np.arange(10), 10, seed=7).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """
    base = isqrt(size - 1) + 1 if size > 1 else 1  # ceil(sqrt(size))
    result = _permuted(index, base, seed)
    while (outside := result >= size).any():
        result[outside] = _permuted(result[outside], base, seed)
    return result


def _permuted(index: Array, base: int, seed: int) -> Array:
    left, right = np.divmod(index, base)
    for number in range(_ROUNDS):
        left, right = right, (left + _hash(right, seed, number)) % base
    return left * base + right


def _hash(values: Array, seed: int, number: int) -> Array:
    """Return 31 well-mixed bits of (seed, round number, value) as int64; values are below 2**32."""
    bits = values.astype(np.uint64)
    bits ^= np.uint64((seed + number * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF)
    bits ^= bits >> np.uint64(32)
    bits *= np.uint64(0xD6E8FEB86659FD93)
    bits ^= bits >> np.uint64(32)
    bits *= np.uint64(0xD6E8FEB86659FD93)
    return (bits >> np.uint64(33)).astype(np.int64)
