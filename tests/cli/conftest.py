"""A small model in a folder, a small text, and the command line called as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from minibert.cli import main
from minibert.config import BertConfig
from minibert.keys import Key
from minibert.models.pretraining import BertForPreTraining
from minibert.tokenizer import SPECIAL_TOKENS, Tokenizer, Vocabulary

from ..tasks.common import learn, pretrained

WORDS = [
    "the",
    "a",
    "loop",
    "file",
    "error",
    "list",
    "ends",
    "opens",
    "reads",
    "with",
    "and",
    "in",
    "it",
    ".",
    ",",
    "##s",
    "##ing",
]


class Result(NamedTuple):
    status: int
    out: str
    err: str


Command = Callable[..., Result]


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, with an empty cache, whatever the user's environment says."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("MINIBERT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("MINIBERT_TRACEBACK", "NO_COLOR", "FORCE_COLOR", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from minibert.checkpoint.huggingface import save_model

    vocab = Vocabulary([*SPECIAL_TOKENS, *WORDS])
    config = BertConfig(
        vocab_size=len(vocab),
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    model = BertForPreTraining(config, ops="numpy")
    model.initialize(Key(1))
    folder = tmp_path_factory.mktemp("model")
    save_model(model, Tokenizer(vocab), folder)
    return folder


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pretrained folder whose vocabulary fits the files of ``tests.tasks.common``."""
    return pretrained(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def tuned(bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A folder fine-tuned for each task, made once; its examples lie beside it."""
    made: dict[str, Path] = {}

    def get(task: str) -> Path:
        if task not in made:
            made[task] = tmp_path_factory.mktemp(task) / "model"
            learn(task, bert, made[task].parent, made[task])
        return made[task]

    return get


@pytest.fixture
def text_file(tmp_path: Path) -> Path:
    """Twenty documents of eight sentences."""
    sentences = [f"The {a} ends the {b} and opens it." for a in WORDS[2:6] for b in WORDS[2:6]]
    documents = [
        "\n".join(sentences[(3 * start + i) % len(sentences)] for i in range(8))
        for start in range(20)
    ]
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(documents) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process."""

    def run(*arguments: str | Path) -> Result:
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        return Result(status, *capsys.readouterr())

    return run


@pytest.fixture
def process() -> Command:
    """Run a command in a process of its own, as from a shell."""

    def run(*arguments: str | Path, stdin: str = "", **environment: str) -> Result:
        done = subprocess.run(
            [sys.executable, "-m", "minibert", *map(str, arguments)],
            input=stdin.encode(),
            capture_output=True,
            env={**os.environ, **environment},
            timeout=120,
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


def assert_refused(result: Result, *words: str) -> None:
    """One clear line on stderr that holds the words, nothing on stdout, status 2."""
    assert result.status == 2, result
    assert result.out == ""
    lines = [line for line in result.err.splitlines() if line.startswith("minibert: ")]
    others = [line for line in result.err.splitlines() if not line.startswith("minibert: ")]
    assert len(lines) == 1, result.err
    prepared = {"starting", "opening the model", "learning the vocabulary", "reading the text"}
    assert set(others) <= prepared, result.err
    for word in words:
        assert word in lines[0]
