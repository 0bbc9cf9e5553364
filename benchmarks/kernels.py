"""Time every operation against its NumPy reference: python benchmarks/kernels.py [ROUNDS]

The sizes are those of one training step of the preset "tiny": 32 rows of 64 tokens, 300 of them
masked, a vocabulary of 4,096, dropout 0.1, float32.  Results are compared before anything is timed.

Each backend has a process of its own, since the threads of one library slow the other's down, and
they take turns, so that both meet the same machine.  Printed are medians, and the median of the
ratios of two neighbours in time with its quartiles.  The last column is how often a step calls it.
"""

from __future__ import annotations

import multiprocessing
import platform
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from statistics import quantiles
from time import perf_counter
from typing import Any

import numpy as np

from minibert.ops import get_ops

Calls = dict[str, Callable[[], Any]]
B, T, C, F, V, M, HEADS, RATE, SEED, EPS = 32, 64, 128, 512, 4096, 300, 2, 0.1, 12345, 1e-12
PER_STEP = {
    "linear C to C forward": 8, "linear C to C backward": 8, "linear C to F forward": 2,
    "linear C to F backward": 2, "linear F to C forward": 2, "linear F to C backward": 2,
    "embedding_forward": 1, "embedding_backward": 1, "layernorm_forward": 1,
    "layernorm_backward": 1, "add_norm_forward": 4, "add_norm_backward": 4, "dropout_forward": 1,
    "gelu_forward": 2, "gelu_backward": 2, "attention_forward": 2, "attention_backward": 2,
    "vocab_cross_entropy_forward": 1, "vocab_cross_entropy_backward": 1, "global_norm": 1,
    "adamw": 1,
}  # fmt: skip


def operations(backend: str) -> Calls:
    """Return every operation with its arguments bound; the same numbers for every backend."""
    ops = get_ops(backend)
    generator = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape).astype(np.float32)

    x, y, dy, wide, dwide = (
        normal(B, T, C), normal(B, T, C), normal(B, T, C), normal(B, T, F), normal(B, T, F)
    )  # fmt: skip
    ids = generator.integers(0, V, (B, T)).astype(np.int32)
    kinds, labels = ids % 2, ids.reshape(-1)[:M].copy()
    mask = np.arange(T) < generator.integers(T // 2, T + 1, (B, 1, 1))
    gain, rows, table = normal(C), normal(M, C), normal(V, C)
    _, x_hat, rstd = ops.layernorm_forward(x, gain, gain, EPS)
    _, lse = ops.attention_forward(x, y, dy, mask, HEADS, RATE, SEED)
    _, _, dlogits = ops.vocab_cross_entropy_forward(rows, table, normal(V), labels)
    probs = ops.softmax_forward(wide)
    buffers = [normal(1_000_000) for _ in range(3)] + [normal(1_000_000) ** 2]
    step = {
        "lr": 1e-9, "beta1": 0.9, "beta2": 0.999, "eps": 1e-6, "decay": 0.01, "decayed": 900_000,
        "correction1": 0.1, "correction2": 0.1, "grad_scale": 0.5,
    }  # fmt: skip
    calls: Calls = {}
    for name, inputs, outputs, source in (
        ("C to C", C, C, x),
        ("C to F", C, F, x),
        ("F to C", F, C, wide),
    ):
        weight, upstream = normal(outputs, inputs), normal(B, T, outputs)
        calls[f"linear {name} forward"] = partial(
            ops.linear_forward, source, weight, normal(outputs)
        )
        calls[f"linear {name} backward"] = partial(ops.linear_backward, upstream, source, weight)
    tables = (table, normal(T, C), normal(2, C))
    several: dict[str, tuple[Any, ...]] = {
        "embedding_forward": (ids, kinds, *tables),
        "embedding_backward": (dy, ids, kinds, (V, T, 2)),
        "layernorm_forward": (x, gain, gain, EPS),
        "layernorm_backward": (dy, x_hat, rstd, gain),
        "add_norm_forward": (x, y, gain, gain, EPS, RATE, SEED),
        "add_norm_backward": (dy, x_hat, rstd, gain, RATE, SEED),
        "dropout_forward": (x, RATE, SEED),
        "gelu_forward": (wide,),
        "gelu_backward": (dwide, wide),
        "gelu_tanh_forward": (wide,),
        "gelu_tanh_backward": (dwide, wide),
        "softmax_forward": (wide,),
        "softmax_backward": (dwide, probs),
        "attention_forward": (x, y, dy, mask, HEADS, RATE, SEED),
        "attention_backward": (dy, x, y, dy, mask, lse, HEADS, RATE, SEED),
        "vocab_cross_entropy_forward": (rows, table, normal(V), labels),
        "vocab_cross_entropy_backward": (1 / M, dlogits, rows, table),
        "global_norm": (buffers[0],),
    }
    calls |= {name: partial(getattr(ops, name), *inputs) for name, inputs in several.items()}
    calls["adamw"] = partial(ops.adamw, *buffers, **step)
    return calls


def serve(connection: Connection, make: Callable[[], Calls]) -> None:
    """Be one side of a race: run what is asked for and answer with its seconds."""
    calls = make()
    for call in calls.values():
        call()
    connection.send(None)
    while (name := connection.recv()) is not None:
        start = perf_counter()
        calls[name]()
        connection.send(perf_counter() - start)


def race(makes: list[Callable[[], Calls]], names: list[str], rounds: int) -> dict[str, np.ndarray]:
    """Return seconds (sides, rounds) for every name; the sides take turns, call by call."""
    context = multiprocessing.get_context("spawn")
    sides = []
    for make in makes:
        connection, other = context.Pipe()
        context.Process(target=serve, args=(other, make), daemon=True).start()
        sides.append(connection)
    for connection in sides:
        connection.recv()
    found = {name: np.empty((len(sides), rounds)) for name in names}
    for name in names:
        for i in range(-2, rounds):  # the first two warm the caches
            for side, connection in enumerate(sides):
                connection.send(name)
                seconds = connection.recv()
                if i >= 0:
                    found[name][side, i] = seconds
    for connection in sides:
        connection.send(None)
    return found


def spread(ratios: np.ndarray) -> str:
    """Return median (quartiles) of how many times faster."""
    low, middle, high = quantiles(ratios, n=4)
    return f"{middle:5.2f} ({low:.2f}-{high:.2f})"


def check(names: list[str]) -> None:
    """Stop unless both backends agree."""
    sides = [operations("numpy"), operations("numba")]
    for name in names:
        results = [side[name]() for side in sides]
        for one, other in zip(*(r if isinstance(r, tuple) else (r,) for r in results), strict=True):
            if one is not None:
                gap = np.max(np.abs(np.subtract(one, other)))
                assert gap <= 2e-5 * np.max(np.abs(one)), f"{name}: backends differ by {gap:.1e}"


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    names = list(operations("numpy"))
    check(names)
    found = race([partial(operations, "numpy"), partial(operations, "numba")], names, rounds)
    print(f"{platform.processor() or platform.machine()}, NumPy {np.__version__}, {rounds} rounds")
    print(f"{'':30} {'numpy ms':>9} {'numba ms':>9}   faster (quartiles)    per step")
    totals = np.zeros(2)
    for name in names:
        numpy, numba = np.median(found[name], axis=1) * 1000
        totals += np.array([numpy, numba]) * PER_STEP.get(name, 0)
        ratio = spread(found[name][0] / found[name][1])
        print(f"{name:30} {numpy:9.3f} {numba:9.3f}   {ratio:20} {PER_STEP.get(name, 0):8}")
    print(f"{'one step, sum':30} {totals[0]:9.1f} {totals[1]:9.1f}   {totals[0] / totals[1]:5.2f}")


if __name__ == "__main__":
    main()
