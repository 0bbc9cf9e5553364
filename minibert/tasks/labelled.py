"""What classification and tagging share: answers are labels, those of the training examples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from minibert.tasks.base import Task, check_length
from minibert.tokenizer import Tokenizer


class LabelledTask(Task):
    """A task with labels; ``balanced`` lets all count alike in the loss, however many each has."""

    shortest: ClassVar[tuple[int, str]]
    """How many tokens the shortest row has, and which."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        max_length: int = 128,
        labels: Sequence[str] = (),
        balanced: bool = False,
    ) -> None:
        check_length(max_length, *self.shortest)
        self.tokenizer, self.max_length, self.labels = tokenizer, max_length, tuple(labels)
        self.numbers = {label: number for number, label in enumerate(self.labels)}
        self.balanced = balanced
        self.class_weights: list[float] | None = None

    def with_labels(self, labels: Sequence[str], found: Sequence[str]) -> Self:
        """Return the same task with its labels, weighed by how often each was ``found``."""
        task = type(self)(
            self.tokenizer, max_length=self.max_length, labels=labels, balanced=self.balanced
        )
        if self.balanced:
            numbers = [task.numbers[label] for label in found]
            task.class_weights = balanced_weights(numbers, len(labels))
        return task

    def settings(self) -> dict[str, Any]:
        return {"max_length": self.max_length}


def balanced_weights(labels: Sequence[int], classes: int) -> list[float]:
    """Return N / (K n_k) for each class k: then all classes count alike in the loss.

    Source: King and Zeng, Logistic Regression in Rare Events Data (2001), section 4; the formula
    is scikit-learn's "balanced".

    >>> balanced_weights([0, 0, 0, 1], 2)
    [0.6666666666666666, 2.0]
    """
    counts = np.maximum(np.bincount(labels, minlength=classes), 1)
    return (len(labels) / (classes * counts)).tolist()
