"""The lessons' files: form, length, and that they run from top to bottom, solved or not."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from minibert.course.exercise import Exercise
from minibert.course.exercises import all_exercises, exercises_of
from minibert.course.lessons import CLOSE, OPEN, Lesson, all_lessons, functions_in

LESSONS = all_lessons()
each = pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.path.stem)
QUIET = {**os.environ, "MPLBACKEND": "Agg", "PYTHONIOENCODING": "utf-8"}
LONGEST_ANSWER = 15  # lines


def test_the_numbers_are_those_of_the_names() -> None:
    assert [lesson.number for lesson in LESSONS] == [int(x.path.name[:2]) for x in LESSONS]


@each
def test_its_text_is_short(lesson: Lesson) -> None:
    lines = lesson.path.read_text(encoding="utf-8").splitlines()
    words = [word for line in lines if line.startswith("# ") for word in line[2:].split()]
    assert len(words) <= 1500


@each
def test_every_exercise_has_a_blank_with_marks(lesson: Lesson) -> None:
    text = lesson.path.read_text(encoding="utf-8")
    names = [exercise.name for exercise in exercises_of(lesson.number)]
    assert text.count(OPEN) == text.count(CLOSE) == len(names)
    blank = rf"{re.escape(OPEN)}\n\s+raise NotImplementedError\n\s+{re.escape(CLOSE)}"
    assert len(re.findall(blank, text)) == len(names)
    functions = functions_in(lesson.path)
    assert all(name in functions for name in names)
    assert all(re.search(rf"\bcheck\({name}\)", text) for name in names)


@pytest.mark.parametrize("exercise", all_exercises(), ids=lambda exercise: exercise.name)
def test_an_answer_is_short(exercise: Exercise) -> None:
    """Without docstring, comments and the return, which the lesson has outside the marks."""
    source = textwrap.dedent(inspect.getsource(exercise.answer))
    [function] = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    body = [
        node
        for node in function.body
        if not isinstance(node, ast.Return)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    lines = source.splitlines()[body[0].lineno - 1 : body[-1].end_lineno] if body else []
    code = [line for line in lines if line.strip() and not line.strip().startswith("#")]
    assert len(code) <= LONGEST_ANSWER


@each
def test_it_has_a_picture_a_fold_and_a_last_question(lesson: Lesson) -> None:
    text = lesson.path.read_text(encoding="utf-8")
    assert "with picture(" in text
    assert "<details><summary>" in text
    assert "## A question to end with" in text
    assert text.index("## A question to end with") < text.rindex("<details><summary>Answer")


@each
def test_it_runs_as_a_script(lesson: Lesson, tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-W", "error", str(lesson.path)],
        cwd=tmp_path, env=QUIET, capture_output=True, text=True, encoding="utf-8", timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert list(tmp_path.glob("*.png"))
    for exercise in exercises_of(lesson.number):
        assert f"{exercise.name}: not right yet" in result.stdout


@pytest.mark.slow
@each
def test_it_runs_as_a_notebook(
    lesson: Lesson, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jupytext = pytest.importorskip("jupytext", reason="needs the extra 'lessons'")
    nbclient = pytest.importorskip("nbclient", reason="needs the extra 'lessons'")
    pytest.importorskip("ipykernel", reason="needs the extra 'lessons'")
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    notebook = jupytext.read(lesson.path)
    nbclient.NotebookClient(
        notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    shown = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
    assert shown
