"""Time the matrix product against NumPy's BLAS: python benchmarks/matmul.py [ROUNDS]

The shapes are those of one training step of "tiny" (2,048 tokens, C = 128, F = 512, 300 masked
rows, V = 4,096), some of "mini" (C = 256), and one large one; forward, input gradient and weight
gradient.  As in kernels.py the two have a process each and take turns; results are compared first.
"""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
from kernels import Calls, race, spread

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


def products(side: str) -> Calls:
    """Return the products of one side, each writing into memory that is already there."""
    calls: Calls = {}
    for name, (M, K, N, transposed) in SHAPES.items():
        generator = np.random.default_rng((M, K, N))
        a = generator.standard_normal((K, M) if "a" in transposed else (M, K), dtype=np.float32)
        b = generator.standard_normal((N, K) if "b" in transposed else (K, N), dtype=np.float32)
        if side == "numba":
            from minibert.ops.cpu.gemm import matmul

            calls[name] = partial(
                matmul, a, b, transpose_a="a" in transposed, transpose_b="b" in transposed
            )
        else:
            left, right = a.T if "a" in transposed else a, b.T if "b" in transposed else b
            calls[name] = partial(np.matmul, left, right, out=np.empty((M, N), np.float32))
    return calls


def blas() -> str:
    """Return which BLAS NumPy has, and which of its kernels it chose where that can be asked."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return "install threadpoolctl to see which BLAS this is"
    return ", ".join(
        f"{pool['internal_api']} {pool.get('version')} {pool.get('architecture', '')} "
        f"({pool['num_threads']} threads)"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    )


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    ours, theirs = products("numba"), products("numpy")
    for name in SHAPES:
        expected = theirs[name]()
        gap = np.max(np.abs(ours[name]() - expected)) / np.max(np.abs(expected))
        assert gap < 1e-5, f"{name}: results differ by {gap:.1e}"
    names = list(SHAPES)
    found = race([partial(products, "numpy"), partial(products, "numba")], names, rounds)
    print(f"NumPy {np.__version__}, {blas()}, {rounds} rounds")
    print(f"{'GFLOP/s':26} {'numpy':>7} {'numba':>7}   faster (quartiles)")
    every = []
    for name, (M, K, N, _) in SHAPES.items():
        numpy, numba = 2e-9 * M * K * N / np.median(found[name], axis=1)
        ratios = found[name][0] / found[name][1]
        every.append(np.median(ratios))
        print(f"{name:26} {numpy:7.0f} {numba:7.0f}   {spread(ratios)}")
    print(f"{'geometric mean':42}   {np.exp(np.mean(np.log(every))):5.2f}")


if __name__ == "__main__":
    main()
