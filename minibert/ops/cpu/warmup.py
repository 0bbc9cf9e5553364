"""Compile every kernel, by calling each operation once on a few numbers.

Machine code is kept on disk, so after the first time this takes a fraction of a second.  Compiling
takes half a minute on one core: where there are two, a second process does half of it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite.binding import get_host_cpu_name

from minibert.arrays import IGNORED
from minibert.ops import cpu
from minibert.ops.cpu import jit

Progress = Callable[[str, int, int], None]
"""Told an operation's name, its number from 0, and how many there are, before it is compiled."""

HELPERS_SHARE = (
    "add_norm", "attention", "dropout", "embedding", "gelu", "layernorm", "relu", "softmax", "tanh",
)  # fmt: skip
"""Beginnings of the names of operations that take half of the time, and share few kernels with the
others: products, losses and updates."""


def warmup(
    dtype: Any = np.float32,
    progress: Progress = lambda name, index, total: None,
    ops: Any = cpu,
) -> None:
    """Compile all kernels for float32 or float64.

    Every operation of the backend, numba or a relative, is called, at sizes that take each of its
    paths.
    """
    dtype = np.dtype(dtype)
    calls = example_calls(dtype)
    first = [call for call in calls if not call[0].startswith(HELPERS_SHARE)]
    last = [call for call in calls if call[0].startswith(HELPERS_SHARE)]
    done = jit.CACHE / f"compiled-{dtype}-{get_host_cpu_name()}" if jit.CACHE else None
    with helper(dtype, done) as finish:
        for index, (name, arguments) in enumerate([*first, *last]):
            progress(name, index, len(calls))
            if index == len(first):
                finish()
            getattr(ops, name)(*arguments)
    parameters = [np.zeros(70, dtype) for _ in range(4)]
    cpu.adamw(
        *parameters, lr=0.1, beta1=0.9, beta2=0.98, eps=1e-6, decay=0.01, decayed=40,
        correction1=0.1, correction2=0.1, grad_scale=1.0,
    )  # fmt: skip
    if done:
        done.touch()


@contextmanager
def helper(dtype: np.dtype[Any], done: Path | None) -> Iterator[Callable[[], object]]:
    """Let a second process compile its share; yield what waits for it.

    What it leaves in the folder for machine code is found there.  Should it fail, nothing is there,
    and this process compiles all by itself.
    """
    if done is None or done.exists() or (os.cpu_count() or 1) < 2:
        yield lambda: None
        return
    command = [sys.executable, "-m", "minibert.ops.cpu.warmup", str(dtype), *HELPERS_SHARE]
    silent = subprocess.DEVNULL
    try:
        process = subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent)
    except OSError:
        yield lambda: None
        return
    try:
        yield process.wait
    finally:
        process.kill()
        process.wait()


def example_calls(dtype: np.dtype[Any]) -> list[tuple[str, tuple[Any, ...]]]:
    """Return (operation, arguments) for every operation but ``adamw``."""
    B, T, C, F, V, heads = 2, 5, 8, 12, 11, 2
    rate, seed, eps = 0.1, 1, 1e-12

    def zeros(*shape: int) -> Any:
        return np.zeros(shape, dtype)

    ids = np.zeros((B, T), np.int32)
    labels = np.array([1, IGNORED, 3], np.int32)
    x, wide, vector = zeros(B, T, C), zeros(B, T, F), zeros(C)
    rows, rstd, mask = (V, T, 2), zeros(B, T, 1), np.ones((B, 1, T), np.bool_)
    calls: list[tuple[str, tuple[Any, ...]]] = [
        ("linear_forward", (x, zeros(F, C), zeros(F))),
        ("linear_backward", (wide, x, zeros(F, C))),
        ("feedforward_forward", (x, zeros(F, C), zeros(F), zeros(C, F), vector, "gelu")),
        ("feedforward_backward", (x, x, wide, wide, zeros(F, C), zeros(C, F), "gelu")),
        ("embedding_forward", (ids, ids, zeros(V, C), zeros(T, C), zeros(2, C))),
        ("embedding_backward", (x, ids, ids, rows)),
        ("layernorm_forward", (x, vector, vector, eps)),
        ("layernorm_backward", (x, x, rstd, vector)),
        ("add_norm_forward", (x, x, vector, vector, eps, rate, seed)),
        ("add_norm_backward", (x, x, rstd, vector, rate, seed)),
        ("dropout_forward", (x, rate, seed)),
        ("dropout_backward", (x, rate, seed)),
    ]
    for name in ("gelu", "gelu_tanh", "relu", "tanh"):
        calls += [(f"{name}_forward", (x,)), (f"{name}_backward", (x, x))]
    calls += [
        ("softmax_forward", (x,)),
        ("softmax_backward", (x, x)),
        ("attention_forward", (x, x, x, mask, heads, rate, seed)),
        ("attention_backward", (x, x, x, x, mask, zeros(B, heads, T), heads, rate, seed)),
        ("cross_entropy_forward", (zeros(3, V), labels)),
        ("cross_entropy_backward", (1.0, zeros(3, V), labels)),
        ("vocab_cross_entropy_forward", (zeros(3, C), zeros(V, C), zeros(V), labels)),
        ("vocab_cross_entropy_backward", (1.0, zeros(3, V), zeros(3, C), zeros(V, C))),
        ("global_norm", (zeros(70),)),
        ("orthogonalize", (zeros(2, C, F), 1)),
    ]
    return calls


def main(arguments: Sequence[str]) -> None:
    """Call the operations whose names begin so with a dtype: the helper's whole work."""
    dtype, *beginnings = arguments
    for name, values in example_calls(np.dtype(dtype)):
        if name.startswith(tuple(beginnings)):
            getattr(cpu, name)(*values)


if __name__ == "__main__":
    main(sys.argv[1:])
