"""The command line: ``minibert COMMAND …``, one file per command.

``minibert --help`` has to answer at once, so the files here import numpy, numba and matplotlib only
inside the commands that compute; the flags and their help need none of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from minibert.cli.app import app
from minibert.cli.errors import run

__all__ = ["app", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; the console script ``minibert`` calls this.

    0: done.  1: a check failed (``gradcheck``).  2: the command, a file or the machine was not fit
    for it, told in one line.  130: stopped by Ctrl-C.
    """
    return run(app, arguments)
