"""A model so small that every tensor can be looked at, with no value at its default."""

from __future__ import annotations

import numpy as np
import pytest

from minibert.config import BertConfig
from minibert.keys import Key
from minibert.models.pretraining import BertForPreTraining
from minibert.tokenizer import SPECIAL_TOKENS, Tokenizer, Vocabulary

WORDS = [*"abcdefg.!", "the", "dog", "runs", "##s", "##ing", "##e", "été", "三"]


@pytest.fixture
def config() -> BertConfig:
    return BertConfig(
        vocab_size=len(SPECIAL_TOKENS) + len(WORDS),
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=17,
    )


@pytest.fixture
def model(config: BertConfig) -> BertForPreTraining:
    return make_model(config, np.float32)


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS]))


def make_model(config: BertConfig, dtype: type) -> BertForPreTraining:
    model = BertForPreTraining(config, "numpy", dtype)
    generator = Key(5).generator()
    model.params.value[:] = generator.standard_normal(model.params.value.size) * 0.3
    return model
