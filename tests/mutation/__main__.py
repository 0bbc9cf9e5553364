"""``python -m tests.mutation``: see the package's docstring.

Exit status 0 if at least 99 % of the mutants that matter are killed and every survivor is
explained, else 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from minibert.ops import get_ops
from tests.gradients import checks_for
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.mutants import Mutant, all_mutants
from tests.mutation.runner import Choose, Outcome, run

ENOUGH = 0.99


def main(arguments: Sequence[str] | None = None, choose: Choose = checks_for) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the mutants, run none")
    parser.add_argument(
        "--only", default="", metavar="NAME", help="functions with this in the name"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="children at once")
    options = parser.parse_args(arguments)

    mutants = all_mutants(options.only)
    if not mutants:
        print(f"no function to mutate has {options.only!r} in its name")
        return 2
    if options.list:
        for mutant in mutants:
            print(describe(mutant))
        print(f"{len(mutants)} mutants")
        return 0

    started = time.perf_counter()
    ops = get_ops("numpy")
    for check in choose(""):  # the unchanged program must pass, or nothing below means anything
        check(ops)
    suite = time.perf_counter() - started
    print(
        f"{len(mutants)} mutants; the suite takes {suite:.1f} s and passes without any", flush=True
    )
    outcomes: list[Outcome] = []
    for outcome in run(mutants, options.jobs, limit=10 + 10 * suite, choose=choose):
        outcomes.append(outcome)
        progress(len(outcomes), len(mutants), outcomes)
    print()
    return report(mutants, outcomes, time.perf_counter() - started, whole=not options.only)


def progress(done: int, count: int, outcomes: list[Outcome]) -> None:
    survived = sum(not outcome.killed_by for outcome in outcomes)
    line = f"{done}/{count} run, {survived} survived"
    if sys.stdout.isatty():
        print(f"\r{line}", end="", flush=True)
    elif done % 100 == 0 or done == count:
        print(line, flush=True)


def report(mutants: list[Mutant], outcomes: list[Outcome], seconds: float, whole: bool) -> int:
    """Print the survivors and the score; return the exit status."""
    order = {id(mutant): number for number, mutant in enumerate(mutants)}
    survivors = sorted((o.mutant for o in outcomes if not o.killed_by), key=lambda m: order[id(m)])
    explained = [mutant for mutant in survivors if reason(mutant)]
    for mutant in survivors:
        why = reason(mutant)
        print(describe(mutant))
        print(f"    {'equivalent: ' + why if why else 'SURVIVED, and nothing explains it'}")
    killed = len(outcomes) - len(survivors)
    matter = len(outcomes) - len(explained)
    score = killed / matter if matter else 1.0
    late = sum(outcome.killed_by == "time" for outcome in outcomes)
    print(
        f"killed {killed} of {len(outcomes)} mutants ({late} by the time limit), "
        f"survived {len(survivors)}, {len(explained)} of them equivalent, {seconds:.0f} s"
    )
    print(f"score {100 * score:.2f} % of the {matter} that are not equivalent")
    stale = set(EQUIVALENT) - {key(mutant) for mutant in explained} if whole else set()
    for function, before, after in sorted(stale):
        print(f"equivalent.py explains what did not survive: {function}: {before} → {after}")
    return 0 if score >= ENOUGH and len(explained) == len(survivors) else 1


def key(mutant: Mutant) -> tuple[str, str, str]:
    return mutant.target.title, mutant.before, mutant.after


def reason(mutant: Mutant) -> str:
    return EQUIVALENT.get(key(mutant), "")


def describe(mutant: Mutant) -> str:
    return (
        f"{mutant.place}: {mutant.target.title}, {mutant.operator}\n"
        f"    {mutant.before}\n  → {mutant.after}"
    )


if __name__ == "__main__":
    sys.exit(main())
