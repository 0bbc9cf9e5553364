"""The lessons: from a finite difference to a trained BERT, one gradient at a time.

A lesson is a Python file in cells, with a derivation, a picture and up to three blanks to fill in.
``minibert lesson start 05`` copies one, ``minibert lesson check 05`` says whether the blanks are
right, and if not, which mistake it is.  In a cell, ``check`` says the same:

    from minibert.course import check

    layernorm_backward = check(layernorm_backward)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["check", "picture"]


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """Check a function against the exercise of its name, and print what came out.

    Returns it if it is right, else minibert's own, so that the lesson can go on.
    Raises ValueError where no exercise has this name.
    """
    from minibert.course.checking import check_function
    from minibert.course.exercises import exercise_named

    exercise = exercise_named(getattr(function, "__name__", str(function)))
    verdict = check_function(exercise, function)
    print(f"{exercise.name}: {'right' if verdict.passed else 'not right yet'}")
    print("\n".join(verdict.lines))
    if verdict.passed:
        return function
    print("The lesson goes on with minibert's own.")
    return exercise.answer


@contextmanager
def picture(name: str, width: float = 7.0, height: float = 3.2) -> Iterator[Figure]:
    """Lend a figure to draw on; it is written to ``name`` in the present folder, and shown.

    Without a screen, and in a script, the file is all there is; in a notebook it stands below.
    """
    from minibert.plots.figure import new_figure, save

    path = Path(name)
    with new_figure(width, height) as figure:
        yield figure
        save(figure, path)
    print(f"picture: {path.absolute()}")
    try:
        get_ipython()  # type: ignore[name-defined]
    except NameError:
        return
    from IPython.display import Image, display  # pyright: ignore

    display(Image(filename=str(path)))
