"""``minibert warmup``: compile every kernel now, so that nothing waits for it later."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from minibert.cli.options import ThreadsFlag, limit_threads
from minibert.cli.screen import duration, progress


def warmup(
    double: Annotated[
        bool, typer.Option("--double", help="For float64 too, which gradient checks use.")
    ] = False,
    threads: ThreadsFlag = None,
) -> None:
    """Compile all kernels, once after each installation.

    They are kept on disk.  `minibert pretrain` does it by itself.
    """
    limit_threads(threads)
    import numpy as np

    from minibert.ops.cpu.warmup import warmup as compile_kernels

    start = time.monotonic()
    for dtype in (np.float32, np.float64) if double else (np.float32,):
        began = time.monotonic()
        count = 0
        with progress(f"compiling for {np.dtype(dtype)}") as show:

            def tell(name: str, index: int, total: int, show=show) -> None:
                nonlocal count
                count = total
                show(index, total)

            compile_kernels(dtype, progress=tell)
        print(f"{np.dtype(dtype)}: {count} kernels ready in {duration(time.monotonic() - began)}")
    print(f"All kernels are compiled: {duration(time.monotonic() - start)} in all.")
