"""Every exercise: the blank is to do, the answer is right, mistakes are called by their names."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from minibert.course.checking import check_function
from minibert.course.exercise import Exercise, Slip, Term, is_numeric
from minibert.course.exercises import all_exercises, exercises_of
from minibert.course.lessons import all_lessons, functions_in
from tests.gallery import MISTAKES
from tests.lessons.gallery import TITLES

EXERCISES = {exercise.name: exercise for exercise in all_exercises()}
PLACES = {exercise.answer.__qualname__: exercise for exercise in all_exercises()}
each = pytest.mark.parametrize("exercise", EXERCISES.values(), ids=EXERCISES)


@each
def test_the_librarys_own_function_is_right(exercise: Exercise) -> None:
    verdict = check_function(exercise, exercise.answer)
    assert verdict.passed, "\n".join(verdict.lines)
    assert verdict.diagnoses == []


@each
def test_the_blank_is_to_do(exercise: Exercise) -> None:
    [lesson] = [lesson for lesson in all_lessons() if lesson.number == exercise.lesson]
    verdict = check_function(exercise, functions_in(lesson.path)[exercise.name])
    assert not verdict.passed
    assert not verdict.written
    assert exercise.name in verdict.lines[0]
    assert exercise.hints[0] in verdict.lines[1]


def slips() -> list[Any]:
    return [
        pytest.param(exercise, slip, id=f"{exercise.name}: {slip.title}")
        for exercise in EXERCISES.values()
        for slip in exercise.slips
    ]


@pytest.mark.parametrize(("exercise", "slip"), slips())
def test_a_known_mistake_is_called_by_its_name(exercise: Exercise, slip: Slip) -> None:
    verdict = check_function(exercise, slip.wrong)
    assert not verdict.passed
    assert verdict.diagnoses == [slip.title], "\n".join(verdict.lines)


def terms() -> list[Any]:
    return [
        pytest.param(exercise, output, term, id=f"{exercise.name}: {term.title}")
        for exercise in EXERCISES.values()
        for output, known in exercise.terms.items()
        for term in known
    ]


def changed(exercise: Exercise, output: str, change: Callable[..., Any]) -> Callable[..., Any]:
    """The answer with one result replaced by change(result, arguments)."""

    def wrong(*given: Any, **named: Any) -> Any:
        result = exercise.answer(*given, **named)
        if len(exercise.outputs) == 1:
            return change(result, named)
        place = exercise.outputs.index(output)
        return (*result[:place], change(result[place], named), *result[place + 1 :])

    return called_like(exercise, wrong)


def called_like(exercise: Exercise, function: Any) -> Any:
    """The function with the signature of the answer, as a student's has it."""
    function.__signature__ = inspect.signature(exercise.answer)
    return function


@pytest.mark.parametrize(("exercise", "output", "term"), terms())
def test_a_term_is_missing_or_turned(exercise: Exercise, output: str, term: Term) -> None:
    for factor, what in ((1, "is missing"), (2, "has the wrong sign"), (-1, "is there twice")):
        wrong = changed(exercise, output, lambda y, a, f=factor: y - f * term.value(**a))
        verdict = check_function(exercise, wrong)
        assert verdict.diagnoses == [f"the {term.title} {what}"], "\n".join(verdict.lines)


@each
def test_at_least_five_mistakes_are_known(exercise: Exercise) -> None:
    known = len(exercise.slips) + sum(map(len, exercise.terms.values()))
    assert known + sum(map(len, exercise.rows.values())) >= 5


def numeric_outputs() -> list[Any]:
    found = []
    for exercise in EXERCISES.values():
        right = exercise.call(exercise.answer, exercise.draw(np.random.default_rng(0)).arguments)
        for output in exercise.outputs:
            value = right[output]
            if is_numeric(value) and np.asarray(value).dtype.kind == "f":
                found.append(pytest.param(exercise, output, id=f"{exercise.name}: {output}"))
    return found


@pytest.mark.parametrize(("exercise", "output"), numeric_outputs())
def test_what_nobody_knows_gets_no_name(exercise: Exercise, output: str) -> None:
    def nonsense(y: Any, arguments: Any) -> Any:
        return y + np.sin(3 * y + 1) * np.asarray(y).dtype.type(0.3)

    verdict = check_function(exercise, changed(exercise, output, nonsense))
    assert not verdict.passed
    assert verdict.diagnoses == [], "\n".join(verdict.lines)
    assert any("not a mistake I know" in line and "right is" in line for line in verdict.lines)


@pytest.mark.parametrize(("exercise", "output"), numeric_outputs())
@pytest.mark.parametrize(
    ("factor", "words"), [(-1.0, "the sign is turned"), (2.0, "twice too large"), (0.0, "zeros")]
)
def test_a_factor_is_named(exercise: Exercise, output: str, factor: float, words: str) -> None:
    verdict = check_function(
        exercise, changed(exercise, output, lambda y, a: y * np.asarray(y).dtype.type(factor))
    )
    assert not verdict.passed
    assert len(verdict.diagnoses) == 1, "\n".join(verdict.lines)


@pytest.mark.parametrize(
    "mistake",
    [m for m in MISTAKES if any(place.split(":")[-1] in PLACES for place in m.wrong)],
    ids=lambda mistake: mistake.name,
)
def test_the_gallerys_mistakes_have_names(mistake: Any) -> None:
    found: list[str] = []
    for place, wrong in mistake.wrong.items():
        exercise = PLACES.get(place.split(":")[-1])
        if exercise is not None:
            verdict = check_function(exercise, called_like(exercise, wrong))
            found += verdict.diagnoses or verdict.lines
    assert TITLES[mistake.name] in found


def test_every_lesson_has_at_most_three_blanks() -> None:
    for lesson in all_lessons():
        assert len(exercises_of(lesson.number)) <= 3


def test_a_mistake_that_raises_has_a_name_too() -> None:
    exercise = EXERCISES["layernorm_backward"]

    def without_axis(dy: Any, x_hat: Any, rstd: Any, weight: Any) -> Any:
        return dy @ weight[None, None, None] + undefined  # type: ignore[name-defined]  # noqa: F821

    known = Slip("a name is not defined", "It is used before it is given.", without_axis)
    verdict = check_function(replace(exercise, slips=[known]), without_axis)
    assert verdict.diagnoses == ["a name is not defined"]
    verdict = check_function(exercise, without_axis)
    assert verdict.diagnoses == []
    assert "it runs" in verdict.lines[0]


def test_a_function_that_fails_in_the_small_case_alone() -> None:
    exercise = EXERCISES["layernorm_backward"]

    def picky(dy: Any, x_hat: Any, rstd: Any, weight: Any) -> Any:
        if dy.size < 10:
            raise IndexError("too small")
        return exercise.answer(dy, x_hat, rstd, weight)

    verdict = check_function(exercise, picky)
    assert not verdict.passed
    assert any("IndexError: too small" in line for line in verdict.lines)
