"""What the benchmarks share: programs that take turns, ratios of neighbours, tables, limits.

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

import argparse
import importlib.util
import json
import multiprocessing
import os
import platform
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, sleep
from typing import Any, NamedTuple, Self

import numpy as np

from minibert.cli.screen import print_table

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
BUSY = 0.3
"""Cores kept busy by others from which figures are not to be trusted."""
SHORTFALL, NOT_FIT = 1, 2  # exit statuses


# Programs


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


# Results


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


@dataclass(frozen=True)
class Figure:
    """A number that a benchmark found, and the limits it is held to."""

    name: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

    def shortfall(self) -> str | None:
        """Return in words how the limit is missed; a figure that is no number misses any."""
        if self.at_least is not None and not self.value >= self.at_least:
            return f"{self.name}: {self.value:.3g}, expected at least {self.at_least:g}"
        if self.at_most is not None and not self.value <= self.at_most:
            return f"{self.name}: {self.value:.3g}, expected at most {self.at_most:g}"
        return None


def check_equal(name: str, ours: Any, theirs: Any, limit: float) -> None:
    """Stop unless two results are equal up to a share of the largest number in them."""
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if ours.shape != theirs.shape:
        raise SystemExit(f"{name}: results have shapes {ours.shape} and {theirs.shape}")
    gap = np.max(np.abs(ours - theirs), initial=0) / max(np.max(np.abs(theirs), initial=0), 1e-30)
    if not gap <= limit:
        raise SystemExit(f"{name}: results differ by {gap:.1e}, more than {limit:.1e}")


# Command line


def new_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a rough answer in under a minute")
    parser.add_argument(
        "--check", action="store_true", help="exit with 1 if a figure misses its limit"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    parser.add_argument(
        "--threads", type=positive, default=core_count(), metavar="N",
        help="threads for every program (default: %(default)s)",
    )  # fmt: skip
    return parser


def add_plot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw a .png, .svg or .pdf")


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> Any:
    """Return the options; files that could not be written are refused now, not at the end.

    Says so if other programs are busy: threads that spin while they wait, as those of PyTorch and
    OpenBLAS do, then lose several times as much as those that sleep, and ratios mean little.
    """
    options = parser.parse_args(arguments)
    refuse_files(parser, options.json, getattr(options, "plot", None))
    options.busy = busy_cores()
    if options.busy > BUSY:
        print(
            f"Other programs keep {options.busy:.1f} of {core_count()} cores busy: "
            "do not trust the figures, or take --threads that fit beside them.",
            file=sys.stderr,
        )
    return options


def refuse_files(parser: argparse.ArgumentParser, record: Path | None, plot: Path | None) -> None:
    """Stop with the parser's error if a file has no folder to lie in, or is no known picture."""
    for file in (record, plot):
        if file and not file.absolute().parent.is_dir():
            parser.error(f"there is no folder {file.absolute().parent}")
    if plot and plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        parser.error(f"{plot} does not end in .png, .svg or .pdf")


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a positive number")
    return number


def installed(*packages: str) -> bool:
    return all(importlib.util.find_spec(package) is not None for package in packages)


def need(*packages: str, extra: str = "parity") -> None:
    """Exit with 2, saying how to install it, if a package is not there."""
    for package in packages:
        if not installed(package):
            print(f'{package} is not installed: pip install -e ".[{extra}]"', file=sys.stderr)
            raise SystemExit(NOT_FIT)


def finish(
    options: Any,
    headers: Sequence[str],  # the first column is text, as is one without a header
    rows: Sequence[Sequence[str]],
    figures: Sequence[Figure],
    **more: Any,
) -> int:
    """Print the table, write the JSON file, check the limits; return the exit status."""
    print(f"{processor()}, threads: {options.threads}; {', '.join(versions())}")
    print_table(headers, rows, numbers=[header for header in headers[1:] if header])
    if options.json:
        record = {
            "processor": processor(),
            "threads": options.threads,
            "cores_busy_before": options.busy,
            "versions": versions(),
            "table": [dict(zip(headers, row, strict=True)) for row in rows],
            "figures": {figure.name: figure.value for figure in figures},
            **more,
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    shortfalls = [text for figure in figures if (text := figure.shortfall())]
    if not options.check:
        return 0
    for text in shortfalls:
        print(text, file=sys.stderr)
    return SHORTFALL if shortfalls else 0


# The machine


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


# Pictures in text


def bar(value: float, largest: float, width: int = 40) -> str:
    """Return a bar of plain characters; anything above 0 has one at least."""
    share = value / largest if largest > 0 else 0.0
    return "#" * max(round(share * width), int(value > 0))
