"""``minibert lesson``: copies, checks, hints, and what is remembered."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from minibert.course.lessons import CLOSE, OPEN, all_lessons
from tests.cli.conftest import Command, assert_refused

PATH = Path("my-lessons", "05_layernorm.py")

FORWARD = """
    centred = x - x.mean(axis=-1, keepdims=True)
    rstd = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    x_hat = centred * rstd
    y = weight * x_hat + bias
"""
BACKWARD = """
    dx_hat = dy * weight
    mean = dx_hat.mean(axis=-1, keepdims=True)
    dx = rstd * (dx_hat - mean - x_hat * (dx_hat * x_hat).mean(axis=-1, keepdims=True))
    rows = dy.reshape(-1, len(weight)), x_hat.reshape(-1, len(weight))
    dweight = (rows[0] * rows[1]).sum(axis=0)
    dbias = rows[0].sum(axis=0)
"""


def write(forward: str = FORWARD, backward: str = BACKWARD, path: Path = PATH) -> None:
    """Fill in both blanks, as a student does."""
    bodies = iter((forward, backward))
    text = path.read_text(encoding="utf-8")
    blank = rf"(?<={re.escape(OPEN)}\n).*?(?=    {re.escape(CLOSE)})"
    path.write_text(
        re.sub(blank, lambda _: next(bodies).lstrip("\n"), text, flags=re.DOTALL), encoding="utf-8"
    )


def test_list_shows_every_lesson(cli: Command) -> None:
    result = cli("lesson", "list")
    assert (result.status, result.err) == (0, "")
    for lesson in all_lessons():
        assert lesson.title.split()[0] in result.out


def test_start_copies_and_says_how_to_go_on(cli: Command) -> None:
    result = cli("lesson", "start", "5")
    assert (result.status, result.err) == (0, "")
    assert PATH.is_file()
    assert "layernorm_forward, layernorm_backward" in result.out
    assert "minibert lesson check 05" in result.out


def test_start_leaves_work_alone(cli: Command) -> None:
    cli("lesson", "start", "05")
    write()
    text = PATH.read_text(encoding="utf-8")
    assert "Already at" in cli("lesson", "start", "05").out
    assert PATH.read_text(encoding="utf-8") == text


def test_a_lesson_from_blank_to_right(cli: Command) -> None:
    cli("lesson", "start", "05")
    result = cli("lesson", "check", "05")
    assert (result.status, result.err) == (1, "")
    assert result.out.startswith(f"{PATH}\n")
    assert result.out.count("to do") == 2
    assert "minibert lesson hint 05" in result.out

    write(backward=BACKWARD.replace(" - mean - ", " - "))
    result = cli("lesson", "check", "05")
    assert result.status == 1
    assert "layernorm_forward: right" in result.out
    assert "What it is: the mean term is missing." in result.out
    assert "1 of 2 right" in cli("lesson", "list").out

    write()
    result = cli("lesson", "check", "05")
    assert (result.status, result.err) == (0, "")
    assert "Stuck?" not in result.out
    assert "2 of 2 right" in cli("lesson", "list").out


def test_one_function_alone(cli: Command) -> None:
    cli("lesson", "start", "05")
    write(backward="    raise NotImplementedError\n")
    assert cli("lesson", "check", "05", "layernorm_forward").status == 0
    assert cli("lesson", "check", "05", "layernorm_backward").status == 1


def test_json_for_a_teacher(cli: Command) -> None:
    cli("lesson", "start", "05")
    write(forward=FORWARD.replace(" + eps)", ")"))
    result = cli("lesson", "check", "--all", "--json")
    assert result.status == 1
    assert json.loads(result.out) == {
        "05": {
            "layernorm_forward": {
                "passed": False, "written": True, "diagnoses": ["ε is missing"],
            },
            "layernorm_backward": {"passed": True, "written": True, "diagnoses": []},
        }
    }  # fmt: skip


def test_hints_come_one_after_the_other(cli: Command) -> None:
    cli("lesson", "start", "05")
    hints = [cli("lesson", "hint", "05").out for _ in range(4)]
    assert [hint.split(":")[0] for hint in hints] == [
        f"layernorm_forward, hint {level} of 3" for level in (1, 2, 3, 3)
    ]
    write(backward="    raise NotImplementedError\n")
    cli("lesson", "check", "05")
    assert cli("lesson", "hint", "05").out.startswith("layernorm_backward, hint 1 of 3")
    direct = cli("lesson", "hint", "05", "layernorm_forward", "--level", "2").out
    assert direct == hints[1]


def test_show_prints_the_librarys_source(cli: Command) -> None:
    result = cli("lesson", "show", "05", "layernorm_backward")
    assert result.out.startswith("# minibert.layers.layernorm\ndef layernorm_backward(")
    assert "dx = rstd * (dx_hat - mean - x_hat * mean_x_hat)" in result.out
    assert "def layernorm_forward" not in result.out


def test_reset_keeps_what_was_written(cli: Command) -> None:
    cli("lesson", "start", "05")
    blank = PATH.read_text(encoding="utf-8")
    for number in (1, 2):
        write()
        work = PATH.read_text(encoding="utf-8")
        result = cli("lesson", "reset", "05")
        kept = PATH.with_suffix(f".old{number}.py")
        assert str(kept) in result.out
        assert kept.read_text(encoding="utf-8") == work
        assert PATH.read_text(encoding="utf-8") == blank


def test_notebook(cli: Command) -> None:
    pytest.importorskip("jupytext", reason="needs the extra 'lessons'")
    result = cli("lesson", "notebook", "05")
    assert result.status == 0
    book = json.loads(PATH.with_suffix(".ipynb").read_text(encoding="utf-8"))
    assert {cell["cell_type"] for cell in book["cells"]} == {"markdown", "code"}
    assert_refused(cli("lesson", "notebook", "05"), "exists already")


def test_another_folder(cli: Command, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    cli("lesson", "start", "05", "--dir", folder)
    assert cli("lesson", "check", "05", "--dir", folder).out.startswith(f"{folder / PATH.name}\n")
    assert not PATH.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["start", "99"], ["there is no lesson 99", "minibert lesson list"]),
        (["start", "five"], ["there is no lesson five"]),
        (["check", "05"], [str(PATH), "minibert lesson start 05"]),
        (["check"], ["--all"]),
        (["check", "05", "--all"], ["--all"]),
        (["check", "--all"], ["my-lessons", "minibert lesson start 00"]),
        (["hint", "05", "softmax"], ["lesson 05 has no softmax", "layernorm_forward"]),
    ],
)
def test_what_is_not_there(cli: Command, arguments: list[str], words: list[str]) -> None:
    assert_refused(cli("lesson", *arguments), *words)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("    # <<<", "    )", ["line ", "unmatched ')'"]),
        ("def layernorm_backward", "def backward", ["no function layernorm_backward", "reset 05"]),
        ("import numpy as np", "import nunpy as np", ["No module named 'nunpy'"]),
    ],
)
def test_a_file_that_is_not_fit(cli: Command, old: str, new: str, words: list[str]) -> None:
    cli("lesson", "start", "05")
    PATH.write_text(PATH.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert_refused(cli("lesson", "check", "05"), str(PATH), *words)


def test_mistakes_in_running_are_told_with_their_line(cli: Command) -> None:
    cli("lesson", "start", "05")
    write(forward="    y = x_hat = rstd = x @ weight @ bias\n")
    result = cli("lesson", "check", "05", "layernorm_forward")
    assert result.status == 1
    assert "ValueError" in result.out
    assert "x @ weight @ bias" in result.out

    write(forward="    x -= x.mean(axis=-1, keepdims=True)\n" + FORWARD)
    result = cli("lesson", "check", "05", "layernorm_forward")
    assert "x was changed in place" in result.out

    write(forward=FORWARD.replace("keepdims=True", "keepdims=False", 1))
    assert "could not be broadcast" in cli("lesson", "check", "05", "layernorm_forward").out

    write(forward=FORWARD + "    y = y.astype(np.float32)\n")
    result = cli("lesson", "check", "05", "layernorm_forward")
    assert "y has dtype float32" in result.out


def test_watch_checks_again_when_the_file_is_saved(
    cli: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("lesson", "start", "05")
    naps = iter((write, lambda: None, lambda: None))

    def sleep(seconds: float) -> None:
        try:
            next(naps)()
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(time, "sleep", sleep)
    result = cli("lesson", "watch", "05")
    assert result.status == 130
    assert result.out.count("layernorm_forward: not right yet") == 1
    assert result.out.count("layernorm_forward: right") == 1
