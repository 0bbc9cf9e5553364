"""transformers and minibert open each other's models of every class, and agree on the outputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minibert.checkpoint.huggingface import load_model, load_pretrained, save_model
from minibert.config import BertConfig
from minibert.models.pretraining import BertForPreTraining, Head
from minibert.tokenizer import Tokenizer

from .theirs import PAIRS, ROWS, inputs_of, no_complaint, random_model

pytestmark = pytest.mark.parity

CLASSES: dict[str, tuple[Head, ...]] = {
    "BertModel": ("pooler",),
    "BertForMaskedLM": ("masked",),
    "BertForNextSentencePrediction": ("pooler", "next"),
    "BertForPreTraining": ("pooler", "masked", "next"),
}
OTHER_HEADS: dict[str, tuple[Head, ...]] = {
    "BertForSequenceClassification": ("pooler",),
    "BertForTokenClassification": (),
    "BertForQuestionAnswering": (),
}


def check_outputs(model: BertForPreTraining, torch: Any, theirs: Any, batch: Any) -> None:
    """Compare all that both models have an output for."""
    with torch.no_grad():
        wanted = theirs.eval()(**inputs_of(torch, batch), output_hidden_states=True)
    hidden, pooled, _ = model.bert.forward(
        batch.input_ids, batch.token_type_ids, batch.attention_mask
    )
    ours = [(hidden, wanted.hidden_states[-1])]
    if model.bert.pooler is not None and hasattr(wanted, "pooler_output"):
        ours.append((pooled, wanted.pooler_output))
    if model.masked_head is not None:
        logits = wanted.prediction_logits if "prediction_logits" in wanted else wanted.logits
        ours.append((model.masked_head.logits(hidden), logits))
    if model.next_head is not None:
        name = "seq_relationship_logits"
        ours.append((model.next_head.logits(pooled), wanted[name if name in wanted else "logits"]))
    for got, expected in ours:
        part = batch.attention_mask if got.ndim == 3 else slice(None)  # padding is no one's
        assert abs(got - expected.numpy())[part].max() < 1e-4


@pytest.mark.parametrize("name", CLASSES)
def test_they_open_ours(
    tmp_path: Path,
    config: BertConfig,
    tokenizer: Tokenizer,
    torch: Any,
    transformers: Any,
    capfd: pytest.CaptureFixture[str],
    name: str,
) -> None:
    """Nothing missing, nothing unexpected, not a word on the screen; and back, bit for bit."""
    config = replace(
        config, hidden_act="gelu_new", layer_norm_eps=1e-7, hidden_dropout_prob=0.3,
        attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = random_model(config, heads=CLASSES[name])
    save_model(model, tokenizer, tmp_path / "ours")
    with no_complaint(transformers):
        theirs, info = getattr(transformers, name).from_pretrained(
            tmp_path / "ours", output_loading_info=True
        )
    assert not any(info.values()), info
    assert theirs.config.architectures == [name]
    printed = "".join(capfd.readouterr())
    assert not any(word in printed for word in ("MISSING", "UNEXPECTED", "newly"))
    check_outputs(model, torch, theirs, tokenizer.encode_batch(ROWS, PAIRS))

    theirs.save_pretrained(tmp_path / "theirs")
    for folder in ("ours", "theirs"):
        back = load_model(tmp_path / folder, "numpy")
        assert back.config == config
        assert back.to_json() == model.to_json()
        np.testing.assert_array_equal(back.params.value, model.params.value)


def test_the_two_choices_that_they_have_no_class_for(
    tmp_path: Path, config: BertConfig, transformers: Any
) -> None:
    save_model(random_model(config, heads=("pooler", "masked")), None, tmp_path / "pooler")
    _, info = transformers.BertForMaskedLM.from_pretrained(
        tmp_path / "pooler", output_loading_info=True
    )
    assert info["unexpected_keys"] == {"bert.pooler.dense.weight", "bert.pooler.dense.bias"}
    assert not info["missing_keys"]
    save_model(random_model(config, heads=()), None, tmp_path / "encoder")
    with no_complaint(transformers):
        transformers.BertModel.from_pretrained(tmp_path / "encoder", add_pooling_layer=False)


@pytest.mark.parametrize("name", [*CLASSES, *OTHER_HEADS])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_we_open_theirs(
    tmp_path: Path, tokenizer: Tokenizer, torch: Any, transformers: Any, name: str, dtype: str
) -> None:
    sizes = {
        "vocab_size": 22, "hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3,
        "intermediate_size": 20, "max_position_embeddings": 17,
    }  # fmt: skip
    torch.manual_seed(3)
    theirs = getattr(transformers, name)(transformers.BertConfig(**sizes)).to(getattr(torch, dtype))
    theirs.save_pretrained(tmp_path, max_shard_size="6KB" if dtype == "float16" else "5GB")
    tokenizer.vocab.save(tmp_path / "vocab.txt")
    if name in OTHER_HEADS:
        with pytest.warns(
            UserWarning, match=r"fine-tuned head \((classifier|qa_outputs)\) is left"
        ):
            model, _ = load_pretrained(tmp_path, "numpy")
    else:
        model, _ = load_pretrained(tmp_path, "numpy")
    assert model.heads == frozenset({**CLASSES, **OTHER_HEADS}[name])
    check_outputs(model, torch, theirs.float(), tokenizer.encode_batch(ROWS, PAIRS))
