"""Rows for next-sentence prediction: [CLS] A [SEP] B [SEP], with B the true continuation or not.

A row begins at a *start sentence* and takes sentences of the same document until the target length
is reached.  This run is cut between two sentences: before the cut is A, after it B, label 0.  In
half of the rows B is replaced by a run from a random place in another document, label 1.  In 10 %
of the rows the target is a random shorter one, since later uses of the model have short texts.
Where A and B are too long together, the longer one is cut down first.

Row number -> row is a pure function of the key: nothing has to be remembered to go on with a run
but the number of the next row.  Each epoch visits every start sentence once, in another order.

Sources: Devlin et al., BERT (2019), section 3.1 and A.2; ``create_pretraining_data.py`` in
google-research/bert.  Where this differs from that program, and why:

- The last sentence of a document starts no row, as nothing continues it; a document of one sentence
  does start one, with a random B.  The other rows draw their label so that 0 and 1 are equally
  frequent overall.  There, all rows that lack a continuation are labelled random, and 1 prevails.
- A run always has two sentences where the document has, also when the first fills the row alone.
- The random place is any sentence of any other document with equal chance.  There, a document is
  drawn first, so sentences of short documents are drawn more often, which gives the label away.
- What is cut from a text is taken from its two ends in a random proportion, so all of a sentence
  longer than a row is seen; there, each token comes off either end with equal chance: the middle
  stays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minibert.arrays import IGNORED, Array
from minibert.data.shuffle import shuffled
from minibert.data.split import DocumentSet
from minibert.keys import Key


class Rows(NamedTuple):
    """Where the text of each row stands in the corpus; all (B,) int64."""

    a_start: Array  # offset into the corpus's tokens
    a_length: Array  # tokens, at least 1
    b_start: Array
    b_length: Array  # at least 1; 0 without next-sentence prediction
    labels: Array  # 0 is next, 1 random, IGNORED without next-sentence prediction


class RowDrawer:
    """Draws the rows of a set of documents by their number; holds 32 bytes for each document.

    Raises ValueError where next-sentence prediction has fewer than two documents to draw from.
    """

    def __init__(
        self,
        documents: DocumentSet,
        *,
        max_length: int,
        key: Key,
        nsp: bool = True,
        short_probability: float = 0.1,
    ) -> None:
        if not len(documents):
            raise ValueError("there are no documents to draw rows from")
        if nsp and len(documents) < 2:
            raise ValueError(
                "next-sentence prediction draws random sentences from another document, and there "
                "is only 1 document here: put blank lines between documents (4 or more, so that 2 "
                "can be held out), or train without it (--next-weight 0)"
            )
        self.sentences = documents.corpus.sentences  # offsets into tokens
        self.first, self.end = documents.first, documents.end
        self.nsp = nsp
        self.room = max_length - (3 if nsp else 2)  # tokens of text in a row
        self.key = key
        self.short_probability = short_probability
        lengths = self.end - self.first
        self.sentences_before = _sums_before(lengths)
        self.starts_before = _sums_before(np.maximum(lengths - 1, 1) if nsp else lengths)
        self.rows_per_epoch = int(self.starts_before[-1])
        # Rows from documents of one sentence must be random; the others make up for it.
        forced = int((lengths == 1).sum()) if nsp else 0
        free = self.rows_per_epoch - forced
        self.random_probability = max(0.0, self.rows_per_epoch / 2 - forced) / free if free else 0.0

    def rows(
        self,
        numbers: Array,  # (B,) int64, row numbers since the start of the run
        rng: np.random.Generator,
    ) -> Rows:
        """Draw rows; ``rng`` decides lengths, cuts and labels."""
        document, sentence = self._starts(numbers)
        B = len(numbers)
        # Always the same draws in the same order, used or not.
        short, length, cut, coin, place, a_trim, b_trim = rng.random((7, B))
        shorter = 2 + np.floor(length * (self.room - 1)).astype(np.int64)
        target = np.where(short < self.short_probability, shorter, self.room)
        document_end = self.end[document]
        if not self.nsp:
            stop = self._run_end(sentence, target, document_end, 1)
            start, size = self._trimmed(sentence, stop, self.room, a_trim)
            none = np.zeros(B, np.int64)
            return Rows(start, size, start, none, np.full(B, IGNORED, np.int64))

        stop = self._run_end(sentence, target, document_end, 2)
        middle = sentence + 1 + np.floor(cut * np.maximum(stop - sentence - 1, 1)).astype(np.int64)
        is_random = (stop - sentence < 2) | (coin < self.random_probability)
        b_first, b_end = middle.copy(), stop
        if is_random.any():
            other, other_end = self._elsewhere(document, place)
            wanted = target - (self.sentences[middle] - self.sentences[sentence])
            other_stop = self._run_end(other, wanted, other_end, 1)
            b_first = np.where(is_random, other, b_first)
            b_end = np.where(is_random, other_stop, b_end)

        a_size = self.sentences[middle] - self.sentences[sentence]
        b_size = self.sentences[b_end] - self.sentences[b_first]
        # Cutting the longer one, B at a tie, token by token leaves A at least ceil(room / 2).
        a_room = np.maximum(self.room - b_size, (self.room + 1) // 2)
        a_start, a_size = self._trimmed(sentence, middle, a_room, a_trim)
        b_start, b_size = self._trimmed(b_first, b_end, self.room - a_size, b_trim)
        return Rows(a_start, a_size, b_start, b_size, is_random.astype(np.int64))

    def _starts(self, numbers: Array) -> tuple[Array, Array]:  # documents and start sentences (B,)
        epochs, index = np.divmod(numbers, self.rows_per_epoch)
        for epoch in set(epochs.tolist()):  # nearly always one
            chosen = epochs == epoch
            seed = self.key.child("epoch", epoch).seed
            index[chosen] = shuffled(index[chosen], self.rows_per_epoch, seed)
        document = np.searchsorted(self.starts_before, index, side="right") - 1
        return document, self.first[document] + index - self.starts_before[document]

    def _run_end(self, start: Array, target: Array, document_end: Array, least: int) -> Array:
        """Return where runs from ``start`` end: at ``target`` tokens, or with the document."""
        reached = np.searchsorted(self.sentences, self.sentences[start] + target, side="left")
        return np.minimum(np.maximum(reached, start + least), document_end)

    def _elsewhere(self, document: Array, place: Array) -> tuple[Array, Array]:
        """Return random sentences outside of ``document``, and the ends of their documents."""
        before = self.sentences_before
        number = sentence_elsewhere(document, place, before)
        other = np.searchsorted(before, number, side="right") - 1
        return self.first[other] + number - before[other], self.end[other]

    def _trimmed(
        self, first: Array, end: Array, room: Array | int, where: Array
    ) -> tuple[Array, Array]:
        """Return start and length of the tokens of a run, with what exceeds ``room`` cut off."""
        start = self.sentences[first]
        size = self.sentences[end] - start
        excess = np.maximum(size - room, 0)
        return start + np.floor(where * (excess + 1)).astype(np.int64), size - excess


def sentence_elsewhere(
    document: Array,  # (B,), numbers of documents
    place: Array,  # (B,), random numbers in [0, 1)
    before: Array,  # (N + 1,): document d has the sentences before[d] to before[d + 1] - 1
) -> Array:  # (B,) int64, numbers of sentences
    """Return a sentence of another document, any of them with equal chance.

    Count as if the own document were not there, then step over it.
    """
    own = before[document + 1] - before[document]
    number = np.floor(place * (before[-1] - own)).astype(np.int64)
    return number + np.where(number >= before[document], own, 0)


def _sums_before(lengths: Array) -> Array:  # (N+1,) int64
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
