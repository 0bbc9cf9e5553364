"""Real data of four tasks, as files that ``minibert finetune`` reads.

    sentence_polarity   sentences of film reviews, liked or not      rt-polarity.neg, .pos
    sick                pairs of sentences: entailment, relatedness  SICK_train.txt, _trial, _test
    wnut17              tweets with the names in them                wnut17train.conll, emerging.dev
    xquad               questions about passages                     xquad.en.json

They are no part of minibert, and are looked for beside the checkout.  What comes without a split
gets one here, the same on every machine, in files that the caller says a folder for.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from minibert.config import FineTuneConfig
from minibert.tasks.base import Columns
from minibert.training.finetune import Preparation, Start, prepare

DATA = Path(__file__).parents[1].parent / "shared" / "data"
HELD_OUT = 1066  # film reviews to choose the best epoch by, and as many to measure it on


class Files(NamedTuple):
    train: Path
    dev: Path  # to choose the best epoch by
    test: Path | None = None  # None: there is no third part, and dev is what is measured


def polarity(data: Path, out: Path) -> Files:
    """Write the film reviews as tables, all shuffled: 1,066 test, 1,066 dev, 8,530 train."""
    rows: list[tuple[str, str]] = []
    for label in ("neg", "pos"):
        text = present(data / "sentence_polarity" / f"rt-polarity.{label}").read_text("utf-8")
        rows += [(line.strip(), label) for line in text.splitlines()]
    random.Random(0).shuffle(rows)
    held_out = min(HELD_OUT, len(rows) // 3)
    parts = {
        "test": rows[:held_out],
        "dev": rows[held_out : 2 * held_out],
        "train": rows[2 * held_out :],
    }
    files = {name: out / f"polarity.{name}.tsv" for name in parts}
    for name, part in parts.items():
        lines = ["sentence\tlabel\n", *(f"{text}\t{label}\n" for text, label in part)]
        files[name].write_text("".join(lines), encoding="utf-8")
    return Files(**files)


def sick(data: Path, out: Path) -> Files:
    names = ("SICK_train.txt", "SICK_trial.txt", "SICK_test_annotated.txt")
    return Files(*(present(data / "sick" / name) for name in names))


def entities(data: Path, out: Path) -> Files:
    return Files(
        *(present(data / "wnut17" / n) for n in ("wnut17train.conll", "emerging.dev.conll"))
    )


def answers(data: Path, out: Path) -> Files:
    """Write the questions in two parts, a fifth of the paragraphs to measure on."""
    given = json.loads(present(data / "xquad" / "xquad.en.json").read_text(encoding="utf-8"))
    paragraphs = [
        {"title": article.get("title", ""), "paragraphs": [paragraph]}
        for article in given["data"]
        for paragraph in article["paragraphs"]
    ]
    random.Random(0).shuffle(paragraphs)
    held_out = len(paragraphs) // 5
    parts = {"train": paragraphs[held_out:], "dev": paragraphs[:held_out]}
    files = {name: out / f"answers.{name}.json" for name in parts}
    for name, part in parts.items():
        record = {"version": "1.1", "data": part}
        files[name].write_text(json.dumps(record), encoding="utf-8")
    return Files(**files)


def present(path: Path) -> Path:
    """Return a file that is there; raises FileNotFoundError, one line, if it is not."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}: say with --data where the data lie")
    return path


Source = Callable[[Path, Path], Files]


def read_task(
    task: str, source: Source, data: Path, model: Path, label: str | None,
    config: FineTuneConfig, **settings: Any,
) -> tuple[Preparation, list[Any] | None]:  # fmt: skip
    """Return what ``minibert finetune`` would begin with, and the examples to test on, if any."""
    columns = Columns(label=label)
    with tempfile.TemporaryDirectory() as folder:
        files = source(data, Path(folder))
        prepared = prepare(task, Start(model), files.train, files.dev, columns, settings, config)
        return prepared, prepared.task.read(files.test, columns) if files.test else None
