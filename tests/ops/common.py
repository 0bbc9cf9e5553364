"""What tests of products in bfloat16 share."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minibert.arrays import Array
from minibert.ops.cpu.amx import has_matrix_unit
from minibert.ops.cpu.vectors import settings

compiled = pytest.mark.skipif(settings.DISABLE_JIT, reason="nothing is compiled")
matrix_unit = pytest.mark.skipif(
    not (settings.DISABLE_JIT or has_matrix_unit()),
    reason="this processor has no matrix unit, or the system keeps it",
)


def nearest_bfloat16(x: Array) -> Array:
    """Round each number by its definition: 8 binary digits, the even neighbour of two."""
    fraction, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.round(fraction * 256) / 256, exponent)


def draw(seed: int, *shapes: tuple[int, ...]) -> list[Array]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


def compile_for(processor: str, features: str, code: str, cache: Path) -> None:
    """Run a program that compiles for a processor, which this one need not be.

    Where this one is no x86, the test is skipped.
    """
    if platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("compiles for x86 alone")
    environment = {
        **os.environ,
        "NUMBA_CPU_NAME": processor,
        "NUMBA_CPU_FEATURES": f"+avx2,+fma,+avx512vl,+avx512bw,+avx512dq,{features}",
        "NUMBA_CACHE_DIR": str(cache),
    }
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
