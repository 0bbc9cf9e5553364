"""BERT for pretraining: the encoder with both heads, and their sum as loss.

Source: Devlin et al., BERT (2019), section 3.1 and A.2.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from minibert.arrays import IGNORED, Array, check_ids, check_shape
from minibert.config import BertConfig
from minibert.keys import Key
from minibert.layers.embedding import lookup_backward, lookup_forward
from minibert.models.bert import Bert, BertCache
from minibert.models.heads import (
    MaskedLMCache,
    MaskedLMHead,
    NextSentenceCache,
    NextSentenceHead,
)
from minibert.ops import get_ops
from minibert.params import ParamStore

if TYPE_CHECKING:
    from minibert.data.batches import PretrainingBatch
    from minibert.ops import Ops


Head: TypeAlias = Literal["pooler", "masked", "next"]
HEADS: tuple[Head, ...] = ("pooler", "masked", "next")


class LossWeights(NamedTuple):
    """What one masked token's and one pair's loss count for in the step's loss.

    With plain means these are 1 / (masked tokens) and 1 / (pairs), counted over *all*
    micro-batches of the step, so that accumulation equals one big batch.
    """

    masked: float
    next: float


class PretrainingOutput(NamedTuple):
    loss: float  # weights.masked · masked_loss + weights.next · next_loss
    masked_loss: float  # sum over the masked tokens, in nats
    masked_right: int
    masked_count: int
    next_loss: float  # sum over the pairs, in nats
    next_right: int
    next_count: int


class PretrainingCache(NamedTuple):
    bert: BertCache
    masked: MaskedLMCache
    next: NextSentenceCache
    positions: Array  # (M,), of the masked tokens among the rows of hidden
    hidden_shape: tuple[int, int, int]  # (B, R, C); R = T with every place computed
    weights: LossWeights


def count_labels(labels: Array) -> int:
    """Return how many labels enter the loss."""
    return int((labels != IGNORED).sum())


def places_looked_at(
    positions: Array,  # (M,) row * T + column
    B: int,
    T: int,
) -> tuple[Array, Array]:  # places (B, R) columns, positions (M,) row * R + place
    """Return the columns the loss looks at, [CLS] and the masked ones, and where each went.

    R is what the row with most of them needs; the other rows are filled up with column 0, which
    nobody looks at twice.
    """
    row, column = np.divmod(positions.astype(np.int32, copy=False), T)
    order = np.argsort(row, kind="stable")
    counts = np.bincount(row, minlength=B)
    rank = np.empty_like(row)  # how many of the same row came before
    rank[order] = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    R = 1 + int(counts.max(initial=0))
    places = np.zeros((B, R), np.int32)
    places[row, 1 + rank] = column
    return places, row * R + 1 + rank


def check_heads(heads: Collection[Head]) -> frozenset[Head]:
    """Return the heads, or raise ValueError on an unknown one and on one without what it reads."""
    if unknown := [head for head in heads if head not in HEADS]:
        raise ValueError(f"heads has {unknown[0]!r}, expected some of {', '.join(HEADS)}")
    if "next" in heads and "pooler" not in heads:
        raise ValueError("heads has 'next' but not 'pooler', whose vector it reads: give both")
    return frozenset(heads)


class BertForPreTraining:
    """The model that ``minibert pretrain`` trains, with the parameter names of Hugging Face's.

    >>> from minibert.config import BertConfig
    >>> BertForPreTraining(BertConfig.preset("tiny"), ops="numpy").params.value.size
    4433468

    In training the last layer computes only the rows that the loss looks at, which changes no
    gradient and saves a third of the multiplications of a 2-layer model; ``every_place=True``
    computes them all.
    With dropout the two draw other masks, as these go by the place in the array.

    A published model often lacks what its pretraining is over with.  ``heads`` names what is there;
    the attributes of the others, ``bert.pooler``, ``masked_head`` and ``next_head``, are then None,
    and ``forward`` refuses.  The next-sentence head reads the pooler's vector, so it needs one.
    """

    def __init__(
        self,
        config: BertConfig,
        ops: str | Ops = "numba",
        dtype: Any = np.float32,
        *,
        every_place: bool = False,
        heads: Collection[Head] = HEADS,
    ) -> None:
        self.heads = check_heads(heads)
        self.config, self.ops, self.every_place = config, get_ops(ops), every_place
        self.params = ParamStore(dtype)
        self.bert = Bert(self.params.scope("bert"), config, self.ops, with_pooler="pooler" in heads)
        self.masked_head = self.next_head = None
        if "masked" in heads:
            self.masked_head = MaskedLMHead(
                self.params.scope("cls", "predictions"), self.bert.embeddings.word, config, self.ops
            )
        if "next" in heads:
            self.next_head = NextSentenceHead(
                self.params.scope("cls", "seq_relationship"), config.hidden_size, self.ops
            )
        self.params.allocate()

    def initialize(self, key: Key) -> None:
        """Draw fresh weights, with the configuration's ``initializer_range``."""
        self.params.initialize(key, self.config.initializer_range)

    def to_json(self) -> dict[str, Any]:
        """Return what ``config.json`` holds, with the class of transformers that has these heads.

        For two choices it has none.  A pooler beside the masked head alone is named a
        BertForMaskedLM, which reports the pooler as unused.  An encoder by itself is named a
        BertModel, which draws a pooler of its own unless opened with ``add_pooling_layer=False``.
        """
        match "masked" in self.heads, "next" in self.heads:
            case True, True:
                architecture = "BertForPreTraining"
            case True, False:
                architecture = "BertForMaskedLM"
            case False, True:
                architecture = "BertForNextSentencePrediction"
            case _:
                architecture = "BertModel"
        return self.config.to_json(architecture)

    def both_heads(self) -> tuple[MaskedLMHead, NextSentenceHead]:
        """Return the two heads, or raise ValueError where one lacks."""
        if self.masked_head is None or self.next_head is None:
            which = "masked-language" if self.masked_head is None else "next-sentence"
            raise ValueError(
                f"this model has no {which} head, so it has no pretraining loss: open it by "
                'load_model(folder, missing_heads="initialize"), which draws what lacks'
            )
        return self.masked_head, self.next_head

    def forward(
        self,
        batch: PretrainingBatch,
        key: Key | None = None,  # None: evaluation, no dropout
        weights: LossWeights | None = None,  # None: the means over this batch
    ) -> tuple[PretrainingOutput, PretrainingCache]:
        masked_head, next_head = self.both_heads()
        check_shape("input_ids", batch.input_ids, (None, None))
        B, T = batch.input_ids.shape
        check_shape("masked_positions", batch.masked_positions, (None,))
        check_ids("masked_positions", batch.masked_positions, B * T)
        check_shape("masked_labels", batch.masked_labels, batch.masked_positions.shape)
        check_ids("masked_labels", batch.masked_labels, self.config.vocab_size, ignored=True)
        check_shape("next_labels", batch.next_labels, (B,))
        check_ids("next_labels", batch.next_labels, 2, ignored=True)
        masked_count = count_labels(batch.masked_labels)
        next_count = count_labels(batch.next_labels)
        if weights is None:
            weights = LossWeights(1 / max(masked_count, 1), 1 / max(next_count, 1))

        places, positions = None, batch.masked_positions
        if not self.every_place:
            places, positions = places_looked_at(positions, B, T)
        hidden, pooled, bert = self.bert.forward(
            batch.input_ids, batch.token_type_ids, batch.attention_mask, key, places
        )
        B, R, C = hidden.shape
        masked_rows = lookup_forward(positions, hidden.reshape(B * R, C))
        masked_loss, masked_right, masked = masked_head.forward(masked_rows, batch.masked_labels)
        next_loss, next_right, next_ = next_head.forward(pooled, batch.next_labels)
        output = PretrainingOutput(
            weights.masked * masked_loss + weights.next * next_loss,
            masked_loss, masked_right, masked_count, next_loss, next_right, next_count,
        )  # fmt: skip
        cache = PretrainingCache(bert, masked, next_, positions, hidden.shape, weights)
        return output, cache

    def backward(self, cache: PretrainingCache) -> None:
        """Accumulate the gradient of ``output.loss`` in every parameter.

        To pick the masked rows is a look-up in the table of all rows, and so is its backward.
        """
        masked_head, next_head = self.both_heads()
        B, R, C = cache.hidden_shape
        dmasked = masked_head.backward(cache.weights.masked, cache.masked)
        dhidden = lookup_backward(dmasked, cache.positions, B * R).reshape(B, R, C)
        dpooled = next_head.backward(cache.weights.next, cache.next)
        self.bert.backward(dhidden, dpooled, cache.bert)
