"""Similarity: where a model starts, which scale its scores have, and what a cosine means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minibert.data.tasks import ScoredExample
from minibert.models.classification import BertForSequenceClassification
from minibert.tasks.finetuned import FineTuned
from minibert.tasks.predict import predict
from minibert.tasks.similarity import Similar, Similarity
from minibert.training.finetune import finetune

from .common import INPUTS, LEARN, TOKENIZER, learn, pairs


def scored(*scores: float) -> list[ScoredExample]:
    return [ScoredExample("the film", "a film", score, n) for n, score in enumerate(scores, 1)]


def test_one_score_is_refused() -> None:
    with pytest.raises(ValueError, match="all 3 training rows have the same score"):
        Similarity(TOKENIZER).fitted(scored(2.5, 2.5, 2.5))


def test_an_unknown_way_to_compare_is_refused() -> None:
    with pytest.raises(ValueError, match="compare is 'dot', expected 'pair' or 'cosine'"):
        Similarity(TOKENIZER, compare="dot")  # type: ignore[arg-type]


def test_a_fresh_model_says_the_mean(bert: Path, tmp_path: Path) -> None:
    """One step so small that it changes nothing: 0, 50, 50 … of 0 to 100, in units of 35."""
    found = learn("similarity", bert, tmp_path, epochs=1, learning_rate=1e-30)
    task, model = found.task, found.model
    assert isinstance(task, Similarity)
    assert isinstance(model, BertForSequenceClassification)
    assert (task.mean, task.unit) == pytest.approx((0.5, np.sqrt(1 / 8)))
    assert model.classifier.dense.bias.value == pytest.approx([0.5])
    assert [answer.score for answer in found.predict(INPUTS["similarity"])] == pytest.approx(
        [0.5, 0.5], abs=0.5 * task.unit * 4
    )
    assert task.head_rate == task.unit


def fitted_on(
    scale: float, bert: Path, folder: Path, compare: str = "pair", **more: Any
) -> FineTuned:
    file, settings = pairs(folder, scale), {"max_length": 20, "compare": compare}
    training: dict[str, Any] = {**LEARN, "epochs": 20, **more}
    return finetune(
        "similarity", model=bert, train=file, dev=file, settings=settings, ops="numpy",
        **training,
    )  # fmt: skip


def best(found: FineTuned) -> float:
    return max(epoch["scores"]["pearson"] for epoch in found.history["epochs"])


@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_another_scale_is_learned_as_well(bert: Path, tmp_path: Path, scale: float) -> None:
    assert best(fitted_on(scale, bert, tmp_path)) > 0.99


def test_predictions_scale_along(bert: Path, tmp_path: Path) -> None:
    """The same data in other units gives the same model in other units.

    But for clipping, since the head's gradient counts in units, and for the head's weight decay.
    """
    one, other = (
        fitted_on(scale, bert, tmp_path, clip_norm=1e9, weight_decay=0.0, epochs=10)
        for scale in (1, 100)
    )
    mine, theirs = (x.predict(INPUTS["similarity"]) for x in (one, other))
    assert [x.score / 100 for x in theirs] == pytest.approx([x.score for x in mine], abs=1e-4)


def test_training_goes_on_from_the_head_that_there_is(bert: Path, tmp_path: Path) -> None:
    """Only a head that was drawn anew is brought to the scores' mean and unit."""
    first = learn("similarity", bert, tmp_path, tmp_path / "first", epochs=2)
    second = learn("similarity", tmp_path / "first", tmp_path, epochs=1, learning_rate=1e-30)
    assert first.predict(INPUTS["similarity"]) == second.predict(INPUTS["similarity"])


def test_a_cosine_of_1_is_the_highest_score() -> None:
    task = Similarity(TOKENIZER, compare="cosine").fitted(scored(1.0, 5.0, 2.0))
    assert (task.lowest, task.highest) == (1.0, 5.0)
    assert [task.inward(score) for score in (1.0, 3.0, 5.0)] == [0.0, 0.5, 1.0]
    assert [task.outward(cosine) for cosine in (0.0, 0.5, 1.0)] == [1.0, 3.0, 5.0]
    assert [row.label for row in task.rows(scored(1.0, 5.0))] == [0.0, 1.0]
    assert task.settings()["highest"] == 5.0
    assert task.head_rate == 1.0  # a cosine has no head


def test_a_text_and_itself_have_the_highest_score(bert: Path, tmp_path: Path) -> None:
    found = fitted_on(5, bert, tmp_path, compare="cosine")
    same, other = found.predict([("a film", "a film"), ("a film", "the film was poor")])
    assert same.score == pytest.approx(5, abs=1e-5)
    assert other.score < 4.99


def test_each_text_of_a_cosine_is_a_sequence_of_its_own() -> None:
    task = Similarity(TOKENIZER, compare="cosine")
    (row,) = task.rows(task.examples([("the film", "a")]))
    assert [len(tokens.input_ids) for tokens in row.sequences] == [4, 3]
    assert task.batch([row]).input_ids.shape == (2, 4)


def test_a_pair_cut_in_both_texts_counts_once() -> None:
    task = Similarity(TOKENIZER, max_length=5, compare="cosine")
    with pytest.warns(UserWarning, match="1 of 1 texts"):
        task.rows(task.examples([("a a a a", "the the the the")]))


def test_scores_and_settings() -> None:
    task = Similarity(TOKENIZER)
    scores = task.scores([Similar(1.0), Similar(2.0), Similar(4.0)], scored(1, 2, 3))
    assert scores == pytest.approx({"pearson": 0.9819805, "spearman": 1.0})
    assert set(task.settings()) == {"max_length", "compare", "lowest", "highest"}


def test_nothing_in_nothing_out(bert: Path, tmp_path: Path) -> None:
    found = learn("similarity", bert, tmp_path, epochs=1)
    assert predict(found.task, found.model, []) == []


@pytest.mark.parametrize("wrong", ["ab", "abc", None, ("a",), ("a", "b", "c"), (1, 2)])
def test_an_input_that_is_no_pair_is_refused_with_its_place(wrong: object) -> None:
    """A str of two letters is not a pair of letters."""
    with pytest.raises(TypeError, match=r"inputs\[0\] is .*, expected a tuple of two texts"):
        Similarity(TOKENIZER).examples([wrong])
