"""How many parameters a model has, from its sizes alone: nothing is allocated.

Source: Devlin et al., BERT (2019), section 3, which rounds them to 110 and 340 million.
"""

from __future__ import annotations

from typing import NamedTuple

from minibert.config import BertConfig


class ParameterCounts(NamedTuple):
    embeddings: int
    layers: int  # all of them together
    pooler: int
    heads: int  # of pretraining: masked tokens and next sentence

    @property
    def encoder(self) -> int:
        """The model that tasks share: all but the heads of pretraining."""
        return self.embeddings + self.layers + self.pooler

    @property
    def total(self) -> int:
        return self.encoder + self.heads


def parameter_counts(config: BertConfig) -> ParameterCounts:
    """Return the number of single parameters of each part.

    A linear layer from A to B columns has A B weights and B biases, a LayerNorm a gain and a bias
    for each column.  The decoder of masked tokens has a bias for each word, and the token
    embedding as its weight, which is counted once.

    >>> parameter_counts(BertConfig.preset("base")).encoder
    109482240
    """
    V, C, F = config.vocab_size, config.hidden_size, config.intermediate_size
    dense, norm = C * C + C, 2 * C
    tables = (V + config.max_position_embeddings + config.type_vocab_size) * C
    feedforward = (C * F + F) + (F * C + C)
    return ParameterCounts(
        embeddings=tables + norm,
        layers=config.num_hidden_layers * (4 * dense + norm + feedforward + norm),
        pooler=dense,
        heads=(dense + norm + V) + (2 * C + 2),
    )
