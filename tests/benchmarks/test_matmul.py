from __future__ import annotations

import json
from pathlib import Path

import matmul
import pytest

SHAPES = {"x Wᵀ": (5, 3, 4, "b"), "dy W": (5, 3, 4, ""), "dyᵀ x": (5, 3, 4, "a")}
FIGURE = "matrix product ÷ NumPy's"


@pytest.fixture(autouse=True)
def small(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "SHAPES", SHAPES)


def test_race(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.json"
    assert matmul.main(["--quick", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in (*SHAPES, "geometric mean", "faster than NumPy"))
    record = json.loads(file.read_text(encoding="utf-8"))
    assert record["figures"][FIGURE] > 0
    assert record["blas"]


@pytest.mark.parametrize(("slower", "status"), [(1.25, 1), (0.8, 0)])
def test_check(
    slower: float,
    status: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    times = {"minibert": [slower] * 2, "NumPy": [1.0] * 2}
    monkeypatch.setattr(matmul, "take_turns", lambda *arguments: times)
    assert matmul.main(["--check"]) == status
    assert (f"{FIGURE}: 0.8, expected at least 1" in capsys.readouterr().err) == bool(status)


def test_wrong_product_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matmul, "with_minibert", lambda *operands: lambda: [[0.0] * 4] * 5)
    with pytest.raises(SystemExit, match="minibert, x Wᵀ: results differ"):
        matmul.main([])


def test_ladder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, plot = tmp_path / "a.json", tmp_path / "a.svg"
    arguments = ["--ladder", "--size", "20", "--rounds", "1"]
    assert matmul.main([*arguments, "--json", str(file), "--plot", str(plot)]) == 0
    out = capsys.readouterr().out
    steps = ("1 naive", "2 vectorised", "3 unrolled", "4 tiled", "5 packed", "NumPy's BLAS")
    assert all(step in out for step in steps)
    assert "####" in out
    assert len(json.loads(file.read_text(encoding="utf-8"))["figures"]) == 6
    assert plot.read_text(encoding="utf-8").startswith("<?xml")


@pytest.mark.parametrize("arguments", [["--plot", "a.png"], ["--ladder", "--plot", "a.txt"]])
def test_plot_that_cannot_be(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        matmul.main(arguments)
    assert exit.value.code == 2


@pytest.mark.parity
def test_race_with_torch(torch_here: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert matmul.main(["--rounds", "1"]) == 0
    assert "faster than PyTorch" in capsys.readouterr().out
