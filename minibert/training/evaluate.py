"""Evaluation on held-out documents: numbers, and blanks filled in for people to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from minibert.inference import fill_mask
from minibert.training.metrics import Totals

if TYPE_CHECKING:
    from minibert.data.batches import PretrainingBatch
    from minibert.models.pretraining import BertForPreTraining
    from minibert.tokenizer.tokenizer import Tokenizer


class Blank(NamedTuple):
    """A held-out sentence with one word taken out."""

    text: str  # with [MASK] in the word's place
    answer: str


class FilledBlank(NamedTuple):
    blank: Blank
    guess: str
    probability: float  # of the guess


def evaluate(model: BertForPreTraining, batches: Sequence[PretrainingBatch]) -> dict[str, float]:
    """Return ``eval_mlm_loss``, ``eval_mlm_accuracy``, ``eval_nsp_loss``, ``eval_nsp_accuracy``.

    Means over all rows of all batches, without dropout.  The last two are left out where rows are
    no pairs.
    """
    totals = Totals()
    for batch in batches:
        output, _ = model.forward(batch)
        totals.add(output)
    return {f"eval_{name}": value for name, value in totals.means().items()}


def fill_blanks(
    model: BertForPreTraining, tokenizer: Tokenizer, blanks: Sequence[Blank]
) -> list[FilledBlank]:
    """Return the model's first choice for every blank."""
    filled = []
    for blank in blanks:
        best = fill_mask(model, tokenizer, blank.text, top=1)[0][0]
        filled.append(FilledBlank(blank, best.token, best.probability))
    return filled
