"""What every benchmark takes, prints and writes: options, a table, figures and their limits."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine import busy_cores, core_count, processor, versions

from minibert.cli.screen import print_table

BUSY = 0.3
"""Cores kept busy by others from which figures are not to be trusted."""
SHORTFALL, NOT_FIT = 1, 2  # exit statuses


@dataclass(frozen=True)
class Figure:
    """A number that a benchmark found, and the limits it is held to."""

    name: str
    value: float
    at_least: float | None = None
    at_most: float | None = None

    def shortfall(self) -> str | None:
        """Return in words how the limit is missed; a figure that is no number misses any."""
        if self.at_least is not None and not self.value >= self.at_least:
            return f"{self.name}: {self.value:.3g}, expected at least {self.at_least:g}"
        if self.at_most is not None and not self.value <= self.at_most:
            return f"{self.name}: {self.value:.3g}, expected at most {self.at_most:g}"
        return None


def new_parser(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options that every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a rough answer in under a minute")
    parser.add_argument(
        "--check", action="store_true", help="exit with 1 if a figure misses its limit"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    parser.add_argument(
        "--threads", type=positive, default=core_count(), metavar="N",
        help="threads for every program (default: %(default)s)",
    )  # fmt: skip
    return parser


def add_plot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw a .png, .svg or .pdf")


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> Any:
    """Return the options; files that could not be written are refused now, not at the end.

    Says so if other programs are busy: threads that spin while they wait, as those of PyTorch and
    OpenBLAS do, then lose several times as much as those that sleep, and ratios mean little.
    """
    options = parser.parse_args(arguments)
    refuse_files(parser, options.json, getattr(options, "plot", None))
    options.busy = busy_cores()
    if options.busy > BUSY:
        print(
            f"Other programs keep {options.busy:.1f} of {core_count()} cores busy: "
            "do not trust the figures, or take --threads that fit beside them.",
            file=sys.stderr,
        )
    return options


def refuse_files(parser: argparse.ArgumentParser, record: Path | None, plot: Path | None) -> None:
    """Stop with the parser's error if a file has no folder to lie in, or is no known picture."""
    for file in (record, plot):
        if file and not file.absolute().parent.is_dir():
            parser.error(f"there is no folder {file.absolute().parent}")
    if plot and plot.suffix.lower() not in (".png", ".svg", ".pdf"):
        parser.error(f"{plot} does not end in .png, .svg or .pdf")


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a positive number")
    return number


def installed(*packages: str) -> bool:
    return all(importlib.util.find_spec(package) is not None for package in packages)


def need(*packages: str, extra: str = "parity") -> None:
    """Exit with 2, saying how to install it, if a package is not there."""
    for package in packages:
        if not installed(package):
            print(f'{package} is not installed: pip install -e ".[{extra}]"', file=sys.stderr)
            raise SystemExit(NOT_FIT)


def finish(
    options: Any,
    headers: Sequence[str],  # the first column is text, as is one without a header
    rows: Sequence[Sequence[str]],
    figures: Sequence[Figure],
    **more: Any,
) -> int:
    """Print the table, write the JSON file, check the limits; return the exit status."""
    print(f"{processor()}, threads: {options.threads}; {', '.join(versions())}")
    print_table(headers, rows, numbers=[header for header in headers[1:] if header])
    if options.json:
        record = {
            "processor": processor(),
            "threads": options.threads,
            "cores_busy_before": options.busy,
            "versions": versions(),
            "table": [dict(zip(headers, row, strict=True)) for row in rows],
            "figures": {figure.name: figure.value for figure in figures},
            **more,
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    shortfalls = [text for figure in figures if (text := figure.shortfall())]
    if not options.check:
        return 0
    for text in shortfalls:
        print(text, file=sys.stderr)
    return SHORTFALL if shortfalls else 0


def bar(value: float, largest: float, width: int = 40) -> str:
    """Return a bar of plain characters; anything above 0 has one at least."""
    share = value / largest if largest > 0 else 0.0
    return "#" * max(round(share * width), int(value > 0))
