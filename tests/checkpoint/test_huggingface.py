from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from minibert.checkpoint.huggingface import load_model, load_pretrained, save_model
from minibert.checkpoint.tensors import write_tensors
from minibert.config import BertConfig
from minibert.keys import Key
from minibert.models.pretraining import BertForPreTraining
from minibert.tokenizer import Tokenizer, Vocabulary

FILES = ["config.json", "model.safetensors", "tokenizer_config.json", "vocab.txt"]


@pytest.fixture
def folder(tmp_path: Path, model: BertForPreTraining, tokenizer: Tokenizer) -> Path:
    save_model(model, tokenizer, tmp_path / "runs" / "first")
    return tmp_path / "runs" / "first"


def change_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**raw, **changes}), encoding="utf-8")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_round_trip_is_exact(tmp_path: Path, config: BertConfig, dtype: type) -> None:
    config = replace(config, hidden_act="gelu_new", layer_norm_eps=1e-7, hidden_dropout_prob=0.0)
    model = BertForPreTraining(config, "numpy", dtype)
    model.params.value[:] = np.random.default_rng(1).standard_normal(model.params.value.size)
    save_model(model, None, tmp_path)
    loaded = load_model(tmp_path, "numpy", dtype)
    assert loaded.config == config
    assert loaded.params.dtype == dtype
    assert loaded.params.value.tobytes() == model.params.value.tobytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES[:2]


def test_tokenizer_comes_back(tmp_path: Path, model: BertForPreTraining) -> None:
    words = [*"abcdefg.!", "the", "dog", "runs", "##s", "##ing", "##e", "été", "三"]
    vocab = Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words])
    saved = Tokenizer(vocab, lowercase=False, split_cjk=False)
    save_model(model, saved, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
    _, tokenizer = load_pretrained(tmp_path, "numpy")
    text = "The dog runs été 三."
    assert tokenizer.encode(text) == saved.encode(text)
    raw = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert raw["model_max_length"] == 17


def test_tied_weights_are_stored_once_and_stay_tied(
    folder: Path, model: BertForPreTraining
) -> None:
    with safe_open(folder / "model.safetensors", "np") as file:
        assert set(file.keys()) == set(model.params.parameters)
        assert file.metadata() == {"format": "pt"}
    assert not any("decoder" in name for name in model.params.parameters)
    loaded = load_model(folder, "numpy")
    assert loaded.masked_head.table is loaded.bert.embeddings.word
    loaded.bert.embeddings.word.value[:] = 0  # a change to one use is a change to the other
    hidden = np.ones((1, 12), np.float32)
    np.testing.assert_array_equal(
        loaded.masked_head.logits(hidden)[0], loaded.masked_head.bias.value
    )


def test_saving_again_replaces(folder: Path, model: BertForPreTraining) -> None:
    model.params.value += 1
    save_model(model, None, folder)
    loaded, _ = load_pretrained(folder, "numpy")
    np.testing.assert_array_equal(loaded.params.value, model.params.value)
    assert sorted(path.name for path in folder.iterdir()) == FILES


def test_full_disk_leaves_the_old_model(
    folder: Path, model: BertForPreTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = model.params.value.copy()
    model.params.value += 1

    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        save_model(model, None, folder)
    monkeypatch.undo()
    np.testing.assert_array_equal(load_model(folder, "numpy").params.value, old)
    assert sorted(path.name for path in folder.iterdir()) == FILES


def test_vocabulary_larger_than_the_model_is_refused(
    folder: Path, config: BertConfig, tokenizer: Tokenizer
) -> None:
    small = BertForPreTraining(replace(config, vocab_size=21), "numpy")
    with pytest.raises(ValueError, match=r"22 tokens, but vocab_size of the model is 21"):
        save_model(small, tokenizer, folder / "new")
    assert not (folder / "new").exists()
    with (folder / "vocab.txt").open("a", encoding="utf-8") as file:
        file.write("one\n")
    with pytest.raises(ValueError, match=r"23 tokens, but vocab_size of the model is 22"):
        load_pretrained(folder, "numpy")


def test_padded_model_loads_and_says_so(
    tmp_path: Path, config: BertConfig, tokenizer: Tokenizer
) -> None:
    save_model(BertForPreTraining(replace(config, vocab_size=32), "numpy"), tokenizer, tmp_path)
    with pytest.warns(UserWarning, match="32 embeddings and the vocabulary has 22"):
        model, _ = load_pretrained(tmp_path, "numpy")
    assert model.config.vocab_size == 32


def test_sizes_that_do_not_fit_the_weights(folder: Path) -> None:
    change_config(folder, intermediate_size=24)
    with pytest.raises(ValueError, match=r"intermediate.dense.weight \(20, 12\) instead of \(24"):
        load_model(folder, "numpy")
    change_config(folder, intermediate_size=20, num_hidden_layers=1)
    with pytest.raises(ValueError, match=r"unexpected: bert\.encoder\.layer\.1"):
        load_model(folder, "numpy")


@pytest.mark.parametrize("name", FILES)
def test_missing_file_is_named(folder: Path, name: str) -> None:
    if name == "tokenizer_config.json":
        return  # old folders have none
    (folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"has no {name}"):
        load_pretrained(folder, "numpy")


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no folder at"):
        load_pretrained(tmp_path / "nowhere")


def test_missing_heads_use_the_configs_range(folder: Path, model: BertForPreTraining) -> None:
    encoder = {p.name: p.value for p in model.params if not p.name.startswith("cls.seq")}
    write_tensors(folder / "model.safetensors", encoder)
    change_config(folder, initializer_range=0.7)
    with pytest.raises(ValueError, match=r"missing: cls\.seq_relationship"):
        load_pretrained(folder, "numpy", missing_heads="refuse")
    loaded, _ = load_pretrained(folder, "numpy", missing_heads="initialize", key=Key(2))
    assert 0.3 < loaded.next_head.dense.weight.value.std() < 0.9
    assert not loaded.next_head.dense.bias.value.any()


@pytest.mark.slow
def test_base_opens_in_about_a_second(tmp_path: Path) -> None:
    model = BertForPreTraining(BertConfig.preset("base"), "numpy")
    save_model(model, None, tmp_path)
    start = time.perf_counter()
    load_model(tmp_path, "numpy")
    assert time.perf_counter() - start < 2  # 0.15 s where nothing else runs
