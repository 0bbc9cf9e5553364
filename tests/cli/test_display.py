"""The progress of a run, on a terminal and in a pipe."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from minibert.cli import display as module
from minibert.cli.display import Display, LiveScreen, PlainScreen, fitted
from minibert.training.evaluate import Blank, FilledBlank

BLANK = Blank("the [MASK] ends .", "loop")


def record(step: int, loss: float = 5.0) -> dict[str, Any]:
    return {
        "step": step,
        "mlm_loss": loss,
        "mlm_accuracy": 0.25,
        "nsp_accuracy": 0.5,
        "tokens_per_second": 12345.6,
    }


EVAL = {"step": 7, "eval_mlm_loss": 4.5, "eval_mlm_accuracy": 0.2, "eval_nsp_accuracy": 0.8}


def test_the_first_step_counts_fully_and_means_follow() -> None:
    shown = Display(PlainScreen())
    shown.stepped(record(1, 8.0), 0.01)
    assert "loss 8.00" in shown.figures()
    for step in range(2, 300):
        shown.stepped(record(step, 4.0), step / 300)
    assert "loss 4.00" in shown.figures()
    assert "12,346 tokens/s" in shown.figures()


def test_without_next_sentence_nothing_is_said_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    def without(figures: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in figures.items() if "nsp" not in name}

    shown = Display(PlainScreen())
    shown.stepped(without(record(1)), 0.01)
    assert shown.figures() == ["step 1", "loss 5.00", "blanks 25.0% right", "12,346 tokens/s"]
    shown.evaluated(without(EVAL), [])
    assert capsys.readouterr().out.endswith("held-out text: loss 4.50, blanks 20.0% right\n")


def test_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    shown = Display(PlainScreen())
    shown.stepped(record(1), 0.5)  # a resumed run
    assert shown.time_left() == ""
    clock[0] += 30
    shown.stepped(record(2), 0.6)
    assert shown.time_left() == "2:00 min left"


def test_blanks_are_shown_when_the_guess_changes(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Display(PlainScreen())
    shown.evaluated(EVAL, [FilledBlank(BLANK, "file", 0.125)])
    assert "    the [file] ends .  (12% sure, it was: loop)\n" in capsys.readouterr().out
    shown.evaluated(EVAL, [FilledBlank(BLANK, "file", 0.2)])
    assert capsys.readouterr().out.count("\n") == 1
    shown.evaluated(EVAL, [FilledBlank(BLANK, "loop", 0.3)])
    assert "    the [loop] ends .  (30% sure, right)\n" in capsys.readouterr().out


def test_a_pipe_gets_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: clock[0])
    shown = Display(PlainScreen())
    for step in range(1, 31):
        clock[0] += 1
        shown.stepped(record(step), step / 30)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("37%, step 11, loss 5.00, blanks 25.0% right, next 50%")


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_the_bar_fits(width: int, encoding: str) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    out = Console(file=stream, width=width, force_terminal=True, legacy_windows=False)
    screen = LiveScreen(out)
    shown = Display(screen)
    shown.stepped(record(1_234_567), 0.3)
    shown.stepped(record(1_234_568), 0.4)
    with out.capture() as capture:
        out.print(screen.render(shown))
    lines = Console(width=width).render_str(capture.get()).plain.splitlines()
    assert len(lines) == 2
    assert "40%" in lines[0]
    assert "step 1,234,568" in lines[1]


def test_figures_are_left_out_whole() -> None:
    assert fitted(["step 10", "loss 5.31", "next 74%"], 20) == "step 10  loss 5.31"
    assert fitted(["step 10", "loss 5.31", "next 74%"], 3) == "step 10"
