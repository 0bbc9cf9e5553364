"""Counts from the sizes agree with what the models declare."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.config import PRESETS, BertConfig
from minibert.models.bert import Bert
from minibert.models.counts import parameter_counts
from minibert.models.pretraining import BertForPreTraining
from minibert.ops import get_ops
from minibert.params import ParamStore

from .common import small_config


def declared(store: ParamStore, prefix: str = "") -> int:
    found = [p for p in store if p.name.startswith(prefix)]
    return sum(int(np.prod(p.shape)) for p in found)


def agree(config: BertConfig) -> None:
    store = ParamStore()
    Bert(store.scope("bert"), config, get_ops("numpy"))
    counts = parameter_counts(config)
    assert counts.encoder == declared(store)
    assert counts.embeddings == declared(store, "bert.embeddings.")
    assert counts.layers == declared(store, "bert.encoder.")
    assert counts.pooler == declared(store, "bert.pooler.")


@pytest.mark.parametrize("name", PRESETS)
def test_presets(name: str) -> None:
    agree(BertConfig.preset(name))


@given(
    sizes=st.tuples(*[st.integers(1, 9)] * 6),
    heads=st.integers(1, 4),
)
def test_odd_sizes(sizes: tuple[int, ...], heads: int) -> None:
    vocab, width, layers, wide, places, types = sizes
    config = BertConfig(
        vocab_size=vocab,
        hidden_size=width * heads,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=wide,
        max_position_embeddings=places,
        type_vocab_size=types,
    )
    agree(config)


def test_the_heads_of_pretraining() -> None:
    config = small_config()
    model = BertForPreTraining(config, "numpy")
    counts = parameter_counts(config)
    assert counts.heads == declared(model.params, "cls.")
    assert counts.total == model.params.value.size


def test_the_published_sizes() -> None:
    base, large = (parameter_counts(BertConfig.preset(name)) for name in ("base", "large"))
    assert (base.encoder, base.total) == (109_482_240, 110_106_428)
    assert (large.encoder, large.total) == (335_141_888, 336_226_108)
