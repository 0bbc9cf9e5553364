"""Every backend against the NumPy reference, on the same random inputs.

The reference itself is checked elsewhere, by hand, by finite differences and against the paper.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibert.arrays import IGNORED
from minibert.keys import Key
from minibert.layers.activations import ACTIVATIONS
from minibert.ops import get_ops

REFERENCE = get_ops("numpy")
# float32 rounds at 6e-8; sums of up to some hundred terms, in another order, lose a few digits
TOLERANCE = {np.dtype("f4"): 2e-5, np.dtype("f8"): 2e-12}
sizes = st.sampled_from([1, 2, 3, 5, 7, 13, 16, 17, 31, 33])
dtypes = st.sampled_from([np.dtype("f4"), np.dtype("f8")])
rates = st.sampled_from([0.0, 0.1, 0.5])
seeds = st.integers(0, 2**32)


def close(actual: Any, expected: Any, dtype: np.dtype, floor: float = 1e-3) -> None:
    """Assert equality relative to the largest element, of one array or of each in a tuple.

    ``floor`` stands in for the largest element where all are smaller.
    """
    if isinstance(expected, tuple):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            close(one, other, dtype, floor)
        return
    if isinstance(expected, np.ndarray):
        assert actual.shape == expected.shape
        assert actual.dtype == expected.dtype
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(np.where(finite, 0, actual), np.where(finite, 0, expected))
    actual, expected = (np.where(finite, values, 0) for values in (actual, expected))
    largest = np.max(np.abs(expected), initial=floor)
    gap = np.max(np.abs(actual - expected), initial=0)
    assert gap <= TOLERANCE[dtype] * largest


def draw(seed: int, dtype: np.dtype) -> Callable[..., Any]:
    generator = np.random.default_rng(seed)
    return lambda *shape: generator.standard_normal(shape).astype(dtype)


def compare(ops: Any, name: str, dtype: np.dtype, *arguments: Any, floor: float = 1e-3) -> Any:
    """Call one operation in both backends, on equal inputs that must stay as they are."""
    before = [np.copy(a) if isinstance(a, np.ndarray) else a for a in arguments]
    expected = getattr(REFERENCE, name)(*before)
    actual = getattr(ops, name)(*arguments)
    close(actual, expected, dtype, floor)
    for one, other in zip(arguments, before, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)
    return expected


@given(sizes, sizes, sizes, dtypes, seeds)
@settings(max_examples=25)
def test_linear(ops, N, C_in, C_out, dtype, seed) -> None:
    normal = draw(seed, dtype)
    x, weight = normal(N, C_in), normal(C_out, C_in)
    compare(ops, "linear_forward", dtype, x, weight, normal(C_out))
    compare(ops, "linear_backward", dtype, normal(N, C_out), x, weight)


@pytest.mark.parametrize("shape", [(300, 128, 512), (37, 520, 19), (1, 1000, 1), (257, 3, 129)])
def test_linear_beyond_one_block(ops, dtype, shape) -> None:
    N, C_in, C_out = shape
    normal = draw(1, dtype)
    x, weight = normal(N, C_in), normal(C_out, C_in)
    compare(ops, "linear_forward", dtype, x, weight, normal(C_out))
    compare(ops, "linear_backward", dtype, normal(N, C_out), x, weight)


def test_linear_keeps_leading_axes_and_takes_any_layout(ops, dtype) -> None:
    normal = draw(2, dtype)
    x = normal(7, 5, 3).transpose(2, 1, 0)  # (3, 5, 7), not contiguous
    weight, dy = normal(7, 11).T, normal(3, 5, 22)[..., ::2]
    assert not x.flags.c_contiguous
    assert not weight.flags.c_contiguous
    compare(ops, "linear_forward", dtype, x, weight, normal(22)[::2])
    compare(ops, "linear_backward", dtype, dy, x, weight)
    frozen = normal(4, 7)
    frozen.setflags(write=False)
    compare(ops, "linear_forward", dtype, frozen, weight, normal(11))


@given(sizes, sizes, sizes, st.sampled_from([*ACTIVATIONS]), dtypes, seeds)
@settings(max_examples=25)
def test_feedforward(ops, N, C, F, hidden_act, dtype, seed) -> None:
    normal = draw(seed, dtype)
    x, dy, weight1, weight2 = normal(N, C), normal(N, C), normal(F, C), normal(C, F)
    forward = x, weight1, normal(F), weight2, normal(C), hidden_act
    _, wide, bent = compare(ops, "feedforward_forward", dtype, *forward)
    backward = dy, x, wide, bent, weight1, weight2, hidden_act
    compare(ops, "feedforward_backward", dtype, *backward)


@pytest.mark.parametrize("hidden_act", ACTIVATIONS)
def test_feedforward_beyond_one_block(ops, dtype, hidden_act) -> None:
    """Only what the last piece of K has completed is bent, all of it, and once."""
    normal = draw(9, dtype)
    x, weight1, weight2 = normal(2, 500, 700), normal(1100, 700) / 26, normal(700, 1100) / 33
    forward = x, weight1, normal(1100), weight2, normal(700), hidden_act
    _, wide, bent = compare(ops, "feedforward_forward", dtype, *forward)
    backward = normal(2, 500, 700), x, wide, bent, weight1, weight2, hidden_act
    compare(ops, "feedforward_backward", dtype, *backward)


@given(sizes, sizes, sizes, dtypes, seeds)
@settings(max_examples=20)
def test_embedding_with_repeated_ids(ops, B, T, C, dtype, seed) -> None:
    normal, generator = draw(seed, dtype), np.random.default_rng(seed)
    V, longest = 6, T + 2
    ids = generator.integers(0, V, (B, T)).astype(np.int32)
    kinds = generator.integers(0, 2, (B, T)).astype(np.int32)
    tables = (normal(V, C), normal(longest, C), normal(2, C))
    compare(ops, "embedding_forward", dtype, ids, kinds, *tables)
    compare(ops, "embedding_backward", dtype, normal(B, T, C), ids, kinds, (V, longest, 2))


def test_embedding_takes_int64_ids(ops, dtype) -> None:
    normal = draw(3, dtype)
    ids = np.array([[0, 3, 3]])
    assert ids.dtype == np.int64
    compare(ops, "embedding_forward", dtype, ids, ids * 0, normal(4, 5), normal(3, 5), normal(2, 5))


@given(sizes, sizes, sizes, dtypes, rates, seeds)
@settings(max_examples=25)
def test_norms(ops, B, T, C, dtype, rate, seed) -> None:
    normal = draw(seed, dtype)
    x, residual, weight, bias, dy = (
        normal(B, T, C), normal(B, T, C), normal(C), normal(C), normal(B, T, C)
    )  # fmt: skip
    eps = (
        1.0  # at C = 1 or 2 the gradient cancels to 0, and 1 / √ε would magnify what rounding left
    )
    _, x_hat, rstd = compare(ops, "layernorm_forward", dtype, x, weight, bias, eps)
    compare(ops, "layernorm_backward", dtype, dy, x_hat, rstd, weight, floor=1.0)
    _, x_hat, rstd = compare(
        ops, "add_norm_forward", dtype, x, residual, weight, bias, eps, rate, seed
    )
    compare(ops, "add_norm_backward", dtype, dy, x_hat, rstd, weight, rate, seed, floor=1.0)


@pytest.mark.parametrize("rows", [63, 64, 65, 200])
def test_norm_sums_over_many_rows(ops, dtype, rows) -> None:
    normal = draw(4, dtype)
    _, x_hat, rstd = REFERENCE.layernorm_forward(normal(rows, 24), normal(24), normal(24), 1e-12)
    compare(ops, "layernorm_backward", dtype, normal(rows, 24), x_hat, rstd, normal(24))


@given(sizes, sizes, dtypes, rates, seeds)
@settings(max_examples=20)
def test_dropout_masks_are_identical(ops, rows, columns, dtype, rate, seed) -> None:
    x = draw(seed, dtype)(rows, columns)
    seed = Key(seed).seed  # all 64 bits
    for name in ("dropout_forward", "dropout_backward"):
        expected, actual = (
            getattr(REFERENCE, name)(x, rate, seed),
            getattr(ops, name)(x, rate, seed),
        )
        np.testing.assert_array_equal(actual == 0, expected == 0)
        close(actual, expected, dtype)


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "relu", "tanh"])
def test_activations(ops, dtype, name) -> None:
    x = np.linspace(-9, 9, 3001).astype(dtype)
    dy = draw(5, dtype)(3001)
    compare(ops, f"{name}_forward", dtype, x)
    saved = np.tanh(x) if name == "tanh" else x
    compare(ops, f"{name}_backward", dtype, dy, saved)


@given(sizes, sizes, dtypes, seeds)
@settings(max_examples=20)
def test_softmax(ops, N, T, dtype, seed) -> None:
    normal = draw(seed, dtype)
    y = compare(ops, "softmax_forward", dtype, 30 * normal(N, T))
    compare(ops, "softmax_backward", dtype, normal(N, T), y)


@given(
    st.integers(1, 3), sizes, sizes, st.integers(1, 3), sizes,
    st.sampled_from(["none", "padding", "causal", "blind"]), dtypes, rates, seeds,
)  # fmt: skip
@settings(max_examples=40)
def test_attention(ops, B, T, S, heads, D, kind, dtype, rate, seed) -> None:
    normal, generator = draw(seed, dtype), np.random.default_rng(seed)
    C = heads * D
    q, k, v, dcontext = normal(B, T, C), normal(B, S, C), normal(B, S, C), normal(B, T, C)
    mask = {
        "none": None,
        "padding": np.arange(S) < generator.integers(1, S + 1, (B, 1, 1)),
        "causal": np.broadcast_to(np.tril(np.ones((T, S), bool)), (B, T, S)),
        "blind": generator.random((B, T, S)) < 0.3,  # some rows see nothing at all
    }[kind]
    _, lse = compare(ops, "attention_forward", dtype, q, k, v, mask, heads, rate, seed)
    compare(ops, "attention_backward", dtype, dcontext, q, k, v, mask, lse, heads, rate, seed)


@pytest.mark.parametrize("T", [65, 130, 300])
def test_attention_on_long_rows(ops, dtype, T) -> None:
    normal = draw(6, dtype)
    q, k, v, dcontext = (normal(2, T, 64) for _ in range(4))
    mask = np.arange(T) < np.array([[[T]], [[T - 9]]])
    _, lse = compare(ops, "attention_forward", dtype, q, k, v, mask, 2, 0.1, 7)
    compare(ops, "attention_backward", dtype, dcontext, q, k, v, mask, lse, 2, 0.1, 7)


def test_a_blind_query_gets_nothing(ops, dtype) -> None:
    normal = draw(7, dtype)
    q, k, v = normal(1, 2, 4), normal(1, 3, 4), normal(1, 3, 4)
    mask = np.array([[[True, True, False], [False, False, False]]])
    context, lse = ops.attention_forward(q, k, v, mask, 2, 0.0, 0)
    assert (context[0, 1] == 0).all()
    assert np.isposinf(lse[0, :, 1]).all()
    gradients = ops.attention_backward(normal(1, 2, 4), q, k, v, mask, lse, 2, 0.0, 0)
    assert all(np.isfinite(g).all() for g in gradients)
    assert (gradients[0][0, 1] == 0).all()
    assert (gradients[1][0, 2] == 0).all()


@given(st.integers(0, 9), sizes, sizes, dtypes, seeds)
@settings(max_examples=25)
def test_cross_entropies(ops, M, C, V, dtype, seed) -> None:
    normal, generator = draw(seed, dtype), np.random.default_rng(seed)
    labels = generator.integers(0, V, M).astype(np.int32)
    labels[generator.random(M) < 0.3] = IGNORED
    logits, x, table, bias = 5 * normal(M, V), normal(M, C), normal(V, C), normal(V)
    _, probs = compare(ops, "cross_entropy_forward", dtype, logits, labels)
    compare(ops, "cross_entropy_backward", dtype, 0.37, probs, labels)
    _, _, dlogits = compare(ops, "vocab_cross_entropy_forward", dtype, x, table, bias, labels)
    compare(ops, "vocab_cross_entropy_backward", dtype, 0.37, dlogits, x, table)


def test_no_counted_row_gives_zero(ops, dtype) -> None:
    normal = draw(8, dtype)
    x, table = normal(3, 4), normal(5, 4)
    labels = np.full(3, IGNORED, np.int32)
    loss, right, dlogits = ops.vocab_cross_entropy_forward(x, table, normal(5), labels)
    assert (loss, right) == (0.0, 0)
    assert all((g == 0).all() for g in ops.vocab_cross_entropy_backward(1.0, dlogits, x, table))


@given(st.integers(1, 5000), dtypes, seeds)
@settings(max_examples=15)
def test_update(ops, size, dtype, seed) -> None:
    normal = draw(seed, dtype)
    grad = normal(size)
    compare(ops, "global_norm", dtype, grad)
    start = [normal(size), grad, normal(size) * 0.01, normal(size) ** 2]
    options = {
        "lr": 0.1, "beta1": 0.9, "beta2": 0.98, "eps": 1e-6, "decay": 0.01, "decayed": size // 3,
        "correction1": 0.19, "correction2": 0.04, "grad_scale": 0.7,
    }  # fmt: skip
    expected, actual = [np.copy(a) for a in start], [np.copy(a) for a in start]
    REFERENCE.adamw(*expected, **options)
    ops.adamw(*actual, **options)
    close(tuple(actual), tuple(expected), dtype)


def test_nan_and_infinity_are_passed_on(ops, dtype) -> None:
    """A kernel compiled with full fast-math would assume that there are none."""
    x = np.array([[1, np.nan, 3], [1, 2, 3]], dtype)
    for name in ("gelu_forward", "softmax_forward", "tanh_forward"):
        y = getattr(ops, name)(x)
        assert np.isnan(y[0, 1])
        assert np.isfinite(y[1]).all()
    assert np.isnan(ops.global_norm(x.reshape(-1)))
    assert np.isinf(ops.global_norm(np.array([1, np.inf], dtype)))
    norm = ops.layernorm_forward(x, np.ones(3, dtype), np.ones(3, dtype), 1e-12)[0]
    assert np.isnan(norm[0]).all()
    assert np.isfinite(norm[1]).all()
