"""Models and folders that differ in their heads: what is left out, drawn anew, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from minibert.checkpoint.huggingface import load_model, load_pretrained, save_model
from minibert.checkpoint.weights import load_weights
from minibert.config import BertConfig
from minibert.keys import Key
from minibert.layers.linear import Linear
from minibert.models.bert import Bert
from minibert.models.pretraining import BertForPreTraining
from minibert.ops import get_ops
from minibert.params import ParamStore
from minibert.tokenizer import Tokenizer

from .conftest import Arrays, refusal, save

WORD, DECODER = "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"
PREFIXES = {"pooler": "bert.pooler.", "masked": "cls.predictions.", "next": "cls.seq_relationship."}
ENCODER = ("bert.embeddings.", "bert.encoder.")


class Tuned:
    """The parameters of a fine-tuned model."""

    def __init__(
        self, config: BertConfig, head: str = "classifier", width: int = 3, pooler: bool = True
    ) -> None:
        self.params = ParamStore()
        ops = get_ops("numpy")
        Bert(self.params.scope("bert"), config, ops, with_pooler=pooler)
        Linear(self.params.scope(head), config.hidden_size, width, ops, hidden=False)
        self.params.allocate()
        self.params.value[:] = np.random.default_rng(7).standard_normal(self.params.value.size)

    def arrays(self) -> Arrays:
        return {parameter.name: parameter.value for parameter in self.params}


def only(arrays: Arrays, *prefixes: str) -> Arrays:
    return {name: array for name, array in arrays.items() if name.startswith(prefixes)}


def write_folder(folder: Path, config: BertConfig, tokenizer: Tokenizer, arrays: Arrays) -> Path:
    """A whole folder with these weights in it."""
    save_model(BertForPreTraining(config, "numpy"), tokenizer, folder)
    return save(folder, arrays)


# --- load_model


@pytest.mark.parametrize(
    "heads", [(), ("pooler",), ("masked",), ("pooler", "masked"), ("pooler", "next")]
)
def test_a_model_has_the_heads_of_its_folder(
    tmp_path: Path, config: BertConfig, arrays: Arrays, tokenizer: Tokenizer, heads: tuple[str, ...]
) -> None:
    kept = only(arrays, *ENCODER, *(PREFIXES[head] for head in heads))
    folder = write_folder(tmp_path / "a", config, tokenizer, kept)
    model, _ = load_pretrained(folder, "numpy")
    assert model.heads == set(heads)
    assert (model.bert.pooler is not None) == ("pooler" in heads)
    assert (model.masked_head is not None) == ("masked" in heads)
    assert (model.next_head is not None) == ("next" in heads)
    assert set(model.params.parameters) == set(kept)
    for name, array in kept.items():
        np.testing.assert_array_equal(model.params[name].value, array)

    save_model(model, tokenizer, tmp_path / "b")
    again, _ = load_pretrained(tmp_path / "b", "numpy")
    assert again.heads == model.heads
    assert again.params.value.tobytes() == model.params.value.tobytes()


def test_missing_heads_are_refused_or_drawn_on_request(
    tmp_path: Path, config: BertConfig, arrays: Arrays, tokenizer: Tokenizer
) -> None:
    folder = write_folder(tmp_path, config, tokenizer, only(arrays, *ENCODER))
    with pytest.raises(ValueError, match=r"missing: bert\.pooler.*missing_heads=\"initialize\""):
        load_model(folder, "numpy", missing_heads="refuse")
    model = load_model(folder, "numpy", missing_heads="initialize", key=Key(4))
    assert model.heads == {"pooler", "masked", "next"}
    fresh = BertForPreTraining(config, "numpy")
    fresh.initialize(Key(4))
    for name in set(arrays) - set(only(arrays, *ENCODER)):
        np.testing.assert_array_equal(model.params[name].value, fresh.params[name].value)
    with pytest.raises(ValueError, match="missing_heads is 'leave': use 'omit', 'refuse' or"):
        load_model(folder, "numpy", missing_heads="leave")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "lost",
    ["bert.pooler.dense.bias", "cls.predictions.transform.dense.weight", "cls.predictions.bias"],
)
@pytest.mark.parametrize("missing_heads", ["omit", "initialize"])
def test_half_a_head_is_refused(
    tmp_path: Path,
    config: BertConfig,
    arrays: Arrays,
    tokenizer: Tokenizer,
    lost: str,
    missing_heads: str,
) -> None:
    shape = arrays.pop(lost).shape
    folder = write_folder(tmp_path, config, tokenizer, arrays)
    with pytest.raises(ValueError) as info:  # noqa: PT011, the words are checked below
        load_model(folder, "numpy", missing_heads=missing_heads)  # type: ignore[arg-type]
    assert f"missing: {lost} {shape}: take config.json" in str(info.value)


def test_a_decoder_without_its_transform_is_half_a_head(
    tmp_path: Path, config: BertConfig, arrays: Arrays, tokenizer: Tokenizer
) -> None:
    stored = {**only(arrays, *ENCODER), DECODER: arrays[WORD]}
    folder = write_folder(tmp_path, config, tokenizer, stored)
    with pytest.raises(ValueError, match=r"missing: cls\.predictions\.transform"):
        load_model(folder, "numpy")


def test_a_next_sentence_head_needs_a_pooler(
    tmp_path: Path, config: BertConfig, arrays: Arrays, tokenizer: Tokenizer
) -> None:
    kept = only(arrays, *ENCODER, "cls.")
    folder = write_folder(tmp_path, config, tokenizer, kept)
    with pytest.raises(ValueError, match=r"has cls.seq_relationship, but not bert\.pooler"):
        load_model(folder, "numpy")
    assert load_model(folder, "numpy", missing_heads="initialize").bert.pooler is not None


@pytest.mark.parametrize(("head", "pooler"), [("classifier", True), ("qa_outputs", False)])
def test_a_fine_tuned_head_is_left_out_with_one_warning(
    tmp_path: Path, config: BertConfig, tokenizer: Tokenizer, head: str, pooler: bool
) -> None:
    tuned = Tuned(config, head, pooler=pooler)
    folder = write_folder(tmp_path, config, tokenizer, tuned.arrays())
    with pytest.warns(UserWarning, match=f"the fine-tuned head \\({head}\\) is left out") as caught:
        model, _ = load_pretrained(folder, "numpy")
    assert len(caught) == 1
    assert model.heads == ({"pooler"} if pooler else set())
    np.testing.assert_array_equal(model.params[WORD].value, tuned.params[WORD].value)


def test_a_head_that_no_bert_has_is_refused(
    tmp_path: Path, config: BertConfig, arrays: Arrays, tokenizer: Tokenizer
) -> None:
    stored = {**arrays, "regressor.weight": np.ones((1, 12), np.float32)}
    folder = write_folder(tmp_path, config, tokenizer, stored)
    with pytest.raises(ValueError, match=r"unexpected: regressor\.weight \(1, 12\)"):
        load_model(folder, "numpy")


# --- load_weights


@pytest.mark.parametrize("lacking_pooler", [False, True])
@pytest.mark.parametrize(("head", "pooler"), [("classifier", True), ("qa_outputs", False)])
def test_fine_tuning_starts_from_a_pretrained_folder(
    tmp_path: Path,
    config: BertConfig,
    arrays: Arrays,
    head: str,
    pooler: bool,
    lacking_pooler: bool,
) -> None:
    if lacking_pooler:
        arrays = only(arrays, *ENCODER, "cls.predictions.")
    tuned = Tuned(config, head, pooler=pooler)
    loaded = load_weights(
        tuned.params, save(tmp_path, arrays),
        missing_heads="initialize", foreign_heads="drop", key=Key(3), std=0.5,
    )  # fmt: skip
    fresh = Tuned(config, head, pooler=pooler)
    fresh.params.initialize(Key(3), 0.5)
    for parameter in tuned.params:
        wanted = arrays.get(parameter.name, fresh.params[parameter.name].value)
        np.testing.assert_array_equal(parameter.value, wanted)
    assert tuned.params[f"{head}.weight"].value.std() > 0.2
    assert loaded.drawn == ["bert.pooler."] * (pooler and lacking_pooler) + [f"{head}."]
    heads = ["cls.predictions."] + ["cls.seq_relationship."] * (not lacking_pooler)
    assert loaded.dropped == ["bert.pooler."] * (not pooler and not lacking_pooler) + heads


def test_nothing_is_drawn_or_dropped_unless_asked(
    tmp_path: Path, config: BertConfig, arrays: Arrays
) -> None:
    tuned, folder = Tuned(config), save(tmp_path, arrays)
    message = refusal(tuned, folder)
    assert "missing: classifier.weight (3, 12), classifier.bias (3,); unexpected: cls." in message
    assert 'draw what lacks (classifier) anew by missing_heads="initialize"' in message
    assert '(cls.predictions, cls.seq_relationship) out by foreign_heads="drop"' in message
    assert "foreign_heads" not in refusal(tuned, folder, foreign_heads="drop")
    assert "missing_heads" not in refusal(tuned, folder, missing_heads="initialize")
    assert "'refuse' or 'initialize'" in refusal(tuned, folder, missing_heads="omit")
    assert "'refuse' or 'drop'" in refusal(tuned, folder, foreign_heads="keep")


def test_a_fine_tuned_model_comes_back_whole(tmp_path: Path, config: BertConfig) -> None:
    tuned, other = Tuned(config), Tuned(config)
    other.params.value[:] = 0
    loaded = load_weights(other.params, save(tmp_path, tuned.arrays()))
    assert loaded == ([], [])
    np.testing.assert_array_equal(other.params.value, tuned.params.value)


@pytest.mark.parametrize("head", ["classifier", "qa_outputs"])
def test_a_head_of_another_width_is_refused(tmp_path: Path, config: BertConfig, head: str) -> None:
    folder = save(tmp_path, Tuned(config, head, width=5).arrays())
    message = refusal(Tuned(config, head), folder, missing_heads="initialize", foreign_heads="drop")
    assert f"{head}.weight (5, 12) instead of (3, 12)" in message
    assert "save_model(*load_pretrained(FOLDER), NEW_FOLDER)" in message


def test_the_way_out_of_another_width(
    tmp_path: Path, config: BertConfig, tokenizer: Tokenizer
) -> None:
    old = Tuned(config, width=5)
    folder = write_folder(tmp_path / "old", config, tokenizer, old.arrays())
    with pytest.warns(UserWarning, match="left out"):
        save_model(*load_pretrained(folder, "numpy"), tmp_path / "new")
    tuned = Tuned(config)
    loaded = load_weights(tuned.params, tmp_path / "new", missing_heads="initialize")
    assert loaded == (["classifier."], [])
    np.testing.assert_array_equal(tuned.params[WORD].value, old.params[WORD].value)


def test_a_dropped_decoder_may_be_the_only_copy_of_the_embedding(
    tmp_path: Path, config: BertConfig, arrays: Arrays
) -> None:
    """Of two tied tensors some programs store one, either of them; an untied one is no matter."""
    options = {"missing_heads": "initialize", "foreign_heads": "drop"}
    alone = {DECODER if name == WORD else name: array for name, array in arrays.items()}
    untied = {**arrays, DECODER: arrays[WORD] + 1, "cls.predictions.decoder.bias": arrays[WORD][0]}
    for stored in (alone, untied):
        tuned = Tuned(config)
        load_weights(tuned.params, save(tmp_path, stored), **options)  # type: ignore[arg-type]
        np.testing.assert_array_equal(tuned.params[WORD].value, arrays[WORD])
