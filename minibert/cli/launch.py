"""Starting and resuming a run, and what is said before and after it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minibert.cli.display import Preparation, preparing, training_display
from minibert.cli.screen import console, duration, print_table, visible
from minibert.config import FRESH, BertConfig, TrainConfig

if TYPE_CHECKING:
    from minibert.training.run import Run

RUNS = Path("runs")
DEFAULT_MINUTES = 5.0


def started(folder: Path, given: Mapping[str, Any], ops: str) -> Run:
    """Check all settings, then read the text and prepare a new run."""
    if given["minutes"] is None and given["steps"] is None:
        given = {**given, "minutes": DEFAULT_MINUTES}
    config = TrainConfig(**{field.name: given[field.name] for field in fields(TrainConfig)})
    model_config = chosen_model(given)

    from minibert.training.run import TextConfig, check_new_folder, check_rows, start_run

    check_new_folder(folder)
    check_rows(config, model_config)
    text = TextConfig(
        files=[str(file) for file in given["files"] or ()],
        lowercase=not given["cased"],
        vocab=str(given["vocab"]) if given["vocab"] else None,
    )
    with preparing() as status:
        status("starting")
        run = start_run(folder, config, model_config, text, ops=ops, status=status)
        compile_kernels(ops, status)
    return run


def resumed(folder: Path, ops: str) -> Run:
    from minibert.training.run import resume_run

    with preparing() as status:
        status("starting")
        run = resume_run(folder, ops=ops, status=status)
        compile_kernels(ops, status)
    print(f"Going on with {folder} after step {run.position.step:,}.")
    return run


def chosen_model(given: Mapping[str, Any]) -> BertConfig:
    """Return the preset, or the configuration of a folder, with the changes asked for."""
    dropout = given["dropout"]
    if dropout is None and given["model"] == FRESH:
        dropout = 0.0
    changes: dict[str, Any] = {}
    if dropout is not None:
        changes = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    if given["model"] != FRESH:
        from minibert.checkpoint.huggingface import load_config

        return replace(load_config(given["model"]), **changes)
    changes |= {"vocab_size": given["vocab_size"], "hidden_act": given["activation"]}
    if given["layers"] is not None:
        changes["num_hidden_layers"] = given["layers"]
    if given["width"] is not None:
        changes |= {"hidden_size": given["width"], "intermediate_size": 4 * given["width"]}
    if given["heads"] is not None:
        changes["num_attention_heads"] = given["heads"]
    return BertConfig.fresh(given["preset"], **changes)


def compile_kernels(name: str, status: Preparation) -> None:
    """Compile before the clock of the run starts to tick."""
    if name == "numpy":
        return
    import numpy as np

    from minibert.ops import get_ops
    from minibert.ops.cpu.warmup import warmup

    def tell(name: str, index: int, total: int) -> None:
        status(f"compiling the kernels, once after each installation: {index} of {total}")

    warmup(np.float32, progress=tell, ops=get_ops(name))


def train_and_report(run: Run) -> bool:
    """Train with a display, draw the report, and say what came of it and how to go on.

    Returns whether the run is finished; False after Ctrl-C.
    """
    from minibert.training.loop import train

    print_start(run)
    with training_display() as display:
        outcome = train(run, display)
    if outcome == "stopped":
        print(f"Stopped and saved after step {run.position.step:,}.  To go on:")
        print(f"    minibert pretrain --resume --out {run.folder}", flush=True)
    if display.last_eval is not None or run.position.step >= run.config.log_every:
        from minibert.plots import plot_report

        plot_report(run.metrics.path, run.folder / "report.png")
    if outcome == "finished":
        print_result(run, display.last_eval)
    return outcome == "finished"


def print_start(run: Run) -> None:
    config, layers = run.config, run.model.config.num_hidden_layers
    begins = config.model != FRESH and run.position.step == 0
    weights = f", weights of {Path(config.model).name}" if begins else ""
    length = f"{config.steps:,} steps" if config.steps else f"{config.minutes:g} min"
    console().print(
        f"Training for {length} on {len(run.corpus.tokens):,} tokens: "
        f"{run.model.params.value.size:,} parameters, {layers} layer{'s' * (layers > 1)} of width "
        f"{run.model.config.hidden_size}, vocabulary {run.model.config.vocab_size:,}{weights}.  "
        "Ctrl-C saves."
    )


def print_result(run: Run, last_eval: dict[str, Any] | None) -> None:
    rows = []
    if last_eval is not None:
        loss = last_eval["eval_mlm_loss"]
        rows += [
            ("masked words", f"{last_eval['eval_mlm_accuracy']:.1%} right, held-out text"),
            ("", f"loss {loss:.3f}, perplexity {math.exp(min(loss, 700)):,.1f}"),
        ]
        if "eval_nsp_accuracy" in last_eval:
            rows.append(
                ("next sentence", f"{last_eval['eval_nsp_accuracy']:.1%} right, held-out text")
            )
    rows += [
        ("steps", f"{run.position.step:,}"),
        ("tokens seen", f"{run.position.tokens:,}"),
        ("training", duration(run.position.elapsed)),
        ("model", str(run.folder)),
        ("curves", str(run.folder / "report.png")),
    ]
    print()
    print_table(("", ""), rows)
    print("\nTry it:")
    print(f'    minibert fill {run.folder} "{example(run)}"')


def example(run: Run) -> str:
    """Return a sentence with a blank: of the run's own text, if it has one that a shell takes."""
    if run.text.files:
        for blank in run.blanks:
            if not set('"$`\\!%') & set(blank.text) and not blank.text.startswith("-"):
                return visible(blank.text)
    return "The [MASK] statement is used to exit a loop."


def next_free_run(prefix: str = "") -> Path:
    """Return runs/1, or the first number above all that exist; with a prefix runs/PREFIX1."""
    names = [path.name.removeprefix(prefix) for path in RUNS.glob(f"{prefix}*")]
    taken = [int(name) for name in names if name.isdecimal()]
    return RUNS / f"{prefix}{max(taken, default=0) + 1}"


def latest_run() -> Path:
    """Return the folder in runs/ that was saved last."""
    saved = [path for path in RUNS.glob("*/training.safetensors") if path.is_file()]
    if not saved:
        raise ValueError(f"{RUNS} holds no run to go on with: name its folder with --out")
    return max(saved, key=lambda path: path.stat().st_mtime).parent


def check_place(folder: Path) -> None:
    """Raise ValueError at once, not after minutes, if the folder cannot be made."""
    parent = folder.absolute()
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir():
        raise ValueError(f"{parent} is a file, not a folder: choose another --out")
    if not os.access(parent, os.W_OK):
        raise ValueError(f"{parent} cannot be written to: choose another --out")
