"""How fast is the matrix product?  python benchmarks/matmul.py [--ladder] [--quick] [--check]

Peers are NumPy's BLAS, free to choose its best kernel, and PyTorch's where it is installed.  The
shapes are those of one training step of "tiny" (2,048 tokens, C = 128, F = 512, 300 masked rows,
V = 4,096), some of "mini" (C = 256), and one large one; forward, input gradient and weight
gradient.  Every product is compared with NumPy's before it is timed.

``--ladder`` shows instead how a product gets fast, step by step (see ladder.py), on one thread.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np
from machine import blas_kernel
from programs import Calls, Program, Ratio, check_equal, take_turns
from report import Figure, add_plot, bar, finish, installed, new_parser, parse, positive

SHAPES = {  # M, K, N, and which operands are stored transposed
    "x Wᵀ     2048x128x128": (2048, 128, 128, "b"),
    "x Wᵀ     2048x128x512": (2048, 128, 512, "b"),
    "x Wᵀ     2048x512x128": (2048, 512, 128, "b"),
    "x Wᵀ     2048x256x1024": (2048, 256, 1024, "b"),
    "dy W     2048x128x128": (2048, 128, 128, ""),
    "dy W     2048x512x128": (2048, 512, 128, ""),
    "dy W     2048x1024x256": (2048, 1024, 256, ""),
    "dyᵀ x    128x2048x128": (128, 2048, 128, "a"),
    "dyᵀ x    512x2048x128": (512, 2048, 128, "a"),
    "dyᵀ x    128x2048x512": (128, 2048, 512, "a"),
    "logits   300x128x4096": (300, 128, 4096, "b"),
    "dlogits  300x4096x128": (300, 4096, 128, ""),
    "dtable   4096x300x128": (4096, 300, 128, "a"),
    "square   1024x1024x1024": (1024, 1024, 1024, ""),
}
CLOSE = 1e-5  # sums of up to 4,096 products, in another order
TURN = 0.1  # seconds


def products(side: str) -> Calls:
    """Return the products of one side, each writing into memory that is already there."""
    multiplier = {"minibert": with_minibert, "NumPy": with_numpy, "PyTorch": with_torch}[side]
    calls: Calls = {"kernel": blas_kernel}
    for name, (M, K, N, transposed) in SHAPES.items():
        generator = np.random.default_rng((M, K, N))
        a = generator.standard_normal((K, M) if "a" in transposed else (M, K), dtype=np.float32)
        b = generator.standard_normal((N, K) if "b" in transposed else (K, N), dtype=np.float32)
        calls[name] = multiplier(a, b, "a" in transposed, "b" in transposed)
    return calls


def with_minibert(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Callable[[], Any]:
    from minibert.ops.cpu.gemm import matmul

    return partial(matmul, a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def with_numpy(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Callable[[], Any]:
    left, right = a.T if transpose_a else a, b.T if transpose_b else b
    return partial(np.matmul, left, right, out=np.empty((len(left), right.shape[1]), np.float32))


def with_torch(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Callable[[], Any]:
    import torch

    left, right = torch.from_numpy(a), torch.from_numpy(b)
    left, right = left.T if transpose_a else left, right.T if transpose_b else right
    out = torch.empty((len(left), right.shape[1]))
    return lambda: torch.matmul(left, right, out=out).numpy()


def race(options: Any) -> int:
    sides = ["minibert", "NumPy"] + ["PyTorch"] * installed("torch")
    programs = {
        side: Program(products, side, threads=options.threads, free_blas=side == "NumPy")
        for side in sides
    }
    peers = sides[1:]
    for name in SHAPES:
        expected = programs["NumPy"].result(name)
        for side in sides:
            check_equal(f"{side}, {name}", programs[side].result(name), expected, CLOSE)
    kernel = programs["NumPy"].result("kernel")
    print(f"NumPy's BLAS and its kernel: {kernel}")
    rows, ratios = [], {side: list[float]() for side in peers}
    for name, (M, K, N, _) in SHAPES.items():
        found = take_turns(programs, name, options.rounds, TURN)
        rates = [f"{2e-9 * M * K * N / median(found[side]):.0f}" for side in sides]
        faster = [Ratio.of(found[side], found["minibert"]) for side in peers]
        for side, ratio in zip(peers, faster, strict=True):
            ratios[side].append(ratio.median)
        rows.append([name, *rates, *map(str, faster)])
    means = {side: geometric_mean(values) for side, values in ratios.items()}
    rows.append(["geometric mean", *[""] * len(sides), *(f"{mean:.2f}" for mean in means.values())])
    headers = ["product, GFLOP/s", *sides, *(f"faster than {side}" for side in peers)]
    limits = {"NumPy": 1.0}
    figures = [
        Figure(f"matrix product ÷ {side}'s", mean, at_least=limits.get(side))
        for side, mean in means.items()
    ]
    for program in programs.values():
        program.close()
    return finish(options, headers, rows, figures, blas=kernel)


# The ladder


def steps(size: int, side: str) -> Calls:
    """Return the steps of the ladder for square matrices, or NumPy's product of the same."""
    generator = np.random.default_rng(size)
    a = generator.standard_normal((size, size), dtype=np.float32)
    b = generator.standard_normal((size, size), dtype=np.float32)
    if side == "NumPy":
        return {"BLAS": partial(np.matmul, a, b), "kernel": blas_kernel}
    from ladder import STEPS

    return {name: partial(step, a, b) for name, step in STEPS.items()}


def climb(options: Any) -> int:
    options.threads = 1
    size = options.size
    ours = Program(steps, size, "ladder", threads=1)
    theirs = Program(steps, size, "NumPy", threads=1, free_blas=True)
    names = ["naive", "vectorised", "unrolled", "tiled", "packed"]
    expected = theirs.result("BLAS")
    for name in names:
        check_equal(name, ours.result(name), expected, CLOSE)
    kernel = theirs.result("kernel")
    print(f"{size} x {size} x {size}; NumPy's BLAS and its kernel: {kernel}")
    found: dict[str, list[float]] = {name: [] for name in (*names, "BLAS")}
    for _ in range(options.rounds):
        for name in names:
            found[name].append(ours.seconds(name, TURN))
        found["BLAS"].append(theirs.seconds("BLAS", TURN))
    for program in (ours, theirs):
        program.close()
    rates = {name: 2e-9 * size**3 / median(seconds) for name, seconds in found.items()}
    largest = max(rates.values())
    rows = []
    for name, rate in rates.items():
        number = f"{names.index(name) + 1} {name}" if name in names else "NumPy's BLAS"
        times = str(Ratio.of(found["naive"], found[name]))
        rows.append([number, f"{rate:.1f}", times, bar(rate, largest)])
    if options.plot:
        draw(rates, size, options.plot)
    figures = [Figure(f"{name}, GFLOP/s", rate) for name, rate in rates.items()]
    headers = ["step", "GFLOP/s", "times naive", ""]
    return finish(options, headers, rows, figures, blas=kernel)


def draw(rates: dict[str, float], size: int, out: Path) -> None:
    """Draw one bar a step, from the first at the top to NumPy's."""
    from minibert.plots.figure import BLUE, GREY, new_figure, save

    labels = ["NumPy's BLAS" if name == "BLAS" else name for name in rates]
    colours = [GREY if name == "BLAS" else BLUE for name in rates]
    with new_figure(7, 3) as figure:
        axes = figure.subplots()
        axes.set_title(f"A product of {size} x {size} matrices on one thread, GFLOP/s")
        bars = axes.barh(labels, list(rates.values()), color=colours)
        axes.bar_label(bars, fmt="%.3g", padding=3)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_xlim(0, 1.1 * max(rates.values()))
        save(figure, out)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser("How fast is the matrix product?")
    parser.add_argument("--ladder", action="store_true", help="how a product gets fast, in steps")
    parser.add_argument(
        "--size", type=positive, metavar="N", help="of the ladder's matrices (default: 768)"
    )
    parser.add_argument("--rounds", type=positive, metavar="N", help="default: 15, quick: 3")
    add_plot(parser)
    options = parse(parser, arguments)
    if options.plot and not options.ladder:
        parser.error("--plot draws the ladder: add --ladder")
    options.size = options.size or (384 if options.quick else 768)
    options.rounds = options.rounds or (3 if options.quick else 5 if options.ladder else 15)
    return climb(options) if options.ladder else race(options)


if __name__ == "__main__":
    sys.exit(main())
