"""The commands, gathered, and what stands above them: ``--help`` and ``--version``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated

import typer

from minibert.cli.attention import attention
from minibert.cli.embed import embed
from minibert.cli.evaluate import evaluate
from minibert.cli.fill import fill
from minibert.cli.finetune import finetune
from minibert.cli.gradcheck import gradcheck
from minibert.cli.lesson import lesson
from minibert.cli.next import next_
from minibert.cli.predict import predict
from minibert.cli.pretrain import pretrain
from minibert.cli.tokenize import tokenize
from minibert.cli.vocab import vocab
from minibert.cli.warmup import warmup

app = typer.Typer(add_completion=False, context_settings={"help_option_names": ["-h", "--help"]})


def minibert(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the versions and backends, and leave.")
    ] = False,
    traceback: Annotated[
        bool, typer.Option("--traceback", help="Show where in the program an error arose.")
    ] = False,
) -> None:
    """BERT from scratch in NumPy: every gradient written by hand and checked.

    Start with `minibert pretrain`: it trains a small BERT on the documentation of Python and
    NumPy that is on this computer, in minutes, and ends with a model that fills in blanks.
    """
    if version:
        print_versions()
    elif context.invoked_subcommand is None:
        print(context.get_help())


def print_versions() -> None:
    """Print one line each: minibert, Python, the packages that compute, and the backends."""
    import platform
    from importlib.metadata import version

    from minibert import __version__
    from minibert.ops import BACKENDS

    print(f"minibert {__version__}")
    print(f"Python {platform.python_version()}, {platform.system()} {platform.machine()}")
    print(", ".join(f"{name} {version(name)}" for name in ("numpy", "numba")))
    print(f"backends: {', '.join(BACKENDS)}")


def help_of(command: Callable[..., None]) -> str:
    """Return the docstring with the lines of each paragraph joined: the terminal folds them."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)


app.callback(invoke_without_command=True, help=help_of(minibert))(minibert)
for panel, commands in {
    "Train": {"pretrain": pretrain, "finetune": finetune, "vocab": vocab, "warmup": warmup},
    "Use a pretrained model": {"fill": fill, "next": next_, "embed": embed, "tokenize": tokenize},
    "Use a fine-tuned model": {"predict": predict, "evaluate": evaluate},
    "Look inside": {"attention": attention, "gradcheck": gradcheck},
}.items():
    for name, command in commands.items():
        app.command(name, help=help_of(command), rich_help_panel=panel)(command)
app.add_typer(lesson, name="lesson", rich_help_panel="Learn")
