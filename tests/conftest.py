"""What all tests share: which backends run, and how Hypothesis draws.

``MINIBERT_TEST_BACKENDS`` names the backends that must run, "numpy,numba" if it is not set.  A
backend that cannot be imported fails every test that asks for it: none is ever skipped.
"""

from __future__ import annotations

import os
from importlib.metadata import version

import numpy as np
import pytest
from hypothesis import settings

from minibert.ops import BACKENDS, Ops, get_ops

NAMES = [
    name.strip() for name in os.environ.get("MINIBERT_TEST_BACKENDS", "numpy,numba").split(",")
]

# The same examples in every run, so that a red test is red for everyone; no deadline, since the
# first call of a kernel compiles it.
settings.register_profile("minibert", deadline=None, derandomize=True, database=None)
settings.load_profile("minibert")


def pytest_configure(config: pytest.Config) -> None:
    if unknown := [name for name in NAMES if name not in BACKENDS]:
        raise pytest.UsageError(
            f"MINIBERT_TEST_BACKENDS names {unknown}, expected some of {', '.join(BACKENDS)}"
        )


def pytest_report_header(config: pytest.Config) -> list[str]:
    return [f"backend {describe(name)}" for name in NAMES]


def describe(name: str) -> str:
    """Return a backend's name, versions and threads, or why it cannot run."""
    try:
        get_ops(name)
        if name == "numba":
            import numba

            return (
                f"numba: numba {numba.__version__}, llvmlite {version('llvmlite')}, "
                f"{numba.get_num_threads()} threads"
            )
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]  # pyright: ignore
        return (
            f"numpy: numpy {np.__version__}, {blas['name']} {blas['version']}, "
            f"{blas_threads()} threads"
        )
    except Exception as error:
        return f"{name} CANNOT RUN, its tests will fail: {type(error).__name__}: {error}"


def blas_threads() -> str:
    """Return how many threads NumPy's matrix product may use."""
    for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        if name in os.environ:
            return f"{os.environ[name]} ({name})"
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"up to {count}"


@pytest.fixture(scope="session", params=NAMES)
def ops(request: pytest.FixtureRequest) -> Ops:
    """Every backend in turn."""
    return get_ops(request.param)


@pytest.fixture(scope="session", params=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> np.dtype:
    return np.dtype(request.param)
