"""The loop of fine-tuning: a few epochs over the examples, and the best of them is kept.

    epoch:  rows ─ shuffled batches ─┬ forward ─ loss ─ backward ─ clip ─ AdamW     for each batch
                                     └ dev scores ─ best so far? ─ save

Source: Devlin et al., BERT (2019), section 4 and A.3.  Keeping the best epoch, and telling when a
run has collapsed onto one class: Mosbach et al., On the Stability of Fine-Tuning BERT (2021).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from minibert.checkpoint.names import TASK_HEADS
from minibert.config import BertConfig, FineTuneConfig
from minibert.keys import Key
from minibert.params import Parameter
from minibert.tasks.augment import Synonyms, augmented
from minibert.tasks.base import Task, TaskModel
from minibert.tasks.predict import run_rows
from minibert.tasks.rows import Row, shuffled_batches
from minibert.training.adamw import AdamW
from minibert.training.loop import check_finite, stop_signals
from minibert.training.schedule import warmup_linear


class Epoch(NamedTuple):
    """What an epoch came to."""

    number: int  # from 1
    loss: float  # mean over the training rows
    scores: dict[str, float]  # on the dev examples
    seconds: float
    best: bool  # whether it is the best so far
    warning: str | None  # what is suspicious about it


class FineTuneWatcher(Protocol):
    """Who is told what happens."""

    def stepped(self, epoch: int, done: int, total: int, loss: float) -> None:
        """After each step; ``done`` of ``total`` batches of all epochs, loss a running mean."""
        ...

    def finished(self, epoch: Epoch) -> None: ...


@dataclass
class History:
    """What a run came to: its epochs, and whether it was stopped by Ctrl-C."""

    epochs: list[Epoch] = field(default_factory=list)
    stopped: bool = False

    @property
    def best(self) -> Epoch | None:
        """The last of the epochs that were the best so far."""
        return next((epoch for epoch in reversed(self.epochs) if epoch.best), None)


def train_task(
    task: Task,
    model: TaskModel,
    training: Sequence[Any],
    dev: Sequence[Any],
    config: FineTuneConfig,
    watcher: FineTuneWatcher,
    save: Callable[[History], None] = lambda history: None,
) -> History:
    """Fine-tune a model in place, and leave it as it was after the best epoch.

    Of two epochs that are equally good the later is kept, which has learned longer.  ``save`` is
    called whenever an epoch was the best so far.  After Ctrl-C the epochs that were finished
    count.  Raises DivergedError when a number is no longer finite.
    """
    key, history = Key(config.seed).child("finetune"), History()
    freeze(model, config)
    factors = rate_factors(task, model, config)
    optimizer = AdamW(
        model.params,
        model.ops,
        weight_decay=config.weight_decay,
        rate_factor=lambda parameter: factors[parameter.name],
    )
    change = augmentation(task, model, training, config)
    rows, dev_rows = task.rows(training), task.rows(dev)
    kept = model.params.value.copy()
    highest, idle = float("-inf"), 0
    with stop_signals() as stop:
        for number in range(1, config.epochs + 1):
            started, epoch_key = time.perf_counter(), key.child("epoch", number)
            if change is not None:
                rows = task.rows(change(epoch_key))
            loss = 0.0
            for done, total, loss in epoch_steps(task, model, optimizer, rows, config, epoch_key):
                steps = config.epochs * total
                watcher.stepped(number, (number - 1) * total + done, steps, loss)
                if stop.is_set():
                    break
            if stop.is_set():
                history.stopped = True
                break
            logits = run_rows(task, model, dev_rows)
            predictions = task.answers(dev, dev_rows, logits)
            scores = task.scores(predictions, dev)
            score = scores[task.metric]
            best = score >= highest
            idle = 0 if score > highest else idle + 1
            highest = max(score, highest)
            seconds = time.perf_counter() - started
            epoch = Epoch(number, loss, scores, seconds, best, task.warning(predictions))
            history.epochs.append(epoch)
            if best:
                kept[:] = model.params.value
                save(history)
            watcher.finished(epoch)
            if config.patience and idle >= config.patience:
                break
    model.params.value[:] = kept
    return history


def epoch_steps(
    task: Task,
    model: TaskModel,
    optimizer: AdamW,
    rows: Sequence[Row],
    config: FineTuneConfig,
    key: Key,
) -> Iterator[tuple[int, int, float]]:
    """Make an epoch's steps; after each yield how many are done, of how many, and the mean loss."""
    batches = shuffled_batches([row.length for row in rows], config.batch_size, key.child("order"))
    n = config.accumulation
    steps = [batches[at : at + n] for at in range(0, len(batches), n)]
    loss = weight = 0.0
    for done, step in enumerate(steps, start=1):
        progress = (optimizer.updates + 1) / (config.epochs * len(steps) + 1)
        learning_rate = config.learning_rate * warmup_linear(progress, config.warmup)
        micro = [task.batch([rows[number] for number in batch]) for batch in step]
        step_loss, step_weight = finetune_step(
            model, optimizer, micro, learning_rate, config.clip_norm, key.child("step", done)
        )
        loss, weight = loss + step_loss, weight + step_weight
        yield done, len(steps), loss / max(weight, 1e-12)


def finetune_step(
    model: TaskModel,
    optimizer: AdamW,
    batches: Sequence[Any],  # micro-batches
    learning_rate: float,
    clip_norm: float,
    key: Key,
) -> tuple[float, float]:  # sum of the losses, what to divide it by
    """Make one update from the micro-batches; their losses are averaged over all of them."""
    total = sum(model.weight(batch) for batch in batches)
    model.params.zero_grad()
    loss = 0.0
    for micro, batch in enumerate(batches):
        output, cache = model.forward(batch, key.child("micro", micro))
        model.backward(1 / max(total, 1e-12), cache)
        loss += output.loss
    norm = model.ops.global_norm(model.params.grad)
    check_finite(model.params, optimizer.updates + 1, loss, norm, kept="the best epoch so far")
    optimizer.update(learning_rate, grad_scale=min(1.0, clip_norm / max(norm, 1e-12)))
    return loss, total


def freeze(model: TaskModel, config: FineTuneConfig) -> None:
    """Freeze the embeddings, and the first layers; nothing below the lowest other one is computed.

    Raises ValueError for more layers than there are.
    """
    check_layers(config, model.config)
    if not config.freeze_embeddings and not config.freeze_layers:
        return
    numbers = range(config.freeze_layers)
    prefixes = ["bert.embeddings.", *(f"bert.encoder.layer.{number}." for number in numbers)]
    model.params.freeze(lambda name: name.startswith(tuple(prefixes)))


def check_layers(config: FineTuneConfig, model: BertConfig) -> None:
    """Raise ValueError where more layers are to be frozen than there are."""
    if config.freeze_layers > model.num_hidden_layers:
        raise ValueError(
            f"freeze_layers is {config.freeze_layers}, but the model has {model.num_hidden_layers}"
        )


def rate_factors(task: Task, model: TaskModel, config: FineTuneConfig) -> dict[str, float]:
    """Return what each parameter's learning rate is multiplied by.

    Layer l of L has decay^(L - l), embeddings decay^(L + 1), the head and the pooler 1: what is
    nearer to the words is more general, and has less to change.
    Source: Howard and Ruder, ULMFiT (2018), section 3.2, "discriminative fine-tuning".
    """
    L = model.config.num_hidden_layers

    def factor(parameter: Parameter) -> float:
        name = parameter.name
        if name.startswith("bert.embeddings."):
            return config.layer_decay ** (L + 1)
        if name.startswith("bert.encoder.layer."):
            return config.layer_decay ** (L - int(name.split(".")[3]))
        return task.head_rate if name.startswith(TASK_HEADS) else 1.0

    return {parameter.name: factor(parameter) for parameter in model.params}


def augmentation(
    task: Task, model: TaskModel, training: Sequence[Any], config: FineTuneConfig
) -> Callable[[Key], list[Any]] | None:
    """Return what changes the training texts for an epoch; None: they stay as they are.

    Synonyms are taken from the embedding as it is before training moves it.
    """
    if not config.synonyms and not config.reorder:
        return None
    synonyms = None
    if config.synonyms:
        table = model.params["bert.embeddings.word_embeddings.weight"].value
        synonyms = Synonyms(task.tokenizer.vocab, table)
    return lambda key: augmented(
        training, key.child("augment"), synonyms, config.synonyms, config.reorder
    )
