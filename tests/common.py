"""What several test files share: random numbers, inputs in another dtype, another Python."""

from __future__ import annotations

import os
import subprocess
import sys
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


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python of its own, with some environment variables set."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip
