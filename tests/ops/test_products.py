"""The two backends that multiply matrices in another way: by BLAS, and in bfloat16."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibert.arrays import IGNORED, Array
from minibert.keys import Key
from minibert.ops import get_ops
from minibert.ops.cpu import vectors
from minibert.ops.cpu.pairs import pairs
from tests.models.common import make_batch, make_model

sizes = st.sampled_from([1, 2, 3, 7, 16, 17, 33])


def nearest_bfloat16(x: Array) -> Array:
    """Round each number by its definition: 8 binary digits, the even neighbour of two."""
    fraction, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.round(fraction * 256) / 256, exponent)


def draw(seed: int, *shapes: tuple[int, ...]) -> list[Array]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(shape).astype(np.float32) for shape in shapes]


@given(sizes, sizes, sizes)
@settings(max_examples=25)
def test_bfloat16_products_are_exact_products_of_rounded_numbers(n, i, o) -> None:
    x, weight, bias, dy = draw(n, (n, i), (o, i), (o,), (n, o))
    ops = get_ops("numba-bf16")
    near_x, near_weight, near_dy = (nearest_bfloat16(a) for a in (x, weight, dy))
    for actual, expected in zip(
        (ops.linear_forward(x, weight, bias), *ops.linear_backward(dy, x, weight)),
        (near_x @ near_weight.T + bias, near_dy @ near_weight, near_dy.T @ near_x, dy.sum(axis=0)),
        strict=True,
    ):
        assert actual.dtype == np.float32
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


def test_deep_and_wide_bfloat16_products() -> None:
    x, weight, bias = draw(1, (50, 1300), (1100, 1300), (1100,))
    actual = get_ops("numba-bf16").linear_forward(x, weight, bias)
    expected = nearest_bfloat16(x) @ nearest_bfloat16(weight).T + bias
    assert np.abs(actual - expected).max() <= 3e-6 * np.abs(expected).max()


def test_rounding_to_bfloat16() -> None:
    def upper(bits: int) -> int:
        [[pair]] = pairs(np.array([[bits]], np.uint32).view(np.float32), across=False)
        return int(pair) & 0xFFFF

    assert upper(0x3F800000) == 0x3F80  # 1
    assert upper(0x3F808000) == 0x3F80  # half way: to the even one, down
    assert upper(0x3F818000) == 0x3F82  # and up
    assert upper(0x3F808001) == 0x3F81
    assert upper(0xBF80FFFF) == 0xBF81
    assert upper(0x7F7FFFFF) == 0x7F80  # the largest float32 lies nearest to infinity
    assert upper(0x7F800000) == 0x7F80
    for nan in (0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF):  # NaN must neither overflow nor become inf
        assert upper(nan) & 0x7FFF > 0x7F80


def test_pairs_lie_along_k() -> None:
    x = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], np.float32)
    along, across = (pairs(x, across=across) for across in (False, True))
    np.testing.assert_array_equal(along, pairs(x.T.copy(), across=True).T)
    halves = along.view(np.uint16).astype(np.uint32) << 16
    expected = [[1, 2, 3, 0], [4, 5, 6, 0], [7, 8, 9, 0]]
    np.testing.assert_array_equal(halves.view(np.float32), expected)
    assert across.shape == (2, 3)


@pytest.mark.parametrize("name", ["numba-blas", "numba-bf16"])
def test_all_else_is_the_numba_backend(name) -> None:
    ops, numba = get_ops(name), get_ops("numba")
    own = {"name", "linear_forward", "linear_backward",
           "vocab_cross_entropy_forward", "vocab_cross_entropy_backward"}  # fmt: skip
    for other in numba.__all__:  # pyright: ignore[reportAttributeAccessIssue]
        assert (getattr(ops, other) is getattr(numba, other)) == (other not in own)


@pytest.mark.parametrize(("name", "tolerance"), [("numba-blas", 2e-5), ("numba-bf16", 2e-2)])
def test_gradients_of_the_whole_model(name, tolerance) -> None:
    """Relative to each tensor's largest; a key's bias has none but rounding."""
    gradients = []
    for backend in ("numba", name):
        model = make_model(backend, np.float32)
        output, cache = model.forward(make_batch(model), Key(2))
        model.backward(cache)
        gradients.append({p.name: p.grad.copy() for p in model.params} | {"loss": output.loss})
    exact, found = gradients
    assert found.pop("loss") == pytest.approx(exact.pop("loss"), rel=tolerance)
    for label, gradient in exact.items():
        if not label.endswith("key.bias"):
            gap = np.abs(found[label] - gradient).max() / np.abs(gradient).max()
            assert gap <= tolerance, label


@pytest.mark.parametrize("name", ["numba-blas", "numba-bf16"])
def test_float64_is_exact_in_both(name) -> None:
    generator = np.random.default_rng(3)
    x, table, bias = (generator.standard_normal(s) for s in ((5, 4), (9, 4), (9,)))
    labels = np.array([1, IGNORED, 8, 0, 3], np.int32)
    loss, right, dlogits = get_ops(name).vocab_cross_entropy_forward(x, table, bias, labels)
    expected = get_ops("numpy").vocab_cross_entropy_forward(x, table, bias, labels)
    assert loss == pytest.approx(expected[0], rel=1e-13)
    assert right == expected[1]
    np.testing.assert_allclose(dlogits, expected[2], rtol=1e-12, atol=1e-14)


COMPILE = """
from minibert.ops.cpu import tile, vectors
from numba import njit, types

assert (vectors.MR, vectors.NV, vectors.VECTOR, vectors.PAIRS) == (14, 2, 64, True)

@njit(types.void(types.int32[::1], types.int32[::1], types.int64, types.float32[:, ::1]))
def add(a, b, depth, c):
    tile.add_tile(a, 0, 1, 14, b, 0, 32, depth, c, 0, c.shape[1])

[assembly] = add.inspect_asm().values()
assert assembly.count("vdpbf16ps") >= 28, assembly.count("vdpbf16ps")
assert "vfmadd" not in assembly
"""


@pytest.mark.slow
@pytest.mark.skipif("not __import__('platform').machine() in ('x86_64', 'AMD64')")
@pytest.mark.skipif(vectors.settings.DISABLE_JIT, reason="nothing is compiled")
def test_the_instruction_for_pairs_is_used_where_there_is_one(tmp_path) -> None:
    """Compiled for such a processor, but not run: this one may not have it."""
    environment = {
        **os.environ,
        "NUMBA_CPU_NAME": "znver4",
        "NUMBA_CPU_FEATURES": "+avx2,+fma,+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512bf16",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    subprocess.run([sys.executable, "-c", COMPILE], check=True, env=environment)
