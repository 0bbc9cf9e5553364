"""From the files people have for fine-tuning to examples: texts, pairs, tags, questions."""

from minibert.data.tasks.classification import read_texts
from minibert.data.tasks.conll import read_tagged
from minibert.data.tasks.examples import (
    Answer,
    QuestionExample,
    ScoredExample,
    TaggedExample,
    TextExample,
)
from minibert.data.tasks.similarity import read_pairs
from minibert.data.tasks.squad import read_questions
from minibert.data.tasks.tables import Table, read_table

__all__ = [
    "Answer",
    "QuestionExample",
    "ScoredExample",
    "Table",
    "TaggedExample",
    "TextExample",
    "read_pairs",
    "read_questions",
    "read_table",
    "read_tagged",
    "read_texts",
]
