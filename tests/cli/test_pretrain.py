"""pretrain: a run from its flags to its folder, stopped, resumed, refused."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from minibert.checkpoint.huggingface import save_model
from minibert.cli.launch import example
from minibert.cli.options import Backend, Matmul, Precision, ops_name
from minibert.cli.pretrain import pretrain
from minibert.config import BertConfig, TrainConfig
from minibert.keys import Key
from minibert.models.pretraining import BertForPreTraining
from minibert.tokenizer import SPECIAL_TOKENS, Tokenizer, Vocabulary
from minibert.training.evaluate import Blank
from minibert.training.run import TextConfig

from .conftest import Command, Result, assert_refused

TINY = [
    "--layers",
    "1",
    "--width",
    "8",
    "--heads",
    "2",
    "--vocab-size",
    "60",
    "--batch-size",
    "4",
    "--max-length",
    "24",
    "--evaluations",
    "2",
    "--backend",
    "numpy",
]


def leaves_nothing(result: Result, folder: str, *words: str) -> None:
    assert_refused(result, *words)
    assert not Path(folder).exists()


def test_every_setting_has_a_flag_with_its_default() -> None:
    parameters = inspect.signature(pretrain).parameters
    for field in dataclasses.fields(TrainConfig):
        assert parameters[field.name].default == field.default, field.name


def test_a_run(cli: Command, text_file: Path) -> None:
    result = cli("pretrain", text_file, *TINY, "--steps", "6", "--log-every", "2", "--out", "run")
    assert result.status == 0, result.err
    left = {path.name for path in Path("run").iterdir()}
    assert left >= {
        "config.json", "vocab.txt", "tokenizer_config.json", "model.safetensors",
        "training.safetensors", "state.json", "metrics.jsonl", "report.png",
    }  # fmt: skip
    assert not [name for name in left if "tmp" in name]
    records = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert [record["type"] for record in records].count("eval") == 2
    assert records[-1]["step"] == 6
    assert "perplexity" in result.out
    *_, command = result.out.splitlines()
    assert command.startswith('    minibert fill run "')
    assert "[MASK]" in command
    assert "exit a loop" not in command, "the example is of the run's own text"
    assert cli(*shlex.split(command)[1:]).status == 0


def test_runs_are_numbered(cli: Command, text_file: Path) -> None:
    for _ in range(2):
        assert cli("pretrain", text_file, *TINY, "--steps", "1").status == 0
    assert Path("runs/2/model.safetensors").exists()
    assert not Path("runs/3").exists()


def test_a_run_by_the_clock_without_next_sentence(cli: Command, text_file: Path) -> None:
    short = (*TINY, "--minutes", "0.01", "--next-weight", "0", "--out", "run")
    result = cli("pretrain", text_file, *short)
    assert result.status == 0, result.err
    assert "blanks" in result.out
    assert "next" not in result.out  # nothing is said of what is not done
    assert "nsp" not in Path("run/metrics.jsonl").read_text(encoding="utf-8")
    assert Path("run/report.png").exists()


def test_no_bar_and_no_escapes_in_a_pipe(process: Command, text_file: Path) -> None:
    result = process("pretrain", text_file, *TINY, "--steps", "3", "--out", "run")
    assert result.status == 0, result.err
    assert "\x1b" not in result.out + result.err
    assert "\r" not in result.out.replace("\r\n", "\n")
    assert all(line == line.rstrip() for line in result.out.splitlines())


@pytest.mark.skipif(os.name == "nt", reason="Windows delivers Ctrl-C to a whole console")
def test_control_c_saves_and_says_how_to_go_on(text_file: Path) -> None:
    flags = [*TINY, "--steps", "2000000", "--log-every", "1", "--out", "run"]
    command = [sys.executable, "-m", "minibert", "pretrain", str(text_file), *flags]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stderr
        for line in process.stdout:
            if "step" in line and "loss" in line:
                break
        process.send_signal(signal.SIGINT)  # twice in a row would end it at once
        out, err = process.stdout.read(), process.stderr.read()
    assert process.returncode == 130
    assert "minibert pretrain --resume --out run" in out
    assert "Traceback" not in err
    step = json.loads(Path("run/state.json").read_text())["position"]["step"]
    assert f"after step {step:,}" in out
    assert Path("run/report.png").exists()


def test_resume_goes_on_and_finds_the_latest(cli: Command, text_file: Path) -> None:
    assert cli("pretrain", text_file, *TINY, "--steps", "4").status == 0
    result = cli("pretrain", "--resume", "--backend", "numpy")
    assert result.status == 0, result.err
    assert "runs/1 after step 4" in result.out.replace(os.sep, "/")


def test_resume_refuses(cli: Command, text_file: Path) -> None:
    assert_refused(cli("pretrain", "--resume"), "no run", "--out")
    assert_refused(cli("pretrain", "--resume", "--out", "none"), "none")
    assert_refused(cli("pretrain", "--resume", "--steps", "9", "--out", "none"), "--steps")
    assert_refused(cli("pretrain", text_file, "--resume", "--out", "none"), "FILES")
    assert not Path("none").exists()


def test_resume_refuses_a_truncated_checkpoint(cli: Command, text_file: Path) -> None:
    assert cli("pretrain", text_file, *TINY, "--steps", "2", "--out", "run").status == 0
    saved = Path("run/training.safetensors")
    saved.write_bytes(saved.read_bytes()[:-50])
    result = cli("pretrain", "--resume", "--out", "run", "--backend", "numpy")
    assert_refused(result, "training.safetensors")


def test_a_run_begins_with_another_run(cli: Command, text_file: Path, tmp_path: Path) -> None:
    steps = ("--steps", "2", "--backend", "numpy", "--max-length", "24", "--out")
    assert cli("pretrain", text_file, *TINY, "--steps", "2", "--out", "first").status == 0
    other = tmp_path / "other.txt"
    other.write_text("A new word is read.\n\nAnother text it is.\n\nThe end.\n", encoding="utf-8")
    result = cli("pretrain", other, "--model", "first", "--next-weight", "0", *steps, "second")
    assert result.status == 0, result.err
    assert "weights of first." in result.out
    assert Path("second/vocab.txt").read_bytes() == Path("first/vocab.txt").read_bytes()
    state = json.loads(Path("second/state.json").read_text())
    assert state["train"]["model"] == str(Path("first").absolute())
    assert cli("fill", "second", "The [MASK] ends.").status == 0


def test_models_to_begin_with_that_are_refused(cli: Command, text_file: Path) -> None:
    steps = ("--steps", "2", "--backend", "numpy", "--max-length", "24", "--out", "run")
    assert cli("pretrain", text_file, *TINY, "--steps", "2", "--out", "first").status == 0
    begin = ("pretrain", text_file, "--model")
    leaves_nothing(cli(*begin, "none", *steps), "run", "no folder at none")
    leaves_nothing(cli(*begin, text_file, *steps), "run", "no folder at")
    for flag in ("--preset tiny", "--vocab-size 60", "--cased", "--width 8", "--activation relu"):
        result = cli(*begin, "first", *flag.split(), *steps)
        leaves_nothing(result, "run", "first has its own", f"leave out {flag.split()[0]}")
    Path("first/model.safetensors").unlink()
    leaves_nothing(cli(*begin, "first", *steps), "run", "first", "model.safetensors")
    resume = ("pretrain", "--resume", "--out", "first", "--model", "first", "--preset", "tiny")
    assert_refused(cli(*resume), "goes on as the run began", "leave out --model")


@pytest.mark.parametrize(("typed", "expected"), [([], 0.25), (["--dropout", "0.5"], 0.5)])
def test_a_folder_keeps_its_dropout_unless_another_is_typed(
    cli: Command, text_file: Path, typed: list[str], expected: float
) -> None:
    first = ("--dropout", "0.25", "--steps", "1", "--out", "first")
    assert cli("pretrain", text_file, *TINY, *first).status == 0
    second = ("--steps", "1", "--max-length", "24", "--backend", "numpy", "--out", "second")
    assert cli("pretrain", text_file, "--model", "first", *typed, *second).status == 0
    config = json.loads(Path("second/config.json").read_text(encoding="utf-8"))
    assert config["hidden_dropout_prob"] == config["attention_probs_dropout_prob"] == expected


def test_a_model_of_one_segment_is_refused_before_anything_is_written(
    cli: Command, text_file: Path
) -> None:
    config = BertConfig(
        vocab_size=7, hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=16, max_position_embeddings=32, type_vocab_size=1,
    )  # fmt: skip
    model = BertForPreTraining(config, "numpy")
    model.initialize(Key(0))
    save_model(model, Tokenizer(Vocabulary([*SPECIAL_TOKENS, "the", "end"])), "first")
    begin = ("pretrain", text_file, "--model", "first", "--steps", "1", "--max-length", "24")
    result = cli(*begin, "--backend", "numpy", "--out", "run")
    leaves_nothing(result, "run", "type_vocab_size is 1", "--next-weight 0")
    result = cli(*begin, "--backend", "numpy", "--out", "run", "--next-weight", "0")
    assert result.status == 0, result.err


@pytest.mark.parametrize(
    ("blanks", "expected"),
    [
        (["cost: $5 [MASK]", '"[MASK]"', "- a [MASK]", "the [MASK] .", "a [MASK]"], "the [MASK] ."),
        (["100 % [MASK]"], "The [MASK] statement is used to exit a loop."),
        ([], "The [MASK] statement is used to exit a loop."),
    ],
)
def test_the_example_is_one_that_a_shell_takes(blanks: list[str], expected: str) -> None:
    run: Any = SimpleNamespace(
        text=TextConfig(["letters.txt"]), blanks=[Blank(text, "it") for text in blanks]
    )
    assert example(run) == expected
    run.text.files.clear()  # the embedded text: a sentence that it is good at
    assert example(run) == "The [MASK] statement is used to exit a loop."


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--preset giant", ["giant", "tiny"]),
        ("--heads 3", ["hidden_size 8", "3"]),
        ("--layers 0", ["num_hidden_layers is 0"]),
        ("--max-length 600", ["600", "512"]),
        ("--max-length 7", ["7", "8"]),
        ("--steps 3 --minutes 2", ["steps", "minutes"]),
        ("--steps 0", ["steps is 0"]),
        ("--minutes -1", ["minutes is -1"]),
        ("--learning-rate nan", ["learning_rate"]),
        ("--dropout 1", ["dropout", "1"]),
        ("--activation sigmoid", ["sigmoid", "gelu"]),
        ("--optimizer magic", ["magic", "adamw"]),
        ("--vocab none.txt", ["none.txt"]),
        ("--vocab-size 10", ["10", "at least"]),
        ("--backend numpy --matmul blas", ["--matmul", "numba"]),
        ("--backend numpy --precision bf16", ["--precision", "numba"]),
        ("--backend numba --matmul blas --precision bf16", ["BLAS", "bfloat16"]),
        ("--precision float64", ["float64", "bf16"]),
    ],
)
def test_settings_that_are_refused(
    cli: Command, text_file: Path, flags: str, words: list[str]
) -> None:
    length = [] if "steps" in flags or "minutes" in flags else ["--steps", "2"]
    result = cli("pretrain", text_file, *TINY, *length, *flags.split(), "--out", "run")
    leaves_nothing(result, "run", *words)


@pytest.mark.parametrize(
    ("flags", "ops", "notice"),
    [
        ("", "numba", ""),
        ("--matmul blas", "numba-blas", ""),
        ("--precision bf16", "numba", "cannot multiply in bfloat16"),
    ],
)
def test_which_product_is_used(
    cli: Command,
    text_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: str,
    ops: str,
    notice: str,
) -> None:
    used = []
    monkeypatch.setattr("minibert.ops.cpu.vectors.PAIRS", False)
    monkeypatch.setattr(
        "minibert.cli.launch.compile_kernels", lambda name, status: used.append(name)
    )
    steps = ["--steps", "2", "--out", "run", "--backend", "numba"]
    result = cli("pretrain", text_file, *TINY, *steps, *flags.split())
    assert result.status == 0, result.err
    assert used == [ops]
    assert (notice in result.err) if notice else "bfloat16" not in result.err


def test_bfloat16_where_the_processor_has_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("minibert.ops.cpu.vectors.PAIRS", True)
    assert ops_name(Backend.numba, Matmul.own, Precision.bf16) == "numba-bf16"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["text"]),
        (b"  \n\n \n", ["text"]),
        (b"One document. It has two sentences.\n", ["document"]),
        (b"The loop ends. \xff It does.\n\nA second document.\n", ["UTF-8"]),
    ],
)
def test_texts_that_are_refused(
    cli: Command, tmp_path: Path, content: bytes, words: list[str]
) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    leaves_nothing(cli("pretrain", path, *TINY, "--steps", "2", "--out", "run"), "run", *words)


def test_places_that_are_refused(cli: Command, text_file: Path, tmp_path: Path) -> None:
    steps = (*TINY, "--steps", "2", "--out")
    (tmp_path / "empty").mkdir()
    leaves_nothing(cli("pretrain", tmp_path / "empty", *steps, "run"), "run", "empty")
    leaves_nothing(cli("pretrain", tmp_path / "missing.txt", *steps, "run"), "run", "missing.txt")
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "mine").write_text("kept", encoding="utf-8")
    assert_refused(cli("pretrain", text_file, *steps, taken), "taken", "--out", "--resume")
    assert [path.name for path in taken.iterdir()] == ["mine"]
    assert_refused(cli("pretrain", text_file, *steps, taken / "mine" / "run"), "mine", "--out")
