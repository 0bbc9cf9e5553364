"""Both ways between minibert and Hugging Face's transformers: folders, logits, ids."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minibert.checkpoint.huggingface import load_model, load_pretrained, save_model
from minibert.config import BertConfig
from minibert.models.pretraining import BertForPreTraining
from minibert.tokenizer import Tokenizer

pytestmark = pytest.mark.parity

ROWS = ["The dog runs, dogs [MASK]!", "été 三", "a"]


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def transformers() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("transformers")


@contextmanager
def no_complaint(transformers: Any) -> Iterator[None]:
    """Fail on anything that transformers would tell its user: a warning or a line of its log."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = transformers.logging.get_logger()
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        logger.removeHandler(handler)
    assert lines == []
    assert [str(warning.message) for warning in caught] == []


def random_model(config: BertConfig, dtype: type = np.float32) -> BertForPreTraining:
    model = BertForPreTraining(config, "numpy", dtype)
    generator = np.random.default_rng(4)
    for parameter in model.params:
        mean = 1.0 if parameter.spec.init == "ones" else 0.0
        parameter.value[...] = generator.normal(mean, 0.2, parameter.shape)
    return model


def our_logits(
    model: BertForPreTraining, batch: Any
) -> tuple[np.ndarray, np.ndarray]:  # (B, T, V), (B, 2)
    hidden, pooled, _ = model.bert.forward(
        batch.input_ids, batch.token_type_ids, batch.attention_mask
    )
    return model.masked_head.logits(hidden), model.next_head.logits(pooled)


def their_logits(torch: Any, model: Any, batch: Any) -> tuple[np.ndarray, np.ndarray]:
    with torch.no_grad():
        output = model.eval()(
            input_ids=torch.from_numpy(batch.input_ids).long(),
            token_type_ids=torch.from_numpy(batch.token_type_ids).long(),
            attention_mask=torch.from_numpy(batch.attention_mask).long(),
        )
    return output.prediction_logits.numpy(), output.seq_relationship_logits.numpy()


@pytest.mark.parametrize("hidden_act", ["gelu", "gelu_new", "gelu_pytorch_tanh", "relu"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_transformers_opens_our_folder(
    tmp_path: Path,
    config: BertConfig,
    tokenizer: Tokenizer,
    torch: Any,
    transformers: Any,
    hidden_act: str,
    dtype: str,
) -> None:
    config = replace(config, hidden_act=hidden_act)
    model = random_model(config, np.dtype(dtype).type)
    save_model(model, tokenizer, tmp_path)
    with no_complaint(transformers):
        theirs, info = transformers.BertForPreTraining.from_pretrained(
            tmp_path, output_loading_info=True, dtype=getattr(torch, dtype)
        )
    assert not any(info.values()), info
    batch = tokenizer.encode_batch(ROWS, ["dog", "the dog runs", "b"], special_tokens="allowed")
    assert not batch.attention_mask.all()
    limit = 1e-4 if dtype == "float32" else 1e-12
    wanted = their_logits(torch, theirs, batch)
    for ours, other in zip(our_logits(model, batch), wanted, strict=True):
        assert ours.dtype == other.dtype == dtype
        # Rows of padding are no one's: the two put different numbers there.
        part = batch.attention_mask if ours.ndim == 3 else slice(None)
        assert abs(ours - other)[part].max() < limit


def test_default_call_opens_without_a_word(
    tmp_path: Path,
    config: BertConfig,
    tokenizer: Tokenizer,
    transformers: Any,
    capfd: pytest.CaptureFixture[str],
) -> None:
    save_model(random_model(config), tokenizer, tmp_path)
    with no_complaint(transformers):
        transformers.BertForPreTraining.from_pretrained(tmp_path)
        transformers.AutoModelForPreTraining.from_pretrained(tmp_path)
    printed = "".join(capfd.readouterr())
    assert "newly initialized" not in printed
    assert "MISSING" not in printed


def test_tokenizer_gives_the_same_ids(
    tmp_path: Path, model: BertForPreTraining, tokenizer: Tokenizer, transformers: Any
) -> None:
    save_model(model, tokenizer, tmp_path)
    with no_complaint(transformers):
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in [*ROWS, "", "Dogs[MASK]the 三三 ÉTÉ e\u0301", "unknown a\tb\n c"]:
        assert theirs(text)["input_ids"] == tokenizer.encode(text, special_tokens="allowed").ids
    pair = theirs("the dog", "runs")
    assert pair["token_type_ids"] == tokenizer.encode("the dog", "runs").token_type_ids
    assert theirs.model_max_length == 17
    assert theirs.mask_token == "[MASK]"


@pytest.mark.parametrize("name", ["BertForPreTraining", "BertModel", "BertForMaskedLM"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_we_open_their_folder(
    tmp_path: Path, tokenizer: Tokenizer, torch: Any, transformers: Any, name: str, dtype: str
) -> None:
    sizes = {
        "vocab_size": 22, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
        "intermediate_size": 20, "max_position_embeddings": 17,
    }  # fmt: skip
    torch.manual_seed(3)
    theirs = getattr(transformers, name)(transformers.BertConfig(**sizes)).to(getattr(torch, dtype))
    theirs.save_pretrained(tmp_path, max_shard_size="6KB" if dtype == "float16" else "5GB")
    theirs = theirs.float().eval()
    tokenizer.vocab.save(tmp_path / "vocab.txt")
    if name != "BertForPreTraining":
        with pytest.raises(ValueError, match=r"missing: .*cls\.seq_relationship"):
            load_model(tmp_path, "numpy")
    model, _ = load_pretrained(
        tmp_path, "numpy", missing_heads="refuse" if "Pre" in name else "initialize"
    )
    batch = tokenizer.encode_batch(ROWS)
    with torch.no_grad():
        output = theirs(
            input_ids=torch.from_numpy(batch.input_ids).long(),
            attention_mask=torch.from_numpy(batch.attention_mask).long(),
            output_hidden_states=True,
        )
    hidden, pooled, _ = model.bert.forward(
        batch.input_ids, batch.token_type_ids, batch.attention_mask
    )
    real = batch.attention_mask
    np.testing.assert_allclose(hidden[real], output.hidden_states[-1].numpy()[real], atol=1e-5)
    if name == "BertModel":
        np.testing.assert_allclose(pooled, output.pooler_output.numpy(), atol=1e-5)
    else:
        logits = output.logits if name == "BertForMaskedLM" else output.prediction_logits
        ours = model.masked_head.logits(hidden)
        np.testing.assert_allclose(ours[real], logits.numpy()[real], atol=1e-5)


def test_same_weights_after_there_and_back(
    tmp_path: Path, config: BertConfig, tokenizer: Tokenizer, transformers: Any
) -> None:
    model = random_model(config)
    save_model(model, tokenizer, tmp_path / "ours")
    theirs = transformers.BertForPreTraining.from_pretrained(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    back = load_model(tmp_path / "theirs", "numpy")
    np.testing.assert_array_equal(back.params.value, model.params.value)
    assert back.config == model.config
