"""Fine-tuning from files: examples, a pretrained or fresh model, and the folder it ends in."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minibert.checkpoint.huggingface import load_config
from minibert.checkpoint.names import TASK_HEADS
from minibert.checkpoint.weights import load_weights
from minibert.config import FRESH, BertConfig, FineTuneConfig
from minibert.data.tasks import QuestionExample, TaggedExample
from minibert.keys import Key
from minibert.models.labels import read_labels
from minibert.tasks.augment import augmented
from minibert.tasks.base import ANY_COLUMNS, Columns, Task, TaskModel
from minibert.tasks.finetuned import TASKS, FineTuned, task_name
from minibert.tasks.labelled import LabelledTask
from minibert.tokenizer import SPECIAL_TOKENS, Tokenizer, Vocabulary, train_vocabulary
from minibert.training.finetune_loop import (
    Epoch,
    FineTuneWatcher,
    History,
    check_layers,
    train_task,
)

if TYPE_CHECKING:
    from minibert.ops import Ops

HELD_OUT = 0.1
"""Share of the training examples that decides which epoch was best, where no file is given."""


@dataclass(frozen=True)
class Start:
    """What a model begins as: a pretrained folder, or random numbers."""

    folder: Path | None  # None: random numbers, with the next three
    preset: str = "tiny"
    vocab: Path | None = None  # a vocab.txt; None: learned from the training texts
    vocab_size: int = 8192
    lowercase: bool = True


@dataclass
class Preparation:
    """All that one seed's training needs, read and checked before any of it begins."""

    task: Task
    training: list[Any]
    dev: list[Any]
    make_model: Callable[[int], TaskModel]  # by seed
    facts: dict[str, Any]  # for finetuning.json


class Quiet:
    """A watcher that says nothing."""

    def stepped(self, epoch: int, done: int, total: int, loss: float) -> None: ...
    def finished(self, epoch: Epoch) -> None: ...


def finetune(
    task: str,
    *,
    model: str | os.PathLike[str],
    train: str | os.PathLike[str],
    dev: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    columns: Columns = ANY_COLUMNS,
    settings: dict[str, Any] | None = None,
    ops: str | Ops = "numba",
    watcher: FineTuneWatcher | None = None,
    **config: Any,
) -> FineTuned:
    """Fine-tune a model on a file, keep its best epoch, and return it ready to predict.

    Args:
        task: classify, similarity, tag or answer.
        model: a folder with a BERT, or "fresh" for random numbers.
        train: a file of the forms that ``minibert.data.tasks`` describes.
        dev: one to choose the best epoch by; without it a tenth of the training examples is.
        out: the folder to write; None: nothing is written.
        settings: of the task, such as ``max_length``.
        config: fields of ``FineTuneConfig``, such as ``epochs=3``.

    Raises ValueError, one line with file and row, where a file is not fit.  After Ctrl-C the best
    epoch so far is in ``out``, and KeyboardInterrupt is raised.
    """
    training = FineTuneConfig(**config)
    start = Start(None if str(model) == FRESH else Path(model))
    prepared = prepare(
        task,
        start,
        Path(train),
        Path(dev) if dev is not None else None,
        columns,
        settings or {},
        training,
        ops=ops,
    )
    where = Path(out) if out else None
    found, history = train_seed(prepared, training, watcher or Quiet(), where)
    if history.stopped:  # what was best is saved
        raise KeyboardInterrupt
    return found


def prepare(
    name: str,
    start: Start,
    train: Path,
    dev: Path | None,
    columns: Columns,
    settings: dict[str, Any],
    training_config: FineTuneConfig,
    *,
    ops: str | Ops = "numba",
) -> Preparation:
    """Read and check files and model; raises ValueError before anything is trained or written."""
    if name not in TASKS:
        raise ValueError(f"task is {name!r}, expected one of {', '.join(TASKS)}")
    if start.folder is not None:
        config = load_config(start.folder)
        tokenizer: Tokenizer | None = Tokenizer.load(start.folder)
    else:
        config = BertConfig.fresh(start.preset)
        tokenizer = (
            Tokenizer(Vocabulary.load(start.vocab), lowercase=start.lowercase)
            if start.vocab
            else None
        )
    config = dataclasses.replace(
        config,
        hidden_dropout_prob=training_config.dropout,
        attention_probs_dropout_prob=training_config.dropout,
        classifier_dropout=None,
    )
    unfitted = TASKS[name](tokenizer or placeholder(), **settings)
    if unfitted.max_length > config.max_position_embeddings:
        raise ValueError(
            f"max_length is {unfitted.max_length}, but the model has positions for "
            f"{config.max_position_embeddings} tokens: give --max-length "
            f"{config.max_position_embeddings} or less"
        )
    check_layers(training_config, config)
    training = unfitted.read(train, columns)
    if tokenizer is None:
        unfitted.tokenizer = fresh_tokenizer(training, start)
    task = unfitted.fitted(training)
    if training_config.synonyms or training_config.reorder:  # where texts must not change: refused
        augmented(training[:1], Key(0), None, training_config.synonyms, training_config.reorder)
    if dev is not None:
        held_out = task.read(dev, columns)
    else:
        training, held_out = split(training, Key(training_config.seed).child("dev"))
    vocab = task.tokenizer.vocab
    if start.folder is None:
        config = dataclasses.replace(config, vocab_size=len(vocab), pad_token_id=vocab.pad_id)
    elif len(vocab) > config.vocab_size:
        raise ValueError(
            f"{start.folder}: the vocabulary has {len(vocab)} tokens, but the model "
            f"{config.vocab_size} embeddings: take both from one model"
        )

    def make_model(seed: int) -> TaskModel:
        model, key = task.model(config, ops), Key(seed).child("weights")
        if start.folder is None:
            model.params.initialize(key, config.initializer_range)
            fresh = True
        else:
            loaded = load_weights(
                model.params,
                start.folder,
                missing_heads="initialize",
                foreign_heads="drop",
                redraw=() if has_same_head(start.folder, task) else TASK_HEADS,
                key=key,
                std=config.initializer_range,
            )
            fresh = not set(loaded.drawn).isdisjoint(TASK_HEADS)
        task.prepare(model, fresh=fresh)
        return model

    facts = {
        "model": str(start.folder) if start.folder else FRESH,
        "train": str(train),
        "dev": str(dev) if dev else f"{HELD_OUT:.0%} of the training examples",
        "training_examples": len(training),
        "dev_examples": len(held_out),
    }
    return Preparation(task, training, held_out, make_model, facts)


def train_seed(
    prepared: Preparation,
    config: FineTuneConfig,
    watcher: FineTuneWatcher,
    out: Path | None,
    above: float = float("-inf"),  # a dev score: nothing below it is written
) -> tuple[FineTuned, History]:
    """Train one model from its seed; its best epoch is in ``out`` as soon as it is known."""
    if out is not None and out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file: give the name of a folder to write the model to")
    task, model = prepared.task, prepared.make_model(config.seed)
    finetuned = FineTuned(task, model)

    def save(history: History) -> None:
        finetuned.history = record(prepared, config, history)
        best = history.best
        if out is not None and best is not None and best.scores[task.metric] > above:
            finetuned.save(out)

    history = train_task(task, model, prepared.training, prepared.dev, config, watcher, save)
    save(history)  # with the epochs after the best one in its record
    return finetuned, history


def record(prepared: Preparation, config: FineTuneConfig, history: History) -> dict[str, Any]:
    """Return what finetuning.json says of the training."""
    return {
        **prepared.facts,
        "training": dataclasses.asdict(config),
        "epochs": [epoch._asdict() for epoch in history.epochs],
    }


def split(examples: list[Any], key: Key) -> tuple[list[Any], list[Any]]:
    """Return training and dev examples; questions about one passage stay together.

    Raises ValueError where there are too few.
    """
    groups: dict[Hashable, list[Any]] = {}
    for number, example in enumerate(examples):
        group = example.passage if isinstance(example, QuestionExample) else number
        groups.setdefault(group, []).append(example)
    if len(groups) < 2:
        raise ValueError(
            "there is too little to hold a part of it out: give a file of its own with --dev"
        )
    order = key.generator().permutation(len(groups))
    count = max(1, round(HELD_OUT * len(groups)))
    held = set(order[:count].tolist())
    training: list[Any] = []
    dev: list[Any] = []
    for number, members in enumerate(groups.values()):
        (dev if number in held else training).extend(members)
    return training, dev


def has_same_head(folder: Path, task: Task) -> bool:
    """Return whether a folder was fine-tuned for this very task, with these very labels."""
    raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    try:
        if task_name(folder, raw) != task.name:
            return False
    except ValueError:
        return False  # not fine-tuned for any
    return not isinstance(task, LabelledTask) or read_labels(raw) == task.labels


def fresh_tokenizer(examples: Sequence[Any], start: Start) -> Tokenizer:
    vocab = train_vocabulary(texts(examples), start.vocab_size, lowercase=start.lowercase)
    return Tokenizer(vocab, lowercase=start.lowercase)


def texts(examples: Sequence[Any]) -> Iterator[str]:
    """Yield every text of the examples, a passage once."""
    seen: set[str] = set()
    for example in examples:
        if isinstance(example, TaggedExample):
            yield " ".join(example.words)
        elif isinstance(example, QuestionExample):
            yield example.question
            if example.passage not in seen:
                seen.add(example.passage)
                yield example.passage
        else:
            yield from filter(None, example[:2])


def placeholder() -> Tokenizer:
    """Return a tokenizer of nothing, for a task whose own is learned from its texts."""
    return Tokenizer(Vocabulary(SPECIAL_TOKENS))
