"""The four tasks that a pretrained BERT is fine-tuned for, one file each.

classify     a label for a text, or for a pair of texts
similarity   a score for a pair of texts
tag          a tag for each word
answer       the slice of a passage that answers a question
"""

from minibert.tasks.answer import Answer, Answered
from minibert.tasks.base import Columns, Task
from minibert.tasks.classify import Classified, Classify
from minibert.tasks.finetuned import TASKS, FineTuned, load_finetuned
from minibert.tasks.similarity import Similar, Similarity
from minibert.tasks.tag import Tag, Tagged

__all__ = [
    "TASKS",
    "Answer",
    "Answered",
    "Classified",
    "Classify",
    "Columns",
    "FineTuned",
    "Similar",
    "Similarity",
    "Tag",
    "Tagged",
    "Task",
    "load_finetuned",
]
