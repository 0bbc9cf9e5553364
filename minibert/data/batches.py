"""Batches for pretraining: rows of sentence pairs with blanks to fill in.

row numbers --RowDrawer--> places in the corpus --> ids, segments --Masker--> batch
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minibert.arrays import Array
from minibert.data.masking import Masker
from minibert.data.pairs import RowDrawer, Rows
from minibert.data.split import DocumentSet
from minibert.keys import Key
from minibert.tokenizer import Vocabulary

SHORTEST_ROW = 8  # three special tokens, and a few of text on either side


class PretrainingBatch(NamedTuple):
    """What one forward pass of pretraining takes."""

    input_ids: Array  # (B, T) int32
    token_type_ids: Array  # (B, T) int32, 1 in B and its [SEP]
    attention_mask: Array  # (B, T) bool, False on padding
    masked_positions: Array  # (M,) int32, row * T + column, ascending
    masked_labels: Array  # (M,) int32
    next_labels: Array  # (B,) int32, 0 is next, 1 random; IGNORED without next-sentence prediction


class BatchSource:
    """The batches of a run, by number: batch(i) depends on the arguments here and on i alone.

    So a run is resumed by going on counting, and an evaluation sees the same batches every time.
    With ``nsp=False`` a row is one segment, [CLS] A [SEP], and a single document is enough.

    Raises ValueError for a length below 8, for a vocabulary of another size than the corpus's, and
    as ``RowDrawer`` and ``Masker`` do.
    """

    def __init__(
        self,
        documents: DocumentSet,
        vocab: Vocabulary,
        *,
        batch_size: int,
        max_length: int,
        key: Key,
        nsp: bool = True,
        whole_word: bool = False,
        short_probability: float = 0.1,
        mask_probability: float = 0.15,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected at least 1")
        if max_length < SHORTEST_ROW:
            raise ValueError(
                f"max_length is {max_length}, expected at least {SHORTEST_ROW}: a row holds "
                "three special tokens and some text"
            )
        if not 0 <= short_probability <= 1:
            raise ValueError(f"short_probability is {short_probability}, expected 0 to 1")
        if len(vocab) != documents.corpus.vocab_size:
            raise ValueError(
                f"the vocabulary has {len(vocab)} tokens, but the corpus was tokenised with one of "
                f"{documents.corpus.vocab_size}: tokenise it again"
            )
        self.batch_size = batch_size
        self.max_length = max_length
        self.key = key
        self._tokens = documents.corpus.tokens
        self._vocab = vocab
        self._drawer = RowDrawer(
            documents, max_length=max_length, key=key, nsp=nsp, short_probability=short_probability
        )
        self._masker = Masker(
            vocab, max_length=max_length, probability=mask_probability, whole_word=whole_word
        )

    @property
    def rows_per_epoch(self) -> int:
        """How many rows there are until every start sentence has been visited."""
        return self._drawer.rows_per_epoch

    def rows(self, index: int) -> Rows:
        """Return where the text of batch ``index`` comes from."""
        if index < 0:
            raise ValueError(f"batch index is {index}, expected 0 or more")
        numbers = index * self.batch_size + np.arange(self.batch_size, dtype=np.int64)
        return self._drawer.rows(numbers, self.key.child("rows", index).generator())

    def batch(self, index: int) -> PretrainingBatch:
        """Return batch ``index``, padded to its longest row, rounded up to a multiple of 8.

        The rounding costs little, and lets the buffers of one step serve the next.
        """
        rows = self.rows(index)
        ids, segments, real = self._assembled(rows)
        masked = self._masker.mask(ids, self.key.child("masks", index).generator())
        return PretrainingBatch(
            masked.input_ids,
            segments,
            real,
            masked.positions,
            masked.labels,
            rows.labels.astype(np.int32),
        )

    def _assembled(self, rows: Rows) -> tuple[Array, Array, Array]:
        """Put rows together: [CLS] A [SEP], then B [SEP] where there is a B."""
        a_end = 1 + rows.a_length[:, None]  # (B, 1), the column of A's [SEP]
        has_b = rows.b_length[:, None] > 0
        end = np.where(has_b, a_end + 1 + rows.b_length[:, None], a_end)  # of the last [SEP]
        longest = int(end.max()) + 1
        T = min(-(-longest // 8) * 8, self.max_length)
        column = np.arange(T)
        real = column <= end
        in_b = (column > a_end) & real
        source = (
            np.where(in_b, rows.b_start[:, None] - a_end - 1, rows.a_start[:, None] - 1) + column
        )
        # Special tokens and padding look up something too, within bounds, and are then overwritten.
        ids = self._tokens[np.clip(source, 0, len(self._tokens) - 1)].astype(np.int32)
        ids[:, 0] = self._vocab.cls_id
        ids[(column == a_end) | (column == end)] = self._vocab.sep_id
        ids[~real] = self._vocab.pad_id
        return ids, in_b.astype(np.int32), real
