"""Masked language modelling: which tokens are to be predicted, and what is shown in their place.

Of the ordinary tokens of a row 15 % are chosen.  A chosen token is shown as

    [MASK]                      with probability 0.8
    a random ordinary token     with probability 0.1
    itself                      with probability 0.1

and is the label in all three cases.  If it were always [MASK], the model would learn nothing about
tokens that are there, and [MASK] never occurs in later use.

Sources: Devlin et al., BERT (2019), section 3.1 and A.1, C.2; ``create_pretraining_data.py`` in
google-research/bert.  There the 15 % are counted over [CLS] and [SEP] too, and the random token
comes from the whole vocabulary, [PAD] and [MASK] included; here special tokens neither count nor
occur.  As there, the random token may happen to be the original.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

import numpy as np

from minibert.arrays import Array
from minibert.tokenizer import Vocabulary

MASKED, RANDOM = 0.8, 0.1  # the rest is shown unchanged


class Masked(NamedTuple):
    """A batch with blanks to fill in."""

    input_ids: Array  # (B, T) int32, what the model sees
    positions: Array  # (M,) int32, row * T + column, ascending
    labels: Array  # (M,) int32, the original ids there


class Masker:
    """Chooses and replaces tokens of one vocabulary.

    ``whole_word``: choose words, with all their pieces.  Each piece is still replaced by a draw of
    its own, as in Google's code.  A word longer than what is left of the 15 % is passed over.

    In each row the number chosen is 15 % of its ordinary tokens, rounded, at least 1, and at most
    ``max_predictions``, which is 15 % of a full row, rounded up.  A row of nothing but special
    tokens ([UNK] counts as one) has none, nor has a row whose words all exceed max_predictions.
    """

    def __init__(
        self,
        vocab: Vocabulary,
        *,
        max_length: int,
        probability: float = 0.15,
        whole_word: bool = False,
    ) -> None:
        if not 0 < probability < 1:
            raise ValueError(
                f"mask_probability is {probability}, expected a number between 0 and 1"
            )
        self.special = np.zeros(len(vocab), np.bool_)
        self.special[list(vocab.special_ids)] = True
        self.ordinary = np.flatnonzero(~self.special).astype(np.int32)
        if not len(self.ordinary):
            raise ValueError("the vocabulary has special tokens only: nothing can be predicted")
        self.continuation = np.asarray(vocab.continuation)
        self.mask_id = vocab.mask_id
        self.probability = probability
        self.whole_word = whole_word
        self.max_predictions = max(1, ceil(probability * max_length))

    def mask(
        self,
        ids: Array,  # (B, T) int32, special tokens and padding included
        rng: np.random.Generator,
    ) -> Masked:
        """Choose tokens and put blanks in their place; ``ids`` is left as it is."""
        ordinary = ~self.special[ids]
        if self.whole_word:
            budget = predictions_per_row(ordinary, self.probability, self.max_predictions)
            chosen = self._words(ids, ordinary, budget, rng)
        else:
            draw = rng.random(ids.shape)  # 53 bits, so ties do not occur
            chosen = choose_tokens(ordinary, draw, self.probability, self.max_predictions)
        M = int(chosen.sum())
        draw = rng.random(M)
        random_ids = self.ordinary[rng.integers(0, len(self.ordinary), M)]
        return hide_tokens(ids, chosen, draw, random_ids, self.mask_id)

    def _words(
        self, ids: Array, ordinary: Array, budget: Array, rng: np.random.Generator
    ) -> Array:  # chosen (B, T) bool
        """Take words in random order, each if it fits into what is left of the budget."""
        B, T = ids.shape
        begins = ordinary & ~self.continuation[ids]
        begins[:, 1:] |= ordinary[:, 1:] & ~ordinary[:, :-1]  # a row may begin within a word
        begins[:, 0] |= ordinary[:, 0]
        word = np.cumsum(begins, axis=1) - 1  # (B, T), the number of each token's word in its row
        row = np.arange(B)
        cell = (row[:, None] * T + word)[ordinary]
        sizes = np.bincount(cell, minlength=B * T).reshape(B, T)  # 0 where a row has fewer words
        draw = np.where(sizes > 0, rng.random((B, T)), 2.0)
        taken = np.zeros((B, T), np.bool_)
        left = budget.copy()
        for candidate in np.argsort(draw, axis=1).T[: int(word.max(initial=-1)) + 1]:
            size = sizes[row, candidate]
            fits = (size > 0) & (size <= left)
            taken[row[fits], candidate[fits]] = True
            left -= np.where(fits, size, 0)
            if not left.any():
                break
        # Is each word longer than the row's 15 %, one that a full row has room for is taken.
        draw[sizes > self.max_predictions] = 2.0
        first = draw.argmin(axis=1)
        unlucky = ~taken.any(axis=1) & (draw[row, first] < 2.0)
        taken[row[unlucky], first[unlucky]] = True
        return ordinary & taken[row[:, None], np.maximum(word, 0)]


def predictions_per_row(
    ordinary: Array,  # (B, T) bool: no special token, no padding
    probability: float,
    most: int,
) -> Array:  # (B,) int64
    """Return the share ``probability`` of each row's ordinary tokens, rounded, 1 to ``most``.

    A row without any has 0.
    """
    count = ordinary.sum(axis=1)
    budget = np.clip(np.rint(probability * count), 1, most)
    return np.where(count > 0, budget, 0).astype(np.int64)


def choose_tokens(
    ordinary: Array,  # (B, T) bool
    draw: Array,  # (B, T), random numbers in [0, 1)
    probability: float,
    most: int,
) -> Array:  # chosen (B, T) bool
    """Choose, in each row, the ordinary tokens with the smallest draws."""
    budget = predictions_per_row(ordinary, probability, most)
    ranked = np.sort(np.where(ordinary, draw, 2.0), axis=1)  # 2: never among the smallest
    limit = ranked[np.arange(len(ranked)), np.maximum(budget - 1, 0)]
    return ordinary & (draw <= limit[:, None]) & (budget > 0)[:, None]


def hide_tokens(
    ids: Array,  # (B, T)
    chosen: Array,  # (B, T) bool, M of them
    draw: Array,  # (M,), random numbers in [0, 1)
    random_ids: Array,  # (M,), random ordinary tokens
    mask_id: int,
) -> Masked:
    """Show something else in the place of the chosen tokens, and keep them as labels.

    draw below 0.8: [MASK];  from there to 0.9: the random token;  from there on: the token itself.
    """
    positions = np.flatnonzero(chosen)
    labels = ids.reshape(-1)[positions]
    shown = np.where(draw < MASKED + RANDOM, random_ids, labels)
    shown[draw < MASKED] = mask_id
    masked = ids.copy()
    masked.reshape(-1)[positions] = shown
    return Masked(masked, positions.astype(np.int32), labels)
