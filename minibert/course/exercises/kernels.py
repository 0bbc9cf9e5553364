"""Lesson 15: making it fast with numba.

The answers are the loops of two kernels, without the compiler: a check calls them on small arrays
as plain Python, and need not wait.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from minibert.arrays import Array
from minibert.course.exercise import Case, Exercise, Slip

EPS = 0.1  # large, so that where it stands can be seen
FAR = 3e5  # rows lie so far from 0 that a variance of squares loses its digits
SHARE = 64  # minibert.ops.cpu.linear.SHARE, without loading it


def plain(kernel: Any) -> Callable[..., Any]:
    """Return a kernel's function with the kernels that it calls made plain as well.

    Where the compiler is switched off, a kernel is that function already.
    """
    if not hasattr(kernel, "py_func"):
        return kernel
    function = kernel.py_func
    called = {
        name: plain(function.__globals__[name])
        for name in function.__code__.co_names
        if hasattr(function.__globals__.get(name), "py_func")
    }
    return FunctionType(
        function.__code__, function.__globals__ | called, function.__name__,
        function.__defaults__, function.__closure__,
    )  # fmt: skip


@cache
def kernels() -> dict[str, Callable[..., Any]]:
    """Load the numba backend, which takes a second that the other lessons need not wait."""
    from minibert.ops.cpu.linear import sum_columns
    from minibert.ops.cpu.norm import normalise

    return {"normalise": plain(normalise), "sum_columns": plain(sum_columns)}


class KernelExercise(Exercise):
    """An exercise whose answer is looked up when it is first needed, by its name in ``called``."""

    @property
    def answer(self) -> Callable[..., Any]:
        return kernels()[self.called]

    @answer.setter
    def answer(self, value: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Take what the dataclass stores; the name is enough."""


def later(*arguments: Any, **named: Any) -> Any:
    """Stand for an answer that is not loaded."""
    raise NotImplementedError


# --- one row


def by_hand() -> Case:
    x, weight = np.array([1.0, 0, 0, 0]), np.array([2.0, 2, 2, 1])
    return Case({"x_hat": x, "weight": weight, "bias": np.zeros(4), "eps": 0.0, "y": np.ones(4)})


def draw(generator: np.random.Generator) -> Case:
    C = int(generator.integers(5, 12))
    x, weight, bias, y = generator.normal(size=(4, C))
    return Case({"x_hat": x * 2 + FAR, "weight": weight, "bias": bias, "eps": EPS, "y": y})


def from_sums(x: Array, eps: float) -> float:
    """1/σ as loops find it that go once over x."""
    C, total, squares = len(x), 0.0, 0.0
    for value in x:
        total += value
        squares += value * value
    return 1 / np.sqrt(squares / C - (total / C) ** 2 + eps)


def normalise_with(
    rstd: Any = None, x_hat: Any = None, y: Any = None, last: int | None = None
) -> Any:
    """LayerNorm of a row with some steps replaced.

    ``rstd`` takes x and eps; ``x_hat`` takes x, mean and rstd; ``y`` takes x̂, mean, rstd, weight,
    bias and what lay in y.  ``last`` is where the loops end.
    """

    def wrong(x_hat_: Array, weight: Array, bias: Array, eps: float, y_: Array) -> Any:
        x, before = x_hat_.copy(), y_.copy()
        mean = x.mean()
        scale = rstd(x, eps) if rstd else 1 / np.sqrt(np.square(x - mean).mean() + eps)
        normalised = (x - mean) * scale
        given = x_hat(x, mean, scale) if x_hat else normalised
        right = normalised if x_hat is None or y is not None else given
        result = y(normalised, mean, scale, weight, bias, before) if y else right * weight + bias
        x_hat_[:last], y_[:last] = given[:last], result[:last]
        return scale

    return lambda x_hat, weight, bias, eps, y: wrong(x_hat, weight, bias, eps, y)


def usual(x_hat: Array, mean: Any, rstd: Any, weight: Array, bias: Array, y: Array) -> Array:
    return x_hat * weight + bias


NORMALISE = KernelExercise(
    lesson=15,
    answer=later,
    called="normalise",
    outputs=("rstd",),
    changes=("x_hat", "y"),
    by_hand=by_hand,
    draw=draw,
    tolerance=1e-8,  # the mean of numbers near FAR is known to 1e-10
    hints=(
        "Which two numbers of the row must be known before the first x̂ can be written?  How many "
        "loops does that make?",
        "One loop adds up x for the mean, a second the squares of x - mean, a third writes.  Set "
        "the total back to 0 in between, and write nothing before the third loop.",
        "for j in range(C): total += x_hat[j];  mean = total / C;  total = 0 again;  add up "
        "(x_hat[j] - mean)**2;  rstd = 1 / np.sqrt(total / C + eps);  then value = (x_hat[j] - "
        "mean) * rstd;  x_hat[j] = value;  y[j] = value * weight[j] + bias[j].",
    ),
    slips=(
        Slip(
            "the variance is a difference of squares",
            "m(x²) - μ² needs one loop less, but subtracts one large number from another: where "
            "the mean is far from 0, few digits are left.",
            normalise_with(rstd=from_sums),
        ),
        Slip(
            "the variance is a difference of squares",
            "m(x²) - μ² subtracts one large number from another: few digits are left.",
            normalise_with(rstd=lambda x, eps: 1 / np.sqrt((x * x).mean() - x.mean() ** 2 + eps)),
        ),
        Slip(
            "the second sum goes on from the first",
            "set the total back to 0 between the loops.",
            normalise_with(
                rstd=lambda x, eps: (
                    1 / np.sqrt((x.sum() + np.square(x - x.mean()).sum()) / len(x) + eps)
                )
            ),
        ),
        Slip(
            "the second loop keeps only the last square",
            "total = … in a loop overwrites: to add up, write total += ….",
            normalise_with(rstd=lambda x, eps: 1 / np.sqrt((x[-1] - x.mean()) ** 2 / len(x) + eps)),
        ),
        Slip(
            "the mean is subtracted twice",
            "if the second loop writes x - mean into x_hat, the third must not subtract it again.",
            normalise_with(x_hat=lambda x, mean, rstd: (x - 2 * mean) * rstd),
        ),
        Slip(
            "y is made from an x_hat that was overwritten",
            "after x_hat[j] = x̂ the old x is gone, and (x_hat[j] - mean) · rstd normalises twice.",
            normalise_with(
                y=lambda x_hat, mean, rstd, weight, bias, y: (
                    (x_hat - mean) * rstd * weight + bias
                )
            ),
        ),
        Slip(
            "x_hat still holds x",
            "backward needs x̂: write it into x_hat, not into y alone.",
            normalise_with(x_hat=lambda x, mean, rstd: x, y=usual),
        ),
        Slip(
            "x_hat is only centred",
            "x̂ is x - mean, times rstd.",
            normalise_with(x_hat=lambda x, mean, rstd: x - mean, y=usual),
        ),
        Slip(
            "y is added to what lay there",
            "y comes with anything in it: write y[j] = …, not y[j] += ….",
            normalise_with(
                y=lambda x_hat, mean, rstd, weight, bias, y: y + x_hat * weight + bias
            ),
        ),
        Slip(
            "y holds x̂ without γ and β",
            "y_j = x̂_j · weight_j + bias_j.",
            normalise_with(y=lambda x_hat, mean, rstd, weight, bias, y: x_hat),
        ),
        Slip(
            "β is left out of y",
            "y_j = x̂_j · weight_j + bias_j.",
            normalise_with(y=lambda x_hat, mean, rstd, weight, bias, y: x_hat * weight),
        ),
        Slip(
            "the last column is not written",
            "range(C) ends at C - 1 already; range(C - 1) leaves one out.",
            normalise_with(last=-1),
        ),
        Slip(
            "the variance divides by C - 1",
            "LayerNorm divides by C, as in lesson 5.",
            normalise_with(
                rstd=lambda x, eps: 1 / np.sqrt(np.square(x - x.mean()).sum() / (len(x) - 1) + eps)
            ),
        ),
        Slip(
            "the variance is not divided by C",
            "the second loop's total is C times the variance.",
            normalise_with(
                rstd=lambda x, eps: 1 / np.sqrt(np.square(x - x.mean()).sum() + eps)
            ),
        ),
        Slip(
            "ε stands outside the root",
            "1 / (σ + ε) is another number: ε belongs under the root.",
            normalise_with(rstd=lambda x, eps: 1 / (x.std() + eps)),
        ),
        Slip(
            "ε is missing",
            "a constant row would divide by 0.",
            normalise_with(rstd=lambda x, eps: 1 / x.std()),
        ),
        Slip(
            "the root is missing",
            "divide by the deviation, not by the variance.",
            normalise_with(rstd=lambda x, eps: 1 / (x.var() + eps)),
        ),
        Slip(
            "rstd is the deviation, not one over it",
            "x̂ = (x - mean) · rstd, so rstd = 1 / √(variance + ε).",
            normalise_with(rstd=lambda x, eps: np.sqrt(x.var() + eps)),
        ),
    ),
    sizes=lambda x_hat, weight, bias, eps, y: {"C": len(weight)},
)  # fmt: skip


# --- a sum in a fixed order


def sums_case(x: Array) -> Case:
    N, C = x.shape
    return Case({"x": x, "partial": np.zeros((-(-N // SHARE), C)), "total": np.zeros(C)})


def draw_sums(generator: np.random.Generator) -> Case:
    N, C = 2 * SHARE + int(generator.integers(3, SHARE - 3)), int(generator.integers(2, 5))
    return sums_case(generator.normal(size=(N, C)))


def sums_with(part: Any) -> Any:
    """``part`` takes x, a share's number and how many shares there are; it returns its rows."""

    def sums(x: Array, partial: Array, total: Array) -> None:
        for share in range(len(partial)):
            partial[share] += part(x, share, len(partial)).sum(axis=0)
        total += partial.sum(axis=0)

    return sums


def shares_as_they_are(x: Array, partial: Array, total: Array) -> None:
    """Fill in partial, and leave total."""
    sums_with(lambda x, s, n: x[s * SHARE : (s + 1) * SHARE])(x, partial, total.copy())


def into_total(x: Array, partial: Array, total: Array) -> None:
    total += x.sum(axis=0)


def after_every_share(x: Array, partial: Array, total: Array) -> None:
    shares_as_they_are(x, partial, total)
    total += np.cumsum(partial, axis=0).sum(axis=0)


def last_partial(x: Array, partial: Array, total: Array) -> None:
    shares_as_they_are(x, partial, total)
    total += partial[-1]


def both(x: Array, partial: Array, total: Array) -> None:
    shares_as_they_are(x, partial, total)
    total += 2 * partial.sum(axis=0)


SUMS = KernelExercise(
    lesson=15,
    answer=later,
    called="sum_columns",
    outputs=(),
    changes=("partial", "total"),
    by_hand=lambda: sums_case(np.ones((66, 1))),
    draw=draw_sums,
    hints=(
        "Which array may several threads write to at the same time, and which rows of it?",
        "The loop runs over the shares, one for each row of partial.  Inside it add_rows puts 64 "
        "rows of x into the share's own row; what comes after it is done by one thread.",
        "for share in prange(partial.shape[0]): add_rows(x[share * SHARE : (share + 1) * SHARE], "
        "partial[share]);  and behind the loop add_rows(partial, total).",
    ),
    slips=(
        Slip(
            "every share adds straight to total",
            "two threads read the same old number, and one of the two additions is lost: a race, "
            "which one thread of plain Python cannot show.",
            into_total,
        ),
        Slip(
            "the shares are not added up",
            "partial is only half of the work: behind the loop its rows are added to total.",
            shares_as_they_are,
        ),
        Slip(
            "the first shares count again and again",
            "the line that adds partial to total belongs behind the loop, where all threads are "
            "done.",
            after_every_share,
        ),
        Slip(
            "only the last share reaches total",
            "add all rows of partial, not the one that came last.",
            last_partial,
        ),
        Slip(
            "total gets everything twice",
            "the rows of x were added to total, and so was partial: only partial may be.",
            both,
        ),
        Slip(
            "the last, shorter share is left out",
            "N // SHARE rounds down; there is one share for each row of partial.",
            sums_with(
                lambda x, s, n: x[s * SHARE : (s + 1) * SHARE] if s < len(x) // SHARE else x[:0]
            ),
        ),
        Slip(
            "the first share is left out",
            "shares are numbered from 0.",
            sums_with(lambda x, s, n: x[s * SHARE : (s + 1) * SHARE] if s else x[:0]),
        ),
        Slip(
            "the first shares count again and again",
            "share s begins at row s · SHARE, not at 0.",
            sums_with(lambda x, s, n: x[: (s + 1) * SHARE]),
        ),
        Slip(
            "every share runs to the end",
            "share s ends before row (s + 1) · SHARE.",
            sums_with(lambda x, s, n: x[s * SHARE :]),
        ),
        Slip(
            "a share begins at its own number",
            "x[share : share + SHARE] overlaps with the next: multiply the number by SHARE.",
            sums_with(lambda x, s, n: x[s : s + SHARE]),
        ),
        Slip(
            "a share leaves out its last row",
            "the end of a slice is not part of it: (share + 1) · SHARE, without - 1.",
            sums_with(lambda x, s, n: x[s * SHARE : (s + 1) * SHARE - 1]),
        ),
        Slip(
            "shares overlap by one row",
            "the end of a slice is not part of it: (share + 1) · SHARE, without + 1.",
            sums_with(lambda x, s, n: x[s * SHARE : (s + 1) * SHARE + 1]),
        ),
        Slip(
            "the rows are dealt out like cards",
            "x[share::shares] is rows far apart, each from another line of memory; a share is 64 "
            "rows that lie together.",
            sums_with(lambda x, s, n: x[s::n]),
        ),
        Slip(
            "the rows are cut into equal parts",
            "the size of a share is 64, always: one that follows from how many shares there are "
            "makes the sum depend on that number.",
            sums_with(lambda x, s, n: x[s * -(-len(x) // n) : (s + 1) * -(-len(x) // n)]),
        ),
    ),
)

EXERCISES = (NORMALISE, SUMS)
