"""Arguments and flags that several commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer


class Backend(StrEnum):
    numba = "numba"
    numpy = "numpy"


class Matmul(StrEnum):
    own = "own"
    blas = "blas"


class Precision(StrEnum):
    float32 = "float32"
    bf16 = "bf16"


Folder: TypeAlias = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="A folder with a BERT, made here or elsewhere."),
]
FineTunedFolder: TypeAlias = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="A folder with a fine-tuned BERT, made here or elsewhere."),
]
BackendFlag: TypeAlias = Annotated[
    Backend, typer.Option("--backend", help="What computes: numba is compiled, numpy readable.")
]
MatmulFlag: TypeAlias = Annotated[
    Matmul, typer.Option("--matmul", help="Whose matrix product: our own, or NumPy's BLAS.")
]
PrecisionFlag: TypeAlias = Annotated[
    Precision,
    typer.Option("--precision", help="bf16: multiply in bfloat16, where the processor can."),
]
ThreadsFlag: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--threads", min=1, metavar="N", show_default=False,
        help="Processor threads; default: NUMBA_NUM_THREADS, OMP_NUM_THREADS, else all cores.",
    ),
]  # fmt: skip


def flag(name: str, panel: str, help: str, **more: Any) -> Any:
    """Return an option that stands in a panel of the command's help."""
    return typer.Option(name, rich_help_panel=panel, help=help, **more)


def typed(context: typer.Context, name: str) -> bool:
    """Return whether a flag was given on the command line, and did not just keep its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def refuse_flags(context: typer.Context, names: Collection[str], reason: str) -> None:
    """Raise ValueError if one of these flags was typed, which would have to be ignored."""
    for name in context.params:
        if typed(context, name) and name in names:
            what = "FILES" if name == "files" else "--" + name.replace("_", "-")
            raise ValueError(f"{reason}: leave out {what}")


def column_option(names: tuple[str, str], help: str) -> Any:
    return typer.Option(
        *names, metavar="NAME", show_default=False, rich_help_panel="Files", help=help
    )


TextColumn: TypeAlias = Annotated[
    str | None,
    column_option(("--text-column", "--first-column"), "The text, by name or by number from 1."),
]
PairColumn: TypeAlias = Annotated[
    str | None, column_option(("--pair-column", "--second-column"), "The second text.")
]
LabelColumn: TypeAlias = Annotated[
    str | None, column_option(("--label-column", "--score-column"), "The label, or the score.")
]
JsonFlag: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for a program.")]
ForceFlag: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Replace the output file if it exists.")
]

BLAS_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def limit_threads(count: int | None) -> None:
    """Use ``count`` threads, in numba's kernels and in NumPy's matrix products.

    Both read these variables once, when they are imported, so a command calls this before it
    imports either.  With ``count`` None an OMP_NUM_THREADS from outside holds for numba too.
    """
    if "numba" in sys.modules:  # a program that calls ``main`` itself; numba refuses a late change
        if count is not None:
            import numba

            launched: int = numba.config.NUMBA_NUM_THREADS  # pyright: ignore
            numba.set_num_threads(min(count, launched))
        return
    if count is not None:
        for name in ("NUMBA_NUM_THREADS", *BLAS_VARIABLES):
            os.environ[name] = str(count)
    elif (outside := os.environ.get("OMP_NUM_THREADS", "")).isdigit() and int(outside) > 0:
        os.environ.setdefault("NUMBA_NUM_THREADS", outside)


def ops_name(backend: Backend, matmul: Matmul, precision: Precision) -> str:
    """Return the name for ``get_ops``; where the processor has no bfloat16, say so and go without.

    Raises ValueError where the three do not go together.
    """
    if backend == Backend.numpy and (matmul == Matmul.blas or precision == Precision.bf16):
        raise ValueError(
            "--matmul and --precision are for the numba backend: leave out --backend numpy"
        )
    if precision == Precision.float32:
        return "numba-blas" if matmul == Matmul.blas else backend.value
    if matmul == Matmul.blas:
        raise ValueError("NumPy's BLAS has no bfloat16: leave out --matmul or --precision")

    from minibert.ops.cpu.vectors import PAIRS

    if PAIRS:
        return "numba-bf16"
    print(
        "This processor cannot multiply in bfloat16 (AVX512_BF16): training in float32.",
        file=sys.stderr,
    )
    return "numba"


def check_output(path: Path, force: bool) -> None:
    """Raise ValueError before any work is done if ``path`` cannot be written at the end of it."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give the name of a file in it")
    if path.exists() and not path.is_file():  # /dev/null, say: renaming onto it would replace it
        raise ValueError(f"{path} is a device or pipe: give the name of a file")
    if path.exists() and not force:
        raise ValueError(f"{path} exists already: choose another --out, or replace it with --force")
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} is no folder: create it first, or choose another --out")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{path.parent} cannot be written to: choose another --out")
