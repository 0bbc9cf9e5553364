"""Lesson 12: which tokens are predicted, and which sentence comes second."""

from __future__ import annotations

from typing import Any

import numpy as np

from minibert.arrays import IGNORED, Array
from minibert.course.exercise import Case, Exercise, Slip
from minibert.data.masking import choose_tokens, hide_tokens, predictions_per_row
from minibert.data.pairs import sentence_elsewhere

# --- which tokens


def choose_by_hand() -> Case:
    ordinary = np.array([[False, True, True, True, True, True, False, False]])
    draw = np.array([[0.05, 0.7, 0.2, 0.9, 0.4, 0.6, 0.1, 0.3]])
    return Case({"ordinary": ordinary, "draw": draw, "probability": 0.32, "most": 3})


def draw_choose(generator: np.random.Generator) -> Case:
    """Rows: one full, one with a single ordinary token, one with none, the others between."""
    B, T = 7, int(generator.integers(29, 37))
    lengths = generator.integers(4, T, B)  # up to the last [SEP]
    lengths[:3] = T - 1, 2, 1
    ordinary = np.arange(T) < lengths[:, None]
    ordinary[:, 0] = False
    ordinary[3:, 2] = False  # an [UNK]
    generator.shuffle(ordinary)
    probability = float(generator.uniform(0.23, 0.27))
    draw = generator.random((B, T))
    return Case({"ordinary": ordinary, "draw": draw, "probability": probability, "most": 5})


def smallest(draw: Array, budget: Array) -> Array:
    """The places of the ``budget`` smallest draws of each row."""
    return draw.argsort(axis=-1).argsort(axis=-1) < np.asarray(budget)[..., None]


def choose_with(budget: Any, places: Any = None) -> Any:
    """``budget`` takes ordinary, probability and most; ``places`` ordinary, draw and a budget."""

    def choose(ordinary: Array, draw: Array, probability: float, most: int) -> Array:
        number = budget(ordinary, probability, most)
        if places is not None:
            return places(ordinary, draw, number)
        return ordinary & smallest(np.where(ordinary, draw, 2.0), number)

    return choose


def budget_with(count: Any = None, rounded: Any = np.rint, least: int = 1, cap: bool = True) -> Any:
    def budget(ordinary: Array, probability: float, most: int) -> Array:
        number = ordinary.sum(axis=1) if count is None else count(ordinary)
        number = np.clip(rounded(probability * number), least, most if cap else None)
        return np.where(ordinary.any(axis=1), number, 0)

    return budget


def whole_batch(ordinary: Array, draw: Array, probability: float, most: int) -> Array:
    number = np.clip(np.rint(probability * ordinary.sum()), 1, most * len(ordinary))
    return ordinary & smallest(np.where(ordinary, draw, 2.0).ravel(), number).reshape(draw.shape)


CHOOSE = Exercise(
    lesson=12,
    answer=choose_tokens,
    outputs=("chosen",),
    by_hand=choose_by_hand,
    draw=draw_choose,
    hints=(
        "How many tokens does each row have to give, and which of them may never be chosen?",
        "First a budget for each row, shape (B,): the rounded share of its ordinary tokens, from 1 "
        "to most, but 0 where the row has none.  Then rank the draws of each row, with those of "
        "special tokens replaced by a number above 1.",
        "count = ordinary.sum(axis=1);  budget = clip(rint(probability * count), 1, most), 0 where "
        "count is 0;  rank = where(ordinary, draw, 2).argsort(axis=1).argsort(axis=1);  chosen is "
        "ordinary & (rank < budget[:, None]).",
    ),
    slips=(
        Slip(
            "every token tosses a coin of its own",
            "draw < probability gives 15 % on average only: some rows get many, short ones none.",
            lambda ordinary, draw, probability, most: ordinary & (draw < probability),
        ),
        Slip(
            "padding and special tokens count towards the share",
            "the share is taken of the row's ordinary tokens: a half empty row gives half as many.",
            choose_with(budget_with(lambda ordinary: np.full(len(ordinary), ordinary.shape[1]))),
        ),
        Slip(
            "special tokens are chosen",
            "[CLS], [SEP] and padding are the same in every row, so there is nothing to learn "
            "from predicting them: rank the draws of ordinary tokens only.",
            choose_with(predictions_per_row, lambda ordinary, draw, n: smallest(draw, n)),
        ),
        Slip(
            "special tokens use up the budget",
            "they are removed after the ranking, so a row gets fewer than its share: put their "
            "draws out of reach before.",
            choose_with(
                predictions_per_row, lambda ordinary, draw, n: ordinary & smallest(draw, n)
            ),
        ),
        Slip(
            "the share is rounded down",
            "int() cuts off: 0.15 · 19 = 2.85 is nearer to 3.",
            choose_with(budget_with(rounded=np.floor)),
        ),
        Slip(
            "the share is rounded up",
            "rint takes the nearest whole number: 0.15 · 8 = 1.2 is 1.",
            choose_with(budget_with(rounded=np.ceil)),
        ),
        Slip(
            "a short row gives nothing",
            "0.15 · 3 rounds to 0, but a row that is never asked anything costs its time for "
            "nothing: at least 1.",
            choose_with(budget_with(least=0)),
        ),
        Slip(
            "most is not respected",
            "the number of predictions in a row has a limit, so that memory has one too.",
            choose_with(budget_with(cap=False)),
        ),
        Slip(
            "a row without ordinary tokens gives one",
            "at least 1 holds for rows that have some; here it picked [CLS] or padding.",
            choose_with(
                lambda ordinary, probability, most: np.clip(
                    np.rint(probability * ordinary.sum(axis=1)), 1, most
                ),
                lambda ordinary, draw, n: smallest(np.where(ordinary, draw, 2.0), n),
            ),
        ),
        Slip(
            "one too many in each row",
            "ranks begin with 0: the budget's smallest draws have rank < budget, not <=.",
            choose_with(lambda *row: predictions_per_row(*row) + 1),
        ),
        Slip(
            "the largest draws are chosen",
            "that is as random, but the rule here says the smallest.",
            choose_with(
                predictions_per_row,
                lambda ordinary, draw, n: ordinary & smallest(np.where(ordinary, -draw, 2.0), n),
            ),
        ),
        Slip(
            "the share is taken of the whole batch",
            "each row has a budget of its own: sum over axis=1 and rank along axis=1.",
            whole_batch,
        ),
    ),
)


# --- what is shown in their place


def hide_by_hand() -> Case:
    ids = np.array([[2, 11, 12, 13, 3], [2, 14, 15, 3, 0]], np.int32)
    chosen = np.zeros(ids.shape, np.bool_)
    chosen[0, [1, 3]] = chosen[1, 2] = True
    draw, random_ids = np.array([0.85, 0.3, 0.95]), np.array([21, 22, 23], np.int32)
    return Case(
        {"ids": ids, "chosen": chosen, "draw": draw, "random_ids": random_ids, "mask_id": 4}
    )


def draw_hide(generator: np.random.Generator) -> Case:
    B, T = generator.permutation([7, 11, 13])[:2]
    ids = generator.integers(5, 500, (B, T)).astype(np.int32)
    M = 20
    chosen = np.arange(B * T) < M
    generator.shuffle(chosen)
    draw = generator.random(M)
    draw[:8] = generator.uniform(0.8, 1, 8)  # enough of what is rare
    draw[:2] = generator.uniform(0.8, 0.9), generator.uniform(0.9, 1)
    generator.shuffle(draw)
    random_ids = generator.integers(500, 900, M).astype(np.int32)
    return Case(
        {
            "ids": ids, "chosen": chosen.reshape(B, T), "draw": draw, "random_ids": random_ids,
            "mask_id": 4,
        }
    )  # fmt: skip


def hide_with(shown: Any) -> Any:
    """``shown`` takes draw, random_ids, labels and mask_id."""

    def hide(
        ids: Array, chosen: Array, draw: Array, random_ids: Array, mask_id: int
    ) -> tuple[Array, ...]:
        masked, positions, labels = hide_tokens(ids, chosen, draw, random_ids, mask_id)
        masked[chosen] = shown(draw, random_ids, labels, mask_id)
        return masked, positions, labels

    return hide


def right_but(change: Any) -> Any:
    """``change`` takes ids, chosen, draw and the right results, and returns new ones."""

    def hide(
        ids: Array, chosen: Array, draw: Array, random_ids: Array, mask_id: int
    ) -> tuple[Array, ...]:
        return change(ids, chosen, draw, *hide_tokens(ids, chosen, draw, random_ids, mask_id))

    return hide


HIDE = Exercise(
    lesson=12,
    answer=hide_tokens,
    outputs=("input_ids", "positions", "labels"),
    by_hand=hide_by_hand,
    draw=draw_hide,
    hints=(
        "Which of the results must be read from ids before anything is replaced?",
        "positions = np.flatnonzero(chosen) counts through all B·T tokens; labels are ids there. "
        "What is shown is chosen by two limits on the same draw, 0.8 and 0.9.",
        "labels = ids.reshape(-1)[positions];  shown = where(draw < 0.8, mask_id, where(draw < "
        "0.9, random_ids, labels));  copy ids, and write shown at chosen.  positions are int32.",
    ),
    slips=(
        Slip(
            "every chosen token becomes [MASK]",
            "the model would learn nothing about tokens that are there, and later texts have no "
            "[MASK].",
            hide_with(lambda draw, random, labels, mask: mask),
        ),
        Slip(
            "no token is left as it is",
            "from 0.9 on the token itself is shown: half of the 20 % that are not [MASK].",
            hide_with(lambda draw, random, labels, mask: np.where(draw < 0.8, mask, random)),
        ),
        Slip(
            "no token is ever random",
            "draws below 0.8 are used up by [MASK], so the next limit on the same draw is 0.9; "
            "for a second draw it would be 0.5, half of what is left, and never 0.1.",
            hide_with(lambda draw, random, labels, mask: np.where(draw < 0.8, mask, labels)),
        ),
        Slip(
            "random and unchanged are exchanged",
            "the shares are right, but the rule says: random from 0.8 to 0.9, unchanged above.",
            hide_with(
                lambda draw, random, labels, mask: np.where(
                    draw < 0.8, mask, np.where(draw < 0.9, labels, random)
                )
            ),
        ),
        Slip(
            "the random tokens overwrite [MASK]",
            "draw < 0.9 is true below 0.8 as well: write [MASK] last.",
            hide_with(lambda draw, random, labels, mask: np.where(draw < 0.9, random, labels)),
        ),
        Slip(
            "[MASK] stands where draw is above 0.8",
            "that is one token in five; draw < 0.8 is four in five.",
            hide_with(
                lambda draw, random, labels, mask: np.where(
                    draw > 0.8, mask, np.where(draw < 0.1, random, labels)
                )
            ),
        ),
        Slip(
            "the labels are read after the tokens are hidden",
            "the right answer would be [MASK] itself: take the labels from ids first.",
            right_but(
                lambda ids, chosen, draw, masked, positions, labels: (
                    masked, positions, masked[chosen],
                )
            ),
        ),
        Slip(
            "only [MASK] places have a label",
            "random and unchanged tokens are asked too: that is what they are there for.",
            right_but(
                lambda ids, chosen, draw, masked, positions, labels: (
                    masked, positions, np.where(draw < 0.8, labels, IGNORED),
                )
            ),
        ),
        Slip(
            "the positions are columns",
            "of which row?  row · T + column says both: that is the place in ids.reshape(-1).",
            right_but(
                lambda ids, chosen, draw, masked, positions, labels: (
                    masked, positions % ids.shape[1], labels,
                )
            ),
        ),
    ),
)  # fmt: skip


# --- a sentence from another document


def elsewhere_by_hand() -> Case:
    document, place = np.array([1, 1, 1, 0]), np.array([0.25, 0.5, 0.9, 0.0])
    return Case({"document": document, "place": place, "before": np.array([0, 2, 5, 9])})


def draw_elsewhere(generator: np.random.Generator) -> Case:
    lengths = generator.permutation([1, 2, 3, 5, 7, 9])
    before = np.concatenate([[0], np.cumsum(lengths)])
    document = generator.integers(0, len(lengths), 61)
    document[:6] = np.arange(6)
    place = generator.random(61)
    place[:6] = before[:6] / (before[-1] - lengths) + 1e-3  # the first number to be stepped over
    place[5] = 0.999
    return Case({"document": document, "place": place, "before": before})


def elsewhere_with(step: Any, whole: bool = False, rounded: Any = np.floor) -> Any:
    """``step`` takes the number, the first sentence of the own document and its size."""

    def elsewhere(document: Array, place: Array, before: Array) -> Array:
        first, own = before[document], before[document + 1] - before[document]
        among = before[-1] if whole else before[-1] - own
        number = rounded(place * among).astype(np.int64)
        return number + step(number, first, own)

    return elsewhere


def next_document(document: Array, place: Array, before: Array) -> Array:
    other = (document + 1) % (len(before) - 1)
    size = before[other + 1] - before[other]
    return before[other] + np.floor(place * size).astype(np.int64)


ELSEWHERE = Exercise(
    lesson=12,
    answer=sentence_elsewhere,
    outputs=("number",),
    by_hand=elsewhere_by_hand,
    draw=draw_elsewhere,
    hints=(
        "How many sentences are there to draw from, when the own document does not count?",
        "Draw a whole number below that.  Numbers before the own document are right already; what "
        "do those from its first sentence on lack?",
        "own = before[document + 1] - before[document];  number = floor(place * (before[-1] - "
        "own)) as int64;  add own where number >= before[document].",
    ),
    slips=(
        Slip(
            "the own document may be drawn",
            "a sentence of the same text, called random, teaches the model that neighbours are "
            "strangers.",
            elsewhere_with(lambda n, first, own: 0, whole=True),
        ),
        Slip(
            "the own document is not stepped over",
            "the numbers are counted as if it were not there, so those from its place on are too "
            "small by its size.",
            elsewhere_with(lambda n, first, own: 0),
        ),
        Slip(
            "it steps over one sentence only",
            "the whole document is to be passed: add its number of sentences.",
            elsewhere_with(lambda n, first, own: np.where(n >= first, 1, 0)),
        ),
        Slip(
            "only numbers inside the own document are moved",
            "then the document behind it is drawn twice as often, and the last sentences never: "
            "all numbers from there on move.",
            elsewhere_with(
                lambda n, first, own: np.where((n >= first) & (n < first + own), own, 0)
            ),
        ),
        Slip(
            "the own document's first sentence may be drawn",
            "its number is before[document] itself, so that one has to move too: >=, not >.",
            elsewhere_with(lambda n, first, own: np.where(n > first, own, 0)),
        ),
        Slip(
            "every number is moved",
            "sentences before the own document are counted rightly already.",
            elsewhere_with(lambda n, first, own: own),
        ),
        Slip(
            "the number is rounded, not cut off",
            "place · 6 runs from 0 to just below 6: cut off, it gives 0 to 5 with equal chance; "
            "rounded, 0 comes half as often and 6 is no sentence.",
            elsewhere_with(lambda n, first, own: np.where(n >= first, own, 0), rounded=np.rint),
        ),
        Slip(
            "it is always the next document",
            "neighbouring documents are often about the same thing: any other has to be possible.",
            next_document,
        ),
    ),
)

EXERCISES = (CHOOSE, HIDE, ELSEWHERE)
