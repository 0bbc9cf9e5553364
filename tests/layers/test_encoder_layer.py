from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibert.config import BertConfig
from minibert.gradcheck import check_layer
from minibert.keys import Key
from minibert.layers.encoder_layer import EncoderLayer
from minibert.params import ParamStore

from .common import SEEDS, assert_keeps_promises, assert_same, build, normal, spread_rows


def config_for(heads: int, width: int, rate: float = 0.1, **changes) -> BertConfig:
    return BertConfig(
        hidden_size=heads * width,
        num_attention_heads=heads,
        intermediate_size=changes.pop("intermediate_size", 7),
        hidden_dropout_prob=rate,
        attention_probs_dropout_prob=rate,
        **changes,
    )


def make(config, ops):
    return lambda scope: EncoderLayer(scope, config, ops)


def test_by_hand(ops):
    # Attention and feed-forward give 0, so only the residual path is left: LayerNorm, twice.
    # x = [1, 0, 0, 0] becomes [√3, -1/√3, -1/√3, -1/√3], which has mean 0 and variance 1 already.
    layer, store = build(make(config_for(2, 2), ops))
    for parameter in store:
        parameter.value[...] = 1.0 if parameter.spec.init == "ones" else 0.0
    y, _ = layer.forward(np.array([[[1.0, 0.0, 0.0, 0.0]]]), None, None)
    np.testing.assert_allclose(y, [[[sqrt(3), *[-1 / sqrt(3)] * 3]]], rtol=1e-11)


def test_each_half_by_hand(ops):
    # One token, so attention's weight is 1 and its context is v.  With value = identity and
    # projection = 2 · identity the first half is LayerNorm(x + 2 x); with γ = 3, β = 1 the middle
    # is 3 x̂ + 1.  Feed-forward (ReLU, identities) adds max(3 x̂ + 1, 0).
    config = config_for(1, 2, rate=0.0, intermediate_size=2, hidden_act="relu")
    layer, store = build(make(config, ops))
    values = {
        "attention.self.value.weight": np.eye(2),
        "attention.self.value.bias": 0.0,
        "attention.output.dense.weight": 2 * np.eye(2),
        "attention.output.dense.bias": 0.0,
        "attention.output.LayerNorm.weight": 3.0,
        "attention.output.LayerNorm.bias": 1.0,
        "intermediate.dense.weight": np.eye(2),
        "intermediate.dense.bias": 0.0,
        "output.dense.weight": np.eye(2),
        "output.dense.bias": 0.0,
        "output.LayerNorm.weight": [10.0, 100.0],
        "output.LayerNorm.bias": [0.5, 0.25],
    }
    for name, value in values.items():
        store["part." + name].value[...] = value
    y, cache = layer.forward(np.array([[[4.0, -4.0]]]), None, None)
    # x̂ = [1, -1], middle = [4, -2], plus [4, 0] is [8, -2], whose x̂ is [1, -1]
    np.testing.assert_allclose(y, [[[10.5, -99.75]]], rtol=1e-11)
    # Of two numbers LayerNorm keeps the sign only, so nothing comes back to x …
    dx = layer.backward(np.array([[[1.0, 1.0]]]), cache)
    np.testing.assert_allclose(dx, 0, atol=1e-10)
    # … but γ and β of the second half get x̂ dy and dy
    np.testing.assert_allclose(store["part.output.LayerNorm.weight"].grad, [1.0, -1.0], rtol=1e-11)
    np.testing.assert_array_equal(store["part.output.LayerNorm.bias"].grad, [1.0, 1.0])


@settings(max_examples=3)
@given(
    seed=SEEDS,
    B=st.integers(1, 3),
    T=st.sampled_from([2, 3, 5]),
    heads=st.sampled_from([(1, 3), (2, 2), (3, 1), (1, 5), (2, 3)]),
    F=st.sampled_from([1, 3, 8]),
    act=st.sampled_from(["gelu", "gelu_new"]),
    padded=st.booleans(),
    rate=st.sampled_from([0.0, 0.1]),
)
def test_gradients(ops, seed, B, T, heads, F, act, padded, rate):
    config = config_for(*heads, rate=rate, intermediate_size=F, hidden_act=act, layer_norm_eps=0.3)
    layer, store = build(make(config, ops), seed)
    mask = None
    if padded:
        mask = np.arange(T) < np.random.default_rng(seed).integers(2, T + 1, (B, 1, 1))
    inputs = {
        "x": spread_rows(normal(seed, B, T, config.hidden_size)),
        "mask": mask,
        "key": Key(seed),
    }
    check_layer(
        layer,
        store,
        inputs,
        absolute=["part.attention.self.key.bias"],
        max_elements=8,
        directions=6,
    )


PLACES = np.array([[0, 3, 1], [0, 2, 0], [4, 4, 0]], np.int32)


def test_some_places_alone_equal_those_of_all(ops):
    layer, _ = build(make(config_for(2, 3), ops))
    x = normal(1, 3, 5, 6)
    mask = np.arange(5) < np.array([5, 3, 4])[:, None, None]
    whole, _ = layer.forward(x, mask, None)
    some, _ = layer.forward(x, mask, None, PLACES)
    assert some.shape == (3, 3, 6)
    for b in range(3):
        np.testing.assert_allclose(some[b], whole[b, PLACES[b]], rtol=0, atol=1e-13)


def test_gradients_of_some_places(ops):
    # a row asked for twice, rows never asked for, and a row of padding asked for
    layer, store = build(make(config_for(2, 3, rate=0.2), ops), seed=4)
    mask = np.arange(5) < np.array([5, 3, 4])[:, None, None]
    inputs = {"x": normal(2, 3, 5, 6), "mask": mask, "key": Key(3), "places": PLACES}
    check_layer(layer, store, inputs, absolute=["part.attention.self.key.bias"])


@pytest.mark.parametrize(
    ("places", "error", "message"),
    [
        (PLACES + 1, ValueError, "places holds 5, expected 0 to 4"),
        (PLACES - 1, ValueError, "places holds -1, expected 0 to 4"),
        (PLACES[:2], ValueError, r"places has shape \(2, 3\), expected \(3, any\)"),
        (PLACES * 1.0, TypeError, "places has dtype float64, expected integers"),
    ],
)
def test_wrong_places_are_named(ops, places, error, message):
    layer, _ = build(make(config_for(2, 3), ops))
    with pytest.raises(error, match=message):
        layer.forward(normal(1, 3, 5, 6), None, None, places)


def test_gradients_at_bert_eps(ops):
    layer, store = build(make(config_for(2, 4, intermediate_size=11), ops), seed=3)
    mask = np.arange(5) < np.array([5, 3, 4])[:, None, None]
    inputs = {"x": normal(1, 3, 5, 8), "mask": mask, "key": Key(3)}
    check_layer(layer, store, inputs, absolute=["part.attention.self.key.bias"])


def test_padding_changes_nothing(ops):
    layer, _ = build(make(config_for(2, 3), ops))
    short = normal(1, 2, 5, 6)
    long = np.concatenate([short, normal(2, 2, 10, 6)], axis=1)
    mask = np.broadcast_to(np.arange(15) < 5, (2, 1, 15)).copy()
    y, _ = layer.forward(short, None, None)
    padded, _ = layer.forward(long, mask, None)
    np.testing.assert_allclose(padded[:, :5], y, rtol=0, atol=1e-12)


def test_the_three_dropouts_draw_apart(ops):
    # With one key for all, a mask would repeat from one place to the next.
    layer, _ = build(make(config_for(1, 4, rate=0.5), ops))
    _, cache = layer.forward(normal(1, 2, 3, 4), None, Key(1))
    assert len({cache.attention.seed, cache.add_norm1.seed, cache.add_norm2.seed}) == 3
    _, cache = layer.forward(normal(1, 2, 3, 4), None, None)
    assert (cache.attention.rate, cache.add_norm1.rate, cache.add_norm2.rate) == (0.0, 0.0, 0.0)


def test_rates_come_from_the_configuration(ops):
    config = BertConfig(
        hidden_size=4,
        num_attention_heads=2,
        intermediate_size=5,
        hidden_dropout_prob=0.25,
        attention_probs_dropout_prob=0.5,
        layer_norm_eps=0.125,
    )
    layer, _ = build(make(config, ops))
    _, cache = layer.forward(normal(1, 2, 3, 4), None, Key(1))
    assert (cache.attention.rate, cache.add_norm1.rate, cache.add_norm2.rate) == (0.5, 0.25, 0.25)
    assert layer.add_norm1.eps == layer.add_norm2.eps == 0.125
    assert layer.attention.heads == 2


def test_promises(ops):
    mask = np.arange(5) < np.array([5, 3])[:, None, None]
    assert_keeps_promises(
        make(config_for(2, 3, rate=0.3), ops),
        {"x": normal(1, 2, 5, 6), "mask": mask, "key": Key(1)},
        {"x": normal(2, 3, 4, 6), "mask": None, "key": Key(2)},
    )


def test_same_key_same_bytes(ops):
    layer, _ = build(make(config_for(2, 3, rate=0.3), ops))
    x = normal(1, 2, 5, 6)
    assert_same(layer.forward(x, None, Key(1))[0], layer.forward(x, None, Key(1))[0])


def test_names(ops):
    store = ParamStore()
    EncoderLayer(store.scope("layer", 0), config_for(2, 3, intermediate_size=11), ops)
    assert {p.name: (p.shape, p.spec.decay) for p in store} == {
        "layer.0.attention.self.query.weight": ((6, 6), True),
        "layer.0.attention.self.query.bias": ((6,), False),
        "layer.0.attention.self.key.weight": ((6, 6), True),
        "layer.0.attention.self.key.bias": ((6,), False),
        "layer.0.attention.self.value.weight": ((6, 6), True),
        "layer.0.attention.self.value.bias": ((6,), False),
        "layer.0.attention.output.dense.weight": ((6, 6), True),
        "layer.0.attention.output.dense.bias": ((6,), False),
        "layer.0.attention.output.LayerNorm.weight": ((6,), False),
        "layer.0.attention.output.LayerNorm.bias": ((6,), False),
        "layer.0.intermediate.dense.weight": ((11, 6), True),
        "layer.0.intermediate.dense.bias": ((11,), False),
        "layer.0.output.dense.weight": ((6, 11), True),
        "layer.0.output.dense.bias": ((6,), False),
        "layer.0.output.LayerNorm.weight": ((6,), False),
        "layer.0.output.LayerNorm.bias": ((6,), False),
    }


def test_wrong_shapes_and_dtypes_are_named(ops):
    layer, _ = build(make(config_for(2, 3), ops))
    x = normal(1, 2, 5, 6)
    with pytest.raises(ValueError, match=r"x has shape \(2, 5, 5\), expected \(2, 5, 6\)"):
        layer.forward(x[..., :5], None, None)
    with pytest.raises(TypeError, match="x is float32 but the parameters are float64"):
        layer.forward(x.astype(np.float32), None, None)
    with pytest.raises(TypeError, match="mask has dtype float64, expected bool"):
        layer.forward(x, np.zeros((2, 1, 5)), None)
    _, cache = layer.forward(x, None, None)
    with pytest.raises(ValueError, match=r"dy has shape \(2, 5, 1\), expected \(2, 5, 6\)"):
        layer.backward(x[..., :1], cache)
