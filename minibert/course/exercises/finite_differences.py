"""Lesson 1: finite differences and when they lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minibert.arrays import Array
from minibert.course.exercise import Case, Exercise, Slip
from minibert.gradcheck.differences import four_point, numeric_gradient, slope_jump

Curve = Callable[[float], float]


class Function:
    """A function that is shown as its formula."""

    def __init__(self, text: str, function: Callable[[Any], Any]) -> None:
        self.text, self.function = text, function

    def __call__(self, x: Any) -> np.float64:
        return np.float64(self.function(x))

    def __repr__(self) -> str:
        return self.text


def polynomial(generator: np.random.Generator, bend: float = 0.0) -> Function:
    """A curve with all powers up to 6, even and odd, and a bend at 0."""
    weights = generator.normal(size=7) + np.sign(generator.normal(size=7))

    def curve(t: float) -> Any:
        return np.sum(weights * np.float64(t) ** np.arange(7)) + bend * np.abs(t)

    return Function("a curve", curve)


# --- four points


def draw_slope(generator: np.random.Generator) -> Case:
    return Case({"f": polynomial(generator), "h": float(generator.uniform(0.3, 0.8))})


FOUR_POINT = Exercise(
    lesson=1,
    answer=four_point,
    outputs=("slope",),
    by_hand=lambda: Case({"f": Function("t → (2 + t)³", lambda t: (2 + t) ** 3), "h": 1.0}),
    draw=draw_slope,
    hints=(
        "D(h) is (f(h) - f(-h)) / 2h.  What is D(2h)?",
        "Put D(h) and D(2h) into (4 D(h) - D(2h)) / 3, and bring both to the denominator 12h.",
        "slope = (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)",
    ),
    slips=(
        Slip(
            "only two points are used",
            "(f(h) - f(-h)) / 2h leaves an error of h² f‴ / 6, which f(2h) and f(-2h) are there "
            "to take away.  2 f(h) is not f(2h).",
            lambda f, h: (f(h) - f(-h)) / (2 * h),
        ),
        Slip(
            "only one side is used",
            "(f(h) - f(0)) / h has an error that shrinks like h, and no faster.",
            lambda f, h: (f(h) - f(0.0)) / h,
        ),
        Slip(
            "the two pairs have the same sign",
            "the outer pair carries four times the error of the inner one, and has to be "
            "subtracted to cancel it.",
            lambda f, h: (8 * (f(h) - f(-h)) + (f(2 * h) - f(-2 * h))) / (12 * h),
        ),
        Slip(
            "the 8 is on the outer pair",
            "the inner pair is the more exact one: f(h) and f(-h) have the weight 8.",
            lambda f, h: ((f(h) - f(-h)) - 8 * (f(2 * h) - f(-2 * h))) / (12 * h),
        ),
        Slip(
            "the 8 is missing",
            "with equal weights the errors of h² do not cancel, and a straight line of slope 1 "
            "would get another slope.",
            lambda f, h: ((f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h),
        ),
        Slip(
            "the weight is 4 where it should be 8",
            "4 D(h) has 2h below the line and D(2h) has 4h: over 12h they weigh 8 and 1.",
            lambda f, h: (4 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h),
        ),
        Slip(
            "the outer pair is divided by 2h, not by 4h",
            "f(2h) and f(-2h) are 4h apart.",
            lambda f, h: (8 * (f(h) - f(-h)) - 2 * (f(2 * h) - f(-2 * h))) / (12 * h),
        ),
        Slip(
            "not divided by 3",
            "4 D(h) - D(2h) holds f′ four times less once: three times.",
            lambda f, h: (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (4 * h),
        ),
        Slip(
            "only the outer pair is used",
            "(f(2h) - f(-2h)) / 4h is D(2h); take the weights of (4 D(h) - D(2h)) / 3.",
            lambda f, h: (f(2 * h) - f(-2 * h)) / (4 * h),
        ),
        Slip(
            "h is not below the line",
            "f(h) - f(-h) is a height; a slope is a height over a length, 12h.",
            lambda f, h: (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / 12,
        ),
        Slip(
            "multiplied by h where it should be divided",
            "in Python a / 12 * h is (a / 12) · h: write a / (12 * h).",
            lambda f, h: (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / 12 * h,
        ),
        Slip(
            "a pair of brackets is missing",
            "- f(2h) - f(-2h) subtracts both; the outer pair is the difference f(2h) - f(-2h).",
            lambda f, h: (8 * (f(h) - f(-h)) - f(2 * h) - f(-2 * h)) / (12 * h),
        ),
    ),
)


# --- the gradient of an array


def draw_gradient(generator: np.random.Generator) -> Case:
    R, C = (int(size) for size in generator.permutation([2, 3, 4, 5])[:2])
    a, b = generator.normal(size=(2, R, C)) + 0.3

    def loss(x: Array) -> Any:
        return np.sum(a * np.sin(x)) + np.sum(b * x) ** 3

    x = generator.normal(size=(R, C)) / 2
    return Case({"f": Function("a loss", loss), "x": x, "h": 0.25})


def by_slopes(slope: Callable[[Curve, float], float]) -> Callable[..., Array]:
    """The right loop, with ``slope`` in the place of four points."""

    def gradient(f: Callable[[Array], float], x: Array, h: float) -> Array:
        dx = np.empty_like(x)
        for index in np.ndindex(x.shape):
            dx[index] = slope(moved(f, x, index), h)
        return dx

    return gradient


def moved(f: Callable[[Array], float], x: Array, index: Any) -> Curve:
    def line(t: float) -> float:
        copy = x.copy()
        copy[index] += t
        return f(copy)

    return line


def whole_rows(f: Callable[[Array], float], x: Array, h: float) -> Array:
    dx = np.empty_like(x)
    for row in range(len(x)):
        dx[row] = four_point(moved(f, x, row), h)
    return dx


def not_put_back(f: Callable[[Array], float], x: Array, h: float) -> Array:
    """The last of the four calls leaves the element at -2h."""
    x = x.copy()
    dx = np.empty_like(x)
    for index in np.ndindex(x.shape):
        dx[index] = four_point(moved(f, x, index), h)
        x[index] -= 2 * h
    return dx


def replaced(f: Callable[[Array], float], x: Array, h: float) -> Array:
    dx = np.empty_like(x)
    for index in np.ndindex(x.shape):
        zero = x.copy()
        zero[index] = 0
        dx[index] = four_point(moved(f, zero, index), h)
    return dx


GRADIENT = Exercise(
    lesson=1,
    answer=numeric_gradient,
    outputs=("dx",),
    by_hand=lambda: Case(
        {
            "f": Function("x → x₀ x₁²", lambda x: x[0] * x[1] ** 2),
            "x": np.array([3.0, 2.0]),
            "h": 1.0,
        }
    ),
    draw=draw_gradient,
    hints=(
        "four_point wants a function of one number t.  Which function of t is the loss, when only "
        "x[index] moves?",
        "For each index of np.ndindex(x.shape): keep saved = x[index]; define line(t), which puts "
        "saved + t into x[index] and returns f(x); take its slope; put saved back.  Do it on a "
        "copy of x.",
        "x = x.copy();  dx = np.empty_like(x);  then, for index in np.ndindex(x.shape):  "
        "saved = x[index];  def line(t): x[index] = saved + t; return f(x);  "
        "dx[index] = four_point(line, h);  x[index] = saved.",
    ),
    slips=(
        Slip(
            "a whole row is moved at once",
            "for i in range(len(x)) goes through the rows; np.ndindex(x.shape) goes through the "
            "elements.",
            whole_rows,
        ),
        Slip(
            "all elements are moved at once",
            "x + t moves every element, which gives the sum of the gradient; each element needs "
            "a slope of its own.",
            lambda f, x, h: np.full_like(x, four_point(moved(f, x, ...), h)),
        ),
        Slip(
            "an element is not put back",
            "the next slopes are then taken at another point: x[index] = saved after each.",
            not_put_back,
        ),
        Slip(
            "the element is replaced by t, not moved by t",
            "line(t) has to give the loss at x[index] = saved + t.",
            replaced,
        ),
        Slip(
            "two points, not four",
            "take the slope by four_point: at the same h it is far more exact.",
            by_slopes(lambda line, h: (line(h) - line(-h)) / (2 * h)),
        ),
        Slip(
            "one side only",
            "(f(h) - f(0)) / h has an error that shrinks like h: take the slope by four_point.",
            by_slopes(lambda line, h: (line(h) - line(0.0)) / h),
        ),
        Slip(
            "it is a difference, not a slope",
            "f(h) - f(-h) has to be divided by the length of the way, 2h.",
            by_slopes(lambda line, h: line(h) - line(-h)),
        ),
    ),
    sizes=lambda f, x, h: {"the number of elements": x.size},
)


# --- kinks


def draw_kink(generator: np.random.Generator) -> Case:
    bend = float(generator.choice([-1, 1]) * generator.uniform(1, 2))
    return Case({"f": polynomial(generator, bend), "h": float(generator.uniform(0.3, 0.8))})


JUMP = Exercise(
    lesson=1,
    answer=slope_jump,
    outputs=("jump",),
    by_hand=lambda: Case({"f": Function("t → t² - 3 |t|", lambda t: t * t - 3 * abs(t)), "h": 1.0}),
    draw=draw_kink,
    hints=(
        "Which two heights does the slope on the right need, and which two the slope on the left?",
        "right = (f(h) - f(0)) / h;  left = (f(0) - f(-h)) / h.",
        "jump = (f(h) - 2 * f(0) + f(-h)) / h",
    ),
    slips=(
        Slip(
            "f(0) is missing",
            "both slopes begin or end at f(0), so it is taken off twice.",
            lambda f, h: (f(h) + f(-h)) / h,
        ),
        Slip(
            "f(0) is taken off once only",
            "each of the two slopes has its own f(0).",
            lambda f, h: (f(h) - f(0.0) + f(-h)) / h,
        ),
        Slip(
            "divided by h²",
            "that is the curvature f″, which does not shrink with h for any f: a jump of slopes "
            "is divided by h once.",
            lambda f, h: (f(h) - 2 * f(0.0) + f(-h)) / (h * h),
        ),
        Slip(
            "divided by 2h",
            "each of the two slopes runs over one step h; 2h is the central difference's.",
            lambda f, h: (f(h) - 2 * f(0.0) + f(-h)) / (2 * h),
        ),
        Slip(
            "h is not below the line",
            "f(h) - f(0) is a height, and a slope is a height over h.",
            lambda f, h: f(h) - 2 * f(0.0) + f(-h),
        ),
        Slip(
            "the two slopes are added",
            "the slope on the left is (f(0) - f(-h)) / h, and is subtracted; with f(-h) - f(0) it "
            "has turned its sign already.",
            lambda f, h: (f(h) - f(-h)) / h,
        ),
        Slip(
            "it is left minus right",
            "the jump is what the slope gains on its way to the right: right minus left.",
            lambda f, h: -(f(h) - 2 * f(0.0) + f(-h)) / h,
        ),
        Slip(
            "it is the slope on the right alone",
            "the slope on the left has to be subtracted from it.",
            lambda f, h: (f(h) - f(0.0)) / h,
        ),
        Slip(
            "it is the slope on the left alone",
            "it has to be subtracted from the slope on the right.",
            lambda f, h: (f(0.0) - f(-h)) / h,
        ),
    ),
)

EXERCISES = (FOUR_POINT, GRADIENT, JUMP)
