"""The two backends that multiply matrices in another way: by BLAS, and in bfloat16."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibert.arrays import IGNORED
from minibert.keys import Key
from minibert.ops import Ops, cpu_bf16, get_ops
from tests.models.common import make_batch, make_model
from tests.ops.common import draw, matrix_unit, nearest_bfloat16

sizes = st.sampled_from([1, 2, 3, 7, 16, 17, 33])
both_ways = pytest.mark.parametrize("unit", [False, pytest.param(True, marks=matrix_unit)])


@contextmanager
def bfloat16(unit: bool) -> Iterator[Ops]:
    """Let products be made by the matrix unit, or else by vectors."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cpu_bf16, "has_matrix_unit", lambda: unit)
        yield get_ops("numba-bf16")


@both_ways
@given(sizes, sizes, sizes)
@settings(max_examples=25)
def test_bfloat16_products_are_exact_products_of_rounded_numbers(unit, n, i, o) -> None:
    x, weight, bias, dy = draw(n, (n, i), (o, i), (o,), (n, o))
    near_x, near_weight, near_dy = (nearest_bfloat16(a) for a in (x, weight, dy))
    with bfloat16(unit) as ops:
        found = ops.linear_forward(x, weight, bias), *ops.linear_backward(dy, x, weight)
    for actual, expected in zip(
        found,
        (near_x @ near_weight.T + bias, near_dy @ near_weight, near_dy.T @ near_x, dy.sum(axis=0)),
        strict=True,
    ):
        assert actual.dtype == np.float32
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)


@both_ways
def test_deep_and_wide_bfloat16_products(unit) -> None:
    x, weight, bias = draw(1, (50, 1300), (1100, 1300), (1100,))
    with bfloat16(unit) as ops:
        actual = ops.linear_forward(x, weight, bias)
    expected = nearest_bfloat16(x) @ nearest_bfloat16(weight).T + bias
    assert np.abs(actual - expected).max() <= 3e-6 * np.abs(expected).max()


@both_ways
@pytest.mark.parametrize("transpose", [False, True])
def test_bfloat16_operands_of_any_stride(unit, transpose) -> None:
    [x] = draw(2, (90, 160))
    a, b = x[::2, ::2], x[:80, 1::4]
    assert (a.shape, b.shape) == ((45, 80), (80, 40))
    if transpose:
        a, b = a.T, b.T
    with bfloat16(unit):
        c = cpu_bf16.matmul(a, b, transpose_a=transpose, transpose_b=transpose)
    near_a, near_b = nearest_bfloat16(x[::2, ::2]), nearest_bfloat16(x[:80, 1::4])
    np.testing.assert_allclose(c, near_a @ near_b, rtol=1e-5, atol=1e-5)


@both_ways
def test_the_way_is_chosen_by_what_the_processor_has(monkeypatch, unit) -> None:
    made = []
    for module, name, way in (
        (cpu_bf16.gemm_amx, "matmul", True), (cpu_bf16, "product_of", False),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, lambda *_, way=way, **__: made.append(way))
    [x] = draw(0, (4, 4))
    with bfloat16(unit):
        cpu_bf16.matmul(x, x)
    assert made == [unit]


@pytest.mark.parametrize("name", ["numba-blas", "numba-bf16"])
def test_all_else_is_the_numba_backend(name) -> None:
    ops, numba = get_ops(name), get_ops("numba")
    own = {"name", "linear_forward", "linear_backward",
           "feedforward_forward", "feedforward_backward",
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
