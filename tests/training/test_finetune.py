"""Fine-tuning from files: what is held out, what a model begins as, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minibert.checkpoint.huggingface import load_config
from minibert.config import FineTuneConfig
from minibert.data.tasks import QuestionExample, TextExample
from minibert.keys import Key
from minibert.models.classification import BertForSequenceClassification
from minibert.tasks.base import ANY_COLUMNS, Columns
from minibert.tasks.finetuned import FILE, load_finetuned
from minibert.tokenizer import Tokenizer
from minibert.training.finetune import (
    Preparation,
    Quiet,
    Start,
    finetune,
    prepare,
    split,
    texts,
    train_seed,
)
from minibert.training.finetune_loop import Epoch

from ..tasks.common import FILES, INPUTS, TOKENIZER, learn, pretrained, reviews, write_lines


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretrained(tmp_path_factory.mktemp("bert"))


def prepared(
    start: Start, train: Path, task: str = "classify", dev: Path | None = None, **changes: Any
) -> Preparation:
    config = FineTuneConfig(**{"epochs": 2, "learning_rate": 5e-3, "batch_size": 8} | changes)
    return prepare(task, start, train, dev, ANY_COLUMNS, {"max_length": 20}, config, ops="numpy")


# --- whole runs


@pytest.mark.parametrize("task", list(FILES))
def test_every_task_is_learned(bert: Path, tmp_path: Path, task: str) -> None:
    found = learn(task, bert, tmp_path, tmp_path / "out")
    metric = found.task.metric
    assert max(epoch["scores"][metric] for epoch in found.history["epochs"]) > 0.95
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "config.json", "vocab.txt", "tokenizer_config.json", "model.safetensors", FILE,
    }  # fmt: skip


def test_the_same_seed_gives_the_same_bytes(bert: Path, tmp_path: Path) -> None:
    for out, seed in (("one", 5), ("two", 5), ("three", 6)):
        learn("classify", bert, tmp_path, tmp_path / out, epochs=2, seed=seed)
    one, two, three = (
        (tmp_path / n / "model.safetensors").read_bytes() for n in ("one", "two", "three")
    )
    assert one == two
    assert one != three


def test_without_out_nothing_is_written(bert: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in bert.iterdir()}
    learn("tag", bert, tmp_path, epochs=1)
    assert {path.name for path in tmp_path.iterdir()} == {"sentences.conll"}
    assert {path: path.read_bytes() for path in bert.iterdir()} == before


def test_the_columns_of_a_table(bert: Path, tmp_path: Path) -> None:
    rows = ["id\tbody\tgood"] + [f"{n}\ta film {n}\t{n % 2}" for n in range(20)]
    file = write_lines(tmp_path / "t.tsv", rows)
    found = finetune(
        "classify", model=bert, train=file, columns=Columns("body", None, "3"), ops="numpy",
        settings={"max_length": 16}, epochs=1,
    )  # fmt: skip
    assert found.history["training_examples"] == 18
    assert found.history["dev"] == "10% of the training examples"


# --- seeds


class Scores(Quiet):
    def __init__(self) -> None:
        self.found: list[float] = []

    def finished(self, epoch: Epoch) -> None:
        self.found.append(epoch.scores["accuracy"])


def test_a_worse_seed_leaves_the_folder_alone(bert: Path, tmp_path: Path) -> None:
    preparation = prepared(Start(bert), reviews(tmp_path))
    out, config = tmp_path / "out", FineTuneConfig(epochs=2, learning_rate=5e-3, batch_size=8)
    _, history = train_seed(preparation, config, Quiet(), out)
    assert history.best is not None
    kept, bytes_ = history.best.scores["accuracy"], (out / "model.safetensors").read_bytes()
    train_seed(preparation, replace(config, seed=1), Quiet(), out, above=1.0)
    assert (out / "model.safetensors").read_bytes() == bytes_
    assert json.loads((out / FILE).read_text(encoding="utf-8"))["training"]["seed"] == 0
    train_seed(preparation, replace(config, seed=1), Quiet(), out, above=kept - 2)
    assert json.loads((out / FILE).read_text(encoding="utf-8"))["training"]["seed"] == 1


def test_the_folder_holds_the_best_epoch_and_the_record_all(bert: Path, tmp_path: Path) -> None:
    """Also those after the best one; the weights are not those of the last."""
    found = learn("classify", bert, tmp_path, tmp_path / "out", epochs=9, learning_rate=2e-2)
    record = json.loads((tmp_path / "out" / FILE).read_text(encoding="utf-8"))
    assert [epoch["number"] for epoch in record["epochs"]] == list(range(1, 10))
    back = load_finetuned(tmp_path / "out", "numpy")
    assert back.model.params.value.tobytes() == found.model.params.value.tobytes()
    accuracy = back.evaluate(tmp_path / "reviews.tsv")["accuracy"]
    assert accuracy == max(epoch["scores"]["accuracy"] for epoch in record["epochs"])


# --- what is held out


def test_a_tenth_is_held_out() -> None:
    examples = [TextExample("a", None, "x", n) for n in range(100)]
    training, dev = split(examples, Key(1))
    assert (len(training), len(dev)) == (90, 10)
    assert sorted(example.row for example in training + dev) == list(range(100))
    assert training == sorted(training, key=lambda example: example.row)
    assert split(examples, Key(1)) == (training, dev)
    assert split(examples, Key(2))[1] != dev
    assert [len(part) for part in split(examples[:2], Key(0))] == [1, 1]


def test_questions_about_one_passage_stay_together() -> None:
    examples = [QuestionExample(str(n), "?", f"passage {n % 7}", None, n) for n in range(70)]
    for seed in range(5):
        training, dev = split(examples, Key(seed))
        assert len(dev) == 10
        assert not {e.passage for e in training} & {e.passage for e in dev}


@pytest.mark.parametrize(
    "examples",
    [
        [TextExample("a", None, "x", 1)],
        [QuestionExample(str(n), "?", "one passage", None, n) for n in range(9)],
    ],
)
def test_too_little_to_hold_a_part_out(examples: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"too little to hold a part of it out: .*--dev"):
        split(examples, Key(0))


# --- fresh models


@pytest.mark.parametrize("task", list(FILES))
def test_a_fresh_model_learns_its_vocabulary_from_the_examples(tmp_path: Path, task: str) -> None:
    start = Start(None, preset="tiny", vocab_size=60)
    preparation = prepared(start, FILES[task](tmp_path), task)
    vocab = preparation.task.tokenizer.vocab
    assert len(vocab) <= 60
    assert {"[CLS]", "[MASK]"} < set(vocab.tokens)
    model = preparation.make_model(0)
    assert model.config.vocab_size == len(vocab)
    assert model.params.value.tobytes() == preparation.make_model(0).params.value.tobytes()
    assert model.params.value.tobytes() != preparation.make_model(1).params.value.tobytes()
    assert np.ptp(model.params.value) > 0


def test_a_fresh_model_with_a_vocabulary_of_ones_own(bert: Path, tmp_path: Path) -> None:
    preparation = prepared(Start(None, vocab=bert / "vocab.txt"), reviews(tmp_path))
    assert preparation.task.tokenizer.vocab.tokens == TOKENIZER.vocab.tokens
    assert preparation.make_model(0).config.vocab_size == len(TOKENIZER.vocab)


def test_texts_come_once_each(tmp_path: Path) -> None:
    for task, words in (("answer", 8 + 4), ("tag", 4), ("similarity", 32), ("classify", 32)):
        unfitted = prepared(Start(None, vocab_size=60), FILES[task](tmp_path), task)
        file = FILES[task](tmp_path)
        found = list(texts(unfitted.task.read(file, ANY_COLUMNS)))
        assert len(found) == words, task


# --- from one task to the next


def test_training_goes_on_with_a_fine_tuned_model(bert: Path, tmp_path: Path) -> None:
    first = learn("classify", bert, tmp_path, tmp_path / "first", epochs=2)
    again = learn("classify", tmp_path / "first", tmp_path, epochs=1, learning_rate=1e-30)
    assert again.predict(INPUTS["classify"]) == first.predict(INPUTS["classify"])


def test_a_model_fine_tuned_for_other_labels_gets_a_new_head(bert: Path, tmp_path: Path) -> None:
    """Otherwise it would answer with the other model's classes under new names."""
    learn("classify", bert, tmp_path, tmp_path / "first", epochs=1)
    other = write_lines(tmp_path / "other.tsv", ["text\tlabel", "a film\t0", "the film\t1"])
    same = reviews(tmp_path)
    theirs, mine = (
        prepared(Start(tmp_path / "first"), file).make_model(0).params for file in (same, other)
    )
    different = {p.name for p in mine if p.value.tobytes() != theirs[p.name].value.tobytes()}
    assert different == {"classifier.weight", "classifier.bias"}
    assert mine["classifier.bias"].value.tolist() == [0, 0]


def test_another_task_begins_with_a_new_head(bert: Path, tmp_path: Path) -> None:
    first = learn("classify", bert, tmp_path, tmp_path / "first", epochs=1)
    file = FILES["answer"](tmp_path)
    model = prepared(Start(tmp_path / "first"), file, "answer").make_model(0)
    same = model.params["bert.encoder.layer.1.output.dense.weight"].value
    theirs = first.model.params["bert.encoder.layer.1.output.dense.weight"].value
    assert same.tobytes() == theirs.tobytes()
    assert np.ptp(model.params["qa_outputs.weight"].value) > 0


def test_weights_of_the_pretrained_model_are_taken_over(bert: Path, tmp_path: Path) -> None:
    """The pooler too; only the head is drawn, by the seed."""
    preparation = prepared(Start(bert), reviews(tmp_path))
    one, two = preparation.make_model(0), preparation.make_model(1)
    assert isinstance(one, BertForSequenceClassification)
    different = {
        p.name for p in one.params if p.value.tobytes() != two.params[p.name].value.tobytes()
    }
    assert different == {"classifier.weight"}


# --- refusals


def refusal(**changes: Any) -> str:
    options = {"task": "classify", "settings": {"max_length": 20}, "ops": "numpy"} | changes
    with pytest.raises((ValueError, FileNotFoundError)) as error:
        finetune(**options)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_is_refused_before_anything_is_written(bert: Path, tmp_path: Path) -> None:
    train, out = reviews(tmp_path), tmp_path / "out"
    one_label = write_lines(tmp_path / "one.tsv", ["text\tlabel", "a film\tx", "the film\tx"])
    other = write_lines(tmp_path / "other.tsv", ["text\tlabel", "a film\tpos", "the film\tmeh"])
    tags, answers = FILES["tag"](tmp_path), FILES["answer"](tmp_path)
    base = {"model": bert, "train": train, "out": out}
    for changes, *words in (
        ({"task": "translate"}, "task is 'translate'", "classify, similarity, tag, answer"),
        ({"train": tmp_path / "none.tsv"}, "none.tsv"),
        ({"dev": tmp_path / "none.tsv"}, "none.tsv"),
        ({"train": one_label}, "the same label (x)"),
        ({"dev": other}, "other.tsv, row 3", "'meh'", "neg, pos"),
        ({"model": tmp_path / "none"}, "no folder at"),
        ({"settings": {"max_length": 49}}, "max_length is 49", "48 tokens", "--max-length 48"),
        ({"freeze_layers": 99}, "freeze_layers is 99", "2"),
        ({"epochs": 0}, "epochs is 0"),
        ({"learning_rate": float("nan")}, "learning_rate is nan"),
        ({"layer_decay": 0}, "layer_decay is 0"),
        ({"warmup": 1.5}, "warmup is 1.5"),
        ({"task": "tag", "train": tags, "reorder": 0.1}, "leave out --reorder"),
        ({"task": "answer", "train": answers, "synonyms": 0.1}, "leave out --synonyms"),
        ({"task": "tag", "train": tags, "columns": Columns("1")}, "columns are for tables"),
        ({"task": "tag", "train": train}, "reviews.tsv"),
        ({"task": "answer", "train": train}, "reviews.tsv"),
        ({"columns": Columns("nope")}, "nope"),
    ):
        message = refusal(**base | changes)
        for word in words:
            assert word in message, message
        assert not out.exists()


def test_a_vocabulary_larger_than_the_model_is_refused(bert: Path, tmp_path: Path) -> None:
    """Case VOC-03: an id without an embedding."""
    folder = tmp_path / "larger"
    folder.mkdir()
    for file in bert.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    with (folder / "vocab.txt").open("a", encoding="utf-8") as file:
        file.write("more\n")
    rows = len(TOKENIZER.vocab)
    message = refusal(model=folder, train=reviews(tmp_path))
    assert f"the vocabulary has {rows + 1} tokens, but the model {rows} embeddings" in message
    assert load_config(folder).vocab_size == rows
    assert len(Tokenizer.load(folder).vocab) == rows + 1
