"""Is the student's function right?  Asked in an order that says most with least.

written?          the blank still raises NotImplementedError
shapes, dtypes    with all sizes different, so that no two axes can be confused
by hand           one case that fits on the screen, both results side by side
differences       float64, random upstream, nothing at a default: is it the derivative?
diagnosis         if not right: which mistake it is
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minibert.course.diagnosis import Trial, diagnose, same, takes
from minibert.course.exercise import Case, Exercise, Outputs, copies, is_numeric
from minibert.gradcheck import GradCheckError, check_gradients

TRIALS = 3


@dataclass
class Verdict:
    """What a check found, as lines to print."""

    exercise: Exercise
    passed: bool = True
    written: bool = True
    formed: bool = True  # the results have the shapes and dtypes that they should have
    lines: list[str] = field(default_factory=list)
    diagnoses: list[str] = field(default_factory=list)  # titles

    def ok(self, what: str, remark: str = "") -> None:
        self.lines.append(f"  ok     {what}" + (f": {remark}" if remark else ""))

    def to_do(self) -> None:
        self.passed = self.written = False
        self.lines += [
            f"  to do  replace the lines between the marks of {self.exercise.name}",
            f"         a first hint: {self.exercise.hints[0]}",
        ]

    def fails(self, error: Exception, function: Callable[..., Any], case: Case) -> None:
        """Show an exception with the student's line, and name the mistake that raises the same."""
        self.wrong("it runs", f"{type(error).__name__}: {error}", *where(error, function))
        for slip in self.exercise.slips:
            try:
                self.exercise.call(slip.wrong, case.arguments)
            except Exception as known:
                if (type(known), str(known)) == (type(error), str(error)):
                    self.named(slip.title, slip.why)
                    return

    def named(self, title: str, why: str) -> None:
        """Say which mistake it is."""
        self.diagnoses.append(title)
        self.lines += [f"  What it is: {title}.", f"  {why}"]

    def wrong(self, what: str, remark: str, *more: str) -> None:
        self.passed = False
        self.lines.append(f"  WRONG  {what}: {remark}")
        self.lines += [f"         {line}" for line in more]


def check_function(exercise: Exercise, function: Callable[..., Any]) -> Verdict:
    """Compare a function with the library's; the verdict says what is wrong, and why."""
    verdict = Verdict(exercise)
    for step in (check_signature, check_calls, check_by_hand, check_differences):
        step(verdict, function)
        if not verdict.passed and step is not check_by_hand:
            break
    if not verdict.passed and verdict.written:
        explain(verdict, function)
    return verdict


def check_signature(verdict: Verdict, function: Callable[..., Any]) -> None:
    wanted = takes(verdict.exercise.answer)
    if not callable(function):
        verdict.wrong("function", f"{verdict.exercise.name} is a {type(function).__name__}")
    elif (have := takes(function)) != wanted:
        verdict.wrong(
            "arguments", f"({', '.join(have)})", f"expected ({', '.join(wanted)}), in this order"
        )


def check_calls(verdict: Verdict, function: Callable[..., Any]) -> None:
    """Call with all sizes different, in both precisions: results, shapes, dtypes, side effects."""
    exercise = verdict.exercise
    for dtype in (np.float64, np.float32):
        case = exercise.draw(np.random.default_rng(1))
        arguments = cast(case.arguments, dtype)
        kept = copies(arguments)
        try:
            result = function(**arguments)
        except NotImplementedError:
            verdict.to_do()
            return
        except Exception as error:
            verdict.fails(error, function, case)
            return
        right = exercise.call(exercise.answer, cast(case.arguments, dtype))
        if (problem := form_problem(exercise, result, right)) is not None:
            verdict.formed = False
            verdict.wrong("shapes and dtypes", *problem)
            return
        changed = [
            name
            for name in kept
            if name not in exercise.changes and not unchanged(arguments[name], kept[name])
        ]
        if changed:
            verdict.wrong(
                "inputs", f"{', '.join(changed)} was changed in place",
                "the caller still needs it: compute into a new array, x = x + 1 instead of x += 1",
            )  # fmt: skip
            verdict.diagnoses.append(f"{changed[0]} was changed in place")
            return
        again = exercise.call(function, cast(case.arguments, dtype))
        first = exercise.named(result, arguments)
        unsteady = [name for name in first if not unchanged(first[name], again[name])]
        if unsteady:
            verdict.wrong(
                "the same twice", f"{', '.join(unsteady)} differs from call to call",
                "a random mask is drawn anew: backward needs the very mask of its forward",
            )  # fmt: skip
            verdict.diagnoses.append("the mask is drawn anew")
            return
    verdict.ok("shapes and dtypes")


def form_problem(exercise: Exercise, result: Any, right: Outputs) -> list[str] | None:
    """Return what is wrong with the number, shapes or dtypes of results; None if nothing is."""
    count = len(exercise.outputs)
    if not count:
        return None
    listed = ", ".join(exercise.outputs)
    if count > 1 and (not isinstance(result, tuple) or len(result) != count):
        came = f"{len(result)} results" if isinstance(result, tuple) else type(result).__name__
        return [f"it returns {came}", f"expected {count}: return {listed}"]
    if result is None:
        return ["it returns None", f"expected {listed}: is the return line missing?"]
    for name, value in zip(exercise.outputs, result if count > 1 else (result,), strict=True):
        if not is_numeric(right[name]):
            if type(value) is not type(right[name]):
                kinds = type(value).__name__, type(right[name]).__name__
                return [f"{name} is a {kinds[0]}", f"expected a {kinds[1]}"]
            continue
        if not is_numeric(value):
            kind = "an array" if np.ndim(right[name]) else "a number"
            return [f"{name} is a {type(value).__name__}", f"expected {kind}"]
        if not isinstance(right[name], (np.ndarray, np.generic)):
            continue  # a plain number: 3, 3.0 and np.float64(3) are all right
        wanted = np.asarray(right[name])
        have = np.asarray(value)
        if have.shape != wanted.shape:
            turned = have.shape == wanted.shape[::-1] and have.ndim == 2
            more = ["the two axes are exchanged: is it transposed?"] if turned else []
            return [f"{name} has shape {have.shape}", f"expected {wanted.shape}", *more]
        if have.dtype != wanted.dtype:
            return [
                f"{name} has dtype {have.dtype}",
                f"expected {wanted.dtype}, that of what came in",
            ]
    return None


def check_by_hand(verdict: Verdict, function: Callable[..., Any]) -> None:
    """Show one small case with both results."""
    exercise = verdict.exercise
    case = exercise.by_hand()
    given = attempt(verdict, function, case)
    if given is None:
        return
    right = exercise.call(exercise.answer, case.arguments)
    wrong = wrong_outputs(exercise, given, right)
    if not wrong:
        verdict.ok("by hand")
        return
    lines = [f"{name} = {shown(value)}" for name, value in case.arguments.items()]
    for name in wrong:
        lines += [f"{name}, yours: {shown(given[name])}", f"{name}, right: {shown(right[name])}"]
    verdict.wrong("by hand", f"{', '.join(wrong)} in a small case", *lines)


def attempt(verdict: Verdict, function: Callable[..., Any], case: Case) -> Outputs | None:
    """Return the outputs of a call; None where it fails, which the verdict then says."""
    try:
        return verdict.exercise.call(function, case.arguments)
    except Exception as error:
        verdict.fails(error, function, case)
        return None


def check_differences(verdict: Verdict, function: Callable[..., Any]) -> None:
    """Compare with finite differences of the loss, or where there is none with the library."""
    exercise = verdict.exercise
    case = exercise.draw(np.random.default_rng(2))
    given = attempt(verdict, function, case)
    if given is None:
        return
    if case.loss is None:
        right = exercise.call(exercise.answer, case.arguments)
        wrong = wrong_outputs(exercise, given, right)
        for name in wrong:
            verdict.wrong("random case", worst_place(name, given[name], right[name]))
        if not wrong:
            verdict.ok("random case")
        return
    tensors = {
        name: (value, np.ascontiguousarray(given[name], np.float64))
        for name, value in case.tensors.items()
    }
    try:
        check_gradients(case.loss, tensors)
    except GradCheckError as error:
        verdict.wrong("finite differences", str(error).replace("the gradient of ", "", 1))
        return
    verdict.ok("finite differences", f"{', '.join(tensors)} to nine digits")


def explain(verdict: Verdict, function: Callable[..., Any]) -> None:
    """Add a diagnosis for every output that is wrong."""
    if verdict.diagnoses:
        return
    with np.errstate(all="ignore"):
        find_mistakes(verdict, function)


def find_mistakes(verdict: Verdict, function: Callable[..., Any]) -> None:
    """Compare with the answer in several cases, and name what is wrong with each output."""
    exercise, trials = verdict.exercise, []
    for seed in range(TRIALS):
        case = exercise.draw(np.random.default_rng(10 + seed))
        try:
            given = exercise.call(function, case.arguments)
        except Exception:
            return
        right = exercise.call(exercise.answer, case.arguments)
        trials.append(Trial(case.arguments, given, right))
    unknown: list[str] = []
    for name in exercise.all_outputs:
        off = [t for t in trials if name in wrong_outputs(exercise, t.given, t.right)]
        if not off:
            continue
        found = diagnose(exercise, off, name)
        if found is None:
            worst = worst_place(name, off[0].given[name], off[0].right[name])
            unknown.append(f"  {name}: not a mistake I know.  {worst}")
        elif found.title not in verdict.diagnoses:
            verdict.named(found.title, found.why)
    if not verdict.diagnoses and verdict.formed:  # else it may follow from what was said
        verdict.lines += unknown


def wrong_outputs(exercise: Exercise, given: Outputs, right: Outputs) -> list[str]:
    return [
        name
        for name in exercise.all_outputs
        if not same(given[name], right[name], exercise.tolerance)
    ]


def worst_place(name: str, given: Any, right: Any) -> str:
    """Name the element that is furthest off, with both values."""
    if not (is_numeric(given) and is_numeric(right)) or np.shape(given) != np.shape(right):
        return f"{name} is {shown(given)}, right is {shown(right)}"
    given, right = np.asarray(given, np.float64), np.asarray(right, np.float64)
    distance = np.where(np.isfinite(given), np.abs(given - right), np.inf)
    at = np.unravel_index(int(distance.argmax()), distance.shape)
    place = f"[{', '.join(map(str, at))}]" if at else ""
    return f"{name}{place} is {given[at]:.8g}, right is {right[at]:.8g}"


def cast(arguments: dict[str, Any], dtype: Any) -> dict[str, Any]:
    """Return copies, with floating arrays in another precision."""
    return {
        name: value.astype(dtype)
        if isinstance(value, np.ndarray) and value.dtype.kind == "f"
        else value
        for name, value in copies(arguments).items()
    }


def unchanged(one: Any, other: Any) -> bool:
    if is_numeric(one) and is_numeric(other):
        return np.array_equal(one, other, equal_nan=np.asarray(one).dtype.kind == "f")
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    return one is other or one == other


def shown(value: Any) -> str:
    """Write a value on one line, arrays with few digits."""
    if isinstance(value, np.ndarray):
        text = np.array2string(value, precision=4, suppress_small=True, separator=" ")
        return " ".join(text.split())
    return repr(value.item() if isinstance(value, np.generic) else value)


def where(error: Exception, function: Callable[..., Any]) -> Iterator[str]:
    """Yield the student's line that an error arose in."""
    code = getattr(function, "__code__", None)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if code is not None and frame.filename == code.co_filename:
            yield f"line {frame.lineno}: {frame.line}" if frame.line else f"line {frame.lineno}"
            return
