"""finetune: each task from its flags to its folder, seeds, Ctrl-C, and what is refused."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minibert.cli.finetune import finetune
from minibert.config import FineTuneConfig
from minibert.tasks.finetuned import load_finetuned
from minibert.training import finetune as training
from minibert.training.loop import DivergedError

from ..tasks.common import FILES, write_lines
from .conftest import Command, Result, assert_refused

QUICK = [
    *("--max-length", "20", "--batch-size", "4", "--learning-rate", "5e-3"),
    *("--dropout", "0", "--backend", "numpy"),
]


def leaves_nothing(result: Result, folder: str, *words: str) -> None:
    assert_refused(result, *words)
    assert not Path(folder).exists()


def test_every_setting_has_a_flag_with_its_default() -> None:
    parameters = inspect.signature(finetune).parameters
    for field in dataclasses.fields(FineTuneConfig):
        assert parameters[field.name].default == field.default, field.name


SCORES = {
    "classify": ["accuracy", "macro_f1"],
    "similarity": ["pearson", "spearman"],
    "tag": ["f1", "precision", "recall"],
    "answer": ["f1", "exact_match"],
}


@pytest.mark.parametrize("task", list(FILES))
def test_a_task_from_its_files_to_its_folder(
    cli: Command, bert: Path, tmp_path: Path, task: str
) -> None:
    file = FILES[task](tmp_path)
    files = ("--train", file, "--dev", file, "--test", file)
    result = cli(
        "finetune", task, "--model", bert, *files, *QUICK, "--epochs", "12", "--out", "new"
    )
    assert result.status == 0, result.err
    lines = result.out.splitlines()
    assert lines[0].startswith(f"{task}: ")
    assert lines[1] == "Ctrl-C keeps the best epoch so far."
    assert [line.split(":")[0] for line in lines[2:14]] == [f"epoch {n}" for n in range(1, 13)]
    table = dict(line.rsplit("  ", 1) for line in lines if line.startswith(("dev ", "test ")))
    table = {name.strip(): float(value) for name, value in table.items()}
    assert list(table) == [f"{part} {name}" for part in ("dev", "test") for name in SCORES[task]]
    for name in SCORES[task]:  # the same file
        assert table[f"dev {name}"] == table[f"test {name}"] > 0.9
    name, *example = shlex.split(lines[-1])  # may be copied as it stands
    assert (name, *example[:2]) == ("minibert", "predict", "new")
    assert cli(*example, "--backend", "numpy").status == 0
    assert not [path for path in Path("new").iterdir() if "tmp" in path.name]


def test_as_json(cli: Command, bert: Path, tmp_path: Path) -> None:
    file = FILES["classify"](tmp_path)
    result = cli(
        "finetune", "classify", "--model", bert, "--train", file, "--test", file, *QUICK,
        "--epochs", "2", "--seeds", "3", "--seed", "5", "--out", "new", "--json",
    )  # fmt: skip
    answer = json.loads(result.out)  # one document and nothing else
    assert answer["folder"] == "new"
    assert list(answer["dev_by_seed"]) == ["5", "6", "7"]
    assert answer["dev"]["accuracy"] == max(answer["dev_by_seed"].values())
    assert set(answer["test"]) == {"accuracy", "macro_f1"}
    assert answer["seconds"] > 0


def test_seeds_keep_the_best_and_show_the_spread(cli: Command, bert: Path, tmp_path: Path) -> None:
    """Case FT-01: least, median and greatest of some seeds."""
    file = FILES["similarity"](tmp_path)
    result = cli(
        "finetune", "similarity", "--model", bert, "--train", file, "--dev", file, *QUICK,
        "--epochs", "3", "--seeds", "3", "--out", "new",
    )  # fmt: skip
    assert result.status == 0, result.err
    lines = result.out.splitlines()
    assert [line for line in lines if line.startswith("seed ")] == ["seed 0", "seed 1", "seed 2"]
    (spread,) = (line.split() for line in lines if line.startswith("pearson over 3 seeds"))
    median, low, high = (float(spread[n].strip(",")) for n in (5, 6, 8))
    assert low <= median <= high
    record = json.loads(Path("new/finetuning.json").read_text(encoding="utf-8"))
    best = max(epoch["scores"]["pearson"] for epoch in record["epochs"])
    assert best == pytest.approx(high, abs=1e-4)
    (epoch,) = (line for line in lines if line.startswith("best epoch"))
    assert epoch.endswith(f"of 3, seed {record['training']['seed']}")
    scores = json.loads(cli("evaluate", "new", file, "--json", "--backend", "numpy").out)
    assert scores["pearson"] == pytest.approx(high, abs=1e-4)


def test_runs_are_numbered(cli: Command, bert: Path, tmp_path: Path) -> None:
    file = FILES["tag"](tmp_path)
    for _ in range(2):
        done = cli("finetune", "tag", "--model", bert, "--train", file, *QUICK, "--epochs", "1")
        assert done.status == 0, done.err
    assert Path("runs/tag-2/model.safetensors").exists()
    assert not Path("runs/tag-3").exists()


def test_a_fresh_model(cli: Command, bert: Path, tmp_path: Path) -> None:
    file = FILES["tag"](tmp_path)
    for more in ((), ("--vocab", bert / "vocab.txt")):
        out = f"new-{len(more)}"
        result = cli(
            "finetune", "tag", "--model", "fresh", *more, "--train", file, "--epochs", "1",
            "--backend", "numpy", "--out", out,
        )  # fmt: skip
        assert result.status == 0, result.err
    tokens = Path("new-2/vocab.txt").read_text(encoding="utf-8")
    assert tokens == (bert / "vocab.txt").read_text(encoding="utf-8")


def test_no_bar_and_no_escapes_in_a_pipe(process: Command, bert: Path, tmp_path: Path) -> None:
    file = FILES["tag"](tmp_path)
    flags = ("--model", bert, "--train", file, *QUICK, "--epochs", "2", "--out", "new")
    result = process("finetune", "tag", *flags)
    assert result.status == 0, result.err
    assert "\x1b" not in result.out + result.err
    assert all(line == line.rstrip() for line in result.out.splitlines())


@pytest.mark.skipif(os.name == "nt", reason="Windows delivers Ctrl-C to a whole console")
def test_control_c_keeps_the_best_epoch(bert: Path, tmp_path: Path) -> None:
    file = FILES["classify"](tmp_path)
    flags = ["--model", str(bert), "--train", str(file), *QUICK, "--epochs", "100000"]
    command = [sys.executable, "-m", "minibert", "finetune", "classify", *flags, "--out", "new"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stderr
        for line in process.stdout:
            if line.startswith("epoch 3"):
                break
        process.send_signal(signal.SIGINT)
        out, err = process.stdout.read(), process.stderr.read()
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "minibert predict new" in out
    assert load_finetuned("new", "numpy").predict(["a film"])


def test_divergence_is_one_line(cli: Command, bert: Path, tmp_path: Path) -> None:
    """The rate is lawful; what comes of it is not."""
    file = FILES["classify"](tmp_path)
    flags = ("--max-length", "20", "--learning-rate", "1e30", "--epochs", "9")
    result = cli("finetune", "classify", "--model", bert, "--train", file, *flags)
    assert result.status == 2
    assert "is not finite" in result.err.splitlines()[-1]
    assert "--learning-rate" in result.err.splitlines()[-1]
    assert "Traceback" not in result.err


def test_a_seed_that_diverges_does_not_take_the_others_along(
    cli: Command, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And every score keeps its own seed."""
    original = training.train_seed

    def train_seed(prepared: Any, config: Any, *rest: Any, **more: Any) -> Any:
        if config.seed == 5:
            raise DivergedError("step 1: the loss is not finite")
        return original(prepared, config, *rest, **more)

    monkeypatch.setattr(training, "train_seed", train_seed)
    flags = ("--train", FILES["classify"](tmp_path), *QUICK, "--epochs", "2", "--seeds", "3")
    shown = cli("finetune", "classify", "--model", bert, *flags, "--seed", "5", "--out", "shown")
    assert shown.status == 0
    assert "seed 5: step 1: the loss is not finite" in shown.err
    told = cli("finetune", "classify", "--model", bert, *flags, "--seed", "5", "--json")
    scores = json.loads(told.out)["dev_by_seed"]
    assert list(scores) == ["6", "7"]
    winner = max(scores, key=scores.__getitem__)
    assert f"of 2, seed {winner}\n" in shown.out


# --- refusals


@pytest.mark.parametrize(
    ("task", "flags", "words"),
    [
        ("classify", "--model none", ["no folder at none"]),
        ("classify", "--train none.tsv", ["none.tsv"]),
        ("classify", "--dev none.tsv", ["none.tsv"]),
        ("classify", "--test none.tsv", ["none.tsv"]),
        ("classify", "--epochs 0", ["epochs is 0"]),
        ("classify", "--batch-size 0", ["batch_size is 0"]),
        ("classify", "--learning-rate nan", ["learning_rate is nan"]),
        ("classify", "--learning-rate -1", ["learning_rate is -1"]),
        ("classify", "--warmup 2", ["warmup is 2"]),
        ("classify", "--layer-decay 0", ["layer_decay is 0"]),
        ("classify", "--patience -1", ["patience is -1"]),
        ("classify", "--seeds 0", ["--seeds", "greater than or equal to 1"]),
        ("classify", "--freeze-layers 99", ["freeze_layers is 99", "has 2"]),
        ("classify", "--max-length 49", ["max_length is 49", "48 tokens", "--max-length"]),
        ("classify", "--max-length 2", ["max_length is 2", "at least 5"]),
        ("classify", "--stride 9", ["--stride is for answer", "classify"]),
        ("classify", "--compare pair", ["--compare is for similarity"]),
        ("tag", "--label-column 2", ["--label-column is for classify and similarity"]),
        ("answer", "--class-weights balanced", ["--class-weights is for classify and tag"]),
        ("answer", "--stride 150", ["stride is 150", "--stride"]),
        ("answer", "--synonyms 0.1", ["--synonyms"]),
        ("tag", "--reorder 0.1", ["--reorder"]),
        ("similarity", "--compare dot", ["dot", "pair", "cosine"]),
        ("classify", "--text-column nope", ["nope"]),
        ("classify", "--preset mini", ["has its own", "leave out --preset"]),
        ("classify", "--vocab vocab.txt", ["has its own", "leave out --vocab"]),
        ("classify", "--model fresh --preset giant", ["giant", "tiny"]),
        ("classify", "--model fresh --vocab none.txt", ["none.txt"]),
        ("classify", "--backend numpy --matmul blas", ["--matmul"]),
        ("translate", "", ["translate", "classify"]),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    cli: Command, bert: Path, tmp_path: Path, task: str, flags: str, words: list[str]
) -> None:
    file = FILES.get(task, FILES["classify"])(tmp_path)
    given = dict(zip(["--model", "--train", "--out"], [bert, file, "new"], strict=True))
    base = [part for item in given.items() for part in item]
    result = cli("finetune", task, *base, *QUICK, *flags.split())
    leaves_nothing(result, "new", *words)


def test_missing_flags(cli: Command, bert: Path) -> None:
    assert_refused(cli("finetune"), "TASK", "minibert finetune --help")
    assert_refused(cli("finetune", "classify"), "--model")
    assert_refused(cli("finetune", "classify", "--model", bert), "--train")


@pytest.mark.parametrize(
    ("task", "name", "lines", "words"),
    [
        ("classify", "a.tsv", ["text\tlabel", "good\tx", "bad\t"], ["a.tsv, line 3", "empty"]),
        ("classify", "a.tsv", ["text\tlabel", "good\tx", "bad\tx"], ["same label (x)"]),
        ("classify", "a.tsv", ["text\tlabel", "good\tx"], ["same label (x)"]),
        ("classify", "a.tsv", [" "], ["a.tsv", "empty"]),
        ("classify", "a.pdf", ["good\tx"], ["a.pdf", ".tsv"]),
        ("classify", "a.jsonl", ['{"text": "a", "label": "x"}', '{"te'], ["a.jsonl, line 2"]),
        ("similarity", "a.tsv", ["a\tb\t1", "a\tb\thigh"], ["a.tsv, line 2", "'high'"]),
        ("similarity", "a.tsv", ["a\tb\t1", "c\td\t1"], ["same score"]),
        ("tag", "a.conll", ["ada B-PER", "lives"], ["a.conll, line 2"]),
        ("tag", "a.conll", ["ada O", "lives O"], ["tag O"]),
        ("tag", "a.conll", ["ada PER"], ["a.conll, line 1", "'PER'"]),
        ("answer", "a.json", ['{"data": [{"paragr'], ["a.json", "not JSON"]),
        ("answer", "a.json", ['{"data": []}'], ["a.json", "no questions"]),
    ],
)
def test_a_bad_file_is_one_line_and_leaves_nothing(
    cli: Command,
    bert: Path,
    tmp_path: Path,
    task: str,
    name: str,
    lines: list[str],
    words: list[str],
) -> None:
    file = write_lines(tmp_path / name, lines)
    result = cli("finetune", task, "--model", bert, "--train", file, *QUICK, "--out", "new")
    leaves_nothing(result, "new", *words)


def test_labels_of_dev_and_test_are_those_of_train(
    cli: Command, bert: Path, tmp_path: Path
) -> None:
    file = FILES["classify"](tmp_path)
    other = write_lines(tmp_path / "other.tsv", ["text\tlabel", "good\tpos", "bad\tmeh"])
    for flag in ("--dev", "--test"):
        flags = ("--model", bert, "--train", file, flag, other, *QUICK, "--out", "new")
        leaves_nothing(cli("finetune", "classify", *flags), "new", "other.tsv, row 3", "'meh'")


def test_a_place_that_cannot_be_written_is_refused_at_once(
    cli: Command, bert: Path, tmp_path: Path
) -> None:
    file = FILES["tag"](tmp_path)
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("keep", encoding="utf-8")
    for out, word in (("mine", "exists already"), ("mine/notes.txt", "not a folder"),
                      ("mine/notes.txt/new", "not a folder")):  # fmt: skip
        result = cli("finetune", "tag", "--model", bert, "--train", file, *QUICK, "--out", out)
        assert_refused(result, word, "--out")
    assert [path.name for path in Path("mine").iterdir()] == ["notes.txt"]
    assert Path("mine/notes.txt").read_text(encoding="utf-8") == "keep"


def test_an_empty_folder_may_be_used(cli: Command, bert: Path, tmp_path: Path) -> None:
    file = FILES["tag"](tmp_path)
    Path("empty").mkdir()
    flags = ("--model", bert, "--train", file, *QUICK, "--epochs", "1", "--out", "empty")
    assert cli("finetune", "tag", *flags).status == 0


def test_a_model_for_other_labels_begins_with_a_new_head(
    cli: Command, tuned: Callable[[str], Path], tmp_path: Path
) -> None:
    other = write_lines(tmp_path / "other.tsv", ["text\tlabel", "good\tx", "bad\ty"])
    flags = ("--model", tuned("classify"), "--train", other, "--dev", other, *QUICK)
    assert cli("finetune", "classify", *flags, "--out", "new").status == 0
    assert set(cli("predict", "new", "good").out.split()) >= {"label"}
