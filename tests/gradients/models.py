"""Checks of the models' parts, and of a whole model small enough to be checked everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from minibert.arrays import IGNORED, Array
from minibert.config import BertConfig
from minibert.data.batches import PretrainingBatch
from minibert.keys import Key
from minibert.models.embeddings import Embeddings
from minibert.models.heads import MaskedLMHead, NextSentenceHead
from minibert.models.pretraining import BertForPreTraining
from minibert.ops import Ops
from minibert.params import ParamStore
from tests.gradients.operations import EASY_LABELS, LABELS
from tests.gradients.problems import (
    HARD,
    Problem,
    Setting,
    all_together,
    by_hand,
    draw,
    each_tensor,
    gradient,
    named,
    normal,
    parameters_of,
    same,
    total,
    upstream,
)  # fmt: skip
from tests.gradients.sequences import EASY_IDS, IDS, TYPES


def small_config(**changes: Any) -> BertConfig:
    sizes: dict[str, Any] = {
        "vocab_size": 13, "hidden_size": 6, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 5, "max_position_embeddings": 8, "hidden_dropout_prob": 0.2,
        "attention_probs_dropout_prob": 0.2, "layer_norm_eps": 1e-2,
    }  # fmt: skip
    return BertConfig(**{**sizes, **changes})


@gradient("Embeddings", "Embeddings.backward", "Embeddings.forward", compare=each_tensor)
def embeddings(ops: Ops, setting: Setting) -> Problem:
    store = ParamStore(setting.dtype)
    part = Embeddings(store.scope("part"), small_config(), ops)
    store.allocate()
    draw(store, setting)
    ids = EASY_IDS if setting.easy else IDS
    x, cache = part.forward(ids, TYPES, Key(2))
    dx = upstream(x, setting)
    part.backward(dx, cache)
    return Problem(lambda: total(dx, part.forward(ids, TYPES, Key(2))[0]), parameters_of(store))


def head_problem(head: Any, store: ParamStore, hidden: Array, labels: Array, s: Setting) -> Problem:
    """The problem of a head, whose loss is scaled by a number that is not 1."""
    hidden = hidden.astype(s.dtype)
    dloss = upstream(0.0, s)
    _, _, cache = head.forward(hidden, labels)
    dhidden = head.backward(dloss, cache)
    return Problem(
        lambda: total(dloss, head.forward(hidden, labels)[0]),
        named({"hidden": hidden}, dhidden) | parameters_of(store),
    )


def masked_head_problem(
    ops: Ops, setting: Setting, hidden_act: str = "gelu", most_logits: int = 1000
) -> Problem:
    config = small_config(vocab_size=5, hidden_act=hidden_act)
    store = ParamStore(setting.dtype)
    table = store.scope("table").declare("weight", (5, 6), init="normal")
    head = MaskedLMHead(store.scope("head"), table, config, ops)
    head.most_logits = most_logits
    store.allocate()
    draw(store, setting)
    labels = EASY_LABELS if setting.easy else LABELS
    return head_problem(head, store, normal(1, 7, 6), labels, setting)


@gradient("MaskedLMHead", "MaskedLMHead.backward", "MaskedLMHead.transform",
          "MaskedLMHead.forward", compare=each_tensor)  # fmt: skip
def masked_head(ops: Ops, setting: Setting) -> Problem:
    return masked_head_problem(ops, setting)


@gradient("MaskedLMHead, in parts", "MaskedLMHead.backward", "MaskedLMHead.parts",
          "MaskedLMHead.forward", compare=each_tensor)  # fmt: skip
def masked_head_in_parts(ops: Ops, setting: Setting) -> Problem:
    """Seven rows of five logits: in parts of 3, 3 and 1 rows."""
    return masked_head_problem(ops, setting, most_logits=17)


@gradient("MaskedLMHead, relu", "MaskedLMHead.backward", compare=each_tensor)
def masked_head_relu(ops: Ops, setting: Setting) -> Problem:
    return masked_head_problem(ops, setting, "relu")


@gradient("NextSentenceHead", "NextSentenceHead.backward", "NextSentenceHead.forward")
def next_head(ops: Ops, setting: Setting) -> Problem:
    store = ParamStore(setting.dtype)
    head = NextSentenceHead(store.scope("head"), 3, ops)
    store.allocate()
    draw(store, setting)
    labels = [1, 0, 0, 1] if setting.easy else [1, IGNORED, 0, 1]
    return head_problem(head, store, normal(1, 4, 3), np.array(labels, np.int32), setting)


def make_model(ops: Ops, setting: Setting, **changes: Any) -> BertForPreTraining:
    every_place = changes.pop("every_place", False)
    model = BertForPreTraining(small_config(**changes), ops, setting.dtype, every_place=every_place)
    draw(model.params, setting, std=0.5)
    return model


def make_batch(setting: Setting) -> PretrainingBatch:
    """Three rows of up to 7 tokens: padding, repeated ids, a blank asked for twice, ignored ones.

    An easy batch has 12 different tokens in two rows and all its labels count.
    """
    if setting.easy:
        ids = np.arange(1, 13, dtype=np.int32).reshape(2, 6)
        types = (np.arange(6) > 2).astype(np.int32) * np.ones((2, 1), np.int32)
        positions, labels = np.array([1, 4, 8, 9], np.int32), np.array([4, 2, 11, 7], np.int32)
        mask = np.ones((2, 6), np.bool_)
        return PretrainingBatch(ids, types, mask, positions, labels, np.array([0, 1], np.int32))
    mask = np.arange(7) < np.array([7, 4, 5])[:, None]
    ids = np.where(mask, np.random.default_rng(3).integers(5, 11, (3, 7)), 0).astype(np.int32)
    types = (mask & (np.arange(7) > 2)).astype(np.int32)
    positions = np.array([1, 4, 8, 9, 15, 16, 1], np.int32)
    labels = np.array([4, 0, 2, IGNORED, 11, 7, 6], np.int32)
    return PretrainingBatch(
        ids, types, mask, positions, labels, np.array([0, 1, IGNORED], np.int32)
    )


def model_problem(ops: Ops, setting: Setting, **changes: Any) -> Problem:
    model, batch, key = make_model(ops, setting, **changes), make_batch(setting), Key(6)
    _, cache = model.forward(batch, key)
    model.backward(cache)
    tensors = parameters_of(model.params)
    key_biases = tuple(name for name in tensors if name.endswith("self.key.bias"))
    return Problem(lambda: model.forward(batch, key)[0].loss, tensors, key_biases)


@gradient("whole model", "BertForPreTraining.backward", "BertForPreTraining.forward",
          "Bert.backward", "Bert.forward", compare=all_together)  # fmt: skip
def whole_model(ops: Ops, setting: Setting) -> Problem:
    return model_problem(ops, setting)


@gradient("whole model, every place and gelu_new", "BertForPreTraining.backward",
          "Bert.backward", compare=all_together)  # fmt: skip
def every_place(ops: Ops, setting: Setting) -> Problem:
    return model_problem(ops, setting, every_place=True, hidden_act="gelu_new")


@by_hand("the tied table has the gradient of both uses", "BertForPreTraining.backward",
         "MaskedLMHead.backward", "Embeddings.backward")  # fmt: skip
def tied_table(ops: Ops) -> None:
    """Without the decoder's part, dlogitsᵀ x, only tokens that were read have a gradient."""
    model, batch = make_model(ops, HARD), make_batch(HARD)
    _, cache = model.forward(batch)
    model.backward(cache)
    decoder = cache.weights.masked * (cache.masked.dlogits.T @ cache.masked.x)
    read = model.bert.embeddings.word.grad - decoder
    used = np.unique(batch.input_ids[batch.attention_mask])
    unused = np.setdiff1d(np.arange(13), used)
    same("the table's gradient without the decoder's part", 1 + read[unused], 1 + 0 * read[unused])
    if not np.abs(read[used]).max(axis=1).min() > 1e-6:
        same("the table's gradient at tokens that were read", 0.0, 1.0)
