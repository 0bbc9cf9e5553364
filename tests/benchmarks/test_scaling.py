from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import scaling
from scaling import Case, Size, cases, measure_kind

SMALL, WIDE = Size(2, 8, 64), Size(2, 8, 128)


def test_cases_and_their_theory() -> None:
    table = cases([1, 2], quick=False)
    expected = {(case.part, case.varied, case.value): case.expected for case in table}
    assert len(expected) == len(table)
    assert expected["step", "threads", 2] == expected["step of mini", "threads", 2] == 0.5
    assert expected["linear", "T", 512] == expected["attention", "rows", 64] == 1
    assert expected["attention", "T", 512] == 16
    assert expected["attention", "width", 512] == 8
    assert expected["linear", "width", 512] == 64
    assert expected["step", "T", 512] is None
    assert {case.size.B * case.size.T for case in table if case.varied == "T"} == {32 * 128}
    assert {case.threads for case in table} == {1, 2}


def test_table(
    here: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = [
        Case("threads", 1, "step", SMALL, 1, 1.0),
        Case("width", 64, "linear", SMALL, 1, 1.0),
        Case("width", 128, "linear", WIDE, 1, 4.0),
        Case("width", 64, "attention", SMALL, 1, None),
    ]
    monkeypatch.setattr(scaling, "cases", lambda counts, quick: table)
    monkeypatch.setattr(scaling, "VOCAB_SIZE", 40)
    file = tmp_path / "a.json"
    arguments = ["--rounds", "1", "--threads", "1", "--check", "--json", str(file)]
    assert scaling.main(arguments) == 0
    assert "linear, width" in capsys.readouterr().out
    figures = json.loads(file.read_text(encoding="utf-8"))["figures"]
    assert len(figures) == 4
    assert figures["linear, width 128: µs a token"] > 0


def test_two_threads_are_held_to_their_gain() -> None:
    kind = [Case("threads", n, "step of mini", SMALL, n, 1 / n) for n in (1, 2)]

    class Fake:
        def __init__(self, seconds: float) -> None:
            self.seconds = lambda name, turn: seconds

    for seconds, missed in ((0.5, False), (0.6, True)):
        programs: dict[int, Any] = {1: Fake(1.0), 2: Fake(seconds)}
        _, figures = measure_kind(kind, programs, 1)
        [gain] = [figure for figure in figures if "2 threads" in figure.name]
        assert gain.value == pytest.approx(1 / seconds)
        assert bool(gain.shortfall()) is missed


def test_wrong_part_is_not_timed(here: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from minibert.ops import cpu

    monkeypatch.setattr(cpu, "linear_forward", lambda x, weight, bias: 0 * (x @ weight.T))
    with pytest.raises(SystemExit, match="linear 2 x 8 x 64: results differ"):
        scaling.compare("linear", SMALL)
