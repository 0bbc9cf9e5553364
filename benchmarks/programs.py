"""Programs that take turns, and ratios of neighbours in time.

Two programs are compared like this:

    programs = {"numpy": Program(make, "numpy"), "numba": Program(make, "numba")}
    found = take_turns(programs, "product", rounds=5)       seconds, A B A B …
    ratio = Ratio.of(found["numpy"], found["numba"])        how many times faster numba is

``make`` runs in the program's own process and returns its calls by name.  A process waits until it
is told to run one of them, so only one program works at a time, and start-up is never timed.
Machines are shared and change their speed within seconds: a ratio is taken between neighbours in
time, and the median of the ratios is what counts.
"""

from __future__ import annotations

import multiprocessing
import os
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from statistics import median
from time import perf_counter, process_time, sleep
from typing import Any, NamedTuple, Self

import numpy as np

Calls = dict[str, Callable[..., Any]]

THREADS = (
    "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
    "RAYON_NUM_THREADS",
)  # fmt: skip
KERNEL_CHOICE = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""Where these are set, OpenBLAS does not choose its kernel itself; one without the other misleads
it."""
LONG = 0.5
"""Seconds from which one call is a turn by itself."""
GLANCE, ASLEEP, PATIENCE = 0.01, 0.1, 1.0
"""How ``fall_asleep`` looks: for so many seconds, during which threads that sleep take less than
this share of a core, and not longer than this in all."""
WARM = 0.1
"""Seconds at a turn's start that are not measured, or as long as is measured, if that is less."""


class Program:
    """Calls in a process of their own, which runs them when told to.

    ``free_blas`` lets NumPy's OpenBLAS choose its kernel, whatever the environment says.
    """

    def __init__(
        self,
        make: Callable[..., Calls],
        *arguments: Any,
        threads: int | None = None,
        free_blas: bool = False,
    ) -> None:
        changes: dict[str, str | None] = {}
        if threads is not None:
            changes |= dict.fromkeys(THREADS, str(threads))
        if free_blas:
            changes |= dict.fromkeys(KERNEL_CHOICE)
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, make, arguments), daemon=True)
        with environment(changes):  # libraries read it once, when they are loaded
            self.process.start()
        other.close()
        try:
            self._answer()  # a program that cannot start says so now
        except RuntimeError:
            self.close()
            raise

    def result(self, name: str, *arguments: Any) -> Any:
        """Run one call, not timed, and return what it returns."""
        self.connection.send((False, name, arguments))
        return self._answer()

    def seconds(self, name: str, at_least: float = 0.0) -> float:
        """Return the seconds of one call, as ``turn`` measures them."""
        self.connection.send((True, name, (at_least,)))
        return self._answer()

    def _answer(self) -> Any:
        try:
            value, failure = self.connection.recv()
        except EOFError:
            raise RuntimeError("a program ended before it answered: out of memory?") from None
        if failure:
            raise RuntimeError(f"a program failed:\n{failure}")
        return value

    def close(self) -> None:
        self.connection.close()
        self.process.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def serve(connection: Connection, make: Callable[..., Calls], arguments: tuple[Any, ...]) -> None:
    """Be the process of a program: run what is asked for, until nobody asks any more."""
    calls: Calls = {}
    request: tuple[bool, str, tuple[Any, ...]] | None = None
    while True:
        try:
            if request is None:
                calls, answer = make(*arguments), None
            else:
                answer = perform(calls, *request)
        except Exception:
            connection.send((None, traceback.format_exc()))
        else:
            fall_asleep()
            connection.send((answer, None))
        try:
            request = connection.recv()
        except EOFError:
            return


def perform(calls: Calls, timed: bool, name: str, arguments: tuple[Any, ...]) -> Any:
    return turn(calls[name], *arguments) if timed else calls[name](*arguments)


def fall_asleep() -> None:
    """Return when this program's threads do nothing any more.

    OpenBLAS's spin on after their last product, for more than a tenth of a second on some machines,
    and those of OpenMP for some milliseconds: they would take a core from whoever comes next.
    """
    deadline = perf_counter() + PATIENCE
    while perf_counter() < deadline:
        start = process_time()
        sleep(GLANCE)
        if process_time() - start < ASLEEP * GLANCE:
            return


def turn(call: Callable[[], Any], at_least: float = 0.0) -> float:
    """Return the mean seconds of a call over a turn that takes ``at_least`` so long.

    Threads first get time to wake: for some tens of milliseconds the system may leave two of them
    on one core; and the data has to come back into the caches.  A long call does not feel that, and
    is a turn by itself.
    """
    warm = mean_seconds(call, min(WARM, at_least))
    return warm if warm >= LONG else mean_seconds(call, at_least)


def mean_seconds(call: Callable[[], Any], at_least: float) -> float:
    """Return the mean seconds of a call, made once or more, for ``at_least`` so long."""
    start, count, passed = perf_counter(), 0, 0.0
    while count == 0 or passed < at_least:
        call()
        count += 1
        passed = perf_counter() - start
    return passed / count


def take_turns(
    programs: Mapping[str, Program], name: str, rounds: int, at_least: float = 0.0
) -> dict[str, list[float]]:
    """Return the seconds of one call by every program, each round after round: A B A B …"""
    found: dict[str, list[float]] = {program: [] for program in programs}
    for _ in range(rounds):
        for program, side in programs.items():
            found[program].append(side.seconds(name, at_least))
    return found


@contextmanager
def environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Change environment variables for a while; None unsets one."""
    before = {name: os.environ.get(name) for name in changes}

    def apply(values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    apply(changes)
    try:
        yield
    finally:
        apply(before)


class Ratio(NamedTuple):
    """How many times faster: the median of the rounds' ratios, and the least and largest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, theirs: Sequence[float], ours: Sequence[float]) -> Ratio:
        ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
        return cls(median(ratios), min(ratios), max(ratios))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


def check_equal(name: str, ours: Any, theirs: Any, limit: float) -> None:
    """Stop unless two results are equal up to a share of the largest number in them."""
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if ours.shape != theirs.shape:
        raise SystemExit(f"{name}: results have shapes {ours.shape} and {theirs.shape}")
    gap = np.max(np.abs(ours - theirs), initial=0) / max(np.max(np.abs(theirs), initial=0), 1e-30)
    if not gap <= limit:
        raise SystemExit(f"{name}: results differ by {gap:.1e}, more than {limit:.1e}")
