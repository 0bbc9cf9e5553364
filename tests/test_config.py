import json
import math
import re
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import pytest

from minibert.config import ACTIVATION_NAMES, PRESETS, BertConfig, FineTuneConfig, TrainConfig


def build(**changes: Any) -> BertConfig:
    return BertConfig(**changes)


def test_defaults_are_bert_base():
    config = BertConfig()
    assert config == BertConfig.preset("base")
    assert (config.vocab_size, config.max_position_embeddings, config.type_vocab_size) == (
        30522,
        512,
        2,
    )
    assert (config.hidden_dropout_prob, config.attention_probs_dropout_prob) == (0.1, 0.1)
    assert (config.layer_norm_eps, config.initializer_range) == (1e-12, 0.02)
    assert config.hidden_act == "gelu"


@pytest.mark.parametrize(
    ("name", "layers", "width", "heads"),
    [
        ("tiny", 2, 128, 2),
        ("mini", 4, 256, 4),
        ("small", 4, 512, 8),
        ("medium", 8, 512, 8),
        ("base", 12, 768, 12),
        ("large", 24, 1024, 16),
    ],
)
def test_presets(name, layers, width, heads):
    config = BertConfig.preset(name)
    assert (config.num_hidden_layers, config.hidden_size) == (layers, width)
    assert (config.num_attention_heads, config.intermediate_size) == (heads, 4 * width)
    assert width // heads == 64
    assert set(PRESETS) >= {name}


def count_parameters(c: BertConfig) -> int:
    """Of the pretraining model, by hand: tables, layers, pooler, and the heads without the tie."""
    C, F, V = c.hidden_size, c.intermediate_size, c.vocab_size
    norm = 2 * C
    tables = (V + c.max_position_embeddings + c.type_vocab_size) * C + norm
    layer = 4 * (C * C + C) + norm + (C * F + F) + (F * C + C) + norm
    pooler = C * C + C
    heads = (C * C + C + norm + V) + (2 * C + 2)
    return tables + c.num_hidden_layers * layer + pooler + heads


def test_the_published_sizes():
    # "110M" and "340M" in the paper: 109.5 and 335.1 million without the heads of pretraining
    assert count_parameters(BertConfig.preset("base")) == 110_106_428
    assert count_parameters(BertConfig.preset("large")) == 336_226_108


def test_fresh_weights_are_as_loud_in_a_narrow_model_as_in_base():
    assert BertConfig.fresh("base").initializer_range == 0.02
    config = BertConfig.fresh("tiny", vocab_size=100)
    assert config.initializer_range == pytest.approx(0.02 * 6**0.5, abs=5e-5)  # 768 / 128
    assert config == replace(
        BertConfig.preset("tiny", vocab_size=100), initializer_range=config.initializer_range
    )
    assert BertConfig.fresh("tiny", hidden_size=32).initializer_range == 0.098
    assert BertConfig.fresh("tiny", initializer_range=0.5).initializer_range == 0.5


def test_preset_with_changes():
    config = BertConfig.preset("tiny", vocab_size=100, hidden_act="relu")
    assert (config.vocab_size, config.hidden_act, config.hidden_size) == (100, "relu", 128)
    with pytest.raises(ValueError, match="preset 'huge' is unknown, expected one of tiny, mini"):
        BertConfig.preset("huge")
    with pytest.raises(TypeError, match="vocabulary"):
        BertConfig.preset("tiny", vocabulary=100)


def test_configuration_is_immutable():
    with pytest.raises(FrozenInstanceError):
        BertConfig().vocab_size = 5  # pyright: ignore[reportAttributeAccessIssue]


WHOLE = [field.name for field in fields(BertConfig) if field.type == "int"]
REAL = [field.name for field in fields(BertConfig) if field.type == "float"]


def test_every_field_is_checked():
    assert len(WHOLE) == 8
    assert len(REAL) == 4
    assert len(fields(BertConfig)) == 14  # and hidden_act, classifier_dropout


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("value", [-1, 1.5, "8", None, True, 64.0])
def test_whole_numbers(name, value):
    with pytest.raises(ValueError, match=f"{name} is .*, expected a whole number of at least"):
        build(**{name: value})


def test_zero_is_a_padding_id_and_nothing_else():
    assert BertConfig(pad_token_id=0).pad_token_id == 0
    for name in set(WHOLE) - {"pad_token_id"}:
        with pytest.raises(ValueError, match=f"{name} is 0, expected a whole number of at least 1"):
            build(**{name: 0})


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("value", ["0.1", None, [0.1]])
def test_numbers(name, value):
    with pytest.raises(ValueError, match=f"{name} is .*, expected a number"):
        build(**{name: value})


@pytest.mark.parametrize("name", ["hidden_dropout_prob", "attention_probs_dropout_prob"])
def test_dropout_rates(name):
    for rate in (0, 0.0, 0.5, 0.999):
        assert getattr(build(**{name: rate}), name) == rate
    for rate in (-0.1, 1, 1.0, 2.0, float("nan")):
        with pytest.raises(ValueError, match=rf"{name} is .*, expected 0 <= rate < 1"):
            build(**{name: rate})


@pytest.mark.parametrize("eps", [0, 0.0, -1e-12])
def test_eps_must_be_positive(eps):
    with pytest.raises(ValueError, match=r"layer_norm_eps is .*, expected a number above 0"):
        BertConfig(layer_norm_eps=eps)


def test_heads_must_divide_the_width():
    with pytest.raises(
        ValueError, match="hidden_size 10 does not divide into num_attention_heads 3: choose"
    ):
        BertConfig(hidden_size=10, num_attention_heads=3)
    assert BertConfig(hidden_size=9, num_attention_heads=3).hidden_size == 9


@pytest.mark.parametrize("act", ["swish", "", None, 3, "GELU"])
def test_unknown_activation(act):
    with pytest.raises(ValueError, match=r"hidden_act is .*, expected one of gelu, gelu_new"):
        BertConfig(hidden_act=act)


def test_known_activations():
    for act in ACTIVATION_NAMES:
        assert BertConfig(hidden_act=act).hidden_act == act


def test_written_and_read_again(tmp_path):
    config = BertConfig.preset("mini", vocab_size=321, hidden_act="gelu_new", layer_norm_eps=1e-5)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config.to_json()), encoding="utf-8")
    assert BertConfig.load(path) == config


def test_names_other_programs_look_for():
    raw = BertConfig.preset("tiny").to_json()
    assert raw["model_type"] == "bert"
    assert raw["architectures"] == ["BertForPreTraining"]
    assert raw["tie_word_embeddings"] is True
    assert raw["hidden_size"] == 128
    assert raw["pad_token_id"] == 0
    json.dumps(raw)


def test_foreign_fields_are_passed_over(tmp_path):
    path = tmp_path / "config.json"
    raw = {
        "hidden_size": 12,
        "transformers_version": "4.0",
        "use_cache": True,
        "classifier_dropout": None,
    }
    path.write_text(json.dumps(raw), encoding="utf-8")
    assert BertConfig.load(path) == BertConfig(hidden_size=12)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not valid JSON"),
        ("", "is not valid JSON"),
        ("[1]", "holds list, expected a JSON object"),
        ('"bert"', "holds str, expected a JSON object"),
        ('{"model_type": "gpt2"}', "is for a model of type 'gpt2', expected 'bert'"),
        ('{"is_decoder": true}', "is for a decoder, which looks at earlier tokens alone"),
        ('{"position_embedding_type": "relative_key"}', "asks for relative_key positions"),
        ('{"hidden_size": 10}', "does not divide into num_attention_heads 12"),
        ('{"vocab_size": "many"}', "vocab_size is 'many', expected a whole number"),
        ('{"hidden_act": "silu"}', "hidden_act is 'silu'"),
    ],
)
def test_wrong_file_is_named(tmp_path, text, message):
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        BertConfig.load(path)
    assert str(path) in str(caught.value)


def test_file_that_is_not_text(tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(b"\xff\xfe{}")
    with pytest.raises(ValueError, match="is not valid JSON"):
        BertConfig.load(path)


def test_a_heads_dropout_is_the_hidden_one_unless_given():
    assert BertConfig(hidden_dropout_prob=0.3).head_dropout_prob == 0.3
    assert BertConfig(hidden_dropout_prob=0.3, classifier_dropout=0.0).head_dropout_prob == 0.0
    with pytest.raises(ValueError, match=r"classifier_dropout is 1\.5, expected 0 <= rate < 1"):
        BertConfig(classifier_dropout=1.5)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (TrainConfig, {"batch_size": 2.0}, "batch_size is 2.0, expected a whole number"),
        (TrainConfig, {"batch_size": "4"}, "batch_size is '4', expected a whole number"),
        (TrainConfig, {"batch_size": True}, "batch_size is True, expected a whole number"),
        (TrainConfig, {"learning_rate": "1e-3"}, "learning_rate is '1e-3', expected a number"),
        (TrainConfig, {"warmup": None}, "warmup is None, expected a number"),
        (TrainConfig, {"beta2": 1}, "beta2 is 1, expected 0 < share < 1"),
        (TrainConfig, {"weight_decay": math.inf}, "weight_decay is inf, expected 0 or more"),
        (TrainConfig, {"seed": 1.5}, "seed is 1.5, expected a whole number"),
        (TrainConfig, {"whole_word": "no"}, "whole_word is 'no', expected True or False"),
        (TrainConfig, {"model": None}, "model is None, expected a text"),
        (FineTuneConfig, {"freeze_embeddings": 1}, "freeze_embeddings is 1, expected True or Fal"),
        (FineTuneConfig, {"epochs": None}, "epochs is None, expected a whole number"),
        (FineTuneConfig, {"epochs": 0}, "epochs is 0, expected at least 1"),
        (FineTuneConfig, {"freeze_layers": -1}, "freeze_layers is -1, expected 0 or more"),
        (FineTuneConfig, {"learning_rate": math.nan}, "learning_rate is nan, expected a number ab"),
        (FineTuneConfig, {"dropout": 1}, "dropout is 1, expected 0 <= rate < 1"),
        (FineTuneConfig, {"layer_decay": 0.0}, "layer_decay is 0.0, expected 0 < factor <= 1"),
        (FineTuneConfig, {"reorder": 1.5}, "reorder is 1.5, expected a share from 0 to 1"),
    ],
)
def test_values_that_are_refused(kind: Any, changes: dict[str, Any], message: str) -> None:
    length = {"steps": 1} if kind is TrainConfig else {}
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        kind(**length, **changes)


def test_a_folder_to_begin_with_may_be_a_path() -> None:
    assert TrainConfig(steps=1, model=Path("runs", "first")).model == str(Path("runs", "first"))  # pyright: ignore[reportArgumentType]
