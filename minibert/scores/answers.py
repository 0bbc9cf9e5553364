"""Answers to questions, compared with right ones as SQuAD does: as a whole and word by word.

Source of all: Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text",
section 6.1; Rajpurkar et al. 2018, "Know What You Don't Know", for questions without an answer; and
their scripts evaluate-v1.1.py and evaluate-v2.0.py, which decide what the papers leave open.  The
scripts differ in two points: see `f1` and `answer_scores`.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from math import fsum
from typing import NamedTuple

PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLE = re.compile(r"\b(a|an|the)\b")


class AnswerScores(NamedTuple):
    """The means over all questions, as shares from 0 to 1."""

    exact_match: float
    f1: float


def normalize_answer(text: str) -> str:
    """Return the text without what does not matter to an answer.

    In this order: lower-case; take out ASCII punctuation, leaving no blank; put a blank for each
    word "a", "an" and "the"; make every run of white space one blank, with none at the ends.

        "The state-of-the-art, in  Ohio!"   =>   "stateoftheart in ohio"

    Other punctuation stays, and parts words: of "l’a" only "l’" is left, as of "l a" only "l".
    """
    if not isinstance(text, str):
        raise ValueError(f"text is {text!r}, expected a str")
    return " ".join(ARTICLE.sub(" ", text.lower().translate(PUNCTUATION)).split())


def exact_match(
    predicted: str,
    answers: Sequence[str],  # all that are right; none if the text does not answer
) -> bool:
    """Return whether the prediction, normalized, is one of the right answers, normalized.

    With no answers the empty text is right, and nothing else.  Answers of which normalizing leaves
    nothing, such as "The", do not count among the others.
    """
    return normalize_answer(predicted) in _normalized(answers)


def f1(
    predicted: str,
    answers: Sequence[str],  # all that are right; none if the text does not answer
) -> float:
    """Return the F1 of the predicted words, against the right answer where it is highest.

    Words are those of the normalized texts, and each counts as often as it occurs.  With hits the
    number of words in both:

        F1 = 2 p r / (p + r) = 2 hits / (predicted + right),
        p = hits / predicted,  r = hits / right

    Two texts without words agree: F1 is 1, not 0/0, as in evaluate-v2.0.py; evaluate-v1.1.py gives
    0, but there every answer has words.  Which answers count is said in `exact_match`.
    """
    words = Counter(normalize_answer(predicted).split())
    return max(_overlap(words, Counter(answer.split())) for answer in _normalized(answers))


def answer_scores(
    predictions: Mapping[str, str],  # by the question's id
    right: Mapping[str, Sequence[str]],  # all right answers, by the question's id
) -> AnswerScores:
    """Return exact match and F1, each as the mean over the questions in ``right``.

    A question without a prediction counts 0, as in evaluate-v1.1.py; evaluate-v2.0.py leaves it out
    of the mean, which would reward silence.  To answer that the text holds no answer, predict "".
    Predictions for other questions do not count.

    Raises ValueError for no questions.
    """
    if len(right) == 0:
        raise ValueError("right is empty, expected at least one question")
    answered = [(predictions[key], answers) for key, answers in right.items() if key in predictions]
    exact = sum(exact_match(text, answers) for text, answers in answered)
    overlap = fsum(f1(text, answers) for text, answers in answered)
    return AnswerScores(exact / len(right), overlap / len(right))


def _normalized(answers: Sequence[str]) -> list[str]:
    """Return the right answers that have words, or the empty one if none has."""
    if isinstance(answers, str):
        raise ValueError(f"answers is the text {answers!r}, expected a sequence: use [answers]")
    return [text for text in map(normalize_answer, answers) if text] or [""]


def _overlap(words: Counter[str], right: Counter[str]) -> float:
    """Return the F1 of two bags of words."""
    if not words and not right:
        return 1.0
    return 2 * (words & right).total() / (words.total() + right.total())
