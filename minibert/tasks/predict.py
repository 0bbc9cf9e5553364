"""Running a task's model over rows: by length, in batches of a bounded number of tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minibert.arrays import Array
from minibert.tasks.base import Task, TaskModel
from minibert.tasks.rows import Row, batches_by_length

TOKENS = 4096
"""In one batch; bounds memory, which all layers' caches take, whatever the lengths are."""

Progress = Callable[[int, int], None]


def run_rows(
    task: Task, model: TaskModel, rows: Sequence[Row], progress: Progress = lambda done, total: None
) -> list[Array]:
    """Return the logits of every row, in the order of the rows, without dropout."""
    logits: list[Any] = [None] * len(rows)
    done = 0
    for numbers in batches_by_length([row.length for row in rows], TOKENS):
        chosen = [rows[number] for number in numbers]
        parts = task.split(model.logits(task.batch(chosen)), chosen)
        for number, part in zip(numbers, parts, strict=True):
            logits[number] = part
        done += len(numbers)
        progress(done, len(rows))
    return logits


def predict(
    task: Task,
    model: TaskModel,
    examples: Sequence[Any],
    progress: Progress = lambda done, total: None,
) -> list[Any]:
    """Return one prediction for each example."""
    rows = task.rows(examples)
    return task.answers(examples, rows, run_rows(task, model, rows, progress))
