"""What all commands share: help, versions, errors, and output anywhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import pytest

from minibert import __version__
from minibert.cli import app, main
from minibert.cli.errors import explain
from minibert.cli.screen import duration, visible

from .conftest import Command, assert_refused

COMMANDS = ["pretrain", "vocab", "warmup", "fill", "next", "embed", "tokenize", "attention",
            "gradcheck"]  # fmt: skip


def test_help_names_every_command(cli: Command) -> None:
    result = cli("--help")
    assert result.status == 0
    assert all(f" {name} " in result.out for name in COMMANDS)
    assert cli().out == result.out  # a beginner types no more than the name


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_fits_a_narrow_terminal(
    cli: Command, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    result = cli(command, "--help")
    assert result.status == 0
    assert max(map(len, result.out.splitlines())) <= 40


def test_importing_the_command_line_is_quick() -> None:
    code = "import sys, minibert.cli; print([m for m in sys.modules if '.' not in m])"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    assert not {b"numpy", b"numba", b"matplotlib", b"safetensors"} & set(modules.split(b"'"))


def test_version(cli: Command) -> None:
    out = cli("--version").out
    assert f"minibert {__version__}" in out
    assert "backends: numpy, numba" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fil"], ["fil", "fill", "--help"]),
        (["--nonsense"], ["--nonsense", "minibert --help"]),
        (["fill"], ["DIR", "minibert fill --help"]),
        (["fill", "here", "x", "--tpo", "3"], ["--tpo"]),
        (["fill", "here", "x", "--top", "many"], ["--top"]),
        (["fill", "here", "x", "--top", "0"], ["--top"]),
        (["fill", "here", "x", "--backend", "abacus"], ["--backend", "numba"]),
    ],
)
def test_wrong_use_is_one_line(cli: Command, arguments: list[str], words: list[str]) -> None:
    assert_refused(cli(*arguments), *words)


def test_traceback_is_shown_on_request(
    cli: Command, process: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Traceback" not in process("fill", "nowhere", "x").err
    result = process("fill", "nowhere", "x", "--traceback")
    assert "Traceback" in result.err
    assert result.status != 0
    monkeypatch.setenv("MINIBERT_TRACEBACK", "1")
    with pytest.raises(FileNotFoundError):
        main(["fill", "nowhere", "x"])


def test_a_fault_of_the_program_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr("minibert.cli.errors.allow_any_character", lambda: None)
    monkeypatch.setattr(type(app), "__call__", broken)
    with pytest.raises(KeyError):
        main(["--version"])


def test_errors_of_the_system_say_the_way_out() -> None:
    line = explain(PermissionError(13, "Permission denied", "/etc/model"))
    assert line == "/etc/model: permission denied: choose a place that you may read and write"
    assert "free some space" in (explain(OSError(28, "No space left on device")) or "")
    assert "smaller" in (explain(MemoryError("Unable to allocate 9 GiB")) or "")
    assert explain(TypeError("a bug")) is None


def test_control_c(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("minibert.tokenizer.Tokenizer.load", interrupted)
    assert main(["tokenize", "somewhere", "x"]) == 130
    assert capsys.readouterr().err == "minibert: stopped\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGPIPE")
def test_a_reader_that_goes_away_is_no_error(model_folder: Path) -> None:
    text = "the loop ends . " * 20_000
    command = [sys.executable, "-m", "minibert", "tokenize", str(model_folder), "-"]
    command[-1] = text[:100_000]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        process.stderr.close()
    assert process.returncode == 141


def test_any_character_on_an_ascii_terminal(model_folder: Path, process: Command) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    result = process("tokenize", model_folder, "é 三 💩 the", **ascii_only)
    assert result.status == 0, result.err
    assert "\\u4e09" in result.out
    assert process("tokenize", model_folder, "é 三", "--json", **ascii_only).status == 0
    for arguments in (["--help"], ["pretrain", "--help"], ["fill", "nowhére", "x"]):
        assert "Error" not in process(*arguments, **ascii_only).err


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pseudo-terminals")
@pytest.mark.parametrize(("columns", "no_color"), [(40, "1"), (100, "")])
def test_a_terminal_of_any_width(model_folder: Path, columns: int, no_color: str) -> None:
    import fcntl
    import pty
    import struct
    import termios

    command = [sys.executable, "-m", "minibert", "fill", str(model_folder), "[MASK] ends " * 3]
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": no_color, "COLUMNS": str(columns)}
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(command, stdout=slave, env=environment) as process:
        os.close(slave)
        output = b""
        while chunk := read_terminal(master):
            output += chunk
    os.close(master)
    assert process.returncode == 0
    text = output.decode()
    assert "\x1b[3" not in text  # no colours of the foreground, with NO_COLOR or without
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert plain[0].split() == ["mask", "token", "probability", "text"]
    assert max(map(len, plain)) <= columns


def read_terminal(master: int) -> bytes:
    try:
        return os.read(master, 4096)
    except OSError:  # the other side is closed: Linux says so with an error
        return b""


def test_warmup_shows_what_it_compiles(cli: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    def warmup(dtype: type, progress: Callable[[str, int, int], None]) -> None:
        compiled.append(dtype.__name__)
        for number, name in enumerate(("gemm", "softmax"), start=1):
            progress(name, number, 2)

    kernels = types.ModuleType("minibert.ops.cpu.warmup")
    kernels.warmup = warmup  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "minibert.ops.cpu.warmup", kernels)
    monkeypatch.setitem(sys.modules, "minibert.ops.cpu", types.ModuleType("minibert.ops.cpu"))
    result = cli("warmup")
    assert result.status == 0, result.err
    assert compiled == ["float32"]
    assert "float32: 2 kernels ready" in result.out
    assert cli("warmup", "--double").status == 0
    assert compiled == ["float32", "float32", "float64"]


def test_warnings_are_one_line(model_folder: Path, process: Command, tmp_path: Path) -> None:
    long = tmp_path / "long.txt"
    long.write_text("the loop " * 20, encoding="utf-8")
    result = process("embed", model_folder, long, "--backend", "numpy")
    assert result.status == 0
    assert result.err.startswith("minibert: warning: 1 of 1 sentences")
    assert result.err.count("\n") == 1


def test_control_characters_do_not_reach_the_terminal() -> None:
    assert visible("a\tb\x1b[31m\ud800é") == "a\\tb\\x1b[31m\\ud800é"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.42, "0.4 s"), (7, "7 s"), (59.7, "1:00 min"), (312, "5:12 min"), (7512, "2:05 h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
