"""The lessons' files: where they are, what they are called, and the student's copies.

A lesson is named NN_slug.py.  Its first cell holds its title and a line of facts:

    # %% [markdown]
    # # Lesson 5: layer normalisation
    #
    # *30 minutes.  Before it: lessons 2 and 3.*
"""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
TITLE = re.compile(r"^# # Lesson (\d+): (.+)$", re.MULTILINE)
FACTS = re.compile(r"^# \*(.+)\*$", re.MULTILINE)
OPEN, CLOSE = "# >>> edit between the marks", "# <<<"


class Lesson(NamedTuple):
    number: int
    title: str
    facts: str  # how long it takes, and what comes before it
    path: Path  # as it is published, with its blanks

    @property
    def label(self) -> str:
        return f"{self.number:02d}"


def published() -> Path:
    """Return the folder of the lessons: in the package, or beside it in a checkout."""
    inside = HERE / "lessons"
    return inside if inside.is_dir() else HERE.parents[1] / "lessons"


def all_lessons() -> list[Lesson]:
    """Return the lessons in their order."""
    return [read_lesson(path) for path in sorted(published().glob("[0-9][0-9]_*.py"))]


def read_lesson(path: Path) -> Lesson:
    text = path.read_text(encoding="utf-8")
    title, facts = TITLE.search(text), FACTS.search(text)
    if title is None or facts is None:
        raise ValueError(f"{path} does not begin with the title and the facts of a lesson")
    return Lesson(int(title[1]), title[2], facts[1], path)


def find_lesson(number: str) -> Lesson:
    """Return the lesson of a number, "5" or "05"; ValueError where there is none."""
    lessons = all_lessons()
    for lesson in lessons:
        if number.isdecimal() and lesson.number == int(number):
            return lesson
    numbers = ", ".join(lesson.label for lesson in lessons)
    raise ValueError(f"there is no lesson {number}: they are {numbers}, see 'minibert lesson list'")


def copy_of(lesson: Lesson, folder: Path) -> Path:
    """Return where the student's copy is, or would be."""
    return folder / lesson.path.name


def start(lesson: Lesson, folder: Path) -> tuple[Path, bool]:
    """Copy a lesson to the student's folder; return where it is, and whether it is new there.

    A copy that is there already is left alone: it may hold work.
    """
    target = copy_of(lesson, folder)
    if target.exists():
        return target, False
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(lesson.path, target)
    return target, True


def reset(lesson: Lesson, folder: Path) -> Path | None:
    """Put a fresh copy in place; return where the old one was kept, if there was one."""
    target, kept = copy_of(lesson, folder), None
    if target.exists():
        number = 1
        while (kept := target.with_suffix(f".old{number}.py")).exists():
            number += 1
        target.replace(kept)
    start(lesson, folder)
    return kept


def functions_in(path: Path) -> dict[str, Callable[..., Any]]:
    """Return the functions of a student's file, without running the rest of it.

    Imports, functions, classes and plain constants are run; checks, training and pictures are not.
    Raises ValueError, one line, where the file is missing or is not Python.
    """
    if not path.is_file():
        raise ValueError(
            f"{path} is not there: 'minibert lesson start {path.name[:2]}' copies the lesson, and "
            "--dir says where to"
        )
    try:
        tree = ast.parse(path.read_bytes(), filename=str(path))
    except SyntaxError as error:
        raise ValueError(f"{path}, line {error.lineno}: {error.msg}") from None
    kept = [node for node in tree.body if is_definition(node)]
    namespace: dict[str, Any] = {"__name__": "lesson", "__file__": str(path)}
    try:
        exec(compile(ast.Module(kept, []), str(path), "exec"), namespace)
    except ImportError as error:
        raise ValueError(f"{path}: {error}") from None
    return {name: value for name, value in namespace.items() if callable(value)}


def is_definition(node: ast.stmt) -> bool:
    if isinstance(node, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)):
        return True
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and all(isinstance(target, ast.Name) for target in node.targets)
    )
