"""``minibert lesson``: read, solve and check the lessons."""

from __future__ import annotations

import inspect
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from minibert.cli.errors import FAILED
from minibert.cli.options import JsonFlag
from minibert.cli.screen import print_json, print_table, visible

if TYPE_CHECKING:
    from minibert.course.checking import Verdict
    from minibert.course.exercise import Exercise
    from minibert.course.lessons import Lesson

lesson = typer.Typer(
    add_completion=False,
    help="Learn by writing: read a derivation, fill in a blank, be told which mistake it is.",
    no_args_is_help=True,
)

Number: TypeAlias = Annotated[
    str, typer.Argument(metavar="NN", help="A lesson's number; 'minibert lesson list' has them.")
]
OptionalNumber: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="[NN]", help="A lesson's number.", show_default=False)
]
NameArgument: TypeAlias = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="One of its functions.", show_default=False),
]
Dir: TypeAlias = Annotated[
    Path, typer.Option("--dir", metavar="DIR", help="The folder of your copies.")
]
FOLDER = Path("my-lessons")


@lesson.command("list")
def list_(directory: Dir = FOLDER) -> None:
    """List the lessons, and how far you are."""
    from minibert.course.exercises import exercises_of
    from minibert.course.lessons import all_lessons, copy_of
    from minibert.course.progress import Progress

    solved = Progress(directory).solved
    rows = []
    for each in all_lessons():
        exercises = exercises_of(each.number)
        done = sum(exercise.name in solved for exercise in exercises)
        state = f"{done} of {len(exercises)} right" if exercises else "to read"
        if not copy_of(each, directory).exists():
            state = ""
        rows.append((each.label, each.title, each.facts, state))
    print_table(("", "lesson", "time, and what comes before", "yours"), rows)
    print(f"\nBegin with: minibert lesson start 00    (copies go to {directory}/)")


@lesson.command()
def start(number: Number, directory: Dir = FOLDER) -> None:
    """Copy a lesson to your folder, and say how to go on."""
    from minibert.course.exercises import exercises_of
    from minibert.course.lessons import find_lesson
    from minibert.course.lessons import start as copy

    found = find_lesson(number)
    path, is_new = copy(found, directory)
    print(f"Lesson {found.number}: {found.title}.  {found.facts}")
    print(f"{'Copied to' if is_new else 'Already at'} {path}: open it in an editor, and read.")
    names = ", ".join(exercise.name for exercise in exercises_of(found.number))
    if names:
        print(f"To write: {names}.  Edit between the marks, then:")
        print(f"    minibert lesson check {found.label}")
    print(f"As a notebook: minibert lesson notebook {found.label}")


@lesson.command()
def check(
    number: OptionalNumber = None,
    name: NameArgument = None,
    every: Annotated[bool, typer.Option("--all", help="All lessons that have a copy.")] = False,
    json: JsonFlag = False,
    directory: Dir = FOLDER,
) -> None:
    """Say whether what you wrote is right, and if not, which mistake it is.

    Exit status 0: all is right.  1: not yet.
    """
    from minibert.course.lessons import all_lessons, copy_of, find_lesson

    if (number is None) != every:
        raise ValueError("give the number of one lesson, or --all")
    lessons = [find_lesson(number)] if number is not None else all_lessons()
    if every:
        lessons = [each for each in lessons if copy_of(each, directory).exists()]
        if not lessons:
            raise ValueError(f"{directory} holds no lesson: 'minibert lesson start 00' copies one")
    found = {each: check_lesson(each, name, directory) for each in lessons}
    if json:
        print_json({each.label: as_json(verdicts) for each, verdicts in found.items()})
    else:
        for each, verdicts in found.items():
            print(f"{copy_of(each, directory)}")
            for verdict in verdicts:
                show_verdict(verdict)
            if not all(verdict.passed for verdict in verdicts):
                print(f"Stuck?  minibert lesson hint {each.label}")
            elif name is None and any(other.number == each.number + 1 for other in all_lessons()):
                print(f"Next: minibert lesson start {each.number + 1:02d}")
    if not all(verdict.passed for verdicts in found.values() for verdict in verdicts):
        sys.exit(FAILED)


def check_lesson(each: Lesson, name: str | None, directory: Path) -> list[Verdict]:
    """Check a lesson's exercises, and remember which are right."""
    from minibert.course.checking import check_function
    from minibert.course.lessons import copy_of, functions_in
    from minibert.course.progress import Progress

    path = copy_of(each, directory)
    functions, progress = functions_in(path), Progress(directory)
    verdicts = []
    for exercise in chosen(each, name):
        if exercise.name not in functions:
            raise ValueError(
                f"{path} has no function {exercise.name}: keep its name, or begin anew with "
                f"'minibert lesson reset {each.label}'"
            )
        verdict = check_function(exercise, functions[exercise.name])
        progress.record(exercise.name, verdict.passed)
        verdicts.append(verdict)
    return verdicts


def chosen(each: Lesson, name: str | None) -> list[Exercise]:
    """Return a lesson's exercises, or the one that is named."""
    from minibert.course.exercises import exercises_of

    exercises = exercises_of(each.number)
    if name is None:
        return exercises
    found = [exercise for exercise in exercises if exercise.name == name]
    if not found:
        names = ", ".join(exercise.name for exercise in exercises) or "nothing to write"
        raise ValueError(f"lesson {each.label} has no {name}: it has {names}")
    return found


def show_verdict(verdict: Verdict) -> None:
    print(f"{verdict.exercise.name}: {'right' if verdict.passed else 'not right yet'}")
    for line in verdict.lines:
        print(visible(line))


def as_json(verdicts: list[Verdict]) -> dict[str, Any]:
    return {
        verdict.exercise.name: {
            "passed": verdict.passed,
            "written": verdict.written,
            "diagnoses": verdict.diagnoses,
        }
        for verdict in verdicts
    }


@lesson.command()
def watch(number: Number, directory: Dir = FOLDER) -> None:
    """Check again whenever you save the file; Ctrl-C ends."""
    from minibert.course.lessons import copy_of, find_lesson

    each = find_lesson(number)
    path = copy_of(each, directory)
    seen = None
    print(f"Watching {path}.  Ctrl-C ends.")
    while True:
        stamp = path.stat().st_mtime_ns if path.exists() else None
        if stamp != seen or seen is None:
            seen = stamp
            print(f"\n{time.strftime('%H:%M:%S')}")
            try:
                for verdict in check_lesson(each, None, directory):
                    show_verdict(verdict)
            except ValueError as error:
                print(error, flush=True)
            if stamp is None:
                raise SystemExit(FAILED)
        time.sleep(0.3)


@lesson.command()
def hint(
    number: Number,
    name: NameArgument = None,
    level: Annotated[
        int | None,
        typer.Option(
            "--level", min=1, max=3, metavar="1-3", show_default="the next",
            help="A question, a direction, nearly the answer.",
        ),
    ] = None,
    directory: Dir = FOLDER,
) -> None:  # fmt: skip
    """Give a hint; each time the next of three."""
    from minibert.course.lessons import find_lesson
    from minibert.course.progress import Progress

    each, progress = find_lesson(number), Progress(directory)
    exercises = chosen(each, name)
    if not exercises:
        raise ValueError(f"lesson {each.label} has nothing to write, so there are no hints")
    first = next((e for e in exercises if e.name not in progress.solved), exercises[0])
    level = level or progress.next_hint(first.name)
    print(f"{first.name}, hint {level} of 3:")
    print(first.hints[level - 1])


@lesson.command()
def show(number: Number, name: NameArgument = None) -> None:
    """Print the answers: minibert's own functions."""
    from minibert.course.lessons import find_lesson

    for exercise in chosen(find_lesson(number), name):
        print(f"# {exercise.answer.__module__}")
        print(inspect.getsource(exercise.answer))


@lesson.command()
def reset(number: Number, directory: Dir = FOLDER) -> None:
    """Begin a lesson anew; what you wrote is kept under another name."""
    from minibert.course.lessons import copy_of, find_lesson
    from minibert.course.lessons import reset as fresh

    each = find_lesson(number)
    kept = fresh(each, directory)
    print(f"{copy_of(each, directory)} is as in the beginning.")
    if kept is not None:
        print(f"What you wrote is in {kept}.")


@lesson.command()
def notebook(number: Number, directory: Dir = FOLDER) -> None:
    """Write your copy of a lesson as a Jupyter notebook."""
    from minibert.course.lessons import find_lesson
    from minibert.course.lessons import start as copy

    each = find_lesson(number)
    path, _ = copy(each, directory)
    try:
        import jupytext  # pyright: ignore
    except ImportError:
        raise ValueError(
            "notebooks need jupytext: pip install 'minibert-numpy[lessons]'; the .py file itself "
            "opens as a notebook in VS Code"
        ) from None
    out = path.with_suffix(".ipynb")
    if out.exists():
        raise ValueError(f"{out} exists already: rename it first, it may hold work")
    jupytext.write(jupytext.read(path), out)
    print(f"{out}: open it with Jupyter or VS Code; check works in its cells too.")
