import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.keys import Key
from minibert.params import ParamStore, Spec, sinusoids, truncated_normal

SHAPES = st.lists(st.integers(1, 5), max_size=3).map(tuple)


def filled(dtype=np.float64) -> ParamStore:
    store = ParamStore(dtype)
    layer = store.scope("layer", 0)
    layer.declare("weight", (2, 3), init="normal")
    layer.declare("bias", (2,), init="zeros", decay=False)
    layer.child("norm").declare("weight", (3,), init="ones", decay=False)
    layer.child("norm", "deep").declare("weight", (4,), init="normal")
    store.allocate()
    return store


def test_layout():
    store = filled()
    assert [p.name for p in store] == [
        "layer.0.weight",
        "layer.0.bias",
        "layer.0.norm.weight",
        "layer.0.norm.deep.weight",
    ]
    assert len(store) == 4
    assert store.value.shape == store.grad.shape == (15,)
    assert store.decayed == 10  # 6 + 4 lead, then 2 + 3
    store.value[:] = np.arange(15)
    np.testing.assert_array_equal(store["layer.0.weight"].value, [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(store["layer.0.norm.deep.weight"].value, [6, 7, 8, 9])
    np.testing.assert_array_equal(store["layer.0.bias"].value, [10, 11])
    np.testing.assert_array_equal(store["layer.0.norm.weight"].value, [12, 13, 14])


@given(st.lists(st.tuples(SHAPES, st.booleans()), min_size=1, max_size=8))
def test_views_cover_the_buffers_once(declared):
    store = ParamStore(np.float64)
    for number, (shape, decay) in enumerate(declared):
        store.declare(Spec(f"p{number}", shape, "zeros", decay))
    store.allocate()
    for parameter in store:
        assert parameter.value.shape == parameter.grad.shape == parameter.shape
        parameter.value[...] += 1.0
        parameter.grad[...] += 2.0
    np.testing.assert_array_equal(store.value, 1.0)
    np.testing.assert_array_equal(store.grad, 2.0)
    for parameter in store:
        parameter.value[...] = parameter.spec.decay
    assert store.value[: store.decayed].all()
    assert not store.value[store.decayed :].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_buffers_are_aligned_and_zero(dtype):
    store = filled(dtype)
    moment = store.new_buffer()
    for buffer in (store.value, store.grad, moment):
        assert buffer.ctypes.data % 64 == 0
        assert buffer.dtype == dtype
        assert buffer.shape == (15,)
        np.testing.assert_array_equal(buffer, 0)
    moment[:] = 1
    np.testing.assert_array_equal(store.value, 0)
    assert store.new_buffer(3).shape == (3,)


def test_gradients_add_up():
    store = filled()
    weight = store["layer.0.weight"]
    weight.accumulate(np.ones((2, 3)))
    weight.accumulate(np.full((2, 3), 0.5))
    np.testing.assert_array_equal(weight.grad, 1.5)
    np.testing.assert_array_equal(store.grad[:6], 1.5)
    np.testing.assert_array_equal(store.grad[6:], 0)
    store.zero_grad()
    np.testing.assert_array_equal(store.grad, 0)


def test_accumulate_refuses_what_numpy_would_stretch():
    weight = filled()["layer.0.weight"]
    for shape in [(3,), (1, 3), (2, 1), (), (3, 2), (1, 2, 3)]:
        with pytest.raises(
            ValueError, match=r"gradient of layer.0.weight has shape .*, not \(2, 3\)"
        ):
            weight.accumulate(np.ones(shape))
    with pytest.raises(TypeError, match=r"gradient of layer.0.weight is float32, not float64"):
        weight.accumulate(np.ones((2, 3), np.float32))
    np.testing.assert_array_equal(weight.grad, 0)


def test_wrong_use_is_named():
    store = ParamStore()
    parameter = store.scope("a").declare("weight", (2,), init="zeros")
    for view in ("value", "grad"):
        with pytest.raises(RuntimeError, match=r"a.weight has no memory yet: call allocate"):
            getattr(parameter, view)
    with pytest.raises(ValueError, match=r"a.weight is declared twice"):
        store.scope("a").declare("weight", (2,), init="zeros")
    for shape in [(0,), (2, 0), (-1,)]:
        with pytest.raises(ValueError, match=r"a.bias has shape .*: every size must be at least 1"):
            store.scope("a").declare("bias", shape, init="zeros")
    store.allocate()
    with pytest.raises(RuntimeError, match=r"a.bias is declared after allocate"):
        store.scope("a").declare("bias", (2,), init="zeros")
    with pytest.raises(KeyError):
        store["a.bias"]
    for dtype in (np.float16, np.int32):
        with pytest.raises(ValueError, match="parameters are float32 or float64, not"):
            ParamStore(dtype)


def test_initialize():
    store = ParamStore(np.float64)
    store.scope().declare("w", (200, 100), init="normal")
    store.scope().declare("b", (7,), init="zeros", decay=False)
    store.scope().declare("g", (7,), init="ones", decay=False)
    store.allocate()
    store.value[:] = 5.0
    store.initialize(Key(1), std=0.5)
    w = store["w"].value
    assert np.abs(w).max() <= 1.0
    assert abs(w.mean()) < 5 * 0.5 / np.sqrt(20_000)
    # cut off at two standard deviations, 0.8796 of one is left: 1 - 2·2φ(2)/(Φ(2) - Φ(-2)) = 0.7737
    assert w.std() == pytest.approx(0.5 * np.sqrt(0.7737), rel=0.02)
    np.testing.assert_array_equal(store["b"].value, 0)
    np.testing.assert_array_equal(store["g"].value, 1)


def test_a_parameter_is_drawn_whatever_else_there_is():
    alone, other = ParamStore(np.float32), ParamStore(np.float32)
    alone.scope("x").declare("w", (3, 4), init="normal")
    other.scope("y").declare("w", (2, 2), init="normal")
    other.scope("x").declare("w", (3, 4), init="normal")
    for store in (alone, other):
        store.allocate()
        store.initialize(Key(3))
    np.testing.assert_array_equal(alone["x.w"].value, other["x.w"].value)
    assert not np.array_equal(other["y.w"].value, other["x.w"].value[:2, :2])


def test_single_is_double_rounded():
    stores = [ParamStore(dtype) for dtype in (np.float32, np.float64)]
    for store in stores:
        store.scope("x").declare("w", (5, 7), init="normal")
        store.allocate()
        store.initialize(Key(3))
    np.testing.assert_array_equal(stores[0].value, stores[1].value.astype(np.float32))


def test_truncated_normal_stays_within():
    x = truncated_normal(Key(1).generator(), (1000, 10), 3.0)
    assert np.abs(x).max() <= 6.0
    assert np.abs(x).max() > 5.9
    assert x.dtype == np.float64


def test_positions_start_as_sinusoids() -> None:
    # width 4: frequencies 1 and 1/100; place 2 → sin 2, cos 2, sin 0.02, cos 0.02
    expected = [math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)]
    np.testing.assert_allclose(sinusoids(3, 4)[2], expected, rtol=1e-12)
    assert sinusoids(2, 3).shape == (2, 3)
    store = ParamStore(np.float64)
    table = store.scope().declare("positions", (512, 128), init="sinusoidal")
    store.allocate()
    store.initialize(Key(0), std=0.05)
    # mean of sin² + cos² over a pair is 1/2, times (0.05 √2)²: 0.05², whatever the place
    assert np.sqrt((table.value**2).mean()) == pytest.approx(0.05, rel=1e-9)


def test_frozen_parameters_take_no_gradient():
    store = filled()
    store.grad[:] = 7.0
    store.freeze(["layer.0.weight", "layer.0.norm.weight"])
    frozen = [p.name for p in store if p.frozen]
    assert frozen == ["layer.0.weight", "layer.0.norm.weight"]
    for parameter in store:  # what was there before does not stay in the norm
        np.testing.assert_array_equal(parameter.grad, 0 if parameter.frozen else 7)
        parameter.accumulate(np.ones(parameter.shape))
        np.testing.assert_array_equal(parameter.grad, 0 if parameter.frozen else 8)
    with pytest.raises(ValueError, match=r"gradient of layer.0.weight has shape \(3, 2\)"):
        store["layer.0.weight"].accumulate(np.ones((3, 2)))
    with pytest.raises(TypeError, match=r"gradient of layer.0.weight is float32"):
        store["layer.0.weight"].accumulate(np.ones((2, 3), np.float32))
    store.unfreeze("layer.0.weight")
    store["layer.0.weight"].accumulate(np.ones((2, 3)))
    np.testing.assert_array_equal(store["layer.0.weight"].grad, 1)
    assert store["layer.0.norm.weight"].frozen
    store.unfreeze()
    assert not any(p.frozen for p in store)


def test_a_function_may_pick_what_is_frozen():
    store = filled()
    store.freeze(lambda name: "norm" in name)
    assert [p.name for p in store if p.frozen] == [
        "layer.0.norm.weight",
        "layer.0.norm.deep.weight",
    ]
    store.unfreeze(lambda name: "deep" in name)
    assert [p.name for p in store if p.frozen] == ["layer.0.norm.weight"]


def test_stretches_between_frozen_parameters():
    store = filled()  # weight 0-6, deep 6-10, bias 10-12, norm 12-15
    assert store.trainable_runs() == [(0, 15)]
    for names, runs in (
        (["layer.0.weight"], [(6, 15)]),
        (["layer.0.norm.deep.weight"], [(0, 6), (10, 15)]),
        (["layer.0.bias", "layer.0.weight"], [(6, 10), (12, 15)]),
        (["layer.0.norm.weight"], [(0, 12)]),
        (list(store.parameters), []),
    ):
        store.unfreeze()
        store.freeze(names)
        assert store.trainable_runs() == runs


@pytest.mark.parametrize("name", ["layer.0.weights", "layer.1.weight", ""])
def test_unknown_names_are_refused(name):
    store = filled()
    for change in (store.freeze, store.unfreeze):
        with pytest.raises(ValueError, match=f"no parameter {name!r}: did you mean 'layer.0.*'"):
            change(["layer.0.bias", name])
    assert not any(p.frozen for p in store)  # nothing was done by half


def test_freezing_nothing_is_refused():
    for which in ([], lambda name: "head" in name):
        with pytest.raises(ValueError, match="no parameter is meant"):
            filled().freeze(which)


def test_a_scope_lists_what_was_declared_in_it_so_far():
    store = ParamStore()
    for number in (1, 10):
        store.scope("layer", number).declare("weight", (2,), init="zeros")
    assert [p.name for p in store.scope("layer", 1).parameters()] == ["layer.1.weight"]
    assert store.scope("layer", 2).parameters() == []
    store.scope("layer", 1, "norm").declare("bias", (2,), init="zeros")
    names = ["layer.1.weight", "layer.1.norm.bias"]
    assert [p.name for p in store.scope("layer", 1).parameters()] == names
    assert store.scope().parameters() == list(store)
    assert store.scope("layer", 1).parameters()[0] is store["layer.1.weight"]
