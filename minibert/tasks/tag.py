"""Tagging: one label for each word, such as the names of persons and places in a text.

A word may fall into several pieces; its label stands at the first one, and what the model says
there is the word's answer.  A sentence that does not fit into one row is read in several, so that
no word goes without an answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from minibert.arrays import IGNORED, Array
from minibert.config import BertConfig
from minibert.data.tasks import TaggedExample, read_tagged
from minibert.layers.softmax import softmax_forward
from minibert.models.classifier import TaskBatch
from minibert.models.tagging import BertForTokenClassification
from minibert.scores import Entity, entity_scores
from minibert.scores.entities import entities
from minibert.tasks.base import Columns, refuse_columns
from minibert.tasks.labelled import LabelledTask
from minibert.tasks.rows import Row, Tokens, pad_rows

if TYPE_CHECKING:
    from minibert.ops import Ops

WORD = re.compile(r"[@#]?\w+(?:[-.'’]\w+)*|[^\w\s]")
"""How running text is cut into words: letters with hyphens or points inside, or one sign."""


class Tagged(NamedTuple):
    """A sentence's words with their tags, and the entities these spell out."""

    words: list[str]
    tags: list[str]
    probabilities: list[float]  # of each word's tag
    entities: list[Entity]


class Tag(LabelledTask):
    """[CLS] words [SEP] → a tag for each word."""

    name: ClassVar[str] = "tag"
    metric: ClassVar[str] = "f1"
    pairs = False
    shortest = 3, "[CLS] word [SEP]"

    def fitted(self, examples: Sequence[TaggedExample]) -> Tag:
        found = [tag for example in examples for tag in example.tags or ()]
        if not set(found) - {"O"}:
            raise ValueError(f"all words of the {len(examples):,} training rows have the tag O")
        return self.with_labels(("O", *sorted(set(found) - {"O"})), found)

    def read(self, path: Path, columns: Columns, *, known: bool = True) -> list[TaggedExample]:
        refuse_columns(columns)
        examples = read_tagged(path, tagged=known)
        for example in examples:
            for tag in example.tags or () if self.labels else ():
                if tag not in self.numbers:
                    raise ValueError(
                        f"{path}, sentence at row {example.row}: the tag {tag!r} is not one of "
                        f"{', '.join(self.labels)}, which are those of the training sentences"
                    )
        return examples

    def examples(self, inputs: Sequence[Any]) -> list[TaggedExample]:
        return [TaggedExample(words_of(given, n), None, n + 1) for n, given in enumerate(inputs)]

    def model(self, config: BertConfig, ops: str | Ops) -> BertForTokenClassification:
        return BertForTokenClassification(
            config, self.labels, ops, class_weights=self.class_weights
        )

    def rows(self, examples: Sequence[TaggedExample]) -> list[Row]:
        return [
            row
            for number, example in enumerate(examples)
            for row in self.sentence_rows(number, example)
        ]

    def sentence_rows(self, number: int, example: TaggedExample) -> list[Row]:
        """Return a sentence as rows of whole words; ``origin`` tells which words at which place.

        A word of which the tokenizer leaves nothing (a soft hyphen, say) is read as [UNK]; one
        with more pieces than a row holds keeps its first ones.
        """
        vocab, room = self.tokenizer.vocab, self.max_length - 2
        rows: list[Row] = []
        ids: list[int] = []
        firsts: list[tuple[int, int]] = []  # word, place of its first piece

        def close() -> None:
            labels = [IGNORED] * (len(ids) + 2)
            for word, place in firsts:
                if example.tags is not None:
                    labels[place] = self.numbers[example.tags[word]]
            tokens = Tokens([vocab.cls_id, *ids, vocab.sep_id], [0] * len(labels))
            rows.append(Row((tokens,), labels, number, list(firsts)))
            ids.clear()
            firsts.clear()

        for word, text in enumerate(example.words):
            pieces = self.tokenizer.encode_ids(text)[:room] or [vocab.unk_id]
            if len(ids) + len(pieces) > room:
                close()
            firsts.append((word, len(ids) + 1))
            ids += pieces
        close()
        return rows

    def batch(self, rows: Sequence[Row]) -> TaskBatch:
        labels = np.full((len(rows), max(row.length for row in rows)), IGNORED, np.int32)
        for number, row in enumerate(rows):
            labels[number, : row.length] = row.label
        return pad_rows(rows, self.tokenizer.vocab.pad_id, labels)

    def split(self, logits: Array, rows: Sequence[Row]) -> list[Array]:
        return [scores[: row.length] for scores, row in zip(logits, rows, strict=True)]

    def answers(
        self, examples: Sequence[TaggedExample], rows: Sequence[Row], logits: Sequence[Array]
    ) -> list[Tagged]:
        tags = [["O"] * len(example.words) for example in examples]
        sure = [[0.0] * len(example.words) for example in examples]
        for row, scores in zip(rows, logits, strict=True):
            probs = softmax_forward(scores)
            for word, place in row.origin:
                best = int(probs[place].argmax())
                tags[row.example][word] = self.labels[best]
                sure[row.example][word] = float(probs[place, best])
        return [
            Tagged(example.words, mine, probability, self.entities(mine))
            for example, mine, probability in zip(examples, tags, sure, strict=True)
        ]

    def entities(self, tags: Sequence[str]) -> list[Entity]:
        """Return what the tags spell out; each word by itself where they are no B-, I- and O."""
        if all(label == "O" or label[1:2] == "-" for label in self.labels):
            return entities(tags)
        return [Entity(tag, word, word + 1) for word, tag in enumerate(tags)]

    def scores(
        self, predictions: Sequence[Tagged], examples: Sequence[TaggedExample]
    ) -> dict[str, float]:
        found = entity_scores(
            [prediction.tags for prediction in predictions],
            [example.tags or [] for example in examples],
        )
        return {"f1": found.f1, "precision": found.precision, "recall": found.recall}


def words_of(given: Any, place: int) -> list[str]:
    """Return an input's words; raises TypeError with its place where it is no text and no words."""
    if isinstance(given, str):
        return WORD.findall(given)
    if isinstance(given, (list, tuple)) and all(isinstance(word, str) for word in given):
        return list(given)
    raise TypeError(f"inputs[{place}] is {given!r:.60}, expected a text or a list of words")
