from __future__ import annotations

import argparse
import json
from importlib import import_module
from pathlib import Path

import pytest
import report
from report import Figure, bar, finish

from .conftest import BENCHMARKS


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        (Figure("a", 2.0, at_least=2.0), None),
        (Figure("a", 1.9, at_least=2.0), "a: 1.9, expected at least 2"),
        (Figure("a", float("nan"), at_least=2.0), "a: nan, expected at least 2"),
        (Figure("a", 3.0, at_most=2.0), "a: 3, expected at most 2"),
        (Figure("a", 1.0, at_most=2.0), None),
        (Figure("a", float("nan")), None),
    ],
)
def test_shortfall(figure: Figure, expected: str | None) -> None:
    assert figure.shortfall() == expected


def test_check_names_what_falls_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = [Figure("speed", 1.5, at_least=2.0), Figure("size", 1.0, at_most=2.0)]
    file = tmp_path / "figures.json"
    options = argparse.Namespace(threads=2, json=file, check=True, busy=0.0)
    assert finish(options, ["what", "how much"], [["speed", "1.5"]], figures, more=[1]) == 1
    out, err = capsys.readouterr()
    assert "how much" in out
    assert err == "speed: 1.5, expected at least 2\n"
    record = json.loads(file.read_text(encoding="utf-8"))
    assert record["figures"] == {"speed": 1.5, "size": 1.0}
    assert record["table"] == [{"what": "speed", "how much": "1.5"}]
    assert record["more"] == [1]
    options.check = False
    assert finish(options, ["what", "how much"], [["speed", "1.5"]], figures) == 0
    options.check = True
    assert finish(options, ["what", "how much"], [["size", "1"]], figures[1:]) == 0


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_has_the_shared_options(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main = import_module(name).main
    with pytest.raises(SystemExit) as exit:
        main(["--help"])
    assert exit.value.code == 0
    out = capsys.readouterr().out
    assert all(option in out for option in ("--quick", "--check", "--json", "--threads"))
    for wrong in (["--json", str(tmp_path / "no" / "a.json")], ["--threads", "0"], ["--unknown"]):
        with pytest.raises(SystemExit) as exit:
            main(wrong)
        assert exit.value.code == 2


@pytest.mark.parametrize("name", ["pretraining", "time_to_quality"])
def test_without_torch_one_line_says_how_to_install_it(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "installed", lambda *packages: False)
    with pytest.raises(SystemExit) as exit:
        import_module(name).main([])
    assert exit.value.code == 2
    assert capsys.readouterr().err == 'torch is not installed: pip install -e ".[parity]"\n'


def test_busy_machine_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = report.new_parser("?")
    assert report.parse(parser, []).busy == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(report, "busy_cores", lambda: 1.5)
    report.parse(parser, [])
    assert "keep 1.5 of" in capsys.readouterr().err


def test_bar() -> None:
    assert bar(5, 10, width=10) == "#####"
    assert bar(0.001, 10) == "#"
    assert bar(0, 10) == bar(0, 0) == ""
