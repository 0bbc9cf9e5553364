"""The optimizer, against values worked out by hand and a second implementation in plain floats."""

import math

import numpy as np
import pytest

from minibert.keys import Key
from minibert.params import ParamStore
from minibert.training.adamw import AdamW


def one_parameter(value: float, *, decay: bool = True) -> ParamStore:
    store = ParamStore(np.float64)
    store.scope("x").declare("weight", (1,), init="zeros", decay=decay)
    store.allocate()
    store.value[:] = value
    return store


def test_first_step_with_correction_is_the_learning_rate(ops) -> None:
    # m/c1 = (0.1 · 1) / 0.1 = 1 and √(v/c2) = √(0.001 / 0.001) = 1, so the step is lr · 1
    store = one_parameter(0.0)
    store.grad[:] = 1.0
    AdamW(store, ops, weight_decay=0, eps=0).update(0.5)
    assert store.value[0] == pytest.approx(-0.5, rel=1e-12)


def test_first_step_of_bertadam_is_larger(ops) -> None:
    # m = 0.1 and √v = √0.001, uncorrected: 0.1 / 0.0316228 = 3.1622777
    store = one_parameter(0.0)
    store.grad[:] = 1.0
    AdamW(store, ops, weight_decay=0, eps=0, bias_correction=False).update(1.0)
    assert store.value[0] == pytest.approx(-3.16227766, rel=1e-8)


def test_decay_is_decoupled_and_spares_biases(ops) -> None:
    # gradient 0: the moments stay 0, and only lr · decay · θ is taken off: 2 - 0.5 · 0.1 · 2
    decayed, spared = one_parameter(2.0), one_parameter(2.0, decay=False)
    for store in (decayed, spared):
        AdamW(store, ops, weight_decay=0.1).update(0.5)
    assert decayed.value[0] == pytest.approx(1.9, rel=1e-12)
    assert spared.value[0] == 2.0


def test_many_steps_follow_the_paper(ops) -> None:
    """Algorithm 2 written again, for single numbers."""
    store = ParamStore(np.float64)
    store.scope("a").declare("weight", (5, 3), init="normal")
    store.scope("a").declare("bias", (7,), init="zeros", decay=False)
    store.allocate()
    generator = np.random.default_rng(3)
    store.value[:] = generator.standard_normal(22)
    expected = store.value.tolist()
    m, v = [0.0] * 22, [0.0] * 22
    optimizer = AdamW(store, ops, beta1=0.8, beta2=0.95, eps=1e-3, weight_decay=0.05)
    for t in range(1, 6):
        store.grad[:] = generator.standard_normal(22)
        learning_rate, scale = 0.1 / t, 0.7
        for i, gradient in enumerate(store.grad.tolist()):
            g = gradient * scale
            m[i] = 0.8 * m[i] + 0.2 * g
            v[i] = 0.95 * v[i] + 0.05 * g * g
            step = (m[i] / (1 - 0.8**t)) / (math.sqrt(v[i] / (1 - 0.95**t)) + 1e-3)
            expected[i] -= learning_rate * (step + (0.05 * expected[i] if i < 15 else 0))
        optimizer.update(learning_rate, scale)
    np.testing.assert_allclose(store.value, expected, rtol=1e-13)
    np.testing.assert_allclose(optimizer.moment1, m, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(optimizer.moment2, v, rtol=1e-12, atol=1e-15)


def test_gradient_is_left_alone(ops) -> None:
    store = one_parameter(1.0)
    store.initialize(Key(0))
    store.grad[:] = 3.0
    AdamW(store, ops).update(0.1, grad_scale=0.5)
    assert store.grad[0] == 3.0


def several(dtype=np.float64) -> ParamStore:
    """Decayed: a.weight 0-15, b.weight 15-17, c.weight 17-20; the rest: three biases, 20-29."""
    store = ParamStore(dtype)
    for name, rows, columns in (("a", 5, 3), ("b", 1, 2), ("c", 3, 1)):
        store.scope(name).declare("weight", (rows, columns), init="normal")
        store.scope(name).declare("bias", (3,), init="zeros", decay=False)
    store.allocate()
    store.value[:] = np.random.default_rng(1).standard_normal(29)
    return store


def train(store: ParamStore, optimizer: AdamW, steps: int) -> None:
    generator = np.random.default_rng(2)
    for step in range(steps):
        store.zero_grad()
        for parameter in store:
            gradient = generator.standard_normal(parameter.shape).astype(store.dtype)
            parameter.accumulate(gradient)
        optimizer.update(0.1 / (step + 1), 0.7)


@pytest.mark.parametrize(
    "frozen",
    [
        ["a.weight"],
        ["b.weight", "b.bias"],
        ["c.weight", "a.bias"],  # on both sides of the border of what decays
        ["c.bias"],
        ["a.weight", "b.weight", "c.weight", "a.bias", "b.bias"],
    ],
)
def test_frozen_parameters_stay_and_the_others_do_not_notice(ops, dtype, frozen) -> None:
    free, store = several(dtype), several(dtype)
    plain, optimizer = (AdamW(s, ops, weight_decay=0.05) for s in (free, store))
    for parameters, moving in ((free, plain), (store, optimizer)):
        train(parameters, moving, 2)  # so that no moment is 0
    store.freeze(frozen)
    names = {p.name: p.frozen for p in store}
    before = [buffer.copy() for buffer in (store.value, optimizer.moment1, optimizer.moment2)]
    for parameters, moving in ((free, plain), (store, optimizer)):
        train(parameters, moving, 5)
    pairs = (
        (free.value, store.value, before[0]),
        (plain.moment1, optimizer.moment1, before[1]),
        (plain.moment2, optimizer.moment2, before[2]),
    )
    for start, stop, parameter in store.layout:
        for trained, kept, old in (tuple(array[start:stop] for array in pair) for pair in pairs):
            if names[parameter.name]:
                assert kept.tobytes() == old.tobytes()
                assert (trained != old).all()
            else:
                tolerance = 1e-6 if dtype == np.float32 else 1e-14
                np.testing.assert_allclose(kept, trained, rtol=tolerance, atol=tolerance)
                assert (kept != old).all()
    assert ops.global_norm(store.grad) == pytest.approx(
        math.sqrt(sum(float((p.grad.astype(float) ** 2).sum()) for p in store if not p.frozen))
    )


def test_nothing_frozen_is_one_call_and_all_frozen_none() -> None:
    calls = []

    class Spy:
        @staticmethod
        def adamw(value, *rest, decayed, **options) -> None:
            calls.append((len(value), decayed))

    store = several()
    optimizer = AdamW(store, Spy)  # pyright: ignore
    optimizer.update(0.1)
    assert calls == [(29, 20)]
    store.freeze(["b.weight", "b.bias"])
    optimizer.update(0.1)
    assert calls[1:] == [(15, 15), (6, 3), (3, 0)]
    store.freeze(store.parameters)
    optimizer.update(0.1)
    assert calls[4:] == []
    assert optimizer.updates == 3


FACTORS = {"a": 3.0, "b": 0.25, "c": 1.0}


def factor_of(parameter) -> float:
    return FACTORS[parameter.name[0]]


@pytest.mark.parametrize("frozen", [[], ["a.weight", "c.bias"], ["b.weight", "b.bias"]])
def test_factors_move_like_optimizers_of_their_own(ops, dtype, frozen) -> None:
    """Three learning rates in one optimizer are three optimizers, each for its group alone."""
    store = several(dtype)
    store.freeze(frozen) if frozen else None
    optimizer = AdamW(store, ops, weight_decay=0.05, rate_factor=factor_of)
    train(store, optimizer, 4)
    for group, factor in FACTORS.items():
        alone = several(dtype)
        alone.freeze(lambda name, group=group: not name.startswith(group) or name in frozen)
        own = AdamW(alone, ops, weight_decay=0.05)
        generator = np.random.default_rng(2)
        for step in range(4):
            alone.zero_grad()
            for parameter in alone:  # the gradients of train()
                gradient = generator.standard_normal(parameter.shape).astype(dtype)
                parameter.accumulate(gradient)
            own.update(0.1 / (step + 1) * factor, 0.7)
        tolerance = 1e-6 if dtype == np.float32 else 1e-14
        for start, stop, parameter in store.layout:
            if parameter.name.startswith(group):
                for got, wanted in (
                    (store.value, alone.value),
                    (optimizer.moment1, own.moment1),
                    (optimizer.moment2, own.moment2),
                ):
                    np.testing.assert_allclose(
                        got[start:stop], wanted[start:stop], rtol=tolerance, atol=tolerance
                    )
                moved = parameter.value != several(dtype)[parameter.name].value
                assert moved.all() if parameter.name not in frozen else not moved.any()


@pytest.mark.parametrize("factor", [1.0, 1])
def test_factors_of_1_change_no_byte(ops, dtype, factor) -> None:
    plain, store = several(dtype), several(dtype)
    without = AdamW(plain, ops, weight_decay=0.05)
    optimizer = AdamW(store, ops, weight_decay=0.05, rate_factor=lambda parameter: factor)
    train(plain, without, 3)
    train(store, optimizer, 3)
    assert store.value.tobytes() == plain.value.tobytes()
    assert optimizer.moment1.tobytes() == without.moment1.tobytes()
    assert optimizer.moment2.tobytes() == without.moment2.tobytes()


def test_stretches_of_one_learning_rate() -> None:
    """One call for each stretch of parameters that are neighbours and of one rate."""
    calls, asked = [], []

    class Spy:
        @staticmethod
        def adamw(value, *rest, lr, decayed, **options) -> None:
            calls.append((len(value), decayed, lr))

    def rate_factor(parameter) -> float:
        asked.append(parameter.name)
        return 10.0 if parameter.name.startswith("b") else 1.0

    store = several()
    optimizer = AdamW(store, Spy, rate_factor=rate_factor)  # pyright: ignore
    optimizer.update(0.5)
    # a.weight 15, then c.weight and a.bias across the border of decay, then c.bias; b's two
    assert calls == [(15, 15, 0.5), (6, 3, 0.5), (3, 0, 0.5), (2, 2, 5.0), (3, 0, 5.0)]
    store.freeze(["c.weight", "b.weight"])
    optimizer.update(0.5)
    assert calls[5:] == [(15, 15, 0.5), (3, 0, 0.5), (3, 0, 0.5), (3, 0, 5.0)]
    assert sorted(asked) == sorted(store.parameters)  # once, when it is made

    calls.clear()
    AdamW(several(), Spy, rate_factor=lambda p: 2.0).update(0.5)  # pyright: ignore
    assert calls == [(29, 20, 1.0)]


def test_factor_of_0_holds_still_but_keeps_its_moments(ops) -> None:
    store = several()
    before = store.value.copy()
    optimizer = AdamW(store, ops, rate_factor=lambda p: float(p.name != "a.weight"))
    train(store, optimizer, 2)
    np.testing.assert_array_equal(store.value[:15], before[:15])
    assert (store.value[15:] != before[15:]).all()
    assert (optimizer.moment1 != 0).all()
