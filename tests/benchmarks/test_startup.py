from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import startup

SECONDS = {"python": 0.02, "import numba": 1.0, "minibert --help": 0.4, "first step": 2.4}


@pytest.mark.parametrize(
    ("first_step", "warmup", "missed"),
    [
        (2.4, 20.0, []),
        (2.6, 20.0, ["first step beyond import numba"]),
        (2.4, 26.0, ["cold warmup"]),
    ],
)
def test_check(
    first_step: float,
    warmup: float,
    missed: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seconds = {**SECONDS, "first step": first_step}
    monkeypatch.setattr(startup, "wall_time", lambda name, *arguments: seconds[name])
    monkeypatch.setattr(startup, "cold_warmup", lambda environment: warmup)
    file = tmp_path / "a.json"
    assert startup.main(["--check", "--json", str(file)]) == int(bool(missed))
    out, err = capsys.readouterr()
    assert all(name in out for name in (*SECONDS, "cold warmup"))
    assert [line.partition(":")[0] for line in err.splitlines()] == missed
    figures = json.loads(file.read_text(encoding="utf-8"))["figures"]
    assert figures["first step beyond import numba: seconds"] == pytest.approx(first_step - 1)


def test_first_step_ends_the_process(texts: Path, tmp_path: Path) -> None:
    command = [
        sys.executable, "-c", startup.FIRST_STEP, str(texts), "--out", str(tmp_path / "run"),
        "--backend", "numpy", "--vocab-size", "60", "--batch-size", "2", "--max-length", "8",
    ]  # fmt: skip
    assert startup.wall_time("first step", command, os.environ) > 0
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_command_that_fails_is_no_time() -> None:
    with pytest.raises(SystemExit, match="python failed, exit status 3"):
        startup.wall_time("python", [sys.executable, "-c", "raise SystemExit(3)"], os.environ)
    with pytest.raises(SystemExit, match="--help failed, exit status 0"):
        startup.wall_time("minibert --help", [sys.executable, "-c", "pass"], os.environ)
