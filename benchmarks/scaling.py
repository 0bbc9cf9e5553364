"""Does the cost grow as theory says?  python benchmarks/scaling.py [--quick] [--json FILE]

A training step of "tiny" (with more threads, of "mini" too), and its two main parts: a linear layer
C → F and attention, each forward and backward.  One thing varies at a time: threads, tokens in a
row (as many tokens in all), rows, width.  What is expected, for one token:

    threads   falls as 1 / threads, on cores that nobody else uses
    T         a linear layer does not see a token's row: flat.  Attention compares each token with
              all T of its row: grows with T
    rows      flat
    width     a linear layer grows with its weights, C², attention with C

"growth" is the cost against that of the first line of its kind, "of theory" is growth ÷ what is
expected: 1 is as theory says, more is dearer.  A whole step is a mixture, and has fixed costs:
AdamW and clipping go over all weights however few the tokens.  It has a theory for threads only.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
from pretraining import OurSteps, Setting
from programs import Calls, Program, Ratio, check_equal
from report import Figure, finish, new_parser, parse, positive

from minibert.ops import get_ops

TURN = 0.15  # seconds
CLOSE = 2e-5
VOCAB_SIZE, DROPOUT, SEED = 8192, 0.1, 7
FAR = 1.5  # times dearer than theory
GAIN = 1.85  # times as fast, at least: a step of "mini" on two threads


class Size(NamedTuple):
    B: int = 32
    T: int = 128
    C: int = 128

    def __str__(self) -> str:
        return f"{self.B} x {self.T} x {self.C}"


class Case(NamedTuple):
    """One line of the table."""

    varied: str
    value: int
    part: str
    size: Size
    threads: int
    expected: float | None  # cost of a token against the kind's first; None: no theory


def linear(size: Size, backend: str) -> Callable[[], list[np.ndarray]]:
    """Return a linear layer's forward and backward as one call."""
    ops, (B, T, C) = get_ops(backend), size
    x, weight, bias, dy = drawn((B, T, C), (4 * C, C), (4 * C,), (B, T, 4 * C))

    def run() -> list[np.ndarray]:
        return [ops.linear_forward(x, weight, bias), *ops.linear_backward(dy, x, weight)]

    return run


def attention(size: Size, backend: str) -> Callable[[], list[np.ndarray]]:
    """Return attention's forward and backward as one call."""
    ops, (B, T, C) = get_ops(backend), size
    q, k, v, dy = drawn(*[(B, T, C)] * 4)
    mask, heads = np.ones((B, 1, T), np.bool_), C // 64

    def run() -> list[np.ndarray]:
        context, lse = ops.attention_forward(q, k, v, mask, heads, DROPOUT, SEED)
        grads = ops.attention_backward(dy, q, k, v, mask, lse, heads, DROPOUT, SEED)
        return [context, *grads]

    return run


def drawn(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape, dtype=np.float32) for shape in shapes]


PARTS = {"linear": linear, "attention": attention}
PRESETS = {"step": "tiny", "step of mini": "mini"}


def program(sizes: Sequence[tuple[str, Size]]) -> Calls:
    """Return the parts at all sizes asked for, and the comparison of a part with the reference."""
    calls: Calls = {"compare": compare}
    for part, size in sizes:
        if part in PRESETS:
            setting = Setting(PRESETS[part], VOCAB_SIZE, size.B, size.T, width=size.C)
            calls[f"{part} {size}"] = OurSteps(setting, DROPOUT).step
        else:
            calls[f"{part} {size}"] = PARTS[part](size, "numba")
    return calls


def compare(part: str, size: Size) -> None:
    results = [PARTS[part](size, backend)() for backend in ("numba", "numpy")]
    for ours, reference in zip(*results, strict=True):
        check_equal(f"{part} {size}", ours, reference, CLOSE)


def cases(threads: Sequence[int], quick: bool) -> list[Case]:
    """Return all lines of the table, those of a kind together."""
    most, first = threads[-1], Size()
    lengths = (64, 256) if quick else (32, 64, 128, 256, 512)
    rows = (8, 32) if quick else (1, 4, 16, 32, 64)
    widths = (128, 256) if quick else (64, 128, 256, 512)
    found = [
        Case("threads", n, part, size, n, threads[0] / n)
        for part, size in (
            ("step", first), ("step of mini", Size(C=256)), ("linear", first), ("attention", first),
        )
        for n in threads
    ]  # fmt: skip
    for part in ("step", "linear", "attention"):
        theory: dict[str, Callable[[int, int], float] | None] = {
            "T": {"linear": flat, "attention": in_proportion}.get(part),
            "rows": {"linear": flat, "attention": flat}.get(part),
            "width": {"linear": squared, "attention": in_proportion}.get(part),
        }
        for varied, values in (("T", lengths), ("rows", rows), ("width", widths)):
            expect = theory[varied]
            for value in values:
                size = {
                    "T": Size(B=first.B * first.T // value, T=value),
                    "rows": Size(B=value),
                    "width": Size(C=value),
                }[varied]
                expected = expect(value, values[0]) if expect else None
                found.append(Case(varied, value, part, size, most, expected))
    return found


def flat(value: int, first: int) -> float:
    return 1.0


def in_proportion(value: int, first: int) -> float:
    return value / first


def squared(value: int, first: int) -> float:
    return (value / first) ** 2


def measure_kind(
    kind: Sequence[Case], programs: dict[int, Program], rounds: int
) -> tuple[list[list[str]], list[Figure]]:
    """Time the lines of a kind in turns; return their rows of the table and their figures."""
    seconds: dict[Case, list[float]] = {case: [] for case in kind}
    for _ in range(rounds):
        for case in kind:
            name = f"{case.part} {case.size}"
            passed = programs[case.threads].seconds(name, TURN)
            seconds[case].append(passed / (case.size.B * case.size.T))
    rows, figures = [], []
    for case in kind:
        growth = Ratio.of(seconds[case], seconds[kind[0]])
        cost = 1e6 * median(seconds[case])
        share = growth.median / case.expected if case.expected else None
        verdict = "" if share is None else "as expected" if share <= FAR else "dearer"
        rows.append([
            f"{case.part}, {case.varied}", str(case.value), f"{cost:.3f}", str(growth),
            "" if case.expected is None else f"{case.expected:.2f}",
            "" if share is None else f"{share:.2f}", verdict,
        ])  # fmt: skip
        figures.append(Figure(f"{case.part}, {case.varied} {case.value}: µs a token", cost))
        if (case.part, case.varied, case.value) == ("step of mini", "threads", 2):
            gain = 1 / growth.median
            figures.append(Figure("step of mini: 2 threads ÷ 1, tokens/s", gain, at_least=GAIN))
    return rows, figures


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser("Does the cost grow as theory says?")
    parser.add_argument("--rounds", type=positive, metavar="N", help="default: 5, quick: 2")
    options = parse(parser, arguments)
    rounds = options.rounds or (2 if options.quick else 5)
    counts = [n for n in (1, 2, 4, 8, 16, 32, 64) if n < options.threads] + [options.threads]
    table = cases(counts, options.quick)
    programs = {}
    for count in counts:
        sizes = {(case.part, case.size) for case in table if case.threads == count}
        programs[count] = Program(program, sorted(sizes), threads=count)
    for part, size in sorted({(case.part, case.size) for case in table if case.part in PARTS}):
        programs[options.threads].result("compare", part, size)
    rows, figures = [], []
    for start in table:
        kind = [case for case in table if case[0] == start.varied and case.part == start.part]
        if start is kind[0]:
            more_rows, more_figures = measure_kind(kind, programs, rounds)
            rows += more_rows
            figures += more_figures
    for side in programs.values():
        side.close()
    headers = ["what varies", "of", "µs a token", "growth", "theory", "of theory", ""]
    return finish(options, headers, rows, figures)


if __name__ == "__main__":
    sys.exit(main())
