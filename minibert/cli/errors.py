"""What the user sees when something goes wrong: one line that says how to go on, never a trace.

    ValueError, OSError, MemoryError, wrong flags     minibert: …            exit status 2
    Ctrl-C                                            minibert: stopped      exit status 130
    the reader of a pipe went away (| head)           nothing                exit status 141
    anything else                                     is a fault of minibert: the trace is shown

``--traceback`` anywhere on the line, or MINIBERT_TRACEBACK=1, shows the trace in every case.
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

FAILED, USER_ERROR, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141

REMEDIES = {
    errno.ENOENT: "check the spelling of the path",
    errno.EACCES: "choose a place that you may read and write",
    errno.EPERM: "choose a place that you may read and write",
    errno.EROFS: "choose a place that you may write to",
    errno.ENOSPC: "free some space or choose another disk",
    errno.EDQUOT: "free some space or choose another disk",
    errno.EISDIR: "give a file, not a folder",
    errno.ENOTDIR: "a part of the path is a file, not a folder",
    errno.ENAMETOOLONG: "choose a shorter name",
}


def run(app: typer.Typer, arguments: Sequence[str] | None = None) -> int:
    """Run the command line ``arguments`` (default: those of the process); return the status."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    arguments, trace = take_traceback_flag(arguments)
    allow_any_character()
    show_warning, warnings.showwarning = warnings.showwarning, one_line_warning
    try:
        status = app(args=arguments, prog_name="minibert", standalone_mode=False)
        sys.stdout.flush()
    except BaseException as error:
        return status_of(error, trace)
    finally:
        warnings.showwarning = show_warning
    if status == INTERRUPTED:  # typer turns a KeyboardInterrupt into this
        say("stopped")
    return status if isinstance(status, int) else 0


def status_of(error: BaseException, trace: bool) -> int:
    """Tell the user about ``error`` and return the exit status, or raise it where it is a bug."""
    if isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError):
        forget_output()  # typer has turned it into a SystemExit
        return BROKEN_PIPE
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else USER_ERROR
    if trace:
        raise error
    if isinstance(error, KeyboardInterrupt):
        say("stopped")
        return INTERRUPTED
    message = explain(error)
    if message is None:
        raise error
    say(message)
    return USER_ERROR


def explain(error: BaseException) -> str | None:
    """Return one line for an error that a user can mend, None for any other."""
    if hasattr(error, "format_message"):  # typer's usage errors, under any of its versions
        return explain_usage(error)
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        remedy = REMEDIES.get(error.errno)
        return (
            where
            + error.strerror[:1].lower()
            + error.strerror[1:]
            + (f": {remedy}" if remedy else "")
        )
    if isinstance(error, MemoryError):
        return f"out of memory ({error}): choose a smaller preset, batch or length"
    if isinstance(error, (ValueError, OSError)):
        return str(error) or type(error).__name__
    return None


def explain_usage(error: BaseException) -> str:
    message = error.format_message().rstrip(".")  # type: ignore[attr-defined]
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "minibert"
    return f"{message[:1].lower()}{message[1:]}: try '{command} --help'"


def say(message: str) -> None:
    """Write ``minibert: message`` to stderr, as one line whatever the message holds."""
    line = " ".join(part.strip() for part in message.splitlines() if part.strip())
    print(f"minibert: {line}", file=sys.stderr, flush=True)


def one_line_warning(message: object, category: type[Warning], *_: object, **__: object) -> None:
    """Show a warning without the file and source line, which mean nothing to a user."""
    say(f"warning: {message}")


def take_traceback_flag(arguments: list[str]) -> tuple[list[str], bool]:
    """Take ``--traceback`` out of the arguments; after ``--`` it is a text like any other."""
    trace = os.environ.get("MINIBERT_TRACEBACK", "0") not in ("", "0")
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [word for word in arguments[:end] if word != "--traceback"]
    return kept + arguments[end:], trace or len(kept) < end


def allow_any_character() -> None:
    """Write what the terminal's encoding lacks as an escape, instead of failing on it."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def forget_output() -> None:
    """Send what is still buffered nowhere, or Python would fail on it again at exit."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError):  # stdout is not a real file, in a test say
        pass
