"""What a task is: how examples become rows, and how a model's scores become answers.

    file ─ read ─ examples ─ rows ─ batch ─ model ─ split ─ answers ─ scores
                                   (tasks/rows.py)          └ what predict returns

A task knows its tokenizer and its settings, and nothing of training; its model knows nothing of
text.  The four tasks of BERT's paper are classify, similarity, tag and answer, one file each.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from minibert.arrays import Array
from minibert.config import BertConfig
from minibert.keys import Key
from minibert.models.bert import Bert
from minibert.models.classifier import TaskBatch, TaskOutput
from minibert.params import ParamStore
from minibert.tasks.rows import Row
from minibert.tokenizer import Tokenizer

if TYPE_CHECKING:
    from minibert.ops import Ops


class Columns(NamedTuple):
    """Which columns of a table hold what, by name or by number from 1; None: found by name."""

    text: str | None = None
    pair: str | None = None
    label: str | None = None


ANY_COLUMNS = Columns()


class TaskModel(Protocol):
    """A model with a head, as training and prediction use it."""

    config: BertConfig
    params: ParamStore
    ops: Ops
    bert: Bert
    architecture: str

    def logits(self, batch: TaskBatch) -> Array: ...
    def forward(self, batch: TaskBatch, key: Key | None = None) -> tuple[TaskOutput, Any]: ...
    def weight(self, batch: TaskBatch) -> float: ...
    def backward(self, dloss: float, cache: Any) -> None: ...
    def to_json(self) -> dict[str, Any]: ...


class Task(ABC):
    """One of the four; ``metric`` names the score that decides which epoch was the best."""

    name: ClassVar[str]
    metric: ClassVar[str]
    tokenizer: Tokenizer
    max_length: int
    pairs: bool | None = None
    """Whether an example is two texts; None where it may be either."""
    head_rate: float = 1.0
    """By what the learning rate of the head is multiplied."""

    @abstractmethod
    def fitted(self, examples: Sequence[Any]) -> Task:
        """Return the same task with what it learns from the training examples: its labels, say.

        Raises ValueError where there is nothing to be learned from them.
        """

    @abstractmethod
    def read(self, path: Path, columns: Columns, *, known: bool = True) -> list[Any]:
        """Return a file's examples; ``known`` says that the right answers must be in it.

        Raises ValueError, one line with file and row, where the file is not fit.
        """

    @abstractmethod
    def examples(self, inputs: Sequence[Any]) -> list[Any]:
        """Return what a program passes to ``predict`` as examples without right answers."""

    @abstractmethod
    def model(self, config: BertConfig, ops: str | Ops) -> TaskModel:
        """Return a model for the task, whose weights are yet to be drawn or read."""

    def prepare(self, model: TaskModel, *, fresh: bool) -> None:  # noqa: B027
        """Change a model so that training begins well; ``fresh``: its head was drawn just now."""

    @abstractmethod
    def rows(self, examples: Sequence[Any]) -> list[Row]:
        """Return the examples as rows of ids, in order; a long one may give several."""

    @abstractmethod
    def batch(self, rows: Sequence[Row]) -> TaskBatch:
        """Return rows as one batch; where labels are not known it has some, to be ignored."""

    def split(self, logits: Array, rows: Sequence[Row]) -> list[Array]:
        """Return each row's part of a batch's logits, padding cut off."""
        return list(logits)

    @abstractmethod
    def answers(
        self, examples: Sequence[Any], rows: Sequence[Row], logits: Sequence[Array]
    ) -> list[Any]:
        """Return one prediction for each example."""

    @abstractmethod
    def scores(self, predictions: Sequence[Any], examples: Sequence[Any]) -> dict[str, float]:
        """Return how good predictions are, by name; higher is better."""

    def warning(self, predictions: Sequence[Any]) -> str | None:
        """Return what is suspicious about predictions, None if nothing is."""
        return None

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Return what a folder must keep beside config.json to open the task again."""


def warn_of_cuts(cut: int, total: int, max_length: int) -> None:
    """Warn, once for a file, that long texts lose their ends."""
    if cut:
        warnings.warn(
            f"{cut:,} of {total:,} texts have more than {max_length} tokens, and their ends are "
            "not read: finetune with a longer --max-length reads more",
            stacklevel=3,
        )


def check_length(max_length: int, least: int, what: str) -> None:
    """Raise ValueError where a row is too short for ``what`` it must hold."""
    if max_length < least:
        raise ValueError(f"max_length is {max_length}, expected at least {least}, for {what}")


def refuse_columns(columns: Columns) -> None:
    """Raise ValueError where a task that reads no tables is told about columns."""
    if columns != ANY_COLUMNS:
        raise ValueError("columns are for tables, which this task does not read: leave them out")


def one_text(given: Any, place: int) -> str:
    """Return an input that must be a text; raises TypeError with its place where it is not."""
    if isinstance(given, str):
        return given
    raise TypeError(f"inputs[{place}] is {given!r:.60}, expected one text")


def two_texts(given: Any, place: int) -> tuple[str, str]:
    """Return an input that must be two texts; raises TypeError with its place where it is not."""
    match given:
        case (str(first), str(second)):
            return first, second
    raise TypeError(f"inputs[{place}] is {given!r:.60}, expected a tuple of two texts")


def in_order(labels: set[str]) -> tuple[str, ...]:
    """Return labels as people would list them: numbers by value, words by the alphabet.

    >>> in_order({"10", "9", "-1"}), in_order({"pos", "neg"})
    (('-1', '9', '10'), ('neg', 'pos'))
    """
    try:
        return tuple(sorted(labels, key=lambda label: (float(label), label)))
    except ValueError:
        return tuple(sorted(labels))
