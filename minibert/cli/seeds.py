"""Fine-tuning with one seed or several, and what is said while it runs and at its end."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minibert.cli.screen import duration, print_json, print_table, progress

if TYPE_CHECKING:
    from minibert.cli.screen import Progress
    from minibert.config import FineTuneConfig
    from minibert.training.finetune import Preparation
    from minibert.training.finetune_loop import Epoch, History

EXAMPLES = {
    "classify": '"A text to classify."',
    "similarity": '"A man is asleep." --pair "Someone sleeps."',
    "tag": '"Ada Lovelace was born in London."',
    "answer": '"Where was she born?" --pair "Ada Lovelace was born in London."',
}


class Watcher:
    """Shows a bar while an epoch runs, and leaves a line for each that is over."""

    def __init__(self, show: Progress, metric: str, *, quiet: bool) -> None:
        self.show, self.metric, self.quiet = show, metric, quiet
        self.last = ""

    def stepped(self, epoch: int, done: int, total: int, loss: float) -> None:
        self.show(done, total, f"epoch {epoch}, loss {loss:.3f}{self.last}")

    def finished(self, epoch: Epoch) -> None:
        scores = ", ".join(f"{name} {value:.3f}" for name, value in epoch.scores.items())
        self.last = f", dev {self.metric} {epoch.scores[self.metric]:.3f}"
        if not self.quiet:
            best = ", best" if epoch.best else ""
            print(
                f"epoch {epoch.number}: loss {epoch.loss:.3f}, dev {scores}, "
                f"{duration(epoch.seconds)}{best}",
                flush=True,
            )
        if epoch.warning:
            print(f"minibert: warning: {epoch.warning}", file=sys.stderr)


def train_seeds(
    prepared: Preparation, config: FineTuneConfig, seeds: int, folder: Path, *, quiet: bool
) -> list[History]:
    """Train with seed, seed + 1, …; the folder ends with the best epoch of the best of them."""
    from dataclasses import replace

    from minibert.training.finetune import train_seed
    from minibert.training.finetune_loop import History
    from minibert.training.loop import DivergedError

    task, histories, best = prepared.task, list[Any](), float("-inf")
    if not quiet:
        print(
            f"{task.name}: {len(prepared.training):,} examples to train on, "
            f"{len(prepared.dev):,} to choose the best epoch by."
        )
        print("Ctrl-C keeps the best epoch so far.")
    for number in range(seeds):
        seeded = replace(config, seed=config.seed + number)
        if seeds > 1 and not quiet:
            print(f"seed {seeded.seed}")
        try:
            with progress("training") as show:
                watcher = Watcher(show, task.metric, quiet=quiet)
                _, history = train_seed(prepared, seeded, watcher, folder, above=best)
        except DivergedError as error:  # one seed of several may
            if seeds == 1:
                raise
            print(f"minibert: warning: seed {seeded.seed}: {error}", file=sys.stderr)
            histories.append(History())
            continue
        histories.append(history)
        if history.best is not None:
            best = max(best, history.best.scores[task.metric])
        if history.stopped:
            break
    return histories


def measure(folder: Path, ops: str, examples: Sequence[Any]) -> dict[str, float]:
    """Return the scores of the saved model on test examples."""
    from minibert.tasks.finetuned import load_finetuned
    from minibert.tasks.predict import predict

    saved = load_finetuned(folder, ops)
    with progress("testing") as show:
        predictions = predict(saved.task, saved.model, examples, show)
    return saved.task.scores(predictions, examples)


def report(
    prepared: Preparation,
    histories: Sequence[History],
    folder: Path,
    first_seed: int,
    test_scores: dict[str, float] | None,
    *,
    json: bool,
) -> None:
    """Print what came of it: dev scores, their median and spread over seeds, test scores."""
    metric = prepared.task.metric
    found = {first_seed + n: h.best for n, h in enumerate(histories) if h.best is not None}
    values = {seed: epoch.scores[metric] for seed, epoch in found.items()}
    winner = max(values, key=values.__getitem__)
    best = found[winner]
    if json:
        print_json(
            {
                "folder": str(folder),
                "dev": best.scores,
                "dev_by_seed": {str(seed): value for seed, value in values.items()},
                "test": test_scores,
                "seconds": sum(epoch.seconds for h in histories for epoch in h.epochs),
            }
        )
        return
    rows = [("dev " + name, f"{value:.4f}") for name, value in best.scores.items()]
    if len(values) > 1:
        rows.append(
            (
                f"{metric} over {len(values)} seeds",
                f"median {statistics.median(values.values()):.4f}, "
                f"{min(values.values()):.4f} to {max(values.values()):.4f}",
            )
        )
    rows += [("test " + name, f"{value:.4f}") for name, value in (test_scores or {}).items()]
    seed = f", seed {winner}" if len(histories) > 1 else ""
    epochs = len(histories[winner - first_seed].epochs)
    rows.append(("best epoch", f"{best.number} of {epochs}{seed}"))
    rows.append(("model", str(folder)))
    print()
    print_table(("", ""), rows)
    pairs = getattr(prepared.training[0], "pair", None) is not None
    example = EXAMPLES["similarity" if pairs else prepared.task.name]
    print(f"\nTry it:\n    minibert predict {folder} {example}")
