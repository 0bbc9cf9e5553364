"""What an exercise is: a function of minibert that the student writes anew.

The library's own function is the answer, so a lesson cannot drift from the code.  Beside it an
exercise knows what it is called with, whose derivative its results are, and which mistakes
people make.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from minibert.arrays import Array

Outputs = dict[str, Any]


class Case(NamedTuple):
    """One call: its arguments, and the loss that its results are gradients of.

    ``tensors`` has the array behind each gradient, by the name of the output; ``loss`` reads these
    very arrays.  A function that is no backward has neither.
    """

    arguments: dict[str, Any]
    loss: Callable[[], float] | None = None
    tensors: Mapping[str, Array] = {}


class Slip(NamedTuple):
    """A mistake that people make, given by what comes out of it."""

    title: str  # what it is, in a few words
    why: str  # a sentence: why it is wrong
    wrong: Callable[..., Any]  # called as the answer is


class Term(NamedTuple):
    """A part of a sum that may be forgotten, have the wrong sign or the wrong size."""

    title: str  # "mean term", say
    why: str
    value: Callable[..., Any]  # called as the answer is; the term, as it stands in the sum


class Rows(NamedTuple):
    """Some places of an output that are easily treated wrongly: padding, repeated ids."""

    title: str
    why: str
    places: Callable[..., Array]  # called as the answer is; bool, of the output's leading shape


@dataclass(frozen=True)
class Exercise:
    """One blank of a lesson."""

    lesson: int
    answer: Callable[..., Any]  # the library's function
    outputs: tuple[str, ...]  # names of its results, in order; none, if it only changes arguments
    by_hand: Callable[[], Case]  # small enough to follow with a pencil
    draw: Callable[[np.random.Generator], Case]  # all sizes different, nothing at a default
    hints: tuple[str, str, str]  # a question, a direction, nearly the answer
    slips: Sequence[Slip] = ()
    terms: Mapping[str, Sequence[Term]] = field(default_factory=dict)  # by output
    rows: Mapping[str, Sequence[Rows]] = field(default_factory=dict)  # by output
    sizes: Callable[..., dict[str, float]] | None = None  # called as the answer is; name → number
    changes: tuple[str, ...] = ()  # arguments that it changes in place, as it should
    called: str = ""  # what the student's function is called, where not as the answer
    tolerance: float = 1e-9  # relative to each output's largest value

    @property
    def name(self) -> str:
        return self.called or self.answer.__name__

    @property
    def all_outputs(self) -> tuple[str, ...]:
        """What is compared: results, and arguments that are changed."""
        return self.outputs + self.changes

    def call(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Outputs:
        """Call a function with copies of the arguments, and return all outputs by name."""
        mine = copies(arguments)
        return self.named(function(**mine), mine)

    def named(self, result: Any, arguments: Mapping[str, Any]) -> Outputs:
        """Return a call's results, and the arguments that it was to change, by name."""
        parts = result if len(self.outputs) > 1 else (result,) if self.outputs else ()
        found = dict(zip(self.outputs, parts, strict=True))
        return found | {name: arguments[name] for name in self.changes}


def copies(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with arrays, lists and dicts copied, so that no change can spread."""
    return {
        name: value.copy() if type(value) in (np.ndarray, list, dict) else value
        for name, value in arguments.items()
    }


def is_numeric(value: Any) -> bool:
    """Whether a value is a number or an array of them; texts and lists are compared as they are."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "biuf"
    return isinstance(value, (bool, int, float))
