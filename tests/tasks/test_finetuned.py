"""Folders of fine-tuned models: there and back, made by others, damaged, in transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minibert.checkpoint.huggingface import load_config
from minibert.models.similarity import BertForSimilarity
from minibert.tasks.finetuned import FILE, FineTuned, load_finetuned
from minibert.tasks.predict import run_rows

from ..checkpoint.theirs import no_complaint
from .common import INPUTS, learn

KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "classify": ("classify", {}),
    "pair": ("similarity", {"compare": "pair"}),
    "cosine": ("similarity", {"compare": "cosine"}),
    "tag": ("tag", {}),
    "answer": ("answer", {"stride": 3}),
}


@pytest.fixture(scope="session")
def saved(
    bert: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[FineTuned, Path]]:
    """A model of each kind and its folder, made once."""
    made: dict[str, tuple[FineTuned, Path]] = {}

    def get(kind: str) -> tuple[FineTuned, Path]:
        if kind not in made:
            folder, (task, settings) = tmp_path_factory.mktemp(kind), KINDS[kind]
            out = folder / "model"
            found = learn(task, bert, folder, out, epochs=4, settings=settings)
            made[kind] = found, out
        return made[kind]

    return get


Saved = Callable[[str], tuple[FineTuned, Path]]


def copy(folder: Path, to: Path) -> Path:
    to.mkdir()
    for file in folder.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


def edit(path: Path, **changes: Any) -> None:
    """Change entries of a JSON object; None takes one out."""
    entries = {**json.loads(path.read_text(encoding="utf-8")), **changes}
    kept = {name: value for name, value in entries.items() if value is not None}
    path.write_text(json.dumps(kept), encoding="utf-8")


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back(saved: Saved, kind: str) -> None:
    found, folder = saved(kind)
    back = load_finetuned(folder, "numpy")
    task = KINDS[kind][0]
    assert back.model.params.value.tobytes() == found.model.params.value.tobytes()
    assert back.predict(INPUTS[task]) == found.predict(INPUTS[task])
    assert back.task.settings() == found.task.settings()
    assert back.history["epochs"] == json.loads(json.dumps(found.history["epochs"]))


@pytest.mark.parametrize("kind", KINDS)
def test_saved_again_it_has_the_same_bytes(saved: Saved, tmp_path: Path, kind: str) -> None:
    _, folder = saved(kind)
    load_finetuned(folder, "numpy").save(tmp_path / "again")
    for file in folder.iterdir():
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_may_pass_nothing(saved: Saved, kind: str) -> None:
    found, _ = saved(kind)
    assert found.predict([]) == []
    assert found.predict(iter(())) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", ["a text", None, 3])
def test_inputs_are_a_sequence(saved: Saved, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"inputs must be a sequence, got one \w+: pass \[text\]"):
        saved("classify")[0].predict(wrong)


def test_the_record_says_how_it_was_made(saved: Saved, bert: Path) -> None:
    found, folder = saved("answer")
    record = json.loads((folder / FILE).read_text(encoding="utf-8"))
    assert record["task"] == "answer"
    assert record["settings"] == {"max_length": 20, "stride": 3, "impossible": False}
    assert record["model"] == str(bert)
    assert record["training_examples"] == record["dev_examples"] == 8
    assert record["training"]["epochs"] == 4
    assert [epoch["number"] for epoch in record["epochs"]] == [1, 2, 3, 4]
    assert set(record["epochs"][0]["scores"]) == {"f1", "exact_match"}


def test_evaluate(saved: Saved) -> None:
    found, folder = saved("classify")
    scores = found.evaluate(folder.parent / "reviews.tsv")
    best = max(epoch["scores"]["accuracy"] for epoch in found.history["epochs"])
    assert scores["accuracy"] == best
    with pytest.raises(FileNotFoundError):
        found.evaluate("none.tsv")


# --- folders by others


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("classify", {"max_length": 48, "pairs": None}),
        ("pair", {"max_length": 48, "compare": "pair", "lowest": 0.0, "highest": 1.0}),
        ("tag", {"max_length": 48}),
        ("answer", {"max_length": 48, "stride": None, "impossible": False}),
    ],
)
def test_without_a_record_the_model_class_tells_the_task(
    saved: Saved, tmp_path: Path, kind: str, settings: dict[str, Any]
) -> None:
    found, folder = saved(kind)
    theirs = copy(folder, tmp_path / "theirs")
    (theirs / FILE).unlink()
    task = KINDS[kind][0]
    opened = load_finetuned(theirs, "numpy")
    assert opened.task.name == task
    assert opened.task.settings() == settings
    assert opened.predict(INPUTS[task]) == found.predict(INPUTS[task])


def test_classes_without_names_are_numbered(saved: Saved, tmp_path: Path) -> None:
    theirs = copy(saved("classify")[1], tmp_path / "theirs")
    edit(theirs / "config.json", id2label=None, label2id=None, problem_type=None)
    (theirs / FILE).unlink()
    assert load_finetuned(theirs, "numpy").predict(["a film"])[0].label in ("LABEL_0", "LABEL_1")


def test_several_labels_for_a_text_are_refused(saved: Saved, tmp_path: Path) -> None:
    theirs = copy(saved("classify")[1], tmp_path / "theirs")
    edit(theirs / "config.json", problem_type="multi_label_classification")
    (theirs / FILE).unlink()
    with pytest.raises(ValueError, match="gives several labels to a text, minibert gives one"):
        load_finetuned(theirs)


def test_a_folder_that_was_not_fine_tuned_is_refused(bert: Path) -> None:
    with pytest.raises(ValueError, match=r"holds a BertForPreTraining, .*run minibert finetune"):
        load_finetuned(bert)


# --- damage


def refusal(folder: Path) -> str:
    with pytest.raises((ValueError, FileNotFoundError)) as error:
        load_finetuned(folder, "numpy")
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not JSON"),
        (b'{"task": "classify", "settings', "is not JSON"),
        (b"\xff\xfe", "is not JSON"),
        (b"[]", "names no task"),
        (b"{}", "names no task"),
        (b'{"task": ["classify"]}', "names no task"),
        (b'{"task": "translate"}', "names no task of classify, similarity, tag, answer"),
        (b'{"task": "classify"}', "has no settings"),
        (b'{"task": "classify", "settings": []}', "has no settings"),
        (b'{"task": "classify", "settings": {"lang": 3}}', "not those of classify: {'lang': 3"),
        (b'{"task": "classify", "settings": {"max_length": "9"}}', "not those of classify"),
        (b'{"task": "classify", "settings": {"max_length": 0}}', "max_length is 0"),
    ],
)
def test_a_damaged_record_is_refused(
    saved: Saved, tmp_path: Path, content: bytes, words: str
) -> None:
    folder = copy(saved("classify")[1], tmp_path / "damaged")
    (folder / FILE).write_bytes(content)
    message = refusal(folder)
    assert words in message
    assert FILE in message or "max_length" in message


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ({"0": "neg", "2": "pos"}, "expected names for 0, 1"),
        ({"1": "neg", "2": "pos"}, "expected names for 0, 1"),
        (["neg", "pos"], "expected names for 0, 1"),
    ],
)
def test_gaps_between_the_classes_are_refused(
    saved: Saved, tmp_path: Path, names: Any, words: str
) -> None:
    folder = copy(saved("classify")[1], tmp_path / "gaps")
    edit(folder / "config.json", id2label=names)
    assert words in refusal(folder)


def test_more_names_than_rows_are_refused(saved: Saved, tmp_path: Path) -> None:
    """Case CKP-03: both shapes are named."""
    folder = copy(saved("classify")[1], tmp_path / "more")
    edit(folder / "config.json", id2label={"0": "a", "1": "b", "2": "c"})
    message = refusal(folder)
    assert "classifier.weight (2, 16) instead of (3, 16)" in message


@pytest.mark.parametrize("name", ["config.json", "vocab.txt", "model.safetensors"])
def test_a_missing_file_is_named(saved: Saved, tmp_path: Path, name: str) -> None:
    folder = copy(saved("tag")[1], tmp_path / "part")
    (folder / name).unlink()
    assert name in refusal(folder)


def test_no_folder_at_all(tmp_path: Path) -> None:
    assert "no folder at" in refusal(tmp_path / "none")


# --- transformers

AUTO = {
    "classify": "AutoModelForSequenceClassification",
    "pair": "AutoModelForSequenceClassification",
    "cosine": "BertModel",
    "tag": "AutoModelForTokenClassification",
    "answer": "AutoModelForQuestionAnswering",
}


@pytest.mark.parity
@pytest.mark.parametrize("kind", KINDS)
def test_transformers_opens_the_folder_and_computes_the_same(saved: Saved, kind: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    found, folder = saved(kind)
    task, model = found.task, found.model
    options = {"add_pooling_layer": False} if kind == "cosine" else {}
    with no_complaint(transformers):
        theirs, info = getattr(transformers, AUTO[kind]).from_pretrained(
            folder, output_loading_info=True, **options
        )
        their_tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    assert not any(info.values()), info
    if labels := getattr(task, "labels", None):
        assert tuple(theirs.config.id2label[n] for n in range(len(labels))) == labels

    rows = task.rows(task.examples(INPUTS[KINDS[kind][0]]))
    for row, ours in zip(rows, run_rows(task, model, rows), strict=True):
        batch = task.batch([row])
        with torch.no_grad():
            output = theirs.eval()(
                input_ids=torch.from_numpy(batch.input_ids).long(),
                token_type_ids=torch.from_numpy(batch.token_type_ids).long(),
                attention_mask=torch.from_numpy(batch.attention_mask).long(),
            )
        if kind == "answer":
            assert batch.allowed is not None
            both = np.stack([output.start_logits[0], output.end_logits[0]])
            allowed = batch.allowed[0]
            np.testing.assert_allclose(ours[:, allowed], both[:, allowed], rtol=1e-4, atol=1e-4)
        elif kind == "cosine":
            assert isinstance(model, BertForSimilarity)
            hidden, mask = output.last_hidden_state.numpy(), batch.attention_mask[..., None]
            first, second = (hidden * mask).sum(axis=1) / mask.sum(axis=1)
            cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
            assert ours[0] == pytest.approx(cosine, abs=1e-5)
        else:
            np.testing.assert_allclose(ours, output.logits.numpy()[0], rtol=1e-4, atol=1e-4)
    if kind == "classify":
        text = INPUTS["classify"][0]
        assert their_tokenizer(text)["input_ids"] == rows[0].sequences[0].input_ids
    assert their_tokenizer.model_max_length == load_config(folder).max_position_embeddings
