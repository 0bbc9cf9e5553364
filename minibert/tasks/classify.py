"""Classification: one label for a text, or for a pair of texts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from minibert.arrays import Array
from minibert.config import BertConfig
from minibert.data.tasks import TextExample, read_texts
from minibert.layers.softmax import softmax_forward
from minibert.models.classification import BertForSequenceClassification
from minibert.models.classifier import TaskBatch
from minibert.scores import accuracy, macro_f1
from minibert.tasks.base import Columns, in_order, one_text, two_texts, warn_of_cuts
from minibert.tasks.labelled import LabelledTask
from minibert.tasks.rows import Row, Tokens, pad_rows
from minibert.tokenizer import Tokenizer

if TYPE_CHECKING:
    from minibert.ops import Ops


class Classified(NamedTuple):
    """The likeliest label, and the probability of each."""

    label: str
    probability: float
    probabilities: dict[str, float]


class Classify(LabelledTask):
    """[CLS] text [SEP], or [CLS] text [SEP] pair [SEP] → a class.

    A model that has learned from texts alone, or from pairs alone, refuses the other (``pairs``).
    Where that is not known, as of models that others fine-tuned, it takes both.
    """

    name: ClassVar[str] = "classify"
    metric: ClassVar[str] = "accuracy"
    shortest = 5, "[CLS] a [SEP] b [SEP]"

    def __init__(self, tokenizer: Tokenizer, *, pairs: bool | None = None, **shared: Any) -> None:
        super().__init__(tokenizer, **shared)
        self.pairs = pairs

    def fitted(self, examples: Sequence[TextExample]) -> Classify:
        found = [example.label for example in examples if example.label is not None]
        labels = in_order(set(found))
        if len(labels) < 2:
            raise ValueError(
                f"all {len(found):,} training rows have the same label ({', '.join(labels)}): to "
                "tell classes apart a model must see at least two"
            )
        task = self.with_labels(labels, found)
        paired = {example.pair is not None for example in examples}
        task.pairs = paired.pop() if len(paired) == 1 else None
        return task

    def read(self, path: Path, columns: Columns, *, known: bool = True) -> list[TextExample]:
        examples = read_texts(
            path, text=columns.text, pair=columns.pair, label=columns.label, labelled=known
        )
        for example in examples:
            if self.pairs not in (None, example.pair is not None):
                here, learned = ("one text", "pairs") if self.pairs else ("a pair", "single texts")
                raise ValueError(
                    f"{path}, row {example.row}: {here}, where the training rows were {learned}: "
                    "name the columns with --text-column, --pair-column"
                )
            if example.label is not None and self.labels and example.label not in self.numbers:
                raise ValueError(
                    f"{path}, row {example.row}: the label {example.label!r} is not one of "
                    f"{', '.join(self.labels)}, which are those of the training rows"
                )
        return examples

    def examples(self, inputs: Sequence[Any]) -> list[TextExample]:
        examples = []
        for n, given in enumerate(inputs):
            single = isinstance(given, str) if self.pairs is None else not self.pairs
            text, pair = (one_text(given, n), None) if single else two_texts(given, n)
            examples.append(TextExample(text, pair, None, n + 1))
        return examples

    def model(self, config: BertConfig, ops: str | Ops) -> BertForSequenceClassification:
        return BertForSequenceClassification(
            config, self.labels, ops, class_weights=self.class_weights
        )

    def rows(self, examples: Sequence[TextExample]) -> list[Row]:
        rows, cut = [], 0
        for number, example in enumerate(examples):
            tokens, is_cut = encode(self.tokenizer, example.text, example.pair, self.max_length)
            label = None if example.label is None else self.numbers[example.label]
            rows.append(Row((tokens,), label, number))
            cut += is_cut
        warn_of_cuts(cut, len(rows), self.max_length)
        return rows

    def batch(self, rows: Sequence[Row]) -> TaskBatch:
        labels = np.array([row.label or 0 for row in rows], np.int32)
        return pad_rows(rows, self.tokenizer.vocab.pad_id, labels)

    def answers(
        self, examples: Sequence[TextExample], rows: Sequence[Row], logits: Sequence[Array]
    ) -> list[Classified]:
        answers = []
        for probs in map(softmax_forward, logits):
            best = int(probs.argmax())
            named = dict(zip(self.labels, map(float, probs), strict=True))
            answers.append(Classified(self.labels[best], float(probs[best]), named))
        return answers

    def scores(
        self, predictions: Sequence[Classified], examples: Sequence[TextExample]
    ) -> dict[str, float]:
        predicted = [prediction.label for prediction in predictions]
        right = [example.label for example in examples]
        return {"accuracy": accuracy(predicted, right), "macro_f1": macro_f1(predicted, right)}

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"pairs": self.pairs}

    def warning(self, predictions: Sequence[Classified]) -> str | None:
        labels = {prediction.label for prediction in predictions}
        if len(labels) > 1 or len(predictions) < 2:
            return None
        return (
            f"every row was given the label {labels.pop()!r}, as happens when training collapses: "
            "lower --learning-rate, raise --warmup, or try another --seed"
        )


def encode(
    tokenizer: Tokenizer, text: str, pair: str | None, max_length: int
) -> tuple[Tokens, bool]:
    """Return a text or a pair as ids, and whether it was cut to ``max_length``."""
    encoding = tokenizer.encode(text, pair)
    cut = len(encoding.ids) > max_length
    if cut:
        encoding = tokenizer.encode(text, pair, max_length=max_length)
    return Tokens(encoding.ids, encoding.token_type_ids), cut
