"""Prediction: in the order of the examples, whatever order they are computed in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from minibert.models.classification import BertForSequenceClassification
from minibert.tasks import predict as module
from minibert.tasks.classify import Classify
from minibert.tasks.predict import predict, run_rows

from .common import INPUTS, TOKENIZER, config, learn

TASK = Classify(TOKENIZER, labels=("a", "b"))
TEXTS = ["a " * n for n in (9, 1, 30, 4, 4, 17)]


@pytest.fixture(scope="module")
def model() -> BertForSequenceClassification:
    from minibert.keys import Key

    model = BertForSequenceClassification(config(), ("a", "b"), "numpy")
    model.params.initialize(Key(2), 0.25)
    return model


def test_the_order_is_that_of_the_examples(
    model: BertForSequenceClassification, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = TASK.rows(TASK.examples(TEXTS))
    alone = [run_rows(TASK, model, [row])[0] for row in rows]
    for budget in (1, 20, 60, 4096):
        monkeypatch.setattr(module, "TOKENS", budget)
        for one, other in zip(alone, run_rows(TASK, model, rows), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_progress_counts_rows(
    model: BertForSequenceClassification, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TOKENS", 20)
    told: list[tuple[int, int]] = []
    predict(TASK, model, TASK.examples(TEXTS), lambda done, total: told.append((done, total)))
    assert [total for _, total in told] == [6] * len(told)
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert told[-1][0] == 6


@pytest.mark.parametrize("task", list(INPUTS))
def test_an_input_does_not_depend_on_its_neighbours(task: str, bert: Path, tmp_path: Path) -> None:
    """Case ATT-03, for all tasks: padding and the order of the batch change nothing."""
    found = learn(task, bert, tmp_path, epochs=1)
    for given, answer in zip(INPUTS[task], found.predict(INPUTS[task]), strict=True):
        (alone,) = found.predict([given])
        for name, value in alone._asdict().items():
            numbers = name in ("score", "probability", "probabilities")
            other = getattr(answer, name)
            assert other == (pytest.approx(value, abs=1e-5) if numbers else value)
