"""Reproducible randomness: a key names a place, and a place always draws the same numbers.

A generator that is passed around gives numbers that depend on who drew before.  Then a run that
was stopped cannot go on as if nothing had happened, a layer cannot be recomputed, and a gradient
check meets another dropout mask at every call.  A ``Key`` has no such history: it is a path, such
as run 7 / step 120 / layer 3 / dropout, and what it draws is a hash of that path.

    >>> key = Key(7).child("step", 120)
    >>> key.child("layer", 3).seed == Key(7).child("step", 120, "layer", 3).seed
    True
    >>> key.child("layer", 3).seed == key.child("layer", 4).seed
    False

Source: the idea is that of counter-based generators (Salmon et al., Parallel Random Numbers: As
Easy as 1, 2, 3, SC 2011).
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from minibert.arrays import Array


@dataclass(frozen=True)
class Key:
    """An immutable name for a stream of random numbers."""

    root: int
    path: tuple[str | int, ...] = ()

    def child(self, *path: str | int) -> Key:
        """Return the key further down the path; its numbers are independent of this key's."""
        for part in path:
            if not isinstance(part, (str, int)) or isinstance(part, bool):
                raise TypeError(f"a key's path holds words and integers, not {part!r}")
        return Key(self.root, self.path + path)

    def digest(self, size: int) -> int:
        """Return ``size`` bytes of hash of the whole path, as an unsigned integer."""
        state = blake2b(repr((int(self.root), *self.path)).encode("utf-8"), digest_size=size)
        return int.from_bytes(state.digest(), "little")

    @property
    def seed(self) -> int:
        """64 bits that stand for this key in a kernel (see ``random_bits``)."""
        return self.digest(8)

    def generator(self) -> np.random.Generator:
        """Return a fresh NumPy generator; two calls draw the same numbers."""
        return np.random.Generator(np.random.Philox(key=self.digest(16)))


def random_bits(seed: int, count: int, like: Array) -> Array:
    """Return 32 random bits for each index 0 … count-1, as uint32 (count,).

    Bit i depends on (seed, i) alone, so any part of the stream can be drawn at any time, by any
    thread, in NumPy, numba or CuPy, and comes out the same.  Two rounds of xor-shift-multiply mix
    the index with the low and then the high half of the seed; one round alone would let two seeds
    give shifted copies of one stream.
    """
    if count > 2**32:
        raise ValueError(f"random_bits numbers at most 2**32 elements, not {count}")
    # like=: on a CuPy array this draws on its device
    bits = np.arange(count, dtype=np.uint32, like=like)
    bits += np.uint32(seed & 0xFFFFFFFF)
    for offset in (0, seed >> 32):
        bits ^= np.uint32(offset)
        bits ^= bits >> np.uint32(16)
        bits *= np.uint32(0x21F0AAAD)
        bits ^= bits >> np.uint32(15)
        bits *= np.uint32(0x735A2D97)
        bits ^= bits >> np.uint32(15)
    return bits
