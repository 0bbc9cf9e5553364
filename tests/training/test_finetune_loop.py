"""The loop of fine-tuning: it learns, keeps the best epoch, stops well, and counts rows right."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minibert.arrays import Array
from minibert.config import FineTuneConfig
from minibert.data.tasks import TextExample
from minibert.keys import Key
from minibert.models.classification import BertForSequenceClassification
from minibert.tasks.answer import Answer
from minibert.tasks.base import ANY_COLUMNS, Task
from minibert.tasks.classify import Classified, Classify
from minibert.tasks.similarity import Similarity
from minibert.training.adamw import AdamW
from minibert.training.finetune_loop import (
    Epoch,
    History,
    epoch_steps,
    finetune_step,
    freeze,
    rate_factors,
    train_task,
)
from minibert.training.loop import DivergedError

from ..tasks.common import TOKENIZER, config, reviews


class Quiet:
    """A watcher that remembers what it was told."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int, int, float]] = []
        self.epochs: list[Epoch] = []

    def stepped(self, epoch: int, done: int, total: int, loss: float) -> None:
        self.steps.append((epoch, done, total, loss))

    def finished(self, epoch: Epoch) -> None:
        self.epochs.append(epoch)


class StopAt(Quiet):
    """Presses Ctrl-C after so many steps."""

    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def stepped(self, epoch: int, done: int, total: int, loss: float) -> None:
        super().stepped(epoch, done, total, loss)
        if done == self.step:
            os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def examples(tmp_path: Path) -> list[TextExample]:
    return Classify(TOKENIZER).read(reviews(tmp_path), ANY_COLUMNS)


class Dictated(Classify):
    """Classification whose dev scores were decided beforehand."""

    accuracies: Sequence[float] = ()

    def scores(
        self, predictions: Sequence[Classified], examples: Sequence[TextExample]
    ) -> dict[str, float]:
        self.accuracies, first = self.accuracies[1:], self.accuracies[0]
        return {"accuracy": first, "macro_f1": 0.0}


def dictated(*accuracies: float) -> Dictated:
    task = Dictated(TOKENIZER, labels=("neg", "pos"))
    task.accuracies = accuracies
    return task


def model_of(
    task: Task, ops: Any = "numpy", dtype: type = np.float32, **changes: Any
) -> BertForSequenceClassification:
    model = BertForSequenceClassification(config(**changes), ("neg", "pos"), ops, dtype)
    model.params.initialize(Key(0), 0.25)
    return model


def settings(**changes: Any) -> FineTuneConfig:
    return FineTuneConfig(**{"batch_size": 8, "learning_rate": 5e-3, **changes})


# --- learning


def test_a_toy_task_is_learned(examples: list[TextExample], ops: Any) -> None:
    task, watcher = Classify(TOKENIZER, labels=("neg", "pos")), Quiet()
    model = model_of(task, ops)
    history = train_task(task, model, examples, examples, settings(epochs=10), watcher)
    assert history.best is not None
    assert history.best.scores == {"accuracy": 1.0, "macro_f1": 1.0}
    assert history.epochs == watcher.epochs
    assert not history.stopped
    losses = [epoch.loss for epoch in history.epochs]
    assert losses[0] == pytest.approx(np.log(2), rel=0.5)
    assert losses[-1] < 0.1


def test_a_seed_decides_every_byte(examples: list[TextExample], ops: Any) -> None:
    """Dropout, order and augmentation too; another seed gives another model."""
    task, found = Classify(TOKENIZER, labels=("neg", "pos")), []
    for seed in (3, 3, 4):
        model = model_of(task, ops, hidden_dropout_prob=0.1, attention_probs_dropout_prob=0.1)
        chosen = settings(epochs=2, seed=seed, synonyms=0.2, reorder=0.5)
        history = train_task(task, model, examples, examples, chosen, Quiet())
        found.append((model.params.value.tobytes(), [epoch.loss for epoch in history.epochs]))
    assert found[0] == found[1]
    assert found[0][0] != found[2][0]


def test_the_watcher_is_told_every_step_of_all_epochs(examples: list[TextExample]) -> None:
    task, watcher = Classify(TOKENIZER, labels=("neg", "pos")), Quiet()
    chosen = settings(epochs=2, batch_size=5, accumulation=2)  # 7 batches, 4 steps
    train_task(task, model_of(task), examples, examples, chosen, watcher)
    assert [step[:3] for step in watcher.steps] == [
        (epoch, 4 * (epoch - 1) + done, 8) for epoch in (1, 2) for done in (1, 2, 3, 4)
    ]
    assert [epoch.loss for epoch in watcher.epochs] == [watcher.steps[n][3] for n in (3, 7)]


def test_the_rate_rises_and_falls_over_all_epochs(
    examples: list[TextExample], monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []
    update = AdamW.update

    def noted(self: AdamW, learning_rate: float, grad_scale: float = 1.0) -> None:
        rates.append(learning_rate)
        update(self, learning_rate, grad_scale)

    monkeypatch.setattr(AdamW, "update", noted)
    task = Classify(TOKENIZER, labels=("neg", "pos"))
    chosen = settings(epochs=2, batch_size=16, learning_rate=1e-3, warmup=0.4)  # 4 steps
    train_task(task, model_of(task), examples, examples, chosen, Quiet())
    assert rates == pytest.approx([5e-4, 1e-3, 2e-3 / 3, 1e-3 / 3])


# --- the best epoch


def states(task: Task, examples: list[TextExample], chosen: FineTuneConfig, **more: Any) -> Any:
    """Return the history, the model, and the weights at each call of ``save``."""
    model, saved = model_of(task), list[tuple[int, bytes]]()

    def save(history: History) -> None:
        saved.append((history.epochs[-1].number, model.params.value.tobytes()))

    watcher = more.get("watcher", Quiet())
    history = train_task(task, model, examples, examples, chosen, watcher, save)
    return history, model, saved


def test_the_best_epoch_is_kept_and_only_it_is_saved(examples: list[TextExample]) -> None:
    history, model, saved = states(dictated(0.5, 0.4, 0.9, 0.9), examples, settings(epochs=4))
    assert [number for number, _ in saved] == [1, 3, 4]  # as good, and learned longer
    assert [epoch.best for epoch in history.epochs] == [True, False, True, True]
    assert history.best is history.epochs[3]
    assert model.params.value.tobytes() == saved[-1][1]


def test_the_first_epoch_counts_even_with_score_0(examples: list[TextExample]) -> None:
    history, model, saved = states(dictated(0.0, -0.5), examples, settings(epochs=2))
    assert [number for number, _ in saved] == [1]
    assert history.best is history.epochs[0]
    assert model.params.value.tobytes() == saved[0][1]


@pytest.mark.parametrize(
    ("patience", "accuracies", "epochs"),
    [
        (0, [0.5, 0.4, 0.3, 0.2], 4),
        (1, [0.5, 0.4, 0.9], 2),
        (2, [0.5, 0.4, 0.9, 0.9, 0.9, 0.95], 5),
        (9, [0.5, 0.4], 2),
    ],
)
def test_patience(
    examples: list[TextExample], patience: int, accuracies: list[float], epochs: int
) -> None:
    chosen = settings(epochs=len(accuracies), patience=patience)
    history, _, _ = states(dictated(*accuracies), examples, chosen)
    assert len(history.epochs) == epochs


def test_history_of_nothing() -> None:
    assert History().best is None


def test_a_collapsed_epoch_is_told(examples: list[TextExample]) -> None:
    """Case FT-01: a rate so low that nothing is learned leaves one class for all."""
    task, watcher = Classify(TOKENIZER, labels=("neg", "pos")), Quiet()
    model = model_of(task)
    model.classifier.dense.weight.value[...] = 0
    model.classifier.dense.bias.value[...] = (0, 1)
    train_task(task, model, examples, examples, settings(epochs=1, learning_rate=1e-9), watcher)
    assert watcher.epochs[0].warning is not None
    assert "every row was given the label 'pos'" in watcher.epochs[0].warning
    assert watcher.epochs[0].scores["accuracy"] == 0.5


# --- Ctrl-C


@pytest.mark.parametrize(("step", "epochs"), [(1, 0), (4, 0), (5, 1), (8, 1), (9, 2)])
def test_control_c_keeps_the_best_epoch(
    examples: list[TextExample], step: int, epochs: int
) -> None:
    """Four steps an epoch; after Ctrl-C the epoch it came in does not count."""
    straight = states(dictated(0.5, 0.9, 0.7), examples, settings(epochs=3))[2]
    history, model, saved = states(
        dictated(0.5, 0.9, 0.7), examples, settings(epochs=3), watcher=StopAt(step)
    )
    assert history.stopped
    assert len(history.epochs) == epochs
    assert saved == straight[:epochs]
    fresh = model_of(dictated()).params.value.tobytes()
    assert model.params.value.tobytes() == (saved[-1][1] if saved else fresh)


# --- divergence


def test_divergence_names_the_step_and_keeps_what_was_saved(examples: list[TextExample]) -> None:
    class Spoil(Quiet):
        def finished(self, epoch: Epoch) -> None:
            model.params["classifier.weight"].value[0, 0] = np.nan

    model, saved = model_of(dictated()), []
    with pytest.raises(DivergedError, match=r"^step 5: the weight classifier\.weight is not fin"):
        train_task(
            dictated(0.5, 0.9), model, examples, examples, settings(epochs=2), Spoil(), saved.append
        )
    assert len(saved) == 1


# --- accumulation


def first_update(batch_size: int, accumulation: int, balanced: bool, rows: list[Any]) -> Array:
    """The weights, in float64, after one step over the first 8 rows of an epoch."""
    task = Classify(TOKENIZER, labels=("neg", "pos"))
    weights = [0.3, 2.0] if balanced else None
    model = BertForSequenceClassification(
        config(), ("neg", "pos"), "numpy", np.float64, class_weights=weights
    )
    model.params.initialize(Key(0), 0.25)
    optimizer = AdamW(model.params, model.ops)
    batches = [
        task.batch(rows[at : at + batch_size])
        for at in range(0, batch_size * accumulation, batch_size)
    ]
    finetune_step(model, optimizer, batches, 1e-2, 1.0, Key(0))
    return model.params.value.copy()


@pytest.mark.parametrize("balanced", [False, True])
def test_accumulation_equals_one_big_batch(examples: list[TextExample], balanced: bool) -> None:
    """Case ACC-01: the mean is over rows, or their weights, not over micro-batches."""
    rows = Classify(TOKENIZER, labels=("neg", "pos")).rows(examples[1:9])
    big = first_update(8, 1, balanced, rows)
    for batch_size, accumulation in ((2, 4), (4, 2), (1, 8)):
        np.testing.assert_allclose(
            first_update(batch_size, accumulation, balanced, rows), big, rtol=1e-9, atol=1e-12
        )


def test_unequal_micro_batches_weigh_their_rows(examples: list[TextExample]) -> None:
    """Rows 3 and 1: the mean of the two means would give the lone row half of the step."""
    task = Classify(TOKENIZER, labels=("neg", "pos"))
    rows = task.rows(examples[2:6])
    found = []
    for parts in ([rows], [rows[:3], rows[3:]]):
        model = model_of(task, dtype=np.float64)
        loss, weight = finetune_step(
            model, AdamW(model.params, model.ops), [task.batch(part) for part in parts],
            1e-2, 1.0, Key(0),
        )  # fmt: skip
        found.append((loss, weight, model.params.value.copy()))
    assert found[0][:2] == pytest.approx(found[1][:2])
    assert found[0][1] == 4
    np.testing.assert_allclose(found[0][2], found[1][2], rtol=1e-9, atol=1e-12)


def test_the_last_step_takes_what_is_left(examples: list[TextExample]) -> None:
    task = Classify(TOKENIZER, labels=("neg", "pos"))
    model = model_of(task)
    steps = epoch_steps(
        task, model, AdamW(model.params, model.ops), task.rows(examples[:7]),
        settings(epochs=1, batch_size=2, accumulation=3), Key(0),
    )  # fmt: skip
    assert [(done, total) for done, total, _ in steps] == [(1, 2), (2, 2)]


def test_the_gradient_is_clipped(
    examples: list[TextExample], monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Classify(TOKENIZER, labels=("neg", "pos"))
    model = model_of(task)
    optimizer, scales = AdamW(model.params, model.ops), []
    monkeypatch.setattr(optimizer, "update", lambda rate, grad_scale: scales.append(grad_scale))
    batch = [task.batch(task.rows(examples[:4]))]
    finetune_step(model, optimizer, batch, 1e-2, 1e-3, Key(0))
    norm = float(np.linalg.norm(model.params.grad.astype(np.float64)))
    finetune_step(model, optimizer, batch, 1e-2, 1e3, Key(0))
    assert scales == [pytest.approx(1e-3 / norm, rel=1e-5), 1.0]


# --- less to train


@pytest.mark.parametrize(
    ("changes", "still"),
    [
        ({"freeze_embeddings": True}, ["bert.embeddings."]),
        ({"freeze_layers": 1}, ["bert.embeddings.", "bert.encoder.layer.0."]),
        ({"freeze_layers": 2}, ["bert.embeddings.", "bert.encoder."]),
        ({}, []),
    ],
)
def test_frozen_parameters_keep_every_bit(
    examples: list[TextExample], ops: Any, changes: dict[str, Any], still: list[str]
) -> None:
    task = Classify(TOKENIZER, labels=("neg", "pos"))
    model = model_of(task, ops)
    before = {p.name: p.value.tobytes() for p in model.params}
    train_task(task, model, examples, examples, settings(epochs=1, **changes), Quiet())
    for parameter in model.params:
        same = parameter.value.tobytes() == before[parameter.name]
        assert same == parameter.name.startswith(tuple(still)), parameter.name


def test_more_layers_than_there_are_are_refused() -> None:
    task = Classify(TOKENIZER, labels=("neg", "pos"))
    with pytest.raises(ValueError, match="freeze_layers is 99, but the model has 2"):
        freeze(model_of(task), settings(freeze_layers=99))


def test_layer_decay_by_name() -> None:
    """Two layers: the head and the pooler 1, layers 0.25 and 0.5, embeddings 0.125."""
    task = Classify(TOKENIZER, labels=("neg", "pos"))
    factors = rate_factors(task, model_of(task), settings(layer_decay=0.5))
    expected = {
        "bert.embeddings.": 0.125,
        "bert.encoder.layer.0.": 0.25,
        "bert.encoder.layer.1.": 0.5,
        "bert.pooler.": 1.0,
        "classifier.": 1.0,
    }
    for name, factor in factors.items():
        (wanted,) = (value for prefix, value in expected.items() if name.startswith(prefix))
        assert factor == wanted, name
    assert len(factors) == len(model_of(task).params)


def test_without_layer_decay_all_rates_are_1_but_that_of_a_scaled_head() -> None:
    task = Similarity(TOKENIZER)
    task.head_rate = 30.0
    factors = rate_factors(task, model_of(task), settings())
    assert {name for name, factor in factors.items() if factor != 1} == {
        "classifier.weight",
        "classifier.bias",
    }
    assert factors["classifier.bias"] == 30


# --- augmentation


def test_augmented_texts_are_new_in_every_epoch(
    examples: list[TextExample], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, seen = Classify(TOKENIZER, labels=("neg", "pos")), []
    rows = task.rows
    monkeypatch.setattr(task, "rows", lambda given: seen.append(list(given)) or rows(given))
    chosen = settings(epochs=2, synonyms=0.5)
    train_task(task, model_of(task), examples, examples, chosen, Quiet())
    original, dev, first, second = seen
    assert original == dev == examples  # dev texts stay as they are
    assert len({tuple(map(str, texts)) for texts in (original, first, second)}) == 3
    assert [e.label for e in first] == [e.label for e in examples]


def test_answers_are_not_augmented() -> None:
    task = Answer(TOKENIZER)
    examples = task.examples([("where ?", "rome")])
    with pytest.raises(ValueError, match="an answer is a place in its passage"):
        train_task(task, model_of(task), examples, examples, settings(synonyms=0.1), Quiet())
