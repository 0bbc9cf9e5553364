"""Mistakes of assembly: gradients that get lost, doubled or misdirected between right parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minibert.arrays import Array
from minibert.layers.activations import gelu_backward
from minibert.layers.encoder_layer import take_rows_backward
from minibert.layers.linear import linear_backward
from tests.gallery.mistake import Mistake

ENCODER = "minibert.layers.encoder_layer:EncoderLayer.backward"


def encoder_with(**factors: float) -> Callable[..., Array]:
    """An encoder layer's backward, each path through it multiplied by a factor, 1 if not given."""

    def backward(self: Any, dy: Array, cache: Any) -> Array:
        def path(name: str, gradient: Array) -> Array:
            return gradient * gradient.dtype.type(factors.get(name, 1))

        dwide, dmiddle = self.add_norm2.backward(dy, cache.add_norm2)
        dwide = self.feedforward.backward(dwide, cache.feedforward)
        dmiddle = path("residual2", dmiddle) + path("feedforward", dwide)
        dprojected, dasked = self.add_norm1.backward(dmiddle, cache.add_norm1)
        dcontext = self.projection.backward(dprojected, cache.projection)
        dquery, dmemory = self.attention.backward(dcontext, cache.attention)
        dasked = path("residual1", dasked) + path("query", dquery)
        if cache.places is not None:
            dasked = take_rows_backward(dasked, cache.places, dmemory.shape[1])
        return dasked + path("memory", dmemory)

    return backward


def encoder(name: str, why: str, **factors: float) -> Mistake:
    return Mistake(name, why, "encoder_layer", "EncoderLayer", {ENCODER: encoder_with(**factors)})


def take_rows_by_assignment(dy: Array, places: Array, T: int) -> Array:
    B, _, C = dy.shape
    dx = np.zeros_like(dy, shape=(B, T, C))
    dx[np.arange(B)[:, None], places] += dy
    return dx


def feedforward_with(slope: Callable[..., Array]) -> Callable[..., Any]:
    """Return a feed-forward's backward with ``slope(dbent, wide, bent)`` for its activation's."""

    def backward(
        dy: Array, x: Array, wide: Array, bent: Array, weight1: Array, weight2: Array, _: str
    ) -> tuple[Array, ...]:
        dbent, dweight2, dbias2 = linear_backward(dy, bent, weight2)
        return *linear_backward(slope(dbent, wide, bent), x, weight1), dweight2, dbias2

    return backward


def slope_from_output(dbent: Array, wide: Array, bent: Array) -> Array:
    return gelu_backward(dbent, bent)


def no_slope(dbent: Array, wide: Array, bent: Array) -> Array:
    return dbent


def pooler_to_every_row(self: Any, dpooled: Array, cache: Any) -> Array:
    dfirst = self.ops.tanh_backward(dpooled, cache.pooled)
    dhidden = self.dense.backward(dfirst, cache.dense)[:, None]
    return np.repeat(dhidden, cache.length, axis=1)


def bert_with_pooler_alone(self: Any, dhidden: Array, dpooled: Array, cache: Any) -> None:
    dx = self.pooler.backward(dpooled, cache.pooler)
    for layer, layer_cache in zip(reversed(self.layers), reversed(cache.layers), strict=True):
        dx = layer.backward(dx, layer_cache)
    self.embeddings.backward(dx, cache.embeddings)


def bert_without_the_last_steps(self: Any, dhidden: Array, dpooled: Array, cache: Any) -> None:
    dx = dhidden + self.pooler.backward(dpooled, cache.pooler)
    for layer, layer_cache in zip(reversed(self.layers), reversed(cache.layers), strict=True):
        dx = layer.backward(dx, layer_cache)


def masked_rows_by_assignment(self: Any, cache: Any) -> None:
    B, R, C = cache.hidden_shape
    dmasked = self.masked_head.backward(cache.weights.masked, cache.masked)
    dhidden = np.zeros_like(dmasked, shape=(B * R, C))
    dhidden[cache.positions] += dmasked
    dpooled = self.next_head.backward(cache.weights.next, cache.next)
    self.bert.backward(dhidden.reshape(B, R, C), dpooled, cache.bert)


def next_sentence_without_weight(self: Any, cache: Any) -> None:
    B, R, C = cache.hidden_shape
    dmasked = self.masked_head.backward(cache.weights.masked, cache.masked)
    dhidden = np.zeros_like(dmasked, shape=(B * R, C))
    np.add.at(dhidden, cache.positions, dmasked)
    dpooled = self.next_head.backward(1.0, cache.next)
    self.bert.backward(dhidden.reshape(B, R, C), dpooled, cache.bert)


def decoder_without_table(self: Any, dloss: float, cache: Any) -> Array:
    dx, _, dbias = self.ops.vocab_cross_entropy_backward(
        dloss, cache.dlogits, cache.x, self.table.value
    )
    self.bias.accumulate(dbias)
    dact = self.layernorm.backward(dx, cache.transform.layernorm)
    dwide = self.act_backward(dact, cache.transform.wide)
    return self.dense.backward(dwide, cache.transform.dense)


def embeddings_without_word(self: Any, dx: Array, cache: Any) -> None:
    dnormalised = self.ops.dropout_backward(dx, cache.rate, cache.seed)
    dsummed = self.layernorm.backward(dnormalised, cache.layernorm)
    _, dposition, dtoken_type = self.ops.embedding_backward(
        dsummed, cache.input_ids, cache.token_type_ids, self.rows
    )
    self.position.accumulate(dposition)
    self.token_type.accumulate(dtoken_type)


def overwrite(self: Any, dvalue: Array) -> None:
    self.grad[...] = dvalue


def whole(name: str, why: str, topic: str, place: str, wrong: Callable[..., Any]) -> Mistake:
    return Mistake(name, why, topic, "whole model", {f"minibert.{place}": wrong})


MISTAKES = [
    encoder(
        "residual around attention forgotten",
        "x reaches the first sum directly as well; without it deep layers hardly learn.",
        residual1=0,
    ),
    encoder(
        "residual around the feed-forward forgotten",
        "The middle of the layer is used twice, and only one use sends a gradient.",
        residual2=0,
    ),
    encoder(
        "no gradient from the queries to x",
        "x asks, answers and is added: three uses, of which one is lost.",
        query=0,
    ),
    encoder(
        "no gradient from keys and values to x",
        "The gradient of the tokens that were looked at is lost.",
        memory=0,
    ),
    encoder(
        "no gradient through the feed-forward to x",
        "Its parameters learn, but nothing below hears of it.",
        feedforward=0,
    ),
    encoder(
        "residual added twice",
        "The block adds the residual's gradient, and its caller adds it again.",
        residual1=2,
    ),
    Mistake(
        "rows taken twice, written once",
        "A place that was asked for twice has two gradients; += with indices keeps one.",
        "encoder_layer",
        "EncoderLayer, some places",
        {"minibert.layers.encoder_layer:take_rows_backward": take_rows_by_assignment},
    ),
    Mistake(
        "activation's backward from its output",
        "GELU's slope is taken at act(x), where it is needed at x.",
        "encoder_layer",
        "FeedForward, gelu",
        {"feedforward_backward": feedforward_with(slope_from_output)},
    ),
    Mistake(
        "activation skipped on the way back",
        "Two linear layers in a row: the bend between them is forgotten.",
        "encoder_layer",
        "FeedForward, gelu",
        {"feedforward_backward": feedforward_with(no_slope)},
    ),
    Mistake(
        "pooler's gradient to every token",
        "Only [CLS] was read; broadcasting hands its gradient to the whole row.",
        "heads",
        "Pooler",
        {"minibert.models.bert:Pooler.backward": pooler_to_every_row},
    ),
    whole(
        "pooler's gradient in place of the masked tokens'",
        "hidden feeds both heads, so their gradients add; here the second replaces the first.",
        "heads", "models.bert:Bert.backward", bert_with_pooler_alone,
    ),
    Mistake(
        "masked rows by fancy-index +=",
        "A position that is asked for twice sends back one gradient of two.",
        "heads",
        "whole model, every place and gelu_new",
        {"minibert.models.pretraining:BertForPreTraining.backward": masked_rows_by_assignment},
    ),
    whole(
        "next-sentence loss without its 1/N",
        "The loss is a mean over the pairs, and the backward starts from 1.",
        "heads", "models.pretraining:BertForPreTraining.backward", next_sentence_without_weight,
    ),
    whole(
        "backward stops above the embeddings",
        "The layers learn on vectors that stay random.",
        "embedding", "models.bert:Bert.backward", bert_without_the_last_steps,
    ),
    whole(
        "tied table: only the embedding's path",
        "The decoder uses the same table, and its gradient is larger than the look-up's.",
        "tied weights", "models.heads:MaskedLMHead.backward", decoder_without_table,
    ),
    whole(
        "tied table: only the decoder's path",
        "The look-up's gradient is dropped, as if the table were the decoder's own.",
        "tied weights", "models.embeddings:Embeddings.backward", embeddings_without_word,
    ),
    whole(
        "tied table: the second gradient overwrites",
        "grad = … in place of grad += …, unseen until one parameter is used twice.",
        "tied weights", "params:Parameter.accumulate", overwrite,
    ),
]  # fmt: skip
