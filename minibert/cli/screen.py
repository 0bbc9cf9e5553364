"""Writing to the screen: tables for people, tab-separated lines for programs, bars for waiting.

On a terminal there are tables, colours and a bar that is redrawn.  In a pipe or a file there are
plain lines, so that ``minibert fill … | cut -f2`` works and a log stays readable.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console

PLAIN_WIDTH = 10_000  # columns in a pipe: no line is folded there
QUIET_SECONDS = 10.0  # between two lines of progress where no bar can be drawn


def console(*, stderr: bool = False) -> Console:
    """Return a console for the stream as it is now; NO_COLOR and TERM=dumb are honoured by rich."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else PLAIN_WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def on_terminal() -> bool:
    return sys.stdout.isatty()


def print_table(
    headers: Sequence[str],  # all empty: no line of headers
    rows: Iterable[Sequence[str]],
    *,
    numbers: Sequence[str] = (),  # the headers whose columns are set flush right
    title: str | None = None,
) -> None:
    """Print an aligned table, folded to the width of the terminal."""
    from rich.table import Table
    from rich.text import Text

    out = console()
    table = Table(
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        show_header=any(headers),
        header_style="bold underline",
        title=title,
        title_justify="left",
        title_style="bold",
    )
    for header in headers:
        table.add_column(header, justify="right" if header in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(cell)) for cell in row))
    with out.capture() as capture:
        out.print(table)
    for line in capture.get().splitlines():
        print(line.rstrip())


def print_rows(headers: Sequence[str], rows: Iterable[Sequence[str]], **options: Any) -> None:
    """Print data: a table on a terminal, else tab-separated lines under a line of headers."""
    if on_terminal():
        print_table(headers, rows, **options)
        return
    for row in (headers, *rows):
        print("\t".join(visible(cell) for cell in row))


def print_json(value: Any) -> None:
    """Print one JSON document as one line."""
    utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(value, ensure_ascii=not utf8))


def visible(text: str) -> str:
    """Write control characters as escapes: a tab in a text must not move the terminal's cursor.

    >>> visible("a\\tb")
    'a\\\\tb'
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def duration(seconds: float) -> str:
    """Write a time as people do.

    >>> duration(0.42), duration(7), duration(312), duration(7512)
    ('0.4 s', '7 s', '5:12 min', '2:05 h')
    """
    if seconds < 1:
        return f"{seconds:.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}:{rest:02d} min"
    return f"{minutes // 60}:{minutes % 60:02d} h"


class Progress(Protocol):
    """Called now and then; ``total`` is 0 while nobody knows it, ``label`` names the next part."""

    def __call__(self, done: int, total: int, label: str | None = None) -> None: ...


@contextmanager
def progress(label: str) -> Iterator[Progress]:
    """Show how far a task is, on stderr, so that the output itself stays clean."""
    out = console(stderr=True)
    if not out.is_terminal:
        yield PlainProgress(label)
        return
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    bar = Bar(
        TextColumn("{task.description}"), BarColumn(None), TextColumn("{task.fields[count]}"),
        TimeRemainingColumn(), console=out, transient=True,
    )  # fmt: skip
    with bar:
        task = bar.add_task(label, total=None, count="")

        def show(done: int, total: int, label: str | None = None) -> None:
            count = counted(done, total)
            bar.update(task, completed=done, total=total or None, description=label, count=count)

        yield show


def counted(done: int, total: int) -> str:
    return f"{done:,} of {total:,}" if total else f"{done:,}"


class PlainProgress:
    """A line on stderr every ten seconds, where no bar can be drawn."""

    def __init__(self, label: str) -> None:
        self.label, self.last = label, time.monotonic()

    def __call__(self, done: int, total: int, label: str | None = None) -> None:
        self.label = label or self.label
        if time.monotonic() - self.last >= QUIET_SECONDS:
            self.last = time.monotonic()
            print(f"{self.label}: {counted(done, total)}", file=sys.stderr, flush=True)
