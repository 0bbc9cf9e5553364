"""The exercises of all lessons, one file for each lesson that has some."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from minibert.course.exercise import Exercise


@cache
def all_exercises() -> tuple[Exercise, ...]:
    """Return every exercise, in the order of the lessons and of each lesson's blanks."""
    found: list[Exercise] = []
    for module in iter_modules(__path__):
        found += import_module(f"{__name__}.{module.name}").EXERCISES
    return tuple(sorted(found, key=lambda exercise: exercise.lesson))  # stable


def exercise_named(name: str) -> Exercise:
    """Return the exercise for a function; ValueError where there is none."""
    for exercise in all_exercises():
        if exercise.name == name:
            return exercise
    names = ", ".join(exercise.name for exercise in all_exercises())
    raise ValueError(f"there is no exercise {name!r}: the lessons have {names}")


def exercises_of(lesson: int) -> list[Exercise]:
    return [exercise for exercise in all_exercises() if exercise.lesson == lesson]
