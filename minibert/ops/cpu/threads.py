"""One way to start a parallel kernel: on as many threads as the work is worth.

To wake other threads and to wait for the last of them takes some microseconds, and far longer on a
busy machine, where a thread may have to wait for its turn.  Small work is done before that.
"""

from __future__ import annotations

import os
from typing import Any

import numba

WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "10000"}
"""How OpenMP's threads wait for the next kernel: they spin for a tenth of a millisecond or two,
since a step's next kernel mostly comes sooner, and then sleep.

Their habit is to spin on for many milliseconds.  Where other programs want the processor too, a
thread that spins takes the time of the one it waits for.  A step of "tiny" on two cores took, with
both for itself and beside a program that kept one core busy: 37 and 372 ms with the habit, 34 and
81 ms so, 40 and 59 ms when threads sleep at once.
"""


def start_pool() -> None:
    """Start numba's threads, and tell those of OpenMP how to wait.

    The variables are read once, when the threads start; where the user has set one, both are left
    alone.
    """
    given = {} if any(name in os.environ for name in WAITING) else WAITING
    os.environ.update(given)
    try:
        numba.get_num_threads()
    finally:
        for name in given:
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
