from __future__ import annotations

import json
from pathlib import Path

import kernels
import numpy as np
import pytest

from .conftest import Here

SIZES = {"B": 2, "T": 6, "C": 8, "F": 12, "V": 13, "M": 5, "WEIGHTS": 40, "DECAYED": 30}


@pytest.fixture(autouse=True)
def small(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SIZES.items():
        monkeypatch.setattr(kernels, name, value)


def test_race(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.json"
    assert kernels.main(["--rounds", "1", "--check", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in (*kernels.PER_STEP, "one step, sum"))
    assert json.loads(file.read_text(encoding="utf-8"))["figures"].keys() == {
        "one step's operations ÷ numpy's"
    }


def test_wrong_operation_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    from minibert.ops import cpu

    monkeypatch.setattr(cpu, "dropout_backward", lambda dy, rate, seed: dy)
    with pytest.raises(SystemExit, match="dropout backward, numpy: results differ"):
        kernels.main(["--rounds", "1"])


def test_number_of_results_is_compared() -> None:
    ours = Here(lambda: {"results": lambda name: [np.ones(1)]})
    theirs = Here(lambda: {"results": lambda name: [np.ones(1)] * 2})
    with pytest.raises(SystemExit, match="softmax: 1 results, 2 from PyTorch"):
        kernels.compare(["softmax"], ours, theirs, "PyTorch")


@pytest.mark.parity
def test_race_with_torch(torch_here: object, capsys: pytest.CaptureFixture[str]) -> None:
    """Its operations are minibert's: all results are compared before they are timed."""
    assert kernels.main(["--rounds", "1"]) == 0
    assert "faster than PyTorch" in capsys.readouterr().out
