"""``python -m tests.gallery``: every mistake, who rejects it, and which weaker tests do not.

Exit status 0 if the suite rejects them all, and the right backward passes everything.
"""

from __future__ import annotations

import sys
import textwrap
import time

from tests.gallery import MISTAKES, TOPICS, Mistake, planted, rejection
from tests.gallery.mistake import NUMPY
from tests.gallery.weak import WEAK_TESTS, accepts, right_backward_fails
from tests.gradients import SUITE

WIDTH = 96
ANSWERS = {True: "SLIPS", False: "caught", None: "-"}


def main() -> int:
    started = time.perf_counter()
    print_legend()
    rejected = 0
    slips = dict.fromkeys((test.name for test in WEAK_TESTS), 0)
    through_one = 0
    for topic in TOPICS:
        print(f"\n{topic}\n{'-' * len(topic)}")
        for mistake in (m for m in MISTAKES if m.topic == topic):
            verdict = rejection(mistake)
            weak = weak_answers(mistake)
            rejected += verdict is not None
            for name, slipped in weak.items():
                slips[name] += slipped is True
            through_one += True in weak.values()
            print_mistake(mistake, verdict[0] if verdict else "", weak)
    wrong = failures_of_the_right_one()
    for failure in wrong:
        print(f"the right backward fails {failure}")
    counts = ", ".join(f"{name} {count}" for name, count in slips.items())
    right = f"fails {len(wrong)} tests" if wrong else "passes the suite and every weaker test"
    summary = (
        f"{rejected} of {len(MISTAKES)} mistakes rejected by the suite; {through_one} slip through "
        f"at least one weaker test ({counts}); the right backward {right}; "
        f"{time.perf_counter() - started:.0f} s"
    )
    print("\n" + textwrap.fill(summary, WIDTH))
    return 0 if rejected == len(MISTAKES) and not wrong else 1


def weak_answers(mistake: Mistake) -> dict[str, bool | None]:
    """Return, for each weaker test, whether the mistake would slip through."""
    check = SUITE[mistake.weak or mistake.check]
    with planted(mistake) as ops:
        return {test.name: accepts(test, check, ops) for test in WEAK_TESTS}


def failures_of_the_right_one() -> list[str]:
    failures = [f"the weaker test {name}" for name in right_backward_fails(SUITE.values())]
    for check in SUITE.values():
        try:
            check(NUMPY)
        except Exception as error:
            failures.append(f"the check {check.name}: {error}")
    return failures


def print_legend() -> None:
    print("Wrong backward passes.  Rejected by the suite?  And by weaker tests?  These are:\n")
    for test in WEAK_TESTS:
        name = f"  {test.name:<8} "
        print(textwrap.fill(test.why, WIDTH, initial_indent=name, subsequent_indent=" " * 11))
    print("\n  SLIPS: the weaker test does not notice.  -: it does not apply.\n")
    print(row("mistake", "suite", [test.name for test in WEAK_TESTS]))


def print_mistake(mistake: Mistake, rejected_by: str, weak: dict[str, bool | None]) -> None:
    verdict = "rejected" if rejected_by else "ACCEPTED"
    print(row(mistake.name, verdict, [ANSWERS[slipped] for slipped in weak.values()]))
    text = f"{mistake.where}: {mistake.why}"
    print(textwrap.fill(text, WIDTH, initial_indent="    ", subsequent_indent="    "))


def row(name: str, verdict: str, answers: list[str]) -> str:
    return f"{name:<47} {verdict:<9}" + "".join(f"{a:<8}" for a in answers).rstrip()


if __name__ == "__main__":
    sys.exit(main())
