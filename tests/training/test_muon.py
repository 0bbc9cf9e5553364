"""Muon, against singular value decompositions and a second implementation of its rule."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibert.config import BertConfig
from minibert.keys import Key
from minibert.models.pretraining import BertForPreTraining
from minibert.ops import get_ops
from minibert.params import ParamStore
from minibert.training.adamw import AdamW
from minibert.training.muon import ITERATIONS, MOMENTUM, STEP_SIZE, Muon


def quintic(s: float, times: int) -> float:
    """Jordan et al.'s polynomial, applied again and again to one number."""
    for _ in range(times):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return s


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (1, 4), (40, 70)])
@pytest.mark.parametrize("iterations", [0, 1, 3, 5])
def test_singular_values_follow_the_polynomial_and_directions_stay(ops, shape, iterations) -> None:
    matrix = np.random.default_rng(1).standard_normal(shape)
    u, s, vt = np.linalg.svd(matrix, full_matrices=False)
    expected = [quintic(x, iterations) for x in (s / (np.sqrt((s * s).sum()) + 1e-7)).tolist()]
    [result] = ops.orthogonalize(matrix[None], iterations)
    np.testing.assert_allclose(result, (u * expected) @ vt, atol=1e-13)


def test_five_rounds_bring_singular_values_near_1(ops) -> None:
    """A matrix whose strongest direction is ten times its weakest."""
    generator = np.random.default_rng(2)
    u, v = (np.linalg.qr(generator.standard_normal((16, 16)))[0] for _ in range(2))
    [result] = ops.orthogonalize(((u * np.linspace(0.1, 1, 16)) @ v)[None], 5)
    s = np.linalg.svd(result, compute_uv=False)
    assert 0.65 < s.min() < s.max() < 1.25


def test_stack_of_matrices_is_each_by_itself(ops, dtype) -> None:
    matrices = np.random.default_rng(3).standard_normal((5, 7, 4)).astype(dtype)
    before = matrices.copy()
    together = ops.orthogonalize(matrices, 3)
    apart = np.concatenate([ops.orthogonalize(matrix[None], 3) for matrix in matrices])
    np.testing.assert_allclose(together, apart, atol=1e-6 if dtype == np.float32 else 1e-14)
    np.testing.assert_array_equal(matrices, before)
    assert together.dtype == dtype
    assert together.flags.c_contiguous


def test_rounding_noise_is_not_blown_up(ops) -> None:
    matrix = np.random.default_rng(7).standard_normal((1, 6, 6))
    assert np.abs(ops.orthogonalize(1e-17 * matrix, 5)).max() < 1e-6
    [[gain]] = ops.orthogonalize(np.full((1, 1, 1), 1e-12), 1)[0]
    assert gain == pytest.approx(3.4445e-5, rel=1e-4)


def test_zeros_stay_zeros_and_nan_is_not_hidden(ops) -> None:
    np.testing.assert_array_equal(ops.orthogonalize(np.zeros((2, 3, 4)), 3), np.zeros((2, 3, 4)))
    assert ops.orthogonalize(np.zeros((0, 3, 4)), 3).shape == (0, 3, 4)
    matrices = np.ones((2, 3, 4))
    matrices[0, 1, 2] = np.nan
    result = ops.orthogonalize(matrices, 2)
    assert np.isnan(result[0]).all()
    assert np.isfinite(result[1]).all()


def test_wrong_arguments_are_named(ops) -> None:
    with pytest.raises(ValueError, match="matrices has shape"):
        ops.orthogonalize(np.zeros((3, 4)), 3)
    with pytest.raises(TypeError, match="matrices"):
        ops.orthogonalize(np.zeros((1, 3, 4), np.int64), 3)
    with pytest.raises(ValueError, match="iterations is -1, expected 0 to 100"):
        ops.orthogonalize(np.zeros((1, 3, 4)), -1)


@given(st.integers(1, 4), st.integers(1, 40), st.integers(1, 40))
@settings(max_examples=20)
def test_backends_agree(n, M, N) -> None:
    matrices = np.random.default_rng((n, M, N)).standard_normal((n, M, N))
    one, other = (get_ops(name).orthogonalize(matrices, 3) for name in ("numpy", "numba"))
    np.testing.assert_allclose(one, other, atol=1e-12)


def three_parameters() -> ParamStore:
    store = ParamStore(np.float64)
    scope = store.scope("x")
    scope.declare("table", (6, 3), init="normal")
    scope.declare("weight", (4, 3), init="normal", hidden=True)
    scope.declare("bias", (4,), init="zeros", decay=False)
    store.allocate()
    store.value[:] = np.random.default_rng(4).standard_normal(store.value.size)
    return store


def test_matrices_move_by_the_rule_and_all_else_as_with_adamw(ops) -> None:
    stores = three_parameters(), three_parameters()
    muon, adamw = Muon(stores[0], ops, weight_decay=0.1), AdamW(stores[1], ops, weight_decay=0.1)
    value = stores[0]["x.weight"].value.copy()
    momentum, generator = np.zeros((4, 3)), np.random.default_rng(5)
    for _ in range(4):
        stores[0].grad[:] = stores[1].grad[:] = generator.standard_normal(stores[0].grad.size)
        grad = 0.5 * stores[0]["x.weight"].grad
        muon.update(0.01, grad_scale=0.5)
        adamw.update(0.01, grad_scale=0.5)
        momentum = MOMENTUM * momentum + (1 - MOMENTUM) * grad
        ahead = MOMENTUM * momentum + (1 - MOMENTUM) * grad
        u, s, vt = np.linalg.svd(ahead, full_matrices=False)
        s = np.array(
            [quintic(x, ITERATIONS) for x in (s / (np.sqrt((s * s).sum()) + 1e-7)).tolist()]
        )
        value = value * (1 - 0.01 * 0.1) - 0.01 * STEP_SIZE * math.sqrt(4) * ((u * s) @ vt)
    np.testing.assert_allclose(stores[0]["x.weight"].value, value, rtol=1e-12, atol=1e-13)
    for name in ("x.table", "x.bias"):
        np.testing.assert_array_equal(stores[0][name].value, stores[1][name].value)


def test_frozen_matrices_stay(ops) -> None:
    store = three_parameters()
    store.freeze(["x.weight"])
    before = store.value.copy()
    store.grad[:] = 1
    optimizer = Muon(store, ops)
    optimizer.update(0.1)
    np.testing.assert_array_equal(store["x.weight"].value, before[18:30].reshape(4, 3))
    assert (store["x.table"].value != before[:18].reshape(6, 3)).all()
    assert (optimizer.moment1[18:30] == 0).all()


def test_which_weights_of_bert_are_hidden_matrices() -> None:
    model = BertForPreTraining(BertConfig.preset("tiny", vocab_size=50), "numpy")
    hidden = {p.name for p in model.params if p.spec.hidden}
    linear = {p.name for p in model.params if p.value.ndim == 2 and "embeddings" not in p.name}
    assert hidden == linear - {"cls.seq_relationship.weight"}
    assert len(hidden) == 2 * 6 + 2


def test_same_bytes_at_every_number_of_threads() -> None:
    import numba

    results = []
    for threads in (1, 2):
        model = BertForPreTraining(BertConfig.preset("tiny", vocab_size=50), "numba")
        model.initialize(Key(0))
        model.params.grad[:] = np.random.default_rng(6).standard_normal(model.params.grad.size)
        numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
        Muon(model.params, model.ops).update(0.01)
        results.append(model.params.value.tobytes())
    assert results[0] == results[1]


def two_matrices() -> ParamStore:
    store = ParamStore(np.float64)
    for name in ("x", "y"):
        scope = store.scope(name)
        scope.declare("table", (6, 3), init="normal")
        scope.declare("weight", (4, 3), init="normal", hidden=True)
        scope.declare("bias", (4,), init="zeros", decay=False)
    store.allocate()
    store.value[:] = np.random.default_rng(4).standard_normal(store.value.size)
    return store


def muon_steps(store: ParamStore, optimizer: Muon, factor: float = 1.0) -> None:
    generator = np.random.default_rng(5)
    for step in range(3):
        gradients = generator.standard_normal(store.grad.size)
        for start, stop, parameter in store.layout:
            parameter.grad[...] = 0 if parameter.frozen else 1
            parameter.grad[...] *= gradients[start:stop].reshape(parameter.shape)
        optimizer.update(0.02 / (step + 1) * factor, grad_scale=0.5)


@pytest.mark.parametrize("frozen", [[], ["x.weight", "y.bias"]])
def test_factors_move_like_optimizers_of_their_own(ops, frozen) -> None:
    """Both the matrices, which are one stack of one shape, and what moves as with AdamW."""
    factors = {"x": 2.5, "y": 0.5}
    store = two_matrices()
    store.freeze(frozen) if frozen else None
    optimizer = Muon(store, ops, weight_decay=0.1, rate_factor=lambda p: factors[p.name[0]])
    muon_steps(store, optimizer)
    for group, factor in factors.items():
        alone = two_matrices()
        alone.freeze(lambda name, group=group: not name.startswith(group) or name in frozen)
        own = Muon(alone, ops, weight_decay=0.1)
        muon_steps(alone, own, factor)
        for start, stop, parameter in store.layout:
            if parameter.name.startswith(group):
                for got, wanted in (
                    (store.value, alone.value),
                    (optimizer.moment1, own.moment1),
                    (optimizer.moment2, own.moment2),
                ):
                    np.testing.assert_allclose(
                        got[start:stop], wanted[start:stop], rtol=1e-13, atol=1e-14
                    )
                moved = parameter.value != two_matrices()[parameter.name].value
                assert moved.all() if parameter.name not in frozen else not moved.any()


def test_factors_of_1_change_no_byte(ops) -> None:
    plain, store = two_matrices(), two_matrices()
    muon_steps(plain, Muon(plain, ops))
    muon_steps(store, Muon(store, ops, rate_factor=lambda parameter: 1.0))
    assert store.value.tobytes() == plain.value.tobytes()
