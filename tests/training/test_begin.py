"""A run that begins with the weights of a folder: which they are, and how it goes on."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from minibert.checkpoint.huggingface import load_config, load_pretrained, save_model
from minibert.config import TrainConfig
from minibert.keys import Key
from minibert.models.classification import BertForSequenceClassification
from minibert.tokenizer import Tokenizer
from minibert.training.loop import train
from minibert.training.run import Run, TextConfig, resume_run, start_run

from .conftest import Quiet, StopAfter, new_run
from .test_loop import state_of


@pytest.fixture
def first(tmp_path: Path, text: TextConfig) -> Path:
    """The folder of a trained run."""
    run = new_run(tmp_path / "first", text, steps=60, learning_rate=1e-2)
    train(run, Quiet())
    return run.folder


def begun(folder: Path, text: TextConfig, first: Path, ops: str = "numpy", **changes) -> Run:
    options = {"steps": 6, "batch_size": 4, "max_length": 24, "log_every": 2, "evaluations": 3}
    config = TrainConfig(**options | changes, model=str(first))
    return start_run(folder, config, load_config(first), text, ops)


@pytest.fixture
def other_text(tmp_path: Path) -> TextConfig:
    path = tmp_path / "other.txt"
    verbs = ["hears", "meets", "likes", "feeds"]
    documents = [f"A wolf {verb} the cat. Snow falls, and the dog is glad." for verb in verbs]
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return TextConfig([str(path)])


def test_it_has_the_weights_and_the_vocabulary_of_the_folder(tmp_path, other_text, first) -> None:
    run = begun(tmp_path / "run", other_text, first)
    model, tokenizer = load_pretrained(first, "numpy")
    np.testing.assert_array_equal(run.model.params.value, model.params.value)
    assert run.tokenizer.vocab.tokens == tokenizer.vocab.tokens
    assert not run.optimizer.moment1.any()
    assert run.position.step == 0
    assert not run.folder.exists()


def test_it_knows_what_the_folder_knew(tmp_path, text, first) -> None:
    """The first loss is about the last one, where a fresh model guesses."""
    watchers = []
    for run in (begun(tmp_path / "run", text, first), new_run(tmp_path / "fresh", text)):
        watchers.append(Quiet())
        train(run, watchers[-1])
    begun_with, fresh = (watcher.steps[0]["mlm_loss"] for watcher in watchers)
    assert begun_with < 0.75 * fresh


def test_stopped_it_goes_on_without_the_folder_it_began_from(tmp_path, text, ops, first) -> None:
    straight = begun(tmp_path / "straight", text, first, ops)
    train(straight, Quiet())
    train(begun(tmp_path / "run", text, first, ops), StopAfter(2))
    shutil.rmtree(first)
    resumed = resume_run(tmp_path / "run", ops)
    train(resumed, Quiet())
    assert state_of(resumed) == state_of(straight)
    assert resumed.config.model == str(first)


def test_of_a_finetuned_folder_the_encoder_is_taken_and_the_heads_are_drawn(
    tmp_path, text, first
) -> None:
    tokenizer = Tokenizer.load(first)
    finetuned = BertForSequenceClassification(load_config(first), ("good", "bad"), "numpy")
    finetuned.params.initialize(Key(5), 0.1)
    save_model(finetuned, tokenizer, tmp_path / "finetuned")
    with pytest.warns() as told:
        run = begun(tmp_path / "run", text, tmp_path / "finetuned")
    folder = str(tmp_path / "finetuned")
    assert [str(warning.message).removeprefix(folder) for warning in told] == [
        " lacks cls.predictions, cls.seq_relationship: begun from random numbers",
        ": classifier is for another task, and left out",
    ]
    fresh = new_run(tmp_path / "fresh", text)
    taken = [name for name in run.model.params.parameters if name.startswith("bert.")]
    assert set(taken) < run.model.params.parameters.keys()
    for parameter in run.model.params:
        source = finetuned if parameter.name in taken else fresh.model
        np.testing.assert_array_equal(parameter.value, source.params[parameter.name].value)
    assert train(run, Quiet()) == "finished"


def test_a_cased_model_stays_cased(tmp_path, text, first) -> None:
    model, tokenizer = load_pretrained(first, "numpy")
    save_model(model, Tokenizer(tokenizer.vocab, lowercase=False), tmp_path / "cased")
    run = begun(tmp_path / "run", text, tmp_path / "cased")
    assert run.tokenizer.lowercase is run.text.lowercase is False
    train(run, Quiet())
    assert resume_run(run.folder, "numpy").tokenizer.lowercase is False


def test_another_vocabulary_is_refused(tmp_path, text, first) -> None:
    other = TextConfig(text.files, vocab=str(first / "vocab.txt"))
    with pytest.raises(ValueError, match="has a vocabulary: leave out"):
        begun(tmp_path / "run", other, first)


def test_a_vocabulary_for_another_model_is_refused(tmp_path, text, first) -> None:
    tokens = Tokenizer.load(first).vocab.tokens
    lines = "\n".join([*tokens, "onemore"]) + "\n"
    (first / "vocab.txt").write_text(lines, encoding="utf-8")
    with pytest.raises(ValueError, match=f"{len(tokens) + 1} tokens"):
        begun(tmp_path / "run", text, first)
    assert not (tmp_path / "run").exists()
