from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import time_to_quality
from time_to_quality import Clocked, seconds_until

ARGUMENTS = ["--minutes", "0.002", "--slices", "2", "--threads", "1"]


def test_time_of_a_loss_lies_between_two_points() -> None:
    curve = [(0.0, 0, 8.0), (10.0, 5, 6.0), (20.0, 9, 4.0)]
    assert seconds_until(curve, 5.0) == 15.0
    assert seconds_until(curve, 4.0) == 20.0
    assert math.isnan(seconds_until(curve, 3.9))


def test_clock_stands_still_between_turns(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(time_to_quality, "perf_counter", lambda: float(next(clock)))
    run = Clocked("minibert", 10 / 60, "tiny", [str(texts)])
    before, loss = run.first_losses()
    assert run.trainer.held_out() == before
    assert 0 < loss < 20
    half, whole = run.train_until(0.5), run.train_until(1.0)
    assert half[:2] == (5.0, 5)
    assert whole[:2] == (10.0, 10)
    assert half[2] != whole[2]


def test_minutes_have_to_be_some() -> None:
    with pytest.raises(SystemExit) as exit:
        time_to_quality.main(["--minutes", "-1"])
    assert exit.value.code == 2


@pytest.mark.parametrize(
    ("arguments", "missed"), [(["--minutes", "5"], 2), ([], 0), (["--minutes", "5", "a.txt"], 0)]
)
def test_the_limits_are_those_of_the_usual_five_minutes(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    missed: int,
) -> None:
    curves = {
        side: [(0.0, 0, 8.0), (300.0, 9, loss)]
        for side, loss in (("minibert", 4), ("PyTorch", 4.2))
    }
    monkeypatch.setattr(time_to_quality, "need", lambda *packages: None)
    monkeypatch.setattr(time_to_quality, "train", lambda *given: (curves, 0.27))
    assert time_to_quality.main([*arguments, "--check"]) == int(missed > 0)
    assert len(capsys.readouterr().err.splitlines()) == missed


@pytest.mark.parity
def test_race(
    torch_here: object, texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, plot = tmp_path / "a.json", tmp_path / "a.svg"
    outputs = ["--json", str(file), "--plot", str(plot), "--check"]
    assert time_to_quality.main([str(texts), *ARGUMENTS, *outputs]) == 0
    assert "times sooner" in capsys.readouterr().out
    record = json.loads(file.read_text(encoding="utf-8"))
    ours, theirs = (record["curves"][side] for side in time_to_quality.SIDES)
    assert 0 <= record["figures"]["minibert: masked words right"] <= 1
    below = record["figures"]["last held-out loss below PyTorch's"]
    assert below == pytest.approx(theirs[-1][2] - ours[-1][2])
    assert len(ours) == len(theirs) == 3
    assert ours[0] == theirs[0]
    assert all(curve[1][1] >= 1 for curve in (ours, theirs)), "a step at least in every slice"
    assert plot.read_text(encoding="utf-8").startswith("<?xml")
