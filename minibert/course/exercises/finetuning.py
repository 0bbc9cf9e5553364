"""Lesson 17: an answer as a span of tokens, one vector for a sentence, and a fair score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minibert.arrays import Array
from minibert.course.exercise import Case, Exercise, Rows, Slip
from minibert.data.tasks import Answer
from minibert.layers.pooling import mean_pool_backward, mean_pool_forward
from minibert.scores import macro_f1
from minibert.tasks.answer import span_of

# --- from characters to tokens

Offsets = list[tuple[int, int]]
Span = tuple[int, int] | None


def span_by_hand() -> Case:
    offsets = [(0, 3), (4, 8), (8, 11), (12, 15), (16, 19)]  # the play ##ing dog ran
    return Case({"answers": [Answer("playing dog", 4)], "offsets": offsets})


def draw_span(generator: np.random.Generator) -> Case:
    """Tokens with gaps now and then; the answer begins or ends inside a token, or does both."""
    kind = generator.random(3)[2]
    offsets, at = [], int(generator.integers(3))
    for _ in range(int(generator.integers(11, 17))):
        stop = at + int(generator.integers(4, 8))
        offsets.append((at, stop))
        at = stop + int(generator.integers(2))
    first = int(generator.integers(2, 5))
    last = first + int(generator.integers(2, 5))
    start = offsets[first][0] + (2 if kind > 0.4 else 0)
    stop = offsets[last][1] - (2 if kind > 0.7 or kind < 0.4 else 0)
    right = Answer("x" * (stop - start), start)
    other = Answer("x" * (offsets[1][1] - offsets[0][0]), offsets[0][0])
    return Case({"answers": [right, other], "offsets": offsets})


def span_with(
    touches: Callable[[int, int, int, int], bool] = lambda a, b, start, stop: (
        b > start and a < stop
    ),
    change: Callable[[int, int], tuple[int, int]] = lambda first, last: (first, last),
    which: int = 0,
) -> Any:
    """``touches`` takes a token's characters and the answer's."""

    def span(answers: Any, offsets: Offsets) -> Span:
        if not answers:
            return None
        answer = answers[min(which, len(answers) - 1) if which >= 0 else which]
        start, stop = answer.start, answer.start + len(answer.text)
        touched = [n for n, (a, b) in enumerate(offsets) if touches(a, b, start, stop)]
        return change(touched[0], touched[-1]) if touched else None

    return span


def in_characters(answers: Any, offsets: Offsets) -> Span:
    first, last = span_of(answers, offsets) or (0, 0)
    return offsets[first][0], offsets[last][1]


SPAN = Exercise(
    lesson=17,
    answer=span_of,
    outputs=("span",),
    by_hand=span_by_hand,
    draw=draw_span,
    hints=(
        "The answer is given in characters.  When does a token share a character with it?",
        "The answer is the characters start … start + len(text) - 1.  A token (a, b) touches it if "
        "it ends behind the answer's start and begins before its end.  Collect the numbers of "
        "those tokens.",
        "None if there are no answers.  start = answers[0].start;  stop = start + "
        "len(answers[0].text);  touched = [n for n, (a, b) in enumerate(offsets) if b > start and "
        "a < stop];  return (touched[0], touched[-1]), or None if touched is empty.",
    ),
    slips=(
        Slip(
            "the last token is one too far",
            "touched[-1] is the answer's last token itself: a label is a place, not a slice's end.",
            span_with(change=lambda first, last: (first, last + 1)),
        ),
        Slip(
            "only tokens that lie wholly inside are taken",
            "people mark answers in the middle of tokens; one that is touched belongs to it.",
            span_with(lambda a, b, start, stop: a >= start and b <= stop),
        ),
        Slip(
            "a first token that is cut by the answer's start is lost",
            "the answer may begin inside a token: b > start, not a >= start.",
            span_with(lambda a, b, start, stop: a >= start and a < stop),
        ),
        Slip(
            "a last token that is cut by the answer's end is lost",
            "the answer may end inside a token: a < stop, not b <= stop.",
            span_with(lambda a, b, start, stop: b > start and b <= stop),
        ),
        Slip(
            "the span is in characters",
            "the model's labels are numbers of tokens; offsets lead from one to the other.",
            in_characters,
        ),
        Slip(
            "the end is a length",
            "the second number is the place of the last token, not how many there are.",
            span_with(change=lambda first, last: (first, last - first + 1)),
        ),
        Slip(
            "the end is the answer's start",
            "stop is start + len(text); without the text's length only one token is found.",
            span_with(lambda a, b, start, stop: b > start and a <= start),
        ),
        Slip(
            "the place of [CLS] is counted",
            "offsets are those of the passage alone; where it begins in the row is added later.",
            span_with(change=lambda first, last: (first + 1, last + 1)),
        ),
        Slip(
            "another answer than the first is taken",
            "where several answers are right, training takes answers[0].",
            span_with(which=-1),
        ),
        Slip(
            "the first and the last are exchanged",
            "the place where it starts comes first.",
            span_with(change=lambda first, last: (last, first)),
        ),
        Slip(
            "there is no answer, it says",
            "None is for no answers, or for one of which no token is touched.",
            lambda answers, offsets: None,
        ),
    ),
)


# --- one vector for a sentence


def pool_case(dpooled: Array, attention_mask: Array, hidden: Array) -> Case:
    def loss() -> float:
        return float(np.sum(dpooled * mean_pool_forward(hidden, attention_mask)))

    return Case({"dpooled": dpooled, "attention_mask": attention_mask}, loss, {"dhidden": hidden})


def pool_by_hand() -> Case:
    mask = np.array([[True, True, False], [True, True, True]])
    return pool_case(np.array([[4.0, 2.0], [3.0, -6.0]]), mask, np.zeros((2, 3, 2)))


def draw_pool(generator: np.random.Generator) -> Case:
    """Rows of unequal length; the last is full."""
    B, T, C = generator.permutation([3, 5, 7])
    lengths = generator.integers(1, T, B)
    lengths[-1] = T
    mask = np.arange(T) < lengths[:, None]
    return pool_case(generator.normal(size=(B, C)), mask, generator.normal(size=(B, T, C)))


def pool_with(share: Callable[[Array, Array], Array], padding: bool = False) -> Any:
    """``share`` takes dpooled (B, C) and the mask, and returns what each token gets, (B, C)."""

    def backward(dpooled: Array, attention_mask: Array) -> Array:
        each = share(dpooled, attention_mask).astype(dpooled.dtype)[:, None, :]
        places = np.ones_like(attention_mask) if padding else attention_mask
        return np.where(places[..., None], each, each.dtype.type(0))

    return backward


def lengths_of(mask: Array) -> Array:
    return np.maximum(mask.sum(axis=1, keepdims=True), 1)


def first_only(dpooled: Array, attention_mask: Array) -> Array:
    dhidden = np.zeros_like(dpooled, shape=(*attention_mask.shape, dpooled.shape[1]))
    dhidden[:, 0] = dpooled
    return dhidden


POOL = Exercise(
    lesson=17,
    answer=mean_pool_backward,
    outputs=("dhidden",),
    by_hand=pool_by_hand,
    draw=draw_pool,
    hints=(
        "How much does a row's mean move if one of its n tokens moves by 1?  And if padding moves?",
        "Every real token of a row gets dpooled / n, n being the number of True in its mask; "
        "padding gets 0.  One axis is missing: dpooled is (B, C), dhidden (B, T, C).",
        "n = attention_mask.sum(axis=1, keepdims=True), at least 1, in dpooled's dtype;  share = "
        "(dpooled / n)[:, None, :];  dhidden = share * attention_mask[..., None].",
    ),
    slips=(
        Slip(
            "padding counts in the mean",
            "the forward divided by the number of real tokens, not by T.",
            pool_with(lambda dpooled, mask: dpooled / mask.shape[1]),
        ),
        Slip(
            "padding gets a gradient, and counts in the mean",
            "the forward left padding out: it gets 0, and n counts real tokens only.",
            pool_with(lambda dpooled, mask: dpooled / mask.shape[1], padding=True),
        ),
        Slip(
            "the gradient is not divided",
            "a mean over n tokens moves by 1/n when one of them moves by 1.",
            pool_with(lambda dpooled, mask: dpooled),
        ),
        Slip(
            "the gradient is neither divided nor masked",
            "each of the n real tokens gets dpooled / n, and padding gets 0.",
            pool_with(lambda dpooled, mask: dpooled, padding=True),
        ),
        Slip(
            "it is divided by the batch's number of tokens",
            "every row is a mean of its own: sum the mask over axis=1, with keepdims=True.",
            pool_with(lambda dpooled, mask: dpooled / mask.sum()),
        ),
        Slip(
            "it is multiplied where it should be divided",
            "the longer a sentence is, the less does one token move its mean.",
            pool_with(lambda dpooled, mask: dpooled * lengths_of(mask)),
        ),
        Slip(
            "the root of the length is divided by",
            "a mean divides by n itself.",
            pool_with(lambda dpooled, mask: dpooled / np.sqrt(lengths_of(mask))),
        ),
        Slip(
            "only the first token gets a gradient",
            "that is [CLS] pooling; a mean has all of the row's tokens in it.",
            first_only,
        ),
    ),
    rows={
        "dhidden": (
            Rows(
                "padding gets a gradient",
                "the forward left padding out, so nothing comes back to it.",
                lambda dpooled, attention_mask: ~attention_mask,
            ),
        )
    },
    sizes=lambda dpooled, attention_mask: {
        "B": dpooled.shape[0],
        "T": attention_mask.shape[1],
        "C": dpooled.shape[1],
    },
)


# --- a score that a collapsed model cannot please


def f1_by_hand() -> Case:
    return Case({"predicted": list("aaaab"), "right": list("aaabb")})


def draw_f1(generator: np.random.Generator) -> Case:
    """Labels of unequal frequency; one is never predicted, two are never right."""
    right = generator.choice([0, 1, 2, 3], size=41, p=[0.5, 0.25, 0.15, 0.1])
    predicted = np.where(generator.random(41) < 0.6, right, generator.integers(0, 4, 41))
    right[:6], predicted[:6] = [0, 1, 2, 3, 1, 0], [1, 1, 2, 0, 4, 5]
    predicted[predicted == 3] = 1
    return Case({"predicted": predicted.tolist(), "right": right.tolist()})


def f1_parts(predicted: Any, right: Any) -> tuple[Array, Array, Array]:  # (K,) each
    labels = np.array(sorted({*predicted, *right}))[:, None]
    guesses, truths = np.asarray(predicted) == labels, np.asarray(right) == labels
    return (guesses & truths).sum(axis=1), guesses.sum(axis=1), truths.sum(axis=1)


def f1_with(change: Callable[[Array, Array, Array], Any]) -> Any:
    """``change`` takes hits, predicted and right, of each label."""
    return lambda predicted, right: float(change(*f1_parts(predicted, right)))


def mean_share(hits: Array, count: Array) -> Array:
    return (hits / np.maximum(count, 1)).mean()


MACRO = Exercise(
    lesson=17,
    answer=macro_f1,
    outputs=("score",),
    by_hand=f1_by_hand,
    draw=draw_f1,
    hints=(
        "For one label: in how many rows is it predicted, in how many right, in how many both?",
        "Each label that is seen on either side has F1 = 2 hits / (predicted + right); the score "
        "is the plain mean of these, whatever the labels' sizes.",
        "for label in set(predicted) | set(right): hits = the number of rows where both are label;"
        "  count = how often predicted is + how often right is;  add 2 * hits / count.  Divide the "
        "sum by the number of labels.",
    ),
    slips=(
        Slip(
            "it is the accuracy",
            "with one frequent label, always saying that one is accurate, and worthless.",
            f1_with(lambda hits, predicted, right: hits.sum() / right.sum()),
        ),
        Slip(
            "the labels are weighted by how often they are right",
            "macro is the plain mean: a rare label counts as much as a frequent one.",
            f1_with(
                lambda hits, predicted, right: (
                    (2 * hits / (predicted + right) * right).sum() / right.sum()
                )
            ),
        ),
        Slip(
            "the factor 2 is missing",
            "2 hits / (predicted + right): a label that is always right has 2n / (n + n) = 1.",
            f1_with(lambda hits, predicted, right: (hits / (predicted + right)).mean()),
        ),
        Slip(
            "it is the mean recall",
            "hits / right does not mind how often a label is predicted wrongly.",
            f1_with(lambda hits, predicted, right: mean_share(hits[right > 0], right[right > 0])),
        ),
        Slip(
            "it is the mean precision",
            "hits / predicted does not mind how often a label is missed.",
            f1_with(
                lambda hits, predicted, right: mean_share(
                    hits[predicted > 0], predicted[predicted > 0]
                )
            ),
        ),
        Slip(
            "labels that are never predicted are left out",
            "to miss a label altogether has to cost: its F1 is 0, and counts.",
            f1_with(
                lambda hits, predicted, right: (2 * hits / (predicted + right))[
                    predicted > 0
                ].mean()
            ),
        ),
        Slip(
            "labels that are never right are left out",
            "to predict a label that does not exist has to cost: its F1 is 0, and counts.",
            f1_with(
                lambda hits, predicted, right: (2 * hits / (predicted + right))[right > 0].mean()
            ),
        ),
        Slip(
            "labels without a hit are left out",
            "their F1 is 0, and it counts.",
            f1_with(
                lambda hits, predicted, right: (2 * hits / (predicted + right))[hits > 0].mean()
            ),
        ),
        Slip(
            "the labels' F1 are added up",
            "a mean divides by the number of labels.",
            f1_with(lambda hits, predicted, right: (2 * hits / (predicted + right)).sum()),
        ),
        Slip(
            "precision and recall are averaged, not F1",
            "the harmonic mean is nearer to the smaller one: 2 p r / (p + r), for each label.",
            f1_with(
                lambda hits, predicted, right: (
                    (mean_share(hits, predicted) + mean_share(hits, right)) / 2
                )
            ),
        ),
        Slip(
            "F1 is made of the mean precision and the mean recall",
            "first F1 for each label, then the mean.",
            f1_with(
                lambda hits, predicted, right: (
                    2
                    * mean_share(hits, predicted)
                    * mean_share(hits, right)
                    / (mean_share(hits, predicted) + mean_share(hits, right))
                )
            ),
        ),
    ),
)

EXERCISES = (SPAN, POOL, MACRO)
