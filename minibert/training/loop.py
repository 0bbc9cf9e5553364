"""The training loop.

One step, which the code below follows line by line:

    batches ─ forward ─ loss ─ backward ─┐  accumulated over the step's micro-batches
                                         └ norm ─ clip ─ update ─ log ─ evaluate ─ save

Everything random in step s comes from the run's key and s, so a run needs no other state than
the weights, the two moments and the number of steps behind it.
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from minibert.config import TrainConfig
from minibert.keys import Key
from minibert.models.pretraining import LossWeights, PretrainingOutput, count_labels
from minibert.params import ParamStore
from minibert.training.evaluate import FilledBlank, evaluate, fill_blanks
from minibert.training.metrics import Totals
from minibert.training.schedule import warmup_linear

if TYPE_CHECKING:
    from minibert.data.batches import PretrainingBatch
    from minibert.training.run import Run


class DivergedError(ValueError):
    """A loss or gradient is no longer a number; the last checkpoint is from before that."""


class Watcher(Protocol):
    """Who is told what happens: the command line's progress display, or a test."""

    def stepped(self, record: dict[str, Any], progress: float) -> None:
        """After each step; ``progress`` is the share of the run that is done."""
        ...

    def evaluated(self, record: dict[str, Any], filled: Sequence[FilledBlank]) -> None: ...


@dataclass
class Position:
    """How far a run has come; with weights and moments, all that resuming needs."""

    step: int = 0  # steps done
    elapsed: float = 0.0  # seconds of training done
    tokens: int = 0  # tokens seen, padding not counted
    evaluations: int = 0
    best_loss: float = math.inf  # lowest held-out loss so far


def train(run: Run, watcher: Watcher) -> Literal["finished", "stopped"]:
    """Train until the run's length is reached, or until someone asks to stop (Ctrl-C).

    Either way the run is saved, and can be resumed.  Raises DivergedError, with the step and
    the cause, when a number is no longer finite.
    """
    config, position, log = run.config, run.position, Log(run)
    run.begin()
    clock = Clock(config, position)
    last_save = clock.seconds()
    with stop_signals() as stop:
        while (progress := clock.progress()) < 1 and not stop.is_set():
            record = training_step(run, progress)
            position.elapsed = clock.seconds()
            log.add(record)
            watcher.stepped(record, clock.progress())
            if evaluation_due(run, clock.progress()):
                watcher.evaluated(*evaluate_run(run))
            if clock.seconds() - last_save > 60 * config.save_minutes:
                position.elapsed = last_save = clock.seconds()
                run.save()
    position.elapsed = clock.seconds()
    run.save()
    return "stopped" if stop.is_set() else "finished"


def training_step(run: Run, progress: float) -> dict[str, Any]:
    """Make one update of the weights from ``accumulation`` micro-batches; return its figures."""
    config, position = run.config, run.position
    started = time.perf_counter()
    number = position.step
    key = Key(config.seed).child("step", number)
    first = number * config.accumulation
    batches = [run.source.batch(first + micro) for micro in range(config.accumulation)]
    weights = loss_weights(batches, config)

    learning_rate = config.learning_rate * warmup_linear(progress, config.warmup)
    outputs, norm = update_weights(run, batches, weights, learning_rate, key)
    totals = Totals()
    for output in outputs:
        totals.add(output)

    tokens = sum(int(batch.attention_mask.sum()) for batch in batches)
    position.step += 1
    position.tokens += tokens
    return {
        "step": position.step,
        "loss": sum(output.loss for output in outputs),
        **totals.means(),
        "learning_rate": learning_rate,
        "grad_norm": norm,
        "tokens_per_second": tokens / (time.perf_counter() - started),
    }


def update_weights(
    run: Run,
    batches: Sequence[PretrainingBatch],  # micro-batches
    weights: LossWeights,
    learning_rate: float,
    key: Key,
) -> tuple[list[PretrainingOutput], float]:  # one for each micro-batch; norm before clipping
    """Add up the gradients of all micro-batches, clip their sum, and make one update."""
    model, outputs = run.model, []
    model.params.zero_grad()
    for micro, batch in enumerate(batches):
        output, cache = model.forward(batch, key.child("micro", micro), weights)
        model.backward(cache)
        outputs.append(output)
    norm = model.ops.global_norm(model.params.grad)
    loss = sum(output.loss for output in outputs)
    check_finite(model.params, run.position.step + 1, loss, norm)
    scale = min(1.0, run.config.clip_norm / max(norm, 1e-12))
    run.optimizer.update(learning_rate, grad_scale=scale)
    return outputs, norm


def loss_weights(batches: Sequence[PretrainingBatch], config: TrainConfig) -> LossWeights:
    """Return what each masked token and each pair counts for, over all micro-batches together.

    The mean of the micro-batches' means would weigh a token by how few others its micro-batch
    has; dividing by the total makes accumulation equal to one big batch.
    """
    masked = sum(count_labels(batch.masked_labels) for batch in batches)
    pairs = sum(count_labels(batch.next_labels) for batch in batches)
    return LossWeights(config.masked_weight / max(masked, 1), config.next_weight / max(pairs, 1))


def check_finite(
    params: ParamStore, step: int, loss: float, norm: float, kept: str = "the last checkpoint"
) -> None:
    """Raise DivergedError, naming the first culprit, unless loss and gradient are finite.

    ``kept`` is what is left from before.
    """
    if math.isfinite(loss) and math.isfinite(norm):
        return
    culprit = "the loss"
    for parameter in params:
        if not np.isfinite(parameter.grad).all():
            culprit = f"the gradient of {parameter.name}"
            break
    for parameter in params:
        if not np.isfinite(parameter.value).all():
            culprit = f"the weight {parameter.name}"
            break
    raise DivergedError(
        f"step {step}: {culprit} is not finite (loss {loss:.4g}, gradient norm {norm:.4g}): "
        f"lower --learning-rate, or raise --warmup; {kept} is from before"
    )


def evaluation_due(run: Run, progress: float) -> bool:
    """Return whether one of the run's evenly spread evaluations has come; the last at its end."""
    due = int(min(progress, 1.0) * run.config.evaluations)
    is_due = due > run.position.evaluations
    run.position.evaluations = max(due, run.position.evaluations)
    return is_due


def evaluate_run(run: Run) -> tuple[dict[str, Any], list[FilledBlank]]:
    """Measure the model on held-out documents, write it down, keep it if it is the best yet."""
    position = run.position
    record = {
        "type": "eval",
        "step": position.step,
        **evaluate(run.model, run.eval_batches),
        "elapsed": position.elapsed,
    }
    run.metrics.append(record)
    masked, following = record["eval_mlm_loss"], record.get("eval_nsp_loss", 0.0)
    total = run.config.masked_weight * masked + run.config.next_weight * following
    if total < position.best_loss:
        position.best_loss = total
        run.save_best()
    return record, fill_blanks(run.model, run.tokenizer, run.blanks)


class Clock:
    """Tells how much of the run is done: by steps, or by time where minutes were given."""

    def __init__(self, config: TrainConfig, position: Position) -> None:
        self.config, self.position = config, position
        self.started = time.perf_counter() - position.elapsed

    def seconds(self) -> float:
        """Seconds of training, those before a stop included."""
        return time.perf_counter() - self.started

    def progress(self) -> float:
        """Share of the run that is done; of n steps, update t is made at t / (n + 1)."""
        if self.config.minutes is not None:
            return self.seconds() / (60 * self.config.minutes)
        steps = self.config.steps or 1
        done = self.position.step
        return 1.0 if done >= steps else (done + 1) / (steps + 1)


class Log:
    """Writes every ``log_every`` steps the means of the steps since."""

    def __init__(self, run: Run) -> None:
        self.run, self.records = run, list[dict[str, Any]]()

    def add(self, record: dict[str, Any]) -> None:
        self.records.append(record)
        if record["step"] % self.run.config.log_every:
            return
        means = {name: float(np.mean([r[name] for r in self.records])) for name in record}
        self.run.metrics.append(
            {"type": "train", **means, "step": record["step"], "elapsed": self.run.position.elapsed}
        )
        self.records.clear()


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Turn Ctrl-C and SIGTERM into an event, so that a step is never left half done.

    A second signal acts at once.  Outside the main thread, where Python allows no handlers, the
    event just stays unset.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def request(number: int, frame: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    previous = {s: signal.signal(s, request) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
