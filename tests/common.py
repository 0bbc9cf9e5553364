"""What tests of several folders share: random numbers, and inputs in another dtype."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from minibert.arrays import Array


def normal(seed: int, *shape: int, mean: float = 0.0, std: float = 1.0) -> Array:
    """Random float64 numbers; other seeds or shapes give others."""
    return np.random.default_rng((seed, *shape)).normal(mean, std, shape)


def copies(inputs: Mapping[str, Any], dtype: Any = np.float64) -> dict[str, Any]:
    """Copies of the inputs, the floating ones as ``dtype``."""
    return {
        name: value.astype(dtype if value.dtype.kind == "f" else value.dtype)
        if isinstance(value, np.ndarray)
        else value
        for name, value in inputs.items()
    }
