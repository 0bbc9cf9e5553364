"""Both ways between minibert and Hugging Face's transformers: folders, logits, ids."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minibert.checkpoint.huggingface import load_model, save_model
from minibert.config import BertConfig
from minibert.models.pretraining import BertForPreTraining
from minibert.tokenizer import Tokenizer

from .theirs import ROWS, inputs_of, no_complaint, random_model

pytestmark = pytest.mark.parity


def our_logits(
    model: BertForPreTraining, batch: Any
) -> tuple[np.ndarray, np.ndarray]:  # (B, T, V), (B, 2)
    hidden, pooled, _ = model.bert.forward(
        batch.input_ids, batch.token_type_ids, batch.attention_mask
    )
    return model.masked_head.logits(hidden), model.next_head.logits(pooled)


def their_logits(torch: Any, model: Any, batch: Any) -> tuple[np.ndarray, np.ndarray]:
    with torch.no_grad():
        output = model.eval()(**inputs_of(torch, batch))
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
