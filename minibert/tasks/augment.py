"""Augmentation: more training text out of what there is, drawn anew in every epoch.

    synonyms   some words are exchanged for one of their nearest words
    reorder    the sentences of a text come in another order

Which words are near, the model says itself: the rows of its token embedding, which is the matrix
that its masked-word head scores words with.  Two words whose rows point the same way get nearly
the same score in every blank.

Sources: Zhang et al., Character-level Convolutional Networks for Text Classification (2015),
section 2.4, for synonyms; Wei and Zou, EDA (2019), section 2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from minibert.arrays import Array
from minibert.data.sentences import split_sentences
from minibert.data.tasks import ScoredExample, TaggedExample, TextExample
from minibert.keys import Key
from minibert.tokenizer import Vocabulary

NEAREST = 5  # words a synonym is drawn from
WORD = re.compile(r"[^\W\d_]{3,}")


class Synonyms:
    """The nearest words of each word that is a single piece of the vocabulary.

    Only words of three letters and more have synonyms, and only such words are synonyms.
    """

    def __init__(self, vocab: Vocabulary, table: Array) -> None:  # table (V, C)
        whole = [n for n, token in enumerate(vocab.tokens) if WORD.fullmatch(token)]
        rows = table[whole].astype(np.float32)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        self.words, self.rows = [vocab.tokens[n] for n in whole], rows
        self.places = {word: place for place, word in enumerate(self.words)}
        self.nearest = lru_cache(maxsize=None)(self._nearest)

    def _nearest(self, word: str) -> tuple[str, ...]:
        place = self.places.get(word, self.places.get(word.lower()))
        if place is None:
            return ()
        likeness = self.rows @ self.rows[place]
        likeness[place] = -np.inf
        count = min(NEAREST, len(likeness) - 1)
        if count < 1:
            return ()
        best = np.argpartition(-likeness, count - 1)[:count]
        return tuple(self.words[n] for n in best[np.argsort(-likeness[best], kind="stable")])

    def replace(self, text: str, share: float, generator: np.random.Generator) -> str:
        """Return the text with each word exchanged with probability ``share``."""

        def exchange(match: re.Match[str]) -> str:
            if generator.random() >= share or not (near := self.nearest(match[0])):
                return match[0]
            return near[int(generator.integers(len(near)))]

        return WORD.sub(exchange, text)


def reorder(text: str, generator: np.random.Generator) -> str:
    """Return the text with its sentences in a random order; one sentence stays as it is."""
    sentences = split_sentences(text)
    if len(sentences) < 2:
        return text
    return " ".join(sentences[n] for n in generator.permutation(len(sentences)))


def augmented(
    examples: Sequence[Any],
    key: Key,
    synonyms: Synonyms | None,
    synonym_share: float,  # of the words
    reorder_share: float,  # of the texts
) -> list[Any]:
    """Return the examples with changed texts and the same right answers.

    Words that carry a tag other than O keep their spelling.  Raises ValueError for questions,
    whose answers are places in a text that must not change.
    """

    def change(text: str, generator: np.random.Generator) -> str:
        if reorder_share and generator.random() < reorder_share:
            text = reorder(text, generator)
        return synonyms.replace(text, synonym_share, generator) if synonyms else text

    changed: list[Any] = []
    for number, example in enumerate(examples):
        generator = key.child(number).generator()
        if isinstance(example, TextExample):
            pair = None if example.pair is None else change(example.pair, generator)
            changed.append(example._replace(text=change(example.text, generator), pair=pair))
        elif isinstance(example, ScoredExample):
            first, second = change(example.first, generator), change(example.second, generator)
            changed.append(example._replace(first=first, second=second))
        elif isinstance(example, TaggedExample):
            if reorder_share:
                raise ValueError("tagging reads one sentence a row: leave out --reorder")
            tags = example.tags or ["O"] * len(example.words)
            words = [
                change(word, generator) if tag == "O" else word
                for word, tag in zip(example.words, tags, strict=True)
            ]
            changed.append(example._replace(words=words))
        else:
            raise ValueError(
                "an answer is a place in its passage, so texts cannot be changed: leave out "
                "--synonyms and --reorder"
            )
    return changed
