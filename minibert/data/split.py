"""Sets of documents of a corpus, and their division into training and held-out ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from minibert.arrays import Array
from minibert.keys import Key, random_bits

if TYPE_CHECKING:
    from minibert.data.corpus import TokenCorpus


@dataclass(frozen=True, eq=False)
class DocumentSet:
    """Some documents of a corpus, in its order; each is a run of sentences [first, end)."""

    corpus: TokenCorpus
    first: Array  # (D,) int64, numbers of sentences
    end: Array  # (D,) int64

    def __len__(self) -> int:
        return len(self.first)

    @property
    def sentence_count(self) -> int:
        return int((self.end - self.first).sum())

    @property
    def token_count(self) -> int:
        sentences = self.corpus.sentences
        return int((sentences[self.end] - sentences[self.first]).sum())


def split_documents(
    corpus: TokenCorpus, fraction: float, key: Key
) -> tuple[DocumentSet, DocumentSet]:
    """Return (training, held-out) documents, the latter about ``fraction`` of all.

    Those with the smallest hash of (key, document number) are held out.  From four documents on,
    each side gets at least two, as next-sentence prediction needs; with two or three documents one
    is held out.  A single document is cut instead, and its last sentences are held out.

    Raises ValueError for a fraction outside (0, 1), or where there is one sentence only.
    """
    if not 0 < fraction < 1:
        raise ValueError(
            f"fraction is {fraction}, expected a number between 0 and 1, such as 0.05; "
            "use corpus.all_documents() to hold nothing out"
        )
    first, end = corpus.documents[:-1], corpus.documents[1:]
    D = len(first)
    if D == 1:
        return _cut_document(corpus, fraction)
    least = 2 if D >= 4 else 1
    count = min(max(least, round(fraction * D)), D - least)
    hashes = random_bits(key.child("held-out").seed, D, like=np.empty(0, np.uint32))
    held_out = np.zeros(D, np.bool_)
    held_out[np.argsort(hashes, kind="stable")[:count]] = True
    return (
        DocumentSet(corpus, first[~held_out], end[~held_out]),
        DocumentSet(corpus, first[held_out], end[held_out]),
    )


def _cut_document(corpus: TokenCorpus, fraction: float) -> tuple[DocumentSet, DocumentSet]:
    first, end = corpus.documents
    if end - first < 2:
        raise ValueError(
            "the corpus is a single sentence, so none can be held out: add text, "
            "with blank lines between documents"
        )
    cut = end - min(max(1, round(fraction * (end - first))), end - first - 1)
    train, held_out = (np.array([a, b], np.int64) for a, b in ((first, cut), (cut, end)))
    return (
        DocumentSet(corpus, train[:1], train[1:]),
        DocumentSet(corpus, held_out[:1], held_out[1:]),
    )
