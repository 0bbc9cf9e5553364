"""A model so small that every tensor can be looked at, with no value at its default."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pytest

from minibert.arrays import Array
from minibert.checkpoint.tensors import write_tensors
from minibert.checkpoint.weights import load_weights
from minibert.config import BertConfig
from minibert.keys import Key
from minibert.models.pretraining import BertForPreTraining
from minibert.params import ParamStore
from minibert.tokenizer import SPECIAL_TOKENS, Tokenizer, Vocabulary

Arrays = dict[str, Array]
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


@pytest.fixture(scope="session")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture(scope="session")
def transformers() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("transformers")


@pytest.fixture
def arrays(model: BertForPreTraining) -> Arrays:
    return {parameter.name: parameter.value for parameter in model.params}


@pytest.fixture
def other(config: BertConfig) -> BertForPreTraining:
    """A model of the same sizes, to load into."""
    return BertForPreTraining(config, "numpy")


def make_model(config: BertConfig, dtype: type) -> BertForPreTraining:
    model = BertForPreTraining(config, "numpy", dtype)
    generator = Key(5).generator()
    model.params.value[:] = generator.standard_normal(model.params.value.size) * 0.3
    return model


class HasParams(Protocol):
    params: ParamStore


def save(folder: Path, arrays: Arrays) -> Path:
    write_tensors(folder / "model.safetensors", arrays)
    return folder


def refusal(other: HasParams, folder: Path, **options: object) -> str:
    """Return the error of loading; nothing may have changed."""
    before = other.params.value.copy()
    with pytest.raises((ValueError, FileNotFoundError)) as info:
        load_weights(other.params, folder, **options)  # type: ignore[arg-type]
    np.testing.assert_array_equal(other.params.value, before)
    assert "\n" not in str(info.value)
    return str(info.value)
