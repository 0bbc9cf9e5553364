from functools import partial

import numpy as np
import pytest

from minibert.gradcheck import check_layer
from minibert.keys import Key
from minibert.layers.attention import MultiHeadAttention
from minibert.layers.combinators import Checkpoint, Repeat
from minibert.layers.encoder_layer import EncoderLayer
from minibert.layers.linear import Linear

from .common import assert_keeps_promises, assert_same, build, floats_in, normal
from .test_encoder_layer import PLACES, config_for

MASK = np.arange(5) < np.array([5, 3, 4])[:, None, None]
NO_SLOPE = ["part.attention.self.key.bias"]


class Doubling:
    """y = 2 x, and a note of the keys and masks that came."""

    def __init__(self):
        self.seen = []

    def forward(self, x, mask, key, places=None):
        self.seen.append((mask, key, places))
        return 2 * x, len(self.seen)

    def backward(self, dy, cache):
        self.seen.append(cache)
        return 2 * dy


def repeat(ops, times=3, **changes):
    config = config_for(2, 3, **changes)
    return lambda scope: Repeat(EncoderLayer(scope, config, ops), times)


def checkpoint(ops, **changes):
    config = config_for(2, 3, **changes)
    return lambda scope: Checkpoint(EncoderLayer(scope, config, ops))


def test_repeat_by_hand():
    layer = Doubling()
    y, cache = Repeat(layer, 3).forward(np.array([1.0]), MASK, Key(1), PLACES)
    assert y == [8.0]
    assert cache == (1, 2, 3)
    masks, keys, places = zip(*layer.seen, strict=True)
    assert all(mask is MASK for mask in masks)
    assert keys == tuple(Key(1).child("repeat", step) for step in range(3))
    assert [p is PLACES for p in places] == [False, False, True]
    assert Repeat(layer, 3).backward(np.array([1.0]), cache) == [8.0]
    assert layer.seen[3:] == [3, 2, 1]  # the last step first
    Repeat(layer, 1).forward(np.array([1.0]), None, None)
    assert layer.seen[6:] == [(None, None, None)]


@pytest.mark.parametrize("times", [0, -1])
def test_repeating_less_than_once_is_refused(times):
    with pytest.raises(ValueError, match=f"times is {times}, expected at least 1"):
        Repeat(Doubling(), times)


@pytest.mark.parametrize("places", [PLACES, pytest.param(None, marks=pytest.mark.slow)])
def test_gradients_of_repeat(ops, places):
    layer, store = build(repeat(ops, layer_norm_eps=0.3), seed=2)
    inputs = {"x": normal(1, 3, 5, 6), "mask": MASK, "key": Key(5), "places": places}
    check_layer(layer, store, inputs, absolute=NO_SLOPE, max_elements=2, directions=2)


@pytest.mark.parametrize("places", [PLACES, pytest.param(None, marks=pytest.mark.slow)])
def test_gradients_of_checkpoint(ops, places):
    layer, store = build(checkpoint(ops, rate=0.2), seed=4)
    inputs = {"x": normal(2, 3, 5, 6), "mask": MASK, "key": Key(3), "places": places}
    check_layer(layer, store, inputs, absolute=NO_SLOPE, max_elements=2, directions=2)


def test_repeated_three_times_is_three_layers_with_one_set_of_weights(ops):
    config = config_for(2, 3, rate=0.2)
    tied, store = build(repeat(ops, rate=0.2), seed=7)
    separate = [build(lambda scope: EncoderLayer(scope, config, ops), seed=7) for _ in range(3)]
    x, dy, key = normal(1, 3, 5, 6), normal(2, 3, 5, 6), Key(9)

    y, cache = tied.forward(x, MASK, key)
    dx = tied.backward(dy, cache)

    expected, caches = x, []
    for step, (layer, _) in enumerate(separate):
        expected, one = layer.forward(expected, MASK, key.child("repeat", step))
        caches.append(one)
    dexpected = dy
    for (layer, _), one in zip(reversed(separate), reversed(caches), strict=True):
        dexpected = layer.backward(dexpected, one)

    assert_same((y, dx), (expected, dexpected))
    total = sum(store.grad for _, store in reversed(separate))
    np.testing.assert_allclose(store.grad, total, rtol=1e-13, atol=1e-15)
    assert all(np.abs(one.grad).max() > 0.01 for _, one in separate)  # no step is left out


@pytest.mark.parametrize("every", [True, False])
def test_checkpoint_equals_the_plain_layer_bit_for_bit(ops, dtype, every):
    config = config_for(2, 3, rate=0.3)
    plain, plain_store = build(lambda scope: EncoderLayer(scope, config, ops), dtype=dtype)
    again, again_store = build(checkpoint(ops, rate=0.3), dtype=dtype)
    x = normal(1, 3, 5, 6).astype(dtype)
    arguments = (x, MASK, Key(2), None if every else PLACES)
    y, cache = plain.forward(*arguments)
    z, small = again.forward(*arguments)
    dy = normal(2, *y.shape).astype(dtype)
    assert_same((y, plain.backward(dy, cache)), (z, again.backward(dy, small)))
    assert plain_store.grad.any()
    assert plain_store.grad.tobytes() == again_store.grad.tobytes()


def test_checkpoint_keeps_its_input_alone(ops):
    layer, _ = build(checkpoint(ops))
    x = normal(1, 3, 5, 6)
    _, cache = layer.forward(x, MASK, key=Key(1))
    assert [kept is x for kept in floats_in(cache)] == [True]
    assert cache.named == {"key": Key(1)}


def test_checkpoint_of_layers_with_other_arguments(ops):
    """One input and one gradient; or two of each."""
    linear, _ = build(lambda scope: Checkpoint(Linear(scope, 4, 3, ops)))
    attention, _ = build(lambda scope: Checkpoint(MultiHeadAttention(scope, 6, 2, 0.2, ops)))
    x, memory = normal(1, 2, 5, 6), normal(2, 2, 3, 6)
    for layer, inputs in ((linear, (normal(3, 5, 4),)), (attention, (x, None, Key(1), memory))):
        y, cache = layer.forward(*inputs)
        z, whole = layer.layer.forward(*inputs)
        dy = normal(4, *y.shape)
        assert_same(y, z)
        assert_same(layer.backward(dy, cache), layer.layer.backward(dy, whole))


def test_either_may_hold_the_other(ops):
    config = config_for(2, 3, rate=0.3)
    x, dy = normal(1, 3, 5, 6), normal(2, 3, 5, 6)
    results = []
    for wrap in (
        partial(Repeat, times=3),
        lambda layer: Repeat(Checkpoint(layer), 3),
        lambda layer: Checkpoint(Repeat(layer, 3)),
    ):
        layer, store = build(lambda scope, wrap=wrap: wrap(EncoderLayer(scope, config, ops)))
        y, cache = layer.forward(x, MASK, Key(4))
        results.append((y, layer.backward(dy, cache), store.grad))
    assert_same(results[0], results[1])
    assert_same(results[0], results[2])


@pytest.mark.parametrize("make", [partial(repeat, times=1), checkpoint])
def test_promises(ops, make):
    assert_keeps_promises(
        make(ops, rate=0.3),
        {"x": normal(1, 3, 5, 6), "mask": MASK, "key": Key(1)},
        {"x": normal(2, 3, 4, 6), "mask": None, "key": Key(2)},
    )


def test_calls_of_repeat_may_overlap(ops):
    """As the promises above, but a second sum of three gradients rounds in another order."""
    layer, store = build(repeat(ops, rate=0.3))
    inputs = [(normal(1, 3, 5, 6), MASK, Key(1)), (normal(2, 3, 4, 6), None, Key(2))]
    dys = [normal(3, 3, 5, 6), normal(4, 3, 4, 6)]
    alone = []
    for given, dy in zip(inputs, dys, strict=True):
        store.zero_grad()
        dx = layer.backward(dy, layer.forward(*given)[1])
        alone.append((dx, store.grad.copy()))
    store.zero_grad()
    caches = [layer.forward(*given)[1] for given in inputs]
    for number in (1, 0, 1):
        assert_same(layer.backward(dys[number], caches[number]), alone[number][0])
    total = alone[0][1] + 2 * alone[1][1]
    np.testing.assert_allclose(store.grad, total, rtol=1e-12, atol=1e-13)
