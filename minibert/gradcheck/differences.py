"""Slopes by finite differences: how far to step, and when not to believe the result.

The error of a difference has two parts that pull in opposite directions.  A long step cuts across
the curve (truncation); a short one divides the rounding of the loss by a small number (noise).
With four points, f being the loss along a line:

    f'(0) = (f(-2h) - 8 f(-h) + 8 f(h) - f(2h)) / 12h  +  h⁴ f⁽⁵⁾ / 30  +  about 1e-16 |f| / h

Two points leave h² f‴ / 6 instead of the middle term, and 1e-10 is the best they reach; four reach
1e-13.  Where the least error lies depends on the curve, so ``settle`` tries steps, each half of the
one before, and keeps the one whose slope agrees best with its neighbours'.  That choice never looks
at the gradient under test.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import EllipsisType
from typing import NamedTuple

import numpy as np

from minibert.arrays import Array
from minibert.gradcheck.report import GradCheckError


def four_point(f: Callable[[float], float], h: float) -> float:
    """Return f'(0) from f(-2h), f(-h), f(h) and f(2h)."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def slope_jump(f: Callable[[float], float], h: float) -> float:
    """Return the slope on the right minus the slope on the left, each over one step of h.

    (f(h) - f(0)) / h - (f(0) - f(-h)) / h.  For a smooth f it is h f″, which shrinks with h; at a
    kink it stays.
    """
    return (f(h) - 2 * f(0.0) + f(-h)) / h


def evaluate(loss: Callable[[], float], when: str) -> float:
    """Return the loss as a finite float.

    Raises TypeError if it is not one float64 number, GradCheckError if it is NaN or infinite.
    """
    value = loss()
    if np.ndim(value) != 0:
        raise TypeError(f"the loss has shape {np.shape(value)}, expected one number")
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype != np.float64:
        raise TypeError("the loss is not float64: return float(loss) of a float64 computation")
    number = float(value)
    if not math.isfinite(number):
        raise GradCheckError(f"the loss is {number} {when}")
    return number


class Line:
    """The loss along a line through the present point: ``value + t · direction``.

    ``where`` is the index of one element, or ``...`` with a direction of the tensor's shape.  Each
    call moves the array in place and puts the very bytes back, also when the loss raises.
    """

    def __init__(
        self,
        loss: Callable[[], float],
        name: str,
        value: Array,
        where: tuple[int, ...] | EllipsisType,
        direction: Array | float = 1.0,
    ) -> None:
        self.loss, self.name, self.value = loss, name, value
        self.where, self.direction = where, direction

    def __call__(self, t: float) -> float:
        saved = np.array(self.value[self.where])
        try:
            self.value[self.where] = saved + t * self.direction
            place = "" if self.where is ... else f"[{', '.join(map(str, self.where))}]"
            return evaluate(self.loss, f"when {self.name}{place} moves by {t:.1e}")
        finally:
            self.value[self.where] = saved


def numeric_gradient(
    f: Callable[[Array], float],  # x (...) → the loss, one number
    x: Array,  # (...), floating
    h: float,
) -> Array:  # dx (...)
    """Return the gradient of f at x, each element moved by itself, all by the same h.

    It takes four calls of f an element.  To look at; ``check_gradients`` fits its steps.
    """
    x = x.copy()
    dx = np.empty_like(x)
    for index in np.ndindex(x.shape):
        dx[index] = four_point(Line(lambda: f(x), "x", x, index), h)
    return dx


class Settled(NamedTuple):
    """What trying many steps has shown."""

    step: float  # at which four points agree best with their neighbours
    slope: float
    doubt: float  # how far the slope may be off: its neighbours' difference, and rounding
    jump: float  # right-hand slope - left-hand slope, where it stays as the step shrinks; else 0


def settle(f: Line, unit: float) -> Settled:
    """Try steps of different lengths, each half of the one before; return the best slope.

    The longest is an eighth of ``unit``, or of 1 if that is more (small weights may have a long
    way to go before the loss notices); the shortest is 2⁻¹⁶ ``unit``.

    Where the curve bends much, h⁴ is the better part of the error at h and at h/2, so
    (16 slope(h/2) - slope(h)) / 15 is free of it (Richardson's extrapolation, at no further cost).

    A smooth curve's one-sided slopes differ by h f″, which halves with the step.  At a kink they
    differ by the same jump at every step, and the central slope, their mean, means nothing.
    """
    known = {0.0: f(0.0)}

    def remember(t: float) -> float:
        if t not in known:
            try:
                with np.errstate(all="ignore"):
                    known[t] = f(t)
            except GradCheckError:  # so long a step leaves where the loss is defined
                known[t] = math.nan
        return known[t]

    # One unit in the last place of the loss is a slope of grain / h.  No doubt is less, which keeps
    # short steps from agreeing by accident where the loss moves by a few such units only; and once
    # it alone is more than the least doubt so far, shorter steps cannot win.
    grain = float(np.spacing(abs(known[0.0])))
    h = max(unit, 1.0) / 8
    steps, slopes = [], []
    while True:
        steps.append(h)
        slopes.append(four_point(remember, h))
        h /= 2
        if len(slopes) < 4:
            continue
        plain, noise = np.array(slopes), grain / np.array(steps)
        better = (16 * plain[1:] - plain[:-1]) / 15
        first, first_doubt = steadiest(plain, noise)
        best, doubt = steadiest(better, noise[1:])
        if h < unit * 2.0**-16 or grain / h > max(first_doubt, doubt):
            break
    if math.isinf(doubt):
        raise GradCheckError("the loss is not finite in any neighbourhood of the given point")
    long, short = (slope_jump(remember, h) for h in steps[best : best + 2])
    stays = abs(short) > 0.9 * abs(long) and abs(short) > 10 * doubt
    return Settled(steps[first], float(better[best]), doubt, short if stays else 0.0)


def steadiest(slopes: Array, grain: Array) -> tuple[int, float]:
    """Return where a slope differs least from both its neighbours, and its doubt."""
    differences = np.abs(np.diff(slopes))
    doubts = np.maximum(differences[:-1], differences[1:]) + grain[1:-1]
    doubts[np.isnan(doubts)] = np.inf
    best = int(doubts.argmin())
    return best + 1, float(doubts[best])
