"""Runs mutants, each in a forked child that inherits all that is loaded already."""

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from minibert.ops import get_ops
from tests.gradients import Check, checks_for
from tests.mutation.mutants import Mutant

Choose = Callable[[str], Sequence[Check]]  # a function's name → the checks, likeliest first


class Outcome(NamedTuple):
    mutant: Mutant
    killed_by: str  # the check that rejected it, or "time"; "" if it survived


class Running(NamedTuple):
    mutant: Mutant
    process: Any
    deadline: float


def run(
    mutants: Sequence[Mutant],
    jobs: int,
    limit: float = 20.0,  # seconds for one mutant
    choose: Choose = checks_for,
) -> Iterator[Outcome]:
    """Yield the outcome of every mutant as it is known."""
    context = multiprocessing.get_context("fork")
    waiting, running = list(reversed(mutants)), dict[Connection, Running]()
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=child, args=(mutant, choose, sender), daemon=True)
            with warnings.catch_warnings():  # threads of the matrix product: no child uses them
                warnings.simplefilter("ignore", DeprecationWarning)
                process.start()
            sender.close()
            running[receiver] = Running(mutant, process, time.monotonic() + limit)
        soonest = min(r.deadline for r in running.values()) - time.monotonic()
        ready = wait(list(running), timeout=max(soonest, 0.0))
        late = [c for c, r in running.items() if c not in ready and r.deadline < time.monotonic()]
        for connection in [*ready, *late]:
            mutant, process, _ = running.pop(connection)  # type: ignore[index]
            yield Outcome(mutant, "time" if connection in late else verdict(connection))
            process.kill()
            process.join()
            connection.close()


def verdict(connection: Any) -> str:
    try:
        return connection.recv()
    except EOFError:  # a child that died, say of a wrong index in compiled code
        return "crash"


def child(mutant: Mutant, choose: Choose, sender: Connection) -> None:
    """Install the mutant and run the checks until one raises."""
    warnings.simplefilter("error")  # as in all tests
    checks = choose(mutant.target.checked_as)
    mutant.install()
    sender.send(first_to_reject(checks))
    sender.close()
    os._exit(0)


def first_to_reject(checks: Sequence[Check]) -> str:
    ops = get_ops("numpy")
    for check in checks:
        try:
            check(ops)
        except Exception:  # whatever stops the suite would be noticed
            return check.name
    return ""
