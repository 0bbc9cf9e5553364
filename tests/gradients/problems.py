"""What a check consists of: a loss, the tensors it reads, and the gradient that backward gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from minibert.arrays import Array
from minibert.gradcheck import GradCheckError, check_gradients, four_point
from minibert.gradcheck.check import floating, named, parameters_of
from minibert.keys import Key
from minibert.ops import Ops
from minibert.params import ParamStore, Scope
from tests.common import copies, normal


class Setting(NamedTuple):
    """How demanding a problem is.  The suite uses ``HARD``; the others are what weak tests do."""

    ones: bool = False  # upstream gradient of all ones, in place of random numbers
    fresh: bool = False  # weights as before the first step: gains 1, biases 0
    easy: bool = False  # no repeated ids, no padding, no ignored labels, equal micro-batches
    average: bool = False  # upstream gradient divided by the number of outputs: a mean as loss
    dtype: Any = np.float64


HARD = Setting()


class Problem(NamedTuple):
    loss: Callable[[], float]
    tensors: Mapping[str, tuple[Array, Array]]  # name → value that the loss reads, its gradient
    absolute: tuple[str, ...] = ()  # those whose true gradient is 0


@dataclass(frozen=True)
class Check:
    """One entry of the suite: call it with a backend, and it raises if something is wrong."""

    name: str
    covers: tuple[str, ...]  # the functions and methods that it looks at most directly
    run: Callable[[Ops], None]
    problem: Callable[[Ops, Setting], Problem] | None = None

    def __call__(self, ops: Ops) -> None:
        self.run(ops)


SUITE: dict[str, Check] = {}
"""All checks by name, quick ones first."""


def gradient(
    name: str, *covers: str, compare: Callable[[Problem], None] | None = None
) -> Callable[..., Any]:
    """Enter a function (backend, setting) → problem, compared element by element by default."""
    compare = compare or every_element

    def enter(problem: Callable[[Ops, Setting], Problem]) -> Callable[[Ops, Setting], Problem]:
        SUITE[name] = Check(name, covers, lambda ops: compare(problem(ops, HARD)), problem)
        return problem

    return enter


def by_hand(name: str, *covers: str) -> Callable[..., Any]:
    """Enter a function (backend) that compares with numbers worked out by hand."""

    def enter(run: Callable[[Ops], None]) -> Callable[[Ops], None]:
        SUITE[name] = Check(name, covers, run)
        return run

    return enter


def every_element(problem: Problem) -> None:
    check_gradients(problem.loss, problem.tensors, absolute=problem.absolute)


def each_tensor(problem: Problem) -> None:
    """Move one tensor at a time along two random directions.

    For parts made of others: their slopes are known from the checks of the operations, and a line
    or two through every tensor shows whether the right gradient arrives at the right place.
    """
    for name in problem.tensors:
        along_lines(problem, [name])


def all_together(problem: Problem) -> None:
    """Move all tensors at once; only if that fails, find the one that is wrong."""
    try:
        along_lines(problem, list(problem.tensors))
    except GradCheckError:
        each_tensor(problem)
        raise


def along_lines(
    problem: Problem, names: list[str], directions: int = 2, step: float = 2e-4, limit: float = 1e-7
) -> None:
    """Compare the slope of the loss along random directions of some tensors with backward's."""
    generator = np.random.default_rng(len(names[0]))
    values, gradients = zip(*(problem.tensors[name] for name in names), strict=True)
    saved = [value.copy() for value in values]
    size = max(float(np.abs(gradient).max()) for gradient in gradients)
    count = sum(value.size for value in values)
    for _ in range(directions):
        signs = [generator.choice([-1.0, 1.0], value.shape) for value in values]

        def moved(t: float, signs: list[Array] = signs) -> float:
            for value, start, sign in zip(values, saved, signs, strict=True):
                value[...] = start + t * sign
            return problem.loss()

        numeric = four_point(moved, step)
        for value, start in zip(values, saved, strict=True):
            value[...] = start
        analytic = sum(float(np.sum(g * s)) for g, s in zip(gradients, signs, strict=True))
        scale = max(size, abs(numeric) / count)
        if set(names) <= set(problem.absolute):
            scale = 1.0
        if not abs(analytic - numeric) <= limit * scale:
            what = names[0] if len(names) == 1 else "all parameters"
            raise GradCheckError(
                f"the gradient of {what} is wrong along a random direction: backward gives "
                f"{analytic:.10g}, differences give {numeric:.10g}"
            )


def checks_for(function: str) -> list[Check]:
    """Return the whole suite, with the checks that look at ``function`` in front."""
    return sorted(SUITE.values(), key=lambda check: function not in check.covers)  # stable


def same(what: str, got: Any, wanted: Any, tolerance: float = 1e-12) -> None:
    """Raise GradCheckError unless the two are equal, relative to the largest number wanted."""
    got, wanted = np.asarray(got, dtype=np.float64), np.asarray(wanted, dtype=np.float64)
    if got.shape != wanted.shape:
        raise GradCheckError(f"{what} is wrong: it has shape {got.shape}, not {wanted.shape}")
    size = max(float(np.abs(wanted).max(initial=0)), 1e-300)
    if not np.abs(got - wanted).max(initial=0) <= tolerance * size:
        raise GradCheckError(f"{what} is wrong: {got.tolist()}, not {wanted.tolist()}")


def upstream(y: Any, setting: Setting) -> Any:
    """Return dy for an output, an array of its shape or one number."""
    shape = np.shape(y)
    dy = np.ones(shape) if setting.ones else Key(0).generator().standard_normal(shape)
    if setting.average:
        dy = dy / max(np.size(y), 10)
    return dy.astype(setting.dtype) if shape else float(dy)


def total(dy: Any, y: Any) -> float:
    return float(np.sum(dy * y))


def pair(
    forward: Callable[..., Any],
    backward: Callable[..., Any],  # (dy, *inputs) → one gradient for each input
    inputs: Mapping[str, Array],
    setting: Setting,
) -> Problem:
    """Return the problem of a forward and backward function."""
    values = {name: value.astype(setting.dtype) for name, value in inputs.items()}
    y = forward(*values.values())
    dy = upstream(y, setting)
    gradients = backward(dy, *values.values())
    return Problem(lambda: total(dy, forward(*values.values())), named(values, gradients))


def layer(
    make: Callable[[Scope], Any],
    inputs: Mapping[str, Any],
    setting: Setting,
    absolute: tuple[str, ...] = (),
) -> Problem:
    """Return the problem of a layer: gradients of its floating inputs and of its parameters."""
    part, store = build(make, setting)
    given = copies(inputs, setting.dtype)
    y, cache = part.forward(**given)
    dy = upstream(y, setting)
    gradients = part.backward(dy, cache)
    tensors = named(floating(given), gradients) | parameters_of(store)
    return Problem(lambda: total(dy, part.forward(**given)[0]), tensors, absolute)


def build(make: Callable[[Scope], Any], setting: Setting = HARD) -> tuple[Any, ParamStore]:
    """Make a layer and draw its parameters."""
    store = ParamStore(setting.dtype)
    part = make(store.scope("part"))
    store.allocate()
    draw(store, setting)
    return part, store


def draw(store: ParamStore, setting: Setting, std: float = 0.7) -> None:
    """Draw all parameters: no gain is 1 and no bias 0, unless they are to be fresh."""
    for number, parameter in enumerate(store):
        mean = 1.0 if parameter.spec.init == "ones" else 0.0
        if setting.fresh and parameter.spec.init in ("ones", "zeros"):
            parameter.value[...] = mean
        else:
            parameter.value[...] = normal(number, *parameter.shape, mean=mean, std=std)
