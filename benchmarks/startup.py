"""How long until it works?  python benchmarks/startup.py [--quick] [--check]

Wall time of whole commands, each a process of its own, taking turns:

    python            the interpreter, doing nothing
    import numba      with that import
    minibert --help   the help of the command line
    first step        ``minibert pretrain`` until its first step is done: text, vocabulary and
                      machine code have been prepared by an earlier run
    cold warmup       ``minibert warmup`` with an empty folder for machine code: what the first
                      start after an installation has to compile

A second start should feel like no wait: beyond what Python and numba need by themselves, the first
step must be done within 1.5 seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from programs import THREADS
from report import Figure, finish, new_parser, parse, positive

WARMUP_SECONDS = 25.0
BEYOND_NUMBA_SECONDS = 1.5

# The process ends right after the first step, so no report is drawn and nothing is saved.
FIRST_STEP = """
import math, os, sys
from minibert.training import loop

step = loop.training_step

def first_step(run, progress):
    record = step(run, progress)
    print("loss", record["loss"], flush=True)
    os._exit(0 if math.isfinite(record["loss"]) else 1)

loop.training_step = first_step
from minibert.cli import main
sys.exit(main(["pretrain", "--steps", "1000", *sys.argv[1:]]) or 3)
"""


def commands(out: Path) -> dict[str, list[str]]:
    """Return the commands that are timed again and again; the run's folder must not exist yet."""
    python = [sys.executable, "-c"]
    return {
        "python": [*python, "pass"],
        "import numba": [*python, "import numba"],
        "minibert --help": [sys.executable, "-m", "minibert", "--help"],
        "first step": [*python, FIRST_STEP, "--out", str(out)],
    }


EXPECTED = {"minibert --help": "pretrain", "first step": "loss", "cold warmup": "compiled"}
"""What a command prints if it did what it should."""


def wall_time(name: str, command: Sequence[str], environment: Mapping[str, str]) -> float:
    """Run a command to its end and return its seconds; stop if it fails, or says another thing."""
    start = perf_counter()
    done = subprocess.run(
        command, env=dict(environment), capture_output=True, text=True, encoding="utf-8",
        errors="replace", check=False,
    )  # fmt: skip
    seconds = perf_counter() - start
    if done.returncode or EXPECTED.get(name, "") not in done.stdout:
        raise SystemExit(f"{name} failed, exit status {done.returncode}:\n{done.stderr[-2000:]}")
    return seconds


def cold_warmup(environment: Mapping[str, str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        cold = {**environment, "NUMBA_CACHE_DIR": folder}
        return wall_time("cold warmup", [sys.executable, "-m", "minibert", "warmup"], cold)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser("How long until it works?")
    parser.add_argument("--rounds", type=positive, metavar="N", help="default: 7, quick: 3")
    parser.add_argument("--no-cold", action="store_true", help="without compiling everything anew")
    options = parse(parser, arguments)
    rounds = options.rounds or (3 if options.quick else 7)
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            **dict.fromkeys(THREADS, str(options.threads)),
            "MINIBERT_CACHE": str(Path(folder, "cache")),
        }
        rows, figures = times(Path(folder, "runs"), environment, rounds, options)
    return finish(options, ["", "seconds", "least", "most"], rows, figures)


def times(
    runs: Path, environment: Mapping[str, str], rounds: int, options: Any
) -> tuple[list[list[str]], list[Figure]]:
    """Time all commands; return the rows of the table and the figures."""
    found: dict[str, list[float]] = {name: [] for name in commands(runs)}
    for number in range(-1, rounds):  # the first round fills caches: of files, text, machine code
        for name, command in commands(runs / str(number)).items():
            seconds = wall_time(name, command, environment)
            if number >= 0:
                found[name].append(seconds)
    beyond = [a - b for a, b in zip(found["first step"], found["import numba"], strict=True)]
    found["first step beyond import numba"] = beyond
    figures = [
        Figure(f"{name}: seconds", median(seconds))
        for name, seconds in found.items()
        if seconds is not beyond
    ]
    figures.append(
        Figure(
            "first step beyond import numba: seconds", median(beyond), at_most=BEYOND_NUMBA_SECONDS
        )
    )
    if not options.no_cold:
        found["cold warmup"] = [cold_warmup(environment) for _ in range(1 if options.quick else 3)]
        figures.append(
            Figure("cold warmup: seconds", median(found["cold warmup"]), at_most=WARMUP_SECONDS)
        )
    rows = [
        [name, *(f"{value:.2f}" for value in (median(seconds), min(seconds), max(seconds)))]
        for name, seconds in found.items()
    ]
    return rows, figures


if __name__ == "__main__":
    sys.exit(main())
