"""One tensor: measured along lines, element by element or as a whole, and judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from minibert.arrays import Array
from minibert.gradcheck.differences import Line, four_point, settle
from minibert.gradcheck.report import TensorError, guess
from minibert.keys import Key

SINGLES = 8
"""Of a large tensor, so many largest gradients and so many random elements are checked alone;
fewer if ``max_elements`` is less."""

SEARCH_ALL = 1024
"""A large tensor that failed is searched whole for its worst element up to this size."""

PATIENCE = 4
"""After so many elements that no other step could save, a tensor's others are tried only once."""


class Plan(NamedTuple):
    """What is the same for all tensors of one check."""

    loss: Callable[[], float]
    limit: float
    step: float | None
    max_elements: int
    directions: int


Doubt: TypeAlias = Literal["", "kink", "noise"]


class Measure(NamedTuple):
    """Both slopes along one line, and how far apart they are."""

    at: tuple[int, ...] | None  # index of one element; None: a direction through all of them
    analytic: float
    numeric: float
    gap: float
    doubt: Doubt = ""  # why the numeric slope may mean nothing


class Tensor:
    """A value array and its gradient, measured along any line with a step that fits."""

    def __init__(
        self, plan: Plan, name: str, value: Array, gradient: Array, absolute: bool
    ) -> None:
        self.plan, self.name, self.absolute = plan, name, absolute
        self.value, self.gradient = value, gradient
        self.unit = float(np.sqrt(np.mean(value * value))) or 1.0
        self.largest = float(np.abs(gradient).max())
        self.steps: dict[bool, float] = {}  # is it a direction? → its step
        self.lost = 0

    def gap(self, analytic: float, numeric: float) -> float:
        if self.absolute:
            return max(abs(analytic), abs(numeric))
        return abs(analytic - numeric)

    def element(self, flat_index: int) -> Measure:
        """Measure one element; a large one may move further than its neighbours."""
        index = tuple(int(i) for i in np.unravel_index(flat_index, self.value.shape))
        reach = max(self.unit, abs(float(self.value[index])))
        line = Line(self.plan.loss, self.name, self.value, index)
        return self.measure(line, index, float(self.gradient[index]), reach)

    def along(self, direction: Array) -> Measure:
        """Measure along a direction of the tensor's shape, with entries ±1 or 0."""
        line = Line(self.plan.loss, self.name, self.value, ..., direction)
        return self.measure(line, None, float(np.sum(self.gradient * direction)), self.unit)

    def measure(
        self, line: Line, index: tuple[int, ...] | None, analytic: float, reach: float
    ) -> Measure:
        """Take the slope with the step fitted to the tensor's first line of this kind.

        If that is not close, this line may bend more than the first did: fit the step to it.
        """
        if self.plan.step:
            slope = four_point(line, self.plan.step * reach)
            return Measure(index, analytic, slope, self.gap(analytic, slope))
        whole = index is None
        if whole not in self.steps:
            self.steps[whole] = settle(line, reach).step / reach
        slope = four_point(line, self.steps[whole] * reach)
        gap = self.gap(analytic, slope)
        allowed = self.plan.limit * (1.0 if self.absolute else self.largest)
        if gap <= allowed / 10 or self.lost >= PATIENCE:
            return Measure(index, analytic, slope, gap)
        settled = settle(line, reach)
        gap = self.gap(analytic, settled.slope)
        doubt: Doubt = ""
        if gap <= 0.6 * abs(settled.jump):  # backward lies between the slopes of both sides
            doubt = "kink"
        elif settled.doubt > max(allowed, 0.05 * gap):
            doubt = "noise"
        self.lost += not doubt and gap > allowed
        return Measure(index, analytic, settled.slope, gap, doubt)

    def elements(self) -> list[Measure]:
        """Measure all elements, the largest gradient first: the step is fitted to that one."""
        order = np.argsort(-np.abs(self.gradient), axis=None, kind="stable")
        return [self.element(int(flat_index)) for flat_index in order]

    def sample(self, generator: np.random.Generator) -> list[Measure]:
        """Measure a large tensor: along random directions, and a few elements alone."""
        directions = (
            generator.choice([-1.0, 1.0], self.value.shape) for _ in range(self.plan.directions)
        )
        measures = [self.along(direction) for direction in directions]
        count = min(SINGLES, max(self.plan.max_elements, 1), self.value.size)
        largest = np.argpartition(-np.abs(self.gradient), count - 1, axis=None)[:count]
        largest = largest[np.argsort(-np.abs(self.gradient).reshape(-1)[largest], kind="stable")]
        random = generator.integers(0, self.value.size, count)
        return measures + [self.element(int(i)) for i in (*largest, *random)]

    def search(self, generator: np.random.Generator) -> Iterator[Measure]:
        """Look for the worst element of a large tensor: all of them, or by halves if too many."""
        group = np.arange(self.value.size)
        while self.value.size > SEARCH_ALL and len(group) > max(self.plan.max_elements, 1):
            halves = []
            for half in np.array_split(group, 2):
                direction = np.zeros(self.value.shape)
                direction.reshape(-1)[half] = generator.choice([-1.0, 1.0], len(half))
                halves.append((self.along(direction).gap, half))
            group = max(halves, key=lambda pair: pair[0])[1]
        for flat_index in group:
            yield self.element(int(flat_index))


def check_tensor(
    plan: Plan, name: str, value: Array, gradient: Array, absolute: bool, key: Key
) -> TensorError:
    """Return the verdict on one tensor."""
    if value.size == 0:
        return TensorError(
            name, value.shape, 0.0, None, 0.0, 0.0, plan.limit, absolute, True, "ok", "empty"
        )
    tensor = Tensor(plan, name, value, gradient, absolute)
    if value.size <= plan.max_elements:
        return judge(tensor, tensor.elements(), f"all {value.size}")
    measures = tensor.sample(key.generator())
    checked = f"{plan.directions} directions + {len(measures) - plan.directions}"
    return judge(tensor, measures, checked)


def search_tensor(
    plan: Plan, result: TensorError, value: Array, gradient: Array, key: Key
) -> TensorError:
    """Return the verdict on a tensor that failed, with its worst element found."""
    if value.size <= plan.max_elements:
        return result
    tensor = Tensor(plan, result.name, value, gradient, result.absolute)
    found = judge(tensor, list(tensor.search(key.generator())), result.checked)
    return result if found.passed else found


def judge(tensor: Tensor, measures: list[Measure], checked: str) -> TensorError:
    """Return the verdict that follows from some measures."""
    limit, size = tensor.plan.limit, size_of(tensor, measures)
    failed = [m for m in measures if m.gap > limit * size]
    noisy = [m for m in failed if m.doubt == "noise"]
    if 2 * len(noisy) > len(failed):  # then those that look clear are so by chance
        clear = noisy
    else:
        clear = [m for m in failed if not m.doubt] or failed or measures
    # of failures, name an element rather than a direction
    worst = max((failed and [m for m in clear if m.at is not None]) or clear, key=lambda m: m.gap)
    return TensorError(
        tensor.name,
        tensor.value.shape,
        worst.gap / size,
        worst.at,
        worst.analytic,
        worst.numeric,
        limit,
        tensor.absolute,
        not failed,
        (worst.doubt or "wrong") if failed else "ok",
        checked,
        explain(tensor, measures) if failed else "",
    )


def size_of(tensor: Tensor, measures: list[Measure]) -> float:
    """Return what errors are relative to: the largest gradient that either side has seen."""
    if tensor.absolute:
        return 1.0
    seen = [abs(m.numeric) for m in measures if m.at is not None]
    return max(tensor.largest, *seen, float(np.finfo(np.float64).tiny))


def explain(tensor: Tensor, measures: list[Measure]) -> str:
    """Return a likely cause, from the elements that were measured alone."""
    if tensor.absolute:
        return "it was named in absolute, as having a true gradient of 0"
    numeric = {m.at: m.numeric for m in measures if m.at is not None}
    if not numeric:
        return "no element was looked at alone"
    indices = sorted(numeric)
    whole = len(indices) == tensor.value.size
    return guess(
        np.array([float(tensor.gradient[index]) for index in indices]),
        np.array([numeric[index] for index in indices]),
        tensor.value.shape if whole else None,
        tensor.plan.limit,
    )
