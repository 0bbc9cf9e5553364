"""The machine a benchmark runs on: cores, processor, libraries, memory."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter, sleep


def core_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def busy_cores(seconds: float = 0.3) -> float:
    """Return how many cores the machine's programs keep busy now; 0 where that cannot be told."""

    def idle_seconds() -> float:  # of all cores together
        first = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0]
        idle, waiting = first.split()[4:6]
        return (int(idle) + int(waiting)) / os.sysconf("SC_CLK_TCK")

    try:
        start, before = perf_counter(), idle_seconds()
        sleep(seconds)
        passed, idle = perf_counter() - start, idle_seconds() - before
    except OSError:
        return 0.0
    return max(0.0, (os.cpu_count() or 1) - idle / passed)


def cpu_facts(field: str) -> str:
    """Return a line of /proc/cpuinfo; nothing where there is no such file."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    found = (line.partition(":")[2].strip() for line in lines if line.startswith(field))
    return next(found, "")


def processor() -> str:
    return cpu_facts("model name") or platform.processor() or platform.machine()


def versions() -> list[str]:
    """Return Python and the packages whose speed matters here, with their versions."""
    found = [f"Python {platform.python_version()}"]
    for package in ("numpy", "numba", "torch", "transformers", "tokenizers"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return found


def blas_kernel() -> str:
    """Return which BLAS NumPy has in this process, and the kernel it chose if that can be told."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return "unknown (install threadpoolctl to see it)"
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    return ", ".join(
        f"{pool['internal_api']} {pool.get('version')} {pool.get('architecture', '')}".strip()
        for pool in pools
    )


def peak_memory() -> float:
    """Return the most memory, in bytes, that this process has held; NaN where it cannot be told.

    Linux's getrusage counts what the parent held when it started this process, so its own file is
    asked first.
    """
    try:
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return 1024.0 * int(line.split()[1])
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return float("nan")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(most if sys.platform == "darwin" else 1024 * most)
