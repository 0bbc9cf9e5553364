"""One way to start a parallel kernel: on as many threads as the work is worth.

To wake other threads and to wait for the last of them takes some microseconds, and far longer on a
busy machine, where a thread may have to wait for its turn.  Small work is done before that.
"""

from __future__ import annotations

import os
from typing import Any

import numba


def start_pool() -> None:
    """Start numba's threads, asking those of OpenMP to sleep while they wait.

    Their habit is to spin.  Where other programs want the processor too, a thread that spins takes
    the time of the one it waits for: a training step then takes five times as long.  The variable
    is read once, when the threads start; one that the user has set is left alone.
    """
    name = "OMP_WAIT_POLICY"
    if name in os.environ:
        numba.get_num_threads()
        return
    os.environ[name] = "PASSIVE"
    try:
        numba.get_num_threads()
    finally:
        del os.environ[name]


start_pool()

WORTH = 1 << 15
"""Elements handled, or an eighth of the multiplications made, below which one thread is enough."""


def threads_for(work: int) -> int:
    """Return the number of threads for this much work."""
    return 1 if work < WORTH else numba.get_num_threads()


def launch(kernel: Any, work: int, *arguments: Any) -> None:
    """Call a parallel kernel, on one thread if there is little work."""
    if work >= WORTH or (before := numba.get_num_threads()) == 1:
        kernel(*arguments)
        return
    numba.set_num_threads(1)
    try:
        kernel(*arguments)
    finally:
        numba.set_num_threads(before)
