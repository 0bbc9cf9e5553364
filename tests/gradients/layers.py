"""Checks of the layer classes: what they keep, how they add and hand on gradients."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from minibert.config import BertConfig
from minibert.keys import Key
from minibert.layers.add_norm import AddNorm
from minibert.layers.attention import MultiHeadAttention
from minibert.layers.encoder_layer import EncoderLayer
from minibert.layers.feedforward import FeedForward
from minibert.layers.layernorm import LayerNorm
from minibert.layers.linear import Linear
from minibert.models.bert import Pooler
from minibert.ops import Ops
from minibert.params import Scope
from tests.gradients.problems import (
    HARD,
    Problem,
    Setting,
    build,
    by_hand,
    each_tensor,
    gradient,
    layer,
    normal,
    same,
)  # fmt: skip
from tests.gradients.sequences import mask_for

PLACES = np.array([[0, 3, 1], [0, 2, 0], [4, 4, 0]], np.int32)
EASY_PLACES = np.array([[0, 3, 1], [0, 2, 1], [1, 4, 0]], np.int32)


@gradient("Linear", "Linear.backward", "Linear.forward", "Parameter.accumulate")
def linear(ops: Ops, setting: Setting) -> Problem:
    make = partial(Linear, in_features=5, out_features=4, ops=ops)
    return layer(make, {"x": normal(1, 2, 3, 5)}, setting)


@by_hand("gradients of two calls add up", "Parameter.accumulate", "Linear.backward")
def adds_up(ops: Ops) -> None:
    part, store = build(partial(Linear, in_features=5, out_features=4, ops=ops))
    gradients = []
    for seed in (1, 2):
        store.zero_grad()
        part.backward(normal(seed, 3, 4), part.forward(normal(seed, 3, 5))[1])
        gradients.append(store.grad.copy())
    part.backward(normal(1, 3, 4), part.forward(normal(1, 3, 5))[1])
    same("the sum of two calls' gradients", store.grad, gradients[0] + gradients[1])


@by_hand("a frozen parameter takes no gradient", "Parameter.accumulate")
def frozen(ops: Ops) -> None:
    part, store = build(partial(Linear, in_features=5, out_features=4, ops=ops))
    store.freeze(["part.weight"])
    part.backward(normal(1, 3, 4), part.forward(normal(2, 3, 5))[1])
    same("the gradient of a frozen weight", part.weight.grad, np.zeros((4, 5)))
    same("the gradient of the bias beside it", part.bias.grad, normal(1, 3, 4).sum(axis=0))


@gradient("LayerNorm", "LayerNorm.backward", "LayerNorm.forward")
def layernorm(ops: Ops, setting: Setting) -> Problem:
    make = partial(LayerNorm, width=5, eps=0.1, ops=ops)
    return layer(make, {"x": normal(1, 2, 3, 5)}, setting)


@gradient("AddNorm", "AddNorm.backward", "AddNorm.forward", compare=each_tensor)
def add_norm(ops: Ops, setting: Setting) -> Problem:
    inputs = {"x": normal(1, 2, 3, 5), "residual": normal(2, 2, 3, 5), "key": Key(1)}
    return layer(partial(AddNorm, width=5, eps=1e-12, rate=0.3, ops=ops), inputs, setting)


@gradient(
    "MultiHeadAttention",
    "MultiHeadAttention.backward",
    "MultiHeadAttention.forward",
    compare=each_tensor,
)
def multi_head_attention(ops: Ops, setting: Setting) -> Problem:
    make = partial(MultiHeadAttention, width=6, heads=2, rate=0.3, ops=ops)
    inputs = {
        "x": normal(1, 3, 4, 6), "mask": mask_for(setting), "key": Key(1),
        "memory": normal(2, 3, 5, 6),
    }  # fmt: skip
    return layer(make, inputs, setting, absolute=("part.key.bias",))


def feedforward_problem(ops: Ops, setting: Setting, hidden_act: str) -> Problem:
    def make(scope: Scope) -> FeedForward:
        return FeedForward(scope.child("a"), scope.child("b"), 3, 5, hidden_act, ops)

    return layer(make, {"x": normal(1, 2, 4, 3)}, setting)


@gradient("FeedForward, gelu", "FeedForward.backward", "FeedForward.forward", compare=each_tensor)
def feedforward(ops: Ops, setting: Setting) -> Problem:
    return feedforward_problem(ops, setting, "gelu")


@gradient("FeedForward, gelu_new", "FeedForward.backward", compare=each_tensor)
def feedforward_tanh(ops: Ops, setting: Setting) -> Problem:
    return feedforward_problem(ops, setting, "gelu_new")


@gradient("FeedForward, relu", "FeedForward.backward", compare=each_tensor)
def feedforward_relu(ops: Ops, setting: Setting) -> Problem:
    return feedforward_problem(ops, setting, "relu")


@gradient("Pooler", "Pooler.backward", "Pooler.forward")
def pooler(ops: Ops, setting: Setting) -> Problem:
    return layer(partial(Pooler, width=4, ops=ops), {"hidden": normal(1, 2, 3, 4)}, setting)


def encoder_problem(ops: Ops, setting: Setting, **inputs: Any) -> Problem:
    config = BertConfig(
        hidden_size=6, num_attention_heads=2, intermediate_size=7,
        hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.3, layer_norm_eps=0.1,
    )  # fmt: skip
    inputs = {"x": normal(1, 3, 5, 6), "mask": mask_for(setting), "key": Key(1), **inputs}
    make = partial(EncoderLayer, config=config, ops=ops)
    return layer(make, inputs, setting, absolute=("part.attention.self.key.bias",))


@gradient("EncoderLayer", "EncoderLayer.backward", "EncoderLayer.forward", compare=each_tensor)
def encoder_layer(ops: Ops, setting: Setting) -> Problem:
    return encoder_problem(ops, setting)


@gradient(
    "EncoderLayer, some places",
    "EncoderLayer.backward", "EncoderLayer.forward", "take_rows_backward",
    compare=each_tensor,
)  # fmt: skip
def encoder_places(ops: Ops, setting: Setting) -> Problem:
    """A row asked for twice, rows never asked for, and a row of padding asked for."""
    places = (
        [[0, 3, 1], [0, 2, 1], [1, 4, 0]] if setting.easy else [[0, 3, 1], [0, 2, 0], [4, 4, 0]]
    )
    return encoder_problem(ops, setting, places=np.array(places, np.int32))


@by_hand("EncoderLayer, some places equal those of all", "EncoderLayer.forward", "take_rows")
def encoder_places_value(ops: Ops) -> None:
    config = BertConfig(hidden_size=6, num_attention_heads=2, intermediate_size=7)
    part, _ = build(partial(EncoderLayer, config=config, ops=ops))
    x, mask = normal(1, 3, 5, 6), mask_for(HARD)
    whole, _ = part.forward(x, mask, None)
    some, _ = part.forward(x, mask, None, PLACES)
    same("the output of some places", some, whole[np.arange(3)[:, None], PLACES], 1e-11)
