"""What a gradient check has to say: the verdict on each tensor, and where the mistake may lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from minibert.arrays import Array

Verdict: TypeAlias = Literal["ok", "kink", "noise", "wrong"]
VERDICTS = ("ok", "kink", "noise", "wrong")  # from good to bad


class TensorError(NamedTuple):
    """The verdict on one tensor, taken where backward and differences are furthest apart."""

    name: str
    shape: tuple[int, ...]
    error: float  # |analytic - numeric| / largest |gradient|; if absolute, the larger of the two
    at: tuple[int, ...] | None  # index of the worst element; None: a direction through all
    analytic: float  # what backward gives there
    numeric: float  # what differences of the loss give
    limit: float
    absolute: bool  # the true gradient is 0, so there is nothing to be relative to
    passed: bool
    verdict: Verdict  # "wrong", or why differences cannot tell
    checked: str  # what was looked at: "all 12", or "12 directions + 16"
    hint: str = ""  # if it failed: what kind of mistake looks like this


class GradCheckError(AssertionError):
    """A gradient is not the derivative of its loss; ``results`` has the verdict on every tensor."""

    def __init__(self, message: str, results: Sequence[TensorError] = ()) -> None:
        super().__init__(message)
        self.results = list(results)


class KinkError(GradCheckError):
    """The loss has no derivative at the given point, so the gradient is neither right nor wrong."""


def worst_of(results: Sequence[TensorError]) -> TensorError | None:
    """Return the failure to speak of, or None if all passed.

    One wrong gradient makes the check fail as wrong, however many others could not be checked.
    """
    failed = [result for result in results if not result.passed]
    return max(failed, key=lambda r: (VERDICTS.index(r.verdict), r.error), default=None)


def failure(results: Sequence[TensorError], worst: TensorError) -> GradCheckError:
    """Return the error to raise about the worst tensor."""
    place = f"at {list(worst.at)}" if worst.at is not None else "along a random direction"
    values = f"backward gives {worst.analytic:.10g}, differences give {worst.numeric:.10g}"
    if worst.absolute:
        size = f"{worst.error:.1e} where the true gradient is 0, limit {worst.limit:.0e}"
    else:
        size = f"error {worst.error:.1e} of its largest gradient, limit {worst.limit:.0e}"
    if worst.verdict == "kink":
        return KinkError(
            f"{worst.name} cannot be checked {place}, near a kink of ReLU or max: {values}, but "
            "the loss has another slope on either side: move the input",
            results,
        )
    if worst.verdict == "noise":
        return GradCheckError(
            f"{worst.name} cannot be checked {place}: {values} ({size}), but shorter or longer "
            "steps give other values.  Is part of the forward in float32?  Is the true gradient "
            "0, or nearly (then name it in absolute)?  Is there a kink close by?",
            results,
        )
    others = ", ".join(r.name for r in results if r is not worst and r.verdict == "wrong")
    return GradCheckError(
        f"the gradient of {worst.name} is wrong {place}: {values} ({size}); {worst.hint}"
        + (f".  Also wrong: {others}" if others else ""),
        results,
    )


def guess(
    analytic: Array,  # (n,), the elements that were looked at
    numeric: Array,  # (n,)
    shape: tuple[int, ...] | None,  # of the tensor, if that was all of them
    tolerance: float,
) -> str:
    """Return a likely cause for the differences, as a sentence without a capital."""
    size = max(np.abs(numeric).max(), np.abs(analytic).max())
    near = max(1e-6, 10 * tolerance) * size
    wrong = np.abs(analytic - numeric) > tolerance * size
    if not analytic.any():
        return "backward gives 0 everywhere looked at: did the gradient arrive?"
    if len(analytic) > 1 and numeric.any():
        factor = float(analytic @ numeric / (numeric @ numeric))
        if np.abs(analytic - factor * numeric).max() <= near:
            if abs(factor + 1) < 1e-6:
                return "the sign is turned"
            if abs(factor - 2) < 1e-6:
                return "twice the right value: added two times, or not zeroed before"
            return f"{factor:.6g} times the right value everywhere: look for a scale"
        if np.ptp(analytic - numeric) <= near:
            return "off by the same amount everywhere: is one term of a sum missing?"
    if shape is not None and len(shape) >= 2:
        a, n = analytic.reshape(shape), numeric.reshape(shape)
        if shape[-1] == shape[-2] and np.abs(a.swapaxes(-1, -2) - n).max() <= near:
            return "it is the transpose of the right value"
        rows = wrong.reshape(-1, shape[-1]).any(axis=1)
        if not rows.all():
            some = ", ".join(map(str, np.flatnonzero(rows)[:5]))
            return f"{rows.sum()} of {rows.size} rows are wrong: {some}"
    return f"{wrong.sum()} of {wrong.size} elements looked at are wrong"


def format_table(results: Sequence[TensorError]) -> str:
    """Return the verdicts as lines of aligned plain text, one tensor each, and a summary."""
    rows = [("tensor", "shape", "checked", "error", "limit", "worst at", "verdict")]
    for r in results:
        rows.append(
            (
                r.name,
                "×".join(map(str, r.shape)) or "one number",
                r.checked,
                f"{r.error:.1e}" + (" abs" if r.absolute else ""),
                f"{r.limit:.0e}",
                "direction" if r.at is None else str(list(r.at)),
                r.verdict if r.verdict != "wrong" else "WRONG",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    passed = sum(r.passed for r in results)
    largest = max((r.error for r in results), default=0.0)
    lines.append(f"{passed} of {len(results)} tensors passed, largest error {largest:.1e}")
    return "\n".join(lines)
