"""Weaker tests, as they are found in courses and repositories, to be run on the same mistakes.

Each takes an entry of the suite and weakens one thing about it.  The right backward passes them
all, and so do many wrong ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from minibert.arrays import Array
from minibert.gradcheck import GradCheckError, four_point
from minibert.ops import Ops, get_ops
from tests.gradients import Check, Problem, Setting
from tests.gradients.rules import check_clipping


class WeakTest(NamedTuple):
    name: str
    why: str
    setting: Setting
    allowed: Callable[[float], float]  # largest gradient of a tensor → difference that passes
    points: int = 4
    step: float = 2e-4


def exact(largest: float) -> float:
    return 1e-6 * max(largest, 1.0)


WEAK_TESTS = (
    WeakTest("ones", "upstream gradient of all ones: y.sum() as loss", Setting(ones=True), exact),
    WeakTest("fresh", "fresh weights: every gain 1, every bias 0", Setting(fresh=True), exact),
    WeakTest(
        "easy", "easy data: no id twice, no padding, no ignored label, equal micro-batches, "
        "nothing to clip", Setting(easy=True), exact,
    ),
    WeakTest(
        "float32", "two-point differences in float32, 1 % of the largest gradient allowed",
        Setting(dtype=np.float32), lambda largest: 1e-2 * largest + 1e-3, 2, 3e-3,
    ),
    WeakTest(
        "abs", "abs(a - b) < 0.01 whatever the size, on the small gradients of a mean",
        Setting(average=True), lambda largest: 1e-2, 2,
    ),
)  # fmt: skip

EASY: dict[str, Callable[[Ops], None]] = {
    "clipping after accumulation": lambda ops: check_clipping(ops, Setting(easy=True), 1e9)
}
"""Easy data for checks that have no gradient to compare."""


def accepts(test: WeakTest, check: Check, ops: Ops) -> bool | None:
    """Return whether a weakened check lets the backend pass; None if it cannot be so weakened."""
    if check.problem is None:
        if test.name != "easy" or check.name not in EASY:
            return None
        try:
            EASY[check.name](ops)
        except GradCheckError:
            return False
        return True
    try:
        return all_close(test, check.problem(ops, test.setting))
    except ValueError:  # a shape that does not fit
        return False


def all_close(test: WeakTest, problem: Problem) -> bool:
    """Compare a dozen elements of each tensor; of many tensors, one direction each."""
    for value, gradient in problem.tensors.values():
        if gradient.shape != value.shape:
            return False
        allowed = test.allowed(float(np.abs(gradient).max()))
        start = value.copy()
        for direction in directions(value, few=len(problem.tensors) > 6):

            def moved(t: float, direction: Array = direction) -> float:
                value[...] = start + value.dtype.type(t) * direction  # noqa: B023
                return problem.loss()

            h = test.step
            slope = four_point(moved, h) if test.points == 4 else (moved(h) - moved(-h)) / (2 * h)
            value[...] = start
            if not abs(slope - float(np.sum(gradient * direction))) <= allowed:
                return False
    return True


def directions(value: Array, few: bool) -> Iterator[Array]:
    generator = np.random.default_rng(value.size)
    if few:
        yield generator.choice([-1.0, 1.0], value.shape).astype(value.dtype)
        return
    for place in np.unique(np.linspace(0, value.size - 1, 12).astype(int)):
        direction = np.zeros_like(value)
        direction.reshape(-1)[place] = 1
        yield direction


def right_backward_fails(checks: Iterable[Check]) -> list[str]:
    """Return the weak tests that the right backward fails: none, if they are any good."""
    return [
        f"{test.name}: {check.name}"
        for check in checks
        for test in WEAK_TESTS
        if accepts(test, check, get_ops("numpy")) is False
    ]
