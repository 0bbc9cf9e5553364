"""What the tests of all layers share: random layers, and the promises every layer makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from minibert.arrays import Array
from minibert.ops import Ops
from minibert.params import ParamStore, Scope
from tests.common import copies, normal

SIZES = st.sampled_from([1, 2, 3, 4, 5, 7, 8])  # 1, odd, even, prime
WIDTHS = st.sampled_from([2, 3, 4, 5, 7, 8])  # where one number alone would have no gradient
LEADING = st.lists(SIZES, max_size=3).map(tuple)  # rank 1 to 4 with the width behind it
SEEDS = st.integers(0, 2**32 - 1)
RATES = st.sampled_from([0.0, 0.1, 0.5])
EPS = st.sampled_from([1e-12, 1e-5, 0.3])
few = settings(max_examples=12)


def away_from_zero(x: Array) -> Array:
    """The same numbers with 0.1 more distance from 0, where ReLU has its kink."""
    return x + np.where(x < 0, -0.1, 0.1)


def spread_rows(x: Array) -> Array:
    """Move each row's two first numbers apart, so that its variance is nowhere near 0.

    LayerNorm's slope grows with one over the row's standard deviation: by chance alone a row of
    two or three numbers may come out nearly constant, and no difference quotient can follow that.
    """
    x = x.copy()
    x[..., 0] += 2.0
    x[..., 1] -= 2.0
    return x


def build(
    make: Callable[[Scope], Any], seed: int = 0, dtype: Any = np.float64
) -> tuple[Any, ParamStore]:
    """Make a layer whose parameters are all random: no gain is 1 and no bias 0."""
    store = ParamStore(dtype)
    layer = make(store.scope("part"))
    store.allocate()
    for number, parameter in enumerate(store):
        mean = 1.0 if parameter.spec.init == "ones" else 0.0
        parameter.value[...] = normal(seed + number, *parameter.shape, mean=mean, std=0.7)
    return layer, store


def with_op(ops: Ops, name: str, function: Callable[..., Any]) -> Any:
    """The same backend with one operation replaced."""
    table = {key: getattr(ops, key) for key in dir(ops) if not key.startswith("_")}
    return SimpleNamespace(**(table | {name: function}))


def floats_in(tree: Any) -> Iterator[Array]:
    """All floating arrays in nested tuples: a layer's output, its cache, its gradients."""
    if isinstance(tree, np.ndarray):
        if tree.dtype.kind == "f":
            yield tree
    elif isinstance(tree, tuple):
        for branch in tree:
            yield from floats_in(branch)


def as_tuple(gradients: Any) -> tuple[Array, ...]:
    return gradients if isinstance(gradients, tuple) else (gradients,)


def assert_same(a: Any, b: Any) -> None:
    """Both hold the same bytes, in the same order."""
    left, right = list(floats_in(as_tuple(a))), list(floats_in(as_tuple(b)))
    assert len(left) == len(right)
    for x, y in zip(left, right, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def assert_keeps_promises(
    make: Callable[[Scope], Any], first: Mapping[str, Any], second: Mapping[str, Any]
) -> None:
    """Check what every layer promises, on two different inputs for it.

    Nothing passed in is changed; the cache is the caller's, so calls may overlap; gradients of
    parameters add up; float32 goes in and float32 comes out, everywhere.
    """
    layer, store = build(make, seed=5)
    runs = []
    for number, given in enumerate((first, second)):
        inputs = copies(given)
        y, cache = layer.forward(**inputs)
        assert_same(tuple(inputs.values()), tuple(copies(given).values()))
        dy = normal(number + 1, *y.shape)
        kept = dy.copy()
        values = store.value.copy()
        store.zero_grad()
        gradients = layer.backward(dy, cache)
        assert_same(dy, kept)
        assert_same(tuple(inputs.values()), tuple(copies(given).values()))
        assert_same(store.value, values)
        runs.append((inputs, dy, y, gradients, store.grad.copy()))

        # the same cache again: the same gradient, added a second time
        again = layer.backward(dy, cache)
        assert_same(gradients, again)
        np.testing.assert_array_equal(store.grad, runs[-1][-1] + runs[-1][-1])

    # Both forwards before both backwards, in reverse order: the calls do not disturb each other.
    (inputs1, dy1, y1, gradients1, grad1), (inputs2, dy2, y2, gradients2, grad2) = runs
    store.zero_grad()
    z1, cache1 = layer.forward(**inputs1)
    z2, cache2 = layer.forward(**inputs2)
    assert_same((z1, z2), (y1, y2))
    assert_same(layer.backward(dy2, cache2), gradients2)
    assert_same(layer.backward(dy1, cache1), gradients1)
    np.testing.assert_array_equal(store.grad, grad2 + grad1)

    assert_single_precision(make, first, gradients1, grad1)


def assert_single_precision(
    make: Callable[[Scope], Any], given: Mapping[str, Any], gradients: Any, grad: Array
) -> None:
    """In float32 everything is float32, and equals float64 to its precision."""
    layer, store = build(make, seed=5, dtype=np.float32)
    y, cache = layer.forward(**copies(given, np.float32))
    dx = layer.backward(normal(1, *y.shape).astype(np.float32), cache)
    found = list(floats_in((y, cache, dx)))
    assert found
    assert {array.dtype for array in found} == {np.dtype(np.float32)}
    pairs = [*zip(as_tuple(dx), as_tuple(gradients), strict=True), (store.grad, grad)]
    for single, double in pairs:
        scale = np.abs(double).max() + 1e-3
        np.testing.assert_allclose(single / scale, double / scale, atol=2e-5)
