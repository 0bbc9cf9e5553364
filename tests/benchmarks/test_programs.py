from __future__ import annotations

import os
from threading import Thread
from time import perf_counter
from typing import Any

import numpy as np
import programs
import pytest
from programs import Calls, Program, Ratio, check_equal, take_turns, turn

from .conftest import Here


def make(number: int) -> Calls:
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


def cannot_start() -> Calls:
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
    monkeypatch.setattr(programs, "perf_counter", lambda: float(next(clock)))
    calls: list[int] = []
    assert turn(lambda: calls.append(1)) == 1.0
    assert len(calls) == 1
    monkeypatch.setattr(programs, "LONG", 2.0)
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
    programs.fall_asleep()
    assert not thread.is_alive()
    monkeypatch.setattr(programs, "PATIENCE", 0.05)
    thread = spinning(0.5)
    programs.fall_asleep()  # not for ever
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
