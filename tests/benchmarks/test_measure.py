from __future__ import annotations

import argparse
import json
import os
from importlib import import_module
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any

import measure
import numpy as np
import pytest
from measure import Figure, Program, Ratio, bar, check_equal, finish, take_turns, turn

from .conftest import BENCHMARKS, Here


def make(number: int) -> measure.Calls:
    def fail() -> None:
        raise ValueError(f"number {number} is not fit")

    return {
        "double": lambda other: 2 * other + number,
        "fail": fail,
        "variables": lambda: [
            os.environ.get(name) for name in ("RAYON_NUM_THREADS", "OPENBLAS_CORETYPE")
        ],
        "sleep": lambda: None,
        "leave": lambda: os._exit(1),
    }


def cannot_start() -> measure.Calls:
    raise ImportError("it is not there")


def test_program_answers_from_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    with Program(make, 7, threads=3, free_blas=True) as program:
        assert program.result("double", 4) == 15
        assert program.result("variables") == ["3", None]
        assert program.seconds("sleep") < 1
        with pytest.raises(RuntimeError, match="number 7 is not fit"):
            program.result("fail")
        assert program.result("double", 1) == 9, "a failed call does not end the program"
        with pytest.raises(RuntimeError, match="ended before it answered"):
            program.result("leave")
    assert os.environ["OPENBLAS_CORETYPE"] == "Haswell"


def test_program_that_cannot_start_says_why() -> None:
    with pytest.raises(RuntimeError, match="it is not there"):
        Program(cannot_start)


def test_programs_take_turns() -> None:
    order: list[str] = []
    programs: Any = {
        name: Here(lambda name=name: {"work": lambda: order.append(name)}) for name in "AB"
    }
    found = take_turns(programs, "work", rounds=3)
    assert order == ["A", "A", "B", "B"] * 3  # the first call of a turn is not counted
    assert {name: len(seconds) for name, seconds in found.items()} == {"A": 3, "B": 3}


def test_turn_leaves_the_first_call_out_unless_it_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr(measure, "perf_counter", lambda: float(next(clock)))
    calls: list[int] = []
    assert turn(lambda: calls.append(1)) == 1.0
    assert len(calls) == 1
    monkeypatch.setattr(measure, "LONG", 2.0)
    turn(lambda: calls.append(1))
    assert len(calls) == 3


def spinning(seconds: float) -> Thread:
    """Return a thread that keeps a core busy for so long, as OpenBLAS's do after a product."""
    deadline = perf_counter() + seconds

    def spin() -> None:
        while perf_counter() < deadline:
            pass

    thread = Thread(target=spin, daemon=True)
    thread.start()
    return thread


def test_the_next_program_waits_for_threads_that_spin(monkeypatch: pytest.MonkeyPatch) -> None:
    thread = spinning(0.2)
    measure.fall_asleep()
    assert not thread.is_alive()
    monkeypatch.setattr(measure, "PATIENCE", 0.05)
    thread = spinning(0.5)
    measure.fall_asleep()  # not for ever
    assert thread.is_alive()


def test_ratio_is_of_neighbours() -> None:
    ratio = Ratio.of([2.0, 20.0, 9.0], [1.0, 10.0, 3.0])
    assert ratio == (2.0, 2.0, 3.0)
    assert str(ratio) == "2.00 (2.00-3.00)"


def test_unequal_results_stop_a_benchmark() -> None:
    check_equal("product", [1.0, 2.0], [1.0, 2.00001], 1e-5)
    with pytest.raises(SystemExit, match=r"product: results differ by 5\.0e-01"):
        check_equal("product", [1.0, 1.0], [1.0, 2.0], 1e-5)
    with pytest.raises(SystemExit, match="differ by nan"):
        check_equal("product", [np.nan], [1.0], 1e-5)
    with pytest.raises(SystemExit, match=r"shapes \(1,\) and \(2,\)"):
        check_equal("product", [1.0], [1.0, 2.0], 1e-5)


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
    monkeypatch.setattr(measure, "installed", lambda *packages: False)
    with pytest.raises(SystemExit) as exit:
        import_module(name).main([])
    assert exit.value.code == 2
    assert capsys.readouterr().err == 'torch is not installed: pip install -e ".[parity]"\n'


def test_busy_machine_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = measure.new_parser("?")
    assert measure.parse(parser, []).busy == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(measure, "busy_cores", lambda: 1.5)
    measure.parse(parser, [])
    assert "keep 1.5 of" in capsys.readouterr().err


def test_bar() -> None:
    assert bar(5, 10, width=10) == "#####"
    assert bar(0.001, 10) == "#"
    assert bar(0, 10) == bar(0, 0) == ""


def test_peak_memory_and_machine() -> None:
    assert not measure.peak_memory() <= 10_000_000
    assert measure.core_count() >= 1
    assert measure.processor()
    assert measure.blas_kernel()
