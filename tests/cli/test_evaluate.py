"""evaluate: the scores of each task on a file, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ..tasks.common import FILES, write_lines
from .conftest import Command, assert_refused

NUMPY = ("--backend", "numpy")
Tuned = Callable[[str], Path]
SCORES = {
    "classify": ["accuracy", "macro_f1"],
    "similarity": ["pearson", "spearman"],
    "tag": ["f1", "precision", "recall"],
    "answer": ["f1", "exact_match"],
}


@pytest.mark.parametrize("task", list(SCORES))
def test_scores_of_each_task(cli: Command, tuned: Tuned, task: str) -> None:
    """Those of its best epoch, on the file that chose it."""
    file = FILES[task](tuned(task).parent)
    result = cli("evaluate", tuned(task), file, *NUMPY)
    assert (result.status, result.err) == (0, "")
    header, *rows = (line.split("\t") for line in result.out.splitlines())
    assert header == ["score", "value"]
    assert [name for name, _ in rows] == SCORES[task]
    scores = json.loads(cli("evaluate", tuned(task), file, "--json", *NUMPY).out)
    assert {name: f"{value:.4f}" for name, value in scores.items()} == dict(rows)
    record = json.loads((tuned(task) / "finetuning.json").read_text(encoding="utf-8"))
    best = [epoch["scores"] for epoch in record["epochs"] if epoch["best"]][-1]
    assert scores == pytest.approx(best, abs=1e-6)


def test_scores_are_those_of_the_file(cli: Command, tuned: Tuned, tmp_path: Path) -> None:
    """Three of four labels are right."""
    rows = ["text\tlabel", "a good film\tpos", "a fine film\tpos", "a bad film\tneg"]
    file = write_lines(tmp_path / "test.tsv", [*rows, "a poor film\tpos"])
    scores = json.loads(cli("evaluate", tuned("classify"), file, "--json", *NUMPY).out)
    assert scores == pytest.approx({"accuracy": 0.75, "macro_f1": (4 / 5 + 2 / 3) / 2})


def test_columns(cli: Command, tuned: Tuned, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "t.csv", ["good,body", "pos,a good film", "neg,a bad film"])
    flags = ("--text-column", "body", "--label-column", "good", "--json", *NUMPY)
    assert json.loads(cli("evaluate", tuned("classify"), file, *flags).out)["accuracy"] == 1


def test_what_is_refused(cli: Command, bert: Path, tuned: Tuned, tmp_path: Path) -> None:
    other = write_lines(tmp_path / "other.tsv", ["text\tlabel", "good\tpos", "bad\tmeh"])
    bare = write_lines(tmp_path / "bare.tsv", ["a film"])
    cut = write_lines(tmp_path / "cut.json", ['{"data": [{"par'])
    tags = write_lines(tmp_path / "t.conll", ["Ada B-DAY"])
    for folder, arguments, words in (
        (tuned("classify"), (other,), ["other.tsv, row 3", "'meh'", "neg, pos"]),
        (tuned("classify"), (bare,), ["bare.tsv"]),
        (tuned("classify"), ("none.tsv",), ["none.tsv"]),
        (tuned("classify"), (), ["FILE"]),
        (tuned("answer"), (cut,), ["cut.json", "not JSON"]),
        (tuned("tag"), (tags,), ["t.conll", "'B-DAY'"]),
        (tuned("tag"), (tags, "--label-column", "2"), ["columns are for tables"]),
        (bert, (other,), ["BertForPreTraining", "minibert finetune"]),
        (tmp_path / "none", (other,), ["no folder at"]),
    ):
        assert_refused(cli("evaluate", folder, *arguments, *NUMPY), *words)
