"""A fine-tuned model with its task: what ``predict`` and ``evaluate`` work with.

Its folder is one that ``transformers`` opens, and beside that:

finetuning.json    the task's settings, how it was trained, and the scores of every epoch

Folders that others fine-tuned have no such file; the model class in config.json then tells which
task it is, and its settings are the usual ones.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minibert import __version__
from minibert.checkpoint.huggingface import load_config, save_model
from minibert.checkpoint.weights import load_weights
from minibert.config import BertConfig
from minibert.files import write_text
from minibert.models.labels import read_labels
from minibert.tasks.answer import Answer
from minibert.tasks.base import ANY_COLUMNS, Columns, Task, TaskModel
from minibert.tasks.classify import Classify
from minibert.tasks.predict import Progress, predict
from minibert.tasks.similarity import Similarity
from minibert.tasks.tag import Tag
from minibert.tokenizer import Tokenizer

if TYPE_CHECKING:
    from minibert.ops import Ops

FILE = "finetuning.json"
TASKS: dict[str, Callable[..., Task]] = {
    "classify": Classify,
    "similarity": Similarity,
    "tag": Tag,
    "answer": Answer,
}


@dataclass
class FineTuned:
    """A model that answers.  ``history`` is how it came about, in the form of finetuning.json."""

    task: Task
    model: TaskModel
    history: dict[str, Any] = field(default_factory=dict)

    def predict(
        self, inputs: Sequence[Any], progress: Progress = lambda done, total: None
    ) -> list[Any]:
        """Return one prediction for each input, in order.

        =============  =====================================  =========================
        task           an input                               a prediction
        =============  =====================================  =========================
        classify       a text or a tuple of two, as learned   ``Classified``
        similarity     a tuple of two texts                   ``Similar``
        tag            a text, or a list of words             ``Tagged``
        answer         a tuple of a question and a passage    ``Answered``
        =============  =====================================  =========================
        """
        if isinstance(inputs, str) or not isinstance(inputs, Iterable):
            raise TypeError(
                f"inputs must be a sequence, got one {type(inputs).__name__}: pass [text]"
            )
        return predict(self.task, self.model, self.task.examples(inputs), progress)

    def evaluate(
        self,
        file: str | os.PathLike[str],
        columns: Columns = ANY_COLUMNS,
        progress: Progress = lambda done, total: None,
    ) -> dict[str, float]:
        """Return the task's scores on a file with right answers.

        Raises ValueError, one line with file and row, where the file is not fit.
        """
        examples = self.task.read(Path(file), columns)
        return self.task.scores(predict(self.task, self.model, examples, progress), examples)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a folder that ``load_finetuned`` and ``transformers`` open."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        record = {
            "minibert": __version__,
            "task": self.task.name,
            "settings": self.task.settings(),
            **self.history,
        }
        write_text(folder / FILE, json.dumps(record, indent=2) + "\n")
        save_model(self.model, self.task.tokenizer, folder)  # the weights last: then all is there


def load_finetuned(folder: str | os.PathLike[str], ops: str | Ops = "numba") -> FineTuned:
    """Open a fine-tuned model, made by minibert or by others.

    Raises FileNotFoundError or ValueError, one line, where the folder holds none.
    """
    folder = Path(folder)
    config = load_config(folder)
    raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer = Tokenizer.load(folder)
    record = read_record(folder)
    task = task_of(folder, raw, config, tokenizer, record)
    model = task.model(config, ops)
    load_weights(model.params, folder)
    return FineTuned(task, model, record)


def read_record(folder: Path) -> dict[str, Any]:
    """Return what finetuning.json holds; nothing where there is none."""
    path = folder / FILE
    if not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}): fine-tune the model again") from None
    if not isinstance(record, dict) or record.get("task") not in tuple(TASKS):
        raise ValueError(f"{path} names no task of {', '.join(TASKS)}: fine-tune the model again")
    if not isinstance(record.get("settings"), dict):
        raise ValueError(f"{path} has no settings of the task: fine-tune the model again")
    return record


def task_of(
    folder: Path,
    raw: dict[str, Any],
    config: BertConfig,
    tokenizer: Tokenizer,
    record: dict[str, Any],
) -> Task:
    """Return the task that a folder's model was made for."""
    settings = dict(record.get("settings", {}))
    settings.setdefault("max_length", min(512, config.max_position_embeddings))
    name = record.get("task") or task_name(folder, raw)
    if name in ("classify", "tag"):
        settings["labels"] = read_labels(raw)
    try:
        return TASKS[name](tokenizer, **settings)
    except TypeError:
        raise ValueError(
            f"{folder / FILE} has settings that are not those of {name}: {settings!r:.120}: "
            "fine-tune the model again"
        ) from None


def task_name(folder: Path, raw: dict[str, Any]) -> str:
    """Return which task a config.json's model class is for."""
    architecture = (raw.get("architectures") or ["none"])[0]
    if architecture == "BertForTokenClassification":
        return "tag"
    if architecture == "BertForQuestionAnswering":
        return "answer"
    if architecture == "BertForSequenceClassification":
        if raw.get("problem_type") == "multi_label_classification":
            raise ValueError(f"{folder} gives several labels to a text, minibert gives one")
        one = raw.get("problem_type") == "regression" or len(raw.get("id2label") or "ab") == 1
        return "similarity" if one else "classify"
    raise ValueError(
        f"{folder} holds a {architecture}, which was not fine-tuned for a task: run "
        f"minibert finetune {'|'.join(TASKS)} --model {folder} --train FILE"
    )
