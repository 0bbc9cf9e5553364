"""Similarity: how alike two texts are, as a number.

Two ways: the pair is read together and a linear layer gives the score ("pair", more accurate), or
each text is read by itself and the score is the cosine of their vectors ("cosine", which compares
many texts with many others at the cost of reading each once).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from minibert.arrays import Array
from minibert.config import BertConfig
from minibert.data.tasks import ScoredExample, read_pairs
from minibert.models.classification import BertForSequenceClassification
from minibert.models.classifier import TaskBatch
from minibert.models.similarity import BertForSimilarity
from minibert.scores import pearson, spearman
from minibert.tasks.base import (
    Columns,
    Task,
    TaskModel,
    check_length,
    two_texts,
    warn_of_cuts,
)
from minibert.tasks.classify import encode
from minibert.tasks.rows import Row, pad_rows
from minibert.tokenizer import Tokenizer

if TYPE_CHECKING:
    from minibert.ops import Ops

Compare = Literal["pair", "cosine"]


class Similar(NamedTuple):
    """How alike a pair is, on the scale of the training scores."""

    score: float


class Similarity(Task):
    """A score like those of the training rows, which go from ``lowest`` to ``highest``.

    A cosine is 1 where the score is the highest.  A linear layer says the score itself: so that
    it need not travel far, it starts at the mean, and in units of the standard deviation.
    """

    name: ClassVar[str] = "similarity"
    metric: ClassVar[str] = "pearson"
    pairs = True

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_length: int = 128,
        compare: Compare = "pair",
        lowest: float = 0.0,
        highest: float = 1.0,
    ) -> None:
        if compare not in ("pair", "cosine"):
            raise ValueError(f"compare is {compare!r}, expected 'pair' or 'cosine'")
        check_length(max_length, 5, "[CLS] a [SEP] b [SEP]")
        self.tokenizer, self.max_length = tokenizer, max_length
        self.compare: Compare = compare
        self.lowest, self.highest = lowest, highest
        self.mean, self.unit = 0.0, 1.0

    def fitted(self, examples: Sequence[ScoredExample]) -> Similarity:
        scores = [example.score for example in examples if example.score is not None]
        if len(set(scores)) < 2:
            raise ValueError(f"all {len(scores):,} training rows have the same score")
        task = Similarity(self.tokenizer, self.max_length, self.compare, min(scores), max(scores))
        task.mean, task.unit = float(np.mean(scores)), float(np.std(scores))
        if self.compare == "pair":
            task.head_rate = task.unit
        return task

    def prepare(self, model: TaskModel, *, fresh: bool) -> None:
        if not isinstance(model, BertForSequenceClassification):
            return
        model.unit = self.unit
        if fresh:
            model.classifier.dense.weight.value[...] *= model.params.dtype.type(self.unit)
            model.classifier.dense.bias.value[...] = self.mean

    def read(self, path: Path, columns: Columns, *, known: bool = True) -> list[ScoredExample]:
        return read_pairs(
            path, first=columns.text, second=columns.pair, score=columns.label, scored=known
        )

    def examples(self, inputs: Sequence[Any]) -> list[ScoredExample]:
        return [ScoredExample(*two_texts(given, n), None, n + 1) for n, given in enumerate(inputs)]

    def model(
        self, config: BertConfig, ops: str | Ops
    ) -> BertForSequenceClassification | BertForSimilarity:
        if self.compare == "cosine":
            return BertForSimilarity(config, ops)
        return BertForSequenceClassification(config, (), ops)

    def rows(self, examples: Sequence[ScoredExample]) -> list[Row]:
        rows, cut = [], 0
        for number, (first, second, score, _) in enumerate(examples):
            parts = [(first, second)] if self.compare == "pair" else [(first, None), (second, None)]
            encoded = [encode(self.tokenizer, *part, self.max_length) for part in parts]
            label = None if score is None else self.inward(score)
            rows.append(Row(tuple(tokens for tokens, _ in encoded), label, number))
            cut += any(is_cut for _, is_cut in encoded)
        warn_of_cuts(cut, len(rows), self.max_length)
        return rows

    def inward(self, score: float) -> float:
        """Return a score on the model's scale."""
        if self.compare == "pair":
            return score
        return (score - self.lowest) / (self.highest - self.lowest)

    def outward(self, score: float) -> float:
        if self.compare == "pair":
            return score
        return self.lowest + score * (self.highest - self.lowest)

    def batch(self, rows: Sequence[Row]) -> TaskBatch:
        labels = np.array([0.0 if row.label is None else row.label for row in rows], np.float32)
        return pad_rows(rows, self.tokenizer.vocab.pad_id, labels)

    def answers(
        self, examples: Sequence[ScoredExample], rows: Sequence[Row], logits: Sequence[Array]
    ) -> list[Similar]:
        return [Similar(self.outward(float(score[0]))) for score in logits]

    def scores(
        self, predictions: Sequence[Similar], examples: Sequence[ScoredExample]
    ) -> dict[str, float]:
        predicted = [prediction.score for prediction in predictions]
        right = [float("nan") if example.score is None else example.score for example in examples]
        return {"pearson": pearson(predicted, right), "spearman": spearman(predicted, right)}

    def settings(self) -> dict[str, Any]:
        return {
            "max_length": self.max_length,
            "compare": self.compare,
            "lowest": self.lowest,
            "highest": self.highest,
        }
