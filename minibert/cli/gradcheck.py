"""``minibert gradcheck``: is every hand-written gradient the derivative of the loss?"""

from __future__ import annotations

import time
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from minibert.cli.display import preparing
from minibert.cli.errors import FAILED
from minibert.cli.options import limit_threads
from minibert.cli.screen import console, duration, print_table

if TYPE_CHECKING:
    from minibert.arrays import Array
    from minibert.config import BertConfig
    from minibert.data.batches import PretrainingBatch
    from minibert.gradcheck import TensorError
    from minibert.keys import Key


ROOMY = 100  # columns of a terminal


class Backends(StrEnum):
    numpy = "numpy"
    numba = "numba"
    all = "all"


def gradcheck(
    backend: Annotated[
        Backends, typer.Option("--backend", help="Whose gradients to check.")
    ] = Backends.all,
    preset: Annotated[
        str,
        typer.Option("--preset", metavar="NAME", help="test (seconds), or a size: tiny, mini ..."),
    ] = "test",
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Draws weights and batch.")] = 0,
) -> None:
    """Check every gradient of the pretraining model against differences of its loss.

    The model runs in float64 on a small batch that has all that can go wrong: dropout, padding,
    repeated ids, ignored labels.  Each parameter is moved a little, and how the loss moves must
    agree with what backward says.  Exit status 1, and the name of the tensor, where it does not.
    """
    limit_threads(None)
    names = [name.value for name in Backends if name != Backends.all and backend in (name, "all")]
    failed = [name for name in names if not check_backend(name, preset, seed)]
    if failed:
        raise typer.Exit(FAILED)


def check_backend(backend: str, preset: str, seed: int) -> bool:
    """Check one backend, print its table, and return whether every tensor passed."""
    import numpy as np

    from minibert.gradcheck import GradCheckError, check_model
    from minibert.keys import Key
    from minibert.models.pretraining import BertForPreTraining

    start = time.monotonic()
    key = Key(seed)
    config = checked_config(preset)
    model = BertForPreTraining(config, ops=backend, dtype=np.float64)
    randomize(model.params.value, key.child("weights"))
    batch = troubled_batch(config, key.child("batch"))
    message = ""
    try:
        with preparing() as status:
            status(f"checking {len(model.params)} tensors on the {backend} backend")
            results = check_model(model, batch, key.child("dropout"))
    except GradCheckError as error:
        results, message = error.results, str(error)
    print_verdicts(backend, results)
    passed = sum(result.passed for result in results)
    print(
        f"\n{backend}: {passed} of {len(results)} tensors passed, "
        f"{model.params.value.size:,} parameters, {duration(time.monotonic() - start)}"
    )
    if message:
        print(f"FAILED: {message}")
    return not message


def print_verdicts(backend: str, results: Sequence[TensorError]) -> None:
    """Print one line for each tensor; its shape only where the terminal has room for it."""
    headers = ("parameter", "shape", "error", "limit", "")
    rows = [
        (
            result.name,
            "x".join(map(str, result.shape)),
            f"{result.error:.1e}" + ("*" if result.absolute else " "),
            f"{result.limit:.0e}",
            "ok" if result.passed else "WRONG",
        )
        for result in results
    ]
    if console().width < ROOMY:
        headers, rows = headers[:1] + headers[2:], [row[:1] + row[2:] for row in rows]
    print_table(
        headers,
        rows,
        numbers=("error",),
        title=f"{backend} backend: error as a share of each tensor's largest gradient",
    )
    if any(result.absolute for result in results):
        print("* absolute: the true gradient is 0, so there is nothing to be relative to")


def checked_config(preset: str) -> BertConfig:
    """Return a configuration with dropout on; "test" has odd, prime and unequal sizes."""
    from minibert.config import BertConfig

    if preset != "test":
        return BertConfig.preset(preset, vocab_size=97, max_position_embeddings=16)
    return BertConfig(
        vocab_size=23,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        max_position_embeddings=11,
    )


def randomize(values: Array, key: Key) -> None:
    """Draw all parameters from a normal distribution, biases and LayerNorm's gains too.

    At a gain of 1 and a bias of 0, where training starts, some wrong formulas give right numbers.
    """
    values[...] = 0.3 * key.generator().standard_normal(values.shape)


def troubled_batch(config: BertConfig, key: Key) -> PretrainingBatch:
    """Return a batch of three rows: one full, one with padding, one padded to its half.

    Few different ids, so that most occur often; labels and a pair that are ignored; and one
    position that is asked for twice.
    """
    import numpy as np

    from minibert.arrays import IGNORED
    from minibert.data.batches import PretrainingBatch

    B, T = 3, 8
    generator = key.generator()
    attention_mask = np.arange(T) < np.array([T, T - 3, T // 2])[:, None]
    input_ids = np.where(attention_mask, generator.integers(0, 7, (B, T)), 0).astype(np.int32)
    token_type_ids = (attention_mask & (np.arange(T) >= 3)).astype(np.int32)
    masked_positions = np.array([1, 5, 5, T + 2, 2 * T + 1, 2 * T + 3], np.int32)
    masked_labels = generator.integers(0, config.vocab_size, masked_positions.size, np.int32)
    masked_labels[3] = IGNORED
    next_labels = np.array([0, IGNORED, 1], np.int32)
    return PretrainingBatch(
        input_ids, token_type_ids, attention_mask, masked_positions, masked_labels, next_labels
    )
