"""Scores: what a fine-tuned model is measured by, as pure functions of answers.

    classification   accuracy, macro-F1                   sentences and pairs (GLUE)
    correlation      Pearson's and Spearman's             similarity (STS-B)
    entities         precision, recall, F1 of entities    tagging (CoNLL-2003)
    answers          exact match, F1 of words             questions (SQuAD)

What was predicted comes first, what is right second.  A score is a float in [0, 1], a correlation
one in [-1, 1]; none is a percentage.  No data gives no score: empty input is a ValueError.
"""

from minibert.scores.answers import AnswerScores, answer_scores, exact_match, normalize_answer
from minibert.scores.classification import accuracy, confusion, macro_f1
from minibert.scores.correlation import pearson, spearman
from minibert.scores.entities import Entity, EntityScores, KindScores, entity_scores

__all__ = [
    "AnswerScores",
    "Entity",
    "EntityScores",
    "KindScores",
    "accuracy",
    "answer_scores",
    "confusion",
    "entity_scores",
    "exact_match",
    "macro_f1",
    "normalize_answer",
    "pearson",
    "spearman",
]
