"""Which mistake is it?  Found by fitting what came out, never by reading the student's code.

The answer is known, so the residual, what came out minus what is right, is known as well.  Each
known mistake predicts a residual: a factor gives c - 1 times the right value, a missing term that
very term, a forgotten row zeros everywhere else.  A name is given only if the prediction holds to
rounding in every case tried, which have other numbers and other sizes; two mistakes do not agree
there by chance.  What nothing explains stays without a name.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from minibert.arrays import Array
from minibert.course.exercise import Exercise, Outputs, copies, is_numeric

CLOSE = 1e-7  # of the largest value: rounding stays far below, another formula far above


class Trial(NamedTuple):
    """One call of the student's function."""

    arguments: dict[str, Any]
    given: Outputs  # what the student's function returned
    right: Outputs


class Diagnosis(NamedTuple):
    title: str
    why: str


def diagnose(exercise: Exercise, trials: Sequence[Trial], wrong: str) -> Diagnosis | None:
    """Return the mistake that explains the output ``wrong`` in all trials; None: an unknown one."""
    numbers = all(is_numeric(t.given[wrong]) and is_numeric(t.right[wrong]) for t in trials)
    for explain in BY_NUMBERS if numbers else (slip, other_output):
        for found in explain(exercise, trials, wrong):
            return found
    return None


Explanations = Iterator[Diagnosis]


def all_zero(exercise: Exercise, trials: Sequence[Trial], name: str) -> Explanations:
    if all(not np.any(trial.given[name]) for trial in trials):
        yield Diagnosis(
            f"{name} is all zeros",
            "nothing was written into it: was the result computed into another array, or dropped?",
        )


def other_output(exercise: Exercise, trials: Sequence[Trial], name: str) -> Explanations:
    for other in exercise.all_outputs:
        if other != name and all(same(t.given[name], t.right[other]) for t in trials):
            yield Diagnosis(
                f"{name} holds what {other} should be",
                f"the results are returned in the order {', '.join(exercise.outputs)}.",
            )


def transposed(exercise: Exercise, trials: Sequence[Trial], name: str) -> Explanations:
    if all(
        np.ndim(t.right[name]) >= 2 and same(t.given[name], np.swapaxes(t.right[name], -1, -2))
        for t in trials
    ):
        yield Diagnosis(f"{name} is transposed", "the last two axes are exchanged.")


FACTORS = {
    -1.0: ("the sign is turned", "everything is right but for a minus."),
    2.0: ("twice too large", "something is added two times, or a square's 2 was kept."),
    0.5: ("half of what it should be", "a sum hands its gradient to every term whole."),
}


def factor(exercise: Exercise, trials: Sequence[Trial], name: str) -> Explanations:
    """A constant times the right value; a constant that is a size of the case is named by it."""
    found = [fitted_factor(trial.given[name], trial.right[name]) for trial in trials]
    if any(c is None or abs(c - 1) < CLOSE for c in found):
        return
    factors = [c for c in found if c is not None]
    for constant, (title, why) in FACTORS.items():
        if all(math.isclose(c, constant, rel_tol=CLOSE) for c in factors):
            yield Diagnosis(f"{name}: {title}", why)
            return
    for title, power in (
        ("{} times too large", 1), ("{} times too small", -1),
        ("√{} times too large", 0.5), ("√{} times too small", -0.5),
    ):  # fmt: skip
        for size in size_names(exercise, trials):
            wanted = [exercise.sizes(**copies(t.arguments))[size] ** power for t in trials]  # type: ignore[misc]
            if all(math.isclose(c, w, rel_tol=CLOSE) for c, w in zip(factors, wanted, strict=True)):
                yield Diagnosis(f"{name}: {title.format(size)}", SIZE_REASONS[power])
                return
    if max(factors) - min(factors) < CLOSE * abs(factors[0]):
        yield Diagnosis(
            f"{name} is {factors[0]:.6g} times the right value",
            "the same factor in every case: look for a constant.",
        )


SIZE_REASONS = {
    1: "a mean was taken back that never was one, or a sum runs over an axis too many.",
    -1: "a mean stands where a sum belongs: dividing is the business of the loss, once.",
    0.5: "a root belongs to a scale that the forward applied once, and so does the backward.",
    -0.5: "a root belongs to a scale that the forward applied once, and so does the backward.",
}


def size_names(exercise: Exercise, trials: Sequence[Trial]) -> list[str]:
    return list(exercise.sizes(**copies(trials[0].arguments))) if exercise.sizes else []


def single_precision(exercise: Exercise, trials: Sequence[Trial], name: str) -> Explanations:
    """Right to seven digits but not to sixteen."""
    if all(same(t.given[name], t.right[name], 3e-6) for t in trials):
        yield Diagnosis(
            f"{name} is right to seven digits only",
            "a part of it is computed in float32: look for dtype=, astype or np.float32.",
        )


def slip(exercise: Exercise, trials: Sequence[Trial], name: str) -> Explanations:
    for known in exercise.slips:
        predicted = (exercise.call(known.wrong, trial.arguments)[name] for trial in trials)
        if all(
            same(trial.given[name], value) and not same(trial.right[name], value)
            for trial, value in zip(trials, predicted, strict=True)
        ):
            yield Diagnosis(known.title, known.why)


def term(exercise: Exercise, trials: Sequence[Trial], name: str) -> Explanations:
    """The residual is a multiple of one known term of the sum."""
    for known in exercise.terms.get(name, ()):
        found = []
        for trial in trials:
            if np.shape(trial.given[name]) != np.shape(trial.right[name]):
                return
            residual = np.asarray(trial.given[name] - trial.right[name])
            found.append(fitted_factor(residual, known.value(**copies(trial.arguments))))
        if any(c is None or abs(c) < CLOSE for c in found):
            continue
        factors = [c for c in found if c is not None]
        if max(factors) - min(factors) > CLOSE * max(map(abs, factors)):
            continue
        yield Diagnosis(term_title(known.title, factors[0]), known.why)


def term_title(title: str, factor: float) -> str:
    """Say what became of a term of which ``factor`` times itself is too much.

    >>> term_title("mean term", -1.0), term_title("mean term", -2.0)
    ('the mean term is missing', 'the mean term has the wrong sign')
    """
    names = {
        -1.0: "is missing", -2.0: "has the wrong sign", 1.0: "is there twice",
        -0.5: "is half as large as it should be",
    }  # fmt: skip
    for value, what in names.items():
        if math.isclose(factor, value, rel_tol=CLOSE):
            return f"the {title} {what}"
    return f"the {title} is {1 + factor:.6g} times what it should be"


def only_rows(exercise: Exercise, trials: Sequence[Trial], name: str) -> Explanations:
    """Right everywhere but in places that are known to be treacherous."""
    for known in exercise.rows.get(name, ()):
        hit = False
        for trial in trials:
            places = known.places(**copies(trial.arguments))
            off = differs(trial.given[name], trial.right[name])
            if off[~places].any():
                break
            hit = hit or bool(off.any())
        else:
            if hit:
                yield Diagnosis(f"{name}: {known.title}", known.why)


def permuted_blocks(exercise: Exercise, trials: Sequence[Trial], name: str) -> Explanations:
    """Heads in another order: blocks of columns of the right values, exchanged."""
    for trial in trials:
        heads = trial.arguments.get("heads")
        given, right = np.asarray(trial.given[name]), np.asarray(trial.right[name])
        if not heads or given.shape != right.shape or right.shape[-1] % heads:
            return
        if sorted_numbers(given) != sorted_numbers(right):
            return
    yield Diagnosis(
        f"{name} has the right numbers in the wrong columns",
        "head h owns the columns h·D … (h+1)·D - 1: cut with reshape(B, T, H, D) and only then "
        "exchange axes.",
    )


def sorted_numbers(x: Array) -> list[float]:
    return np.sort(np.round(np.asarray(x, np.float64), 9), axis=None).tolist()


BY_NUMBERS = (
    slip,
    term,
    all_zero,
    other_output,
    transposed,
    factor,
    single_precision,
    only_rows,
    permuted_blocks,
)
"""In the order of asking: what is special to the exercise goes before what may happen anywhere."""


def fitted_factor(given: Any, right: Any) -> float | None:
    """Return c where given = c · right to rounding, None where there is no such c."""
    given, right = np.asarray(given, np.float64), np.asarray(right, np.float64)
    if given.shape != right.shape or not right.any():
        return None
    c = float((given * right).sum() / np.square(right).sum())
    return c if np.abs(given - c * right).max() <= CLOSE * np.abs(given).max() else None


def same(given: Any, right: Any, limit: float = CLOSE) -> bool:
    """Whether two values agree: numbers to rounding, anything else exactly."""
    if not (is_numeric(given) and is_numeric(right)):
        return type(given) is type(right) and bool(np.all(given == right))
    return np.shape(given) == np.shape(right) and not differs(given, right, limit).any()


def differs(given: Any, right: Any, limit: float = CLOSE) -> Array:
    """Return, for each leading place, whether any of its numbers differ; NaN always does."""
    given, right = np.asarray(given, np.float64), np.asarray(right, np.float64)
    size = max(float(np.abs(right).max(initial=0)), 1e-300)
    off = ~(np.abs(given - right) <= limit * size)
    return off.any(axis=-1) if off.ndim > 1 else off


def takes(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)
