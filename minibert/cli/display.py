"""What ``minibert pretrain`` shows while it trains.

    ━━━━━━━━━━━━━━━━━━━╸━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  41%  2:57 min left
    step 1,240  loss 5.31  blanks 17.2% right  next 74%  21,400 tokens/s

and above it, at every evaluation, a line of figures and some blanks as the model fills them.  In a
pipe or a file there is a line every ten seconds instead of the bar.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from minibert.cli.screen import QUIET_SECONDS, console, duration, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from minibert.training.evaluate import FilledBlank

REFRESH_SECONDS = 0.25
SMOOTHED = ("mlm_loss", "mlm_accuracy", "nsp_accuracy", "tokens_per_second")
SMOOTHING = 0.05  # weight of the newest step in the figures shown


class Screen(Protocol):
    def write(self, line: str, *, indent: int = 0, style: str = "") -> None: ...
    def redraw(self, display: Display) -> None: ...


class Display:
    """The watcher of a run: keeps smoothed figures, and writes them to a screen."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self.started = time.monotonic()
        self.first_progress: float | None = None  # a resumed run does not begin at 0
        self.progress = 0.0
        self.step = 0
        self.means: dict[str, float] = {}
        self.weight = 0.0
        self.last_eval: dict[str, Any] | None = None
        self.last_guesses: dict[str, str] = {}  # text with a blank → what was put in it

    def stepped(self, record: dict[str, Any], progress: float) -> None:
        if self.first_progress is None:
            self.first_progress = progress
            self.started = time.monotonic()
        self.step, self.progress = record["step"], min(progress, 1.0)
        # A mean that forgets; dividing by the weights so far makes the first steps count fully.
        self.weight += SMOOTHING * (1 - self.weight)
        for name in record.keys() & SMOOTHED:
            mean = self.means.get(name, 0.0)
            self.means[name] = mean + SMOOTHING * (record[name] - mean)
        self.screen.redraw(self)

    def evaluated(self, record: dict[str, Any], filled: Sequence[FilledBlank]) -> None:
        self.last_eval = record
        line = (
            f"step {record['step']:,} on held-out text: loss {record['eval_mlm_loss']:.2f}, "
            f"blanks {record['eval_mlm_accuracy']:.1%} right"
        )
        if "eval_nsp_accuracy" in record:
            line += f", next {record['eval_nsp_accuracy']:.0%}"
        self.screen.write(line, style="bold")
        self.write_blanks(filled)

    def write_blanks(self, filled: Sequence[FilledBlank]) -> None:
        """Show the sentences whose guess is another than at the last evaluation."""
        for blank, guess, probability in filled:
            if self.last_guesses.get(blank.text) == guess:
                continue
            self.last_guesses[blank.text] = guess
            right = guess == blank.answer
            verdict = "right" if right else f"it was: {blank.answer}"
            text = blank.text.replace("[MASK]", f"[{guess}]", 1)
            self.screen.write(
                visible(f"{text}  ({probability:.0%} sure, {verdict})"),
                indent=4,
                style="green" if right else "",
            )

    def figures(self) -> list[str]:
        """Return the figures of the present step, the most important first."""
        means = {name: value / self.weight for name, value in self.means.items()}
        following = [f"next {means['nsp_accuracy']:.0%}"] if "nsp_accuracy" in means else []
        return [
            f"step {self.step:,}",
            f"loss {means['mlm_loss']:.2f}",
            f"blanks {means['mlm_accuracy']:.1%} right",
            *following,
            f"{means['tokens_per_second']:,.0f} tokens/s",
        ]

    def time_left(self) -> str:
        """Estimate from the share of the run that was done since this process began it."""
        done = self.progress - (self.first_progress or 0.0)
        if done <= 0:
            return ""
        elapsed = time.monotonic() - self.started
        return f"{duration(elapsed * (1 - self.progress) / done)} left"


class LiveScreen:
    """A terminal: two lines at the bottom are drawn anew, everything else scrolls above them."""

    def __init__(self, out: Console) -> None:
        from rich.live import Live

        self.out = out
        self.live = Live(console=out, auto_refresh=False, transient=True)
        self.drawn = 0.0

    def write(self, line: str, *, indent: int = 0, style: str = "") -> None:
        from rich.padding import Padding
        from rich.text import Text

        self.out.print(Padding(Text(line, style), (0, 0, 0, indent)))

    def redraw(self, display: Display) -> None:
        if time.monotonic() - self.drawn >= REFRESH_SECONDS:
            self.drawn = time.monotonic()
            self.live.update(self.render(display), refresh=True)

    def render(self, display: Display) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        tail = f"{display.progress:4.0%}  {display.time_left()}".rstrip()
        row = Table.grid(padding=(0, 1), expand=True)
        row.add_column(ratio=1)
        row.add_column(no_wrap=True)
        row.add_row(ProgressBar(total=1.0, completed=display.progress), tail)
        return Group(row, Text(fitted(display.figures(), self.out.width), no_wrap=True))


class PlainScreen:
    """Not a terminal: whole lines, one every ten seconds, none of them taken back."""

    def __init__(self) -> None:
        self.written = 0.0

    def write(self, line: str, *, indent: int = 0, style: str = "") -> None:
        print(" " * indent + line, flush=True)

    def redraw(self, display: Display) -> None:
        if time.monotonic() - self.written >= QUIET_SECONDS:
            self.written = time.monotonic()
            figures = [f"{display.progress:.0%}", *display.figures(), display.time_left()]
            self.write(", ".join(filter(None, figures)))


def fitted(figures: Sequence[str], width: int) -> str:
    """Join as many figures as fit in ``width`` columns, and at least the first.

    >>> fitted(["step 10", "loss 5.31", "next 74%"], 20)
    'step 10  loss 5.31'
    """
    line = figures[0]
    for figure in figures[1:]:
        if len(line) + 2 + len(figure) > width:
            break
        line += "  " + figure
    return line


@contextmanager
def training_display() -> Iterator[Display]:
    """Show a run while it trains; the bar disappears at the end, whatever ends it."""
    out = console()
    if not out.is_terminal:
        yield Display(PlainScreen())
        return
    screen = LiveScreen(out)
    with screen.live:
        yield Display(screen)


@contextmanager
def preparing() -> Iterator[Preparation]:
    """Show what is being prepared before training, and how long each part took."""
    preparation = Preparation(console(stderr=True))
    try:
        yield preparation
    finally:
        preparation.finish()


class Preparation:
    """Called with a few words for each part as it begins."""

    def __init__(self, out: Console) -> None:
        self.out, self.part, self.began = out, "", 0.0
        self.spinner = out.status("", spinner="line") if out.is_terminal else None

    def __call__(self, part: str) -> None:
        if part.partition(":")[0] != self.part.partition(":")[0]:
            self.finish()
            self.began = time.monotonic()
            if self.spinner is None:
                print(part, file=sys.stderr, flush=True)
            else:
                self.spinner.start()
        self.part = part
        if self.spinner is not None:
            self.spinner.update(part)

    def finish(self) -> None:
        """Leave a line for a part that took long enough to notice."""
        if self.spinner is not None and self.part:
            self.spinner.stop()
            seconds = time.monotonic() - self.began
            if seconds >= 1:
                self.out.print(f"{self.part.partition(':')[0]}: {duration(seconds)}")
        self.part = ""
