"""The decorators that compile a kernel, and where the machine code is kept between runs.

Three decorators, for three kinds of function:

    @kernel     plain loops on one thread
    @inlined    a few lines that become part of the loop that calls them
    @parallel   a loop over ``prange``, called from Python; it takes a second or two to compile, so
                there are few, and each only deals out work to a @kernel

None has full fast-math, which lets the compiler assume that there is no NaN and no infinity: it
would delete the very checks that find them.  Allowed is what makes sums and products fast without
touching them: another order of summation (one that the compiled code fixes, the same in every
run), fused multiply-add, an ignored sign of zero, and x * (1 / y) for x / y.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import njit
from numba.core import config
from numba.core.codegen import get_host_cpu_features
from numba.core.registry import cpu_target

import minibert

settings: Any = config  # numba makes its attributes at run time, from NUMBA_… variables

FLAGS = {"reassoc", "contract", "nsz", "arcp"}
# Only prange runs in parallel; looking for more to parallelise would only lengthen compilation.
PRANGE_ONLY = {
    "prange": True, "comprehension": False, "reduction": False, "inplace_binop": False,
    "setitem": False, "numpy": False, "stencil": False, "fusion": False,
}  # fmt: skip

if settings.DISABLE_JIT:
    warnings.warn(
        "NUMBA_DISABLE_JIT is set, so the numba backend's kernels run as plain Python, thousands "
        "of times slower: good for a debugger on tiny arrays; else unset it, or choose the "
        "backend 'numpy'",
        RuntimeWarning,
        stacklevel=2,
    )


def widened(features: str) -> str:
    """Return LLVM's features of a processor, with all of AVX-512's registers for plain loops too.

    On Intel's LLVM uses half of each, since the full width makes older ones lower their clock.  But
    the tiles of the matrix products, most of a step, are as wide as they can be in any case; so the
    clock is what it is, and a step of "tiny" takes 8 % less when the other kernels are as wide.
    """
    return features + ",-prefer-256-bit" if "+avx512f" in features.split(",") else features


def start_compiler() -> None:
    """Start numba's compiler, for wide vectors.

    It starts once in a program, with the first function that is decorated.  Where that was another
    package's, or a processor is named by NUMBA_CPU_NAME or NUMBA_CPU_FEATURES, it stays as it is.
    """
    if settings.CPU_NAME is not None or settings.CPU_FEATURES is not None:
        return
    settings.CPU_FEATURES = widened(get_host_cpu_features())
    try:
        _ = cpu_target.target_context  # made now, from the settings of this moment
    finally:
        settings.CPU_FEATURES = None


start_compiler()


def sources_digest() -> str:
    """Return a hash of everything that machine code may depend on, apart from the processor.

    numba sees that a function's own file has changed, but not that a function it calls has, in
    another file.  So the cache lies in a folder named by all of them together.
    """
    digest = sha256(f"{minibert.__version__} {numba.__version__} {settings.BOUNDSCHECK}".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folders() -> list[Path]:
    """Return where the cache may lie, the best place first."""
    if settings.CACHE_DIR:
        return [Path(settings.CACHE_DIR)]
    if sys.platform == "win32":
        user = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        user = Path.home() / "Library" / "Caches"
    else:
        user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return [Path(__file__).parent / "__pycache__", user / "minibert"]


def find_cache() -> Path | None:
    """Return the folder for machine code, made if need be; None, with a warning, if none can be."""
    candidates = [folder / f"kernels-{sources_digest()}" for folder in cache_folders()]
    for folder in candidates:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        forget_old(folder)
        return folder
    warnings.warn(
        f"compiled kernels cannot be kept, since {candidates[0]} cannot be written: every start "
        "will compile them anew; set NUMBA_CACHE_DIR to a folder that can be written",
        RuntimeWarning,
        stacklevel=2,
    )
    return None


def forget_old(folder: Path, keep: int = 4) -> None:
    """Remove what older sources left beside ``folder``, but for the newest few."""
    old = [path for path in folder.parent.glob("kernels-*") if path != folder]
    old.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in old[keep:]:
        shutil.rmtree(path, ignore_errors=True)


CACHE = None if settings.DISABLE_JIT else find_cache()


def compiler(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator like ``numba.njit(**options)`` that keeps its results in our folder."""

    def decorate(function: Callable[..., Any]) -> Any:
        if settings.DISABLE_JIT:
            # in machine code, too, integers wrap round and 1 / 0 is infinite without a word
            return np.errstate(all="ignore")(function)
        if CACHE is None:
            return njit(error_model="numpy", **options)(function)
        # numba reads the folder's name at this moment, once for each function
        before, settings.CACHE_DIR = settings.CACHE_DIR, str(CACHE)
        try:
            return njit(error_model="numpy", cache=True, **options)(function)
        finally:
            settings.CACHE_DIR = before

    return decorate


# Only called from other kernels, so they need no door to Python.
kernel = compiler(fastmath=FLAGS, no_cpython_wrapper=True, no_cfunc_wrapper=True)
inlined = compiler(fastmath=FLAGS, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True)
parallel = compiler(fastmath=FLAGS, parallel=PRANGE_ONLY)
INLINE_EXACT: Any = {"fastmath": {"contract"}, "error_model": "numpy", "forceinline": True}
"""Options for ``numba.extending.overload``, as ``inlined`` but with sums in the order written."""
