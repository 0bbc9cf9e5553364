"""From a folder's weights to a model's parameters, strictly.

Whatever is missing, unexpected, of another shape or of an unknown kind is listed in one error
before a single parameter changes: a tensor that silently keeps its random start costs days.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from minibert.checkpoint.names import absent_heads, canonical, group
from minibert.checkpoint.tensors import Tensor, open_tensors
from minibert.keys import Key
from minibert.params import ParamStore

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
FLOATS = ("F32", "F64", "F16", "BF16")
SHOWN = 8  # how many tensors of each kind an error names

MissingHeads: TypeAlias = Literal["refuse", "initialize"]

CONVERT = (
    'python -c "import torch, safetensors.torch as s; s.save_file({n: t.clone().contiguous() for '
    "n, t in torch.load('%s', map_location='cpu', weights_only=True).items()}, '%s')\""
)


def load_weights(
    params: ParamStore,
    folder: str | os.PathLike[str],
    *,
    missing_heads: MissingHeads = "refuse",
    key: Key | None = None,
    std: float = 0.02,
) -> None:
    """Fill all parameters from a folder; float16 and bfloat16 are widened, which is exact.

    ``missing_heads="initialize"`` draws those of the pooler and the two heads that the folder
    lacks entirely, with the values that a fresh model has for ``key`` (None: Key(0)) and ``std``.
    A pooler or head of which a part is there is still refused.

    Raises ValueError, or FileNotFoundError where there are no weights; params are then unchanged.
    """
    if missing_heads not in ("refuse", "initialize"):
        raise ValueError(f"missing_heads is {missing_heads!r}: use 'refuse' or 'initialize'")
    with open_weights(Path(folder)) as (where, stored):
        groups = group(stored)
        missing = [name for name in params.parameters if name not in groups]
        heads = tuple(absent_heads(missing, params.parameters))
        fresh: list[str] = []
        if missing_heads == "initialize":
            fresh = [name for name in missing if name.startswith(heads)]
            missing = [name for name in missing if name not in fresh]
        if problems := find_problems(params, stored, groups, missing):
            raise ValueError(
                f"{where} does not fit the model: {'; '.join(problems)}: {remedy(heads)}"
            )
        for name, copies in groups.items():
            stored[copies[0]].read_into(params[name].value)
    initialize(params, fresh, key or Key(0), std)


def find_problems(
    params: ParamStore,
    stored: Mapping[str, Tensor],
    groups: Mapping[str, list[str]],
    missing: Iterable[str],
) -> list[str]:
    """Return what keeps the stored tensors from being the parameters, one entry for each kind."""
    known = {n: t for n, t in stored.items() if canonical(n) in params.parameters}
    unexpected = [n for n in stored if n not in known and canonical(n) is not None]
    shapes = {name: params[canonical(name) or ""].shape for name in known}
    problems = {
        "missing": [f"{name} {params[name].shape}" for name in missing],
        "unexpected": [f"{name} {stored[name].shape}" for name in unexpected],
        "of another shape": [
            f"{name} {tensor.shape} instead of {shapes[name]}"
            for name, tensor in known.items()
            if tensor.shape != shapes[name]
        ],
        f"of a dtype other than {', '.join(FLOATS)}": [
            f"{name} {tensor.dtype}" for name, tensor in known.items() if tensor.dtype not in FLOATS
        ],
    }
    if not any(problems.values()):
        problems["tied in minibert, but stored with different values"] = [
            " and ".join(copies)
            for copies in groups.values()
            if not all(equal(stored[copies[0]], stored[copy]) for copy in copies[1:])
        ]
    return [f"{kind}: {listing(entries)}" for kind, entries in problems.items() if entries]


def equal(first: Tensor, second: Tensor) -> bool:
    return np.array_equal(first.read(), second.read())


def listing(entries: list[str]) -> str:
    more = len(entries) - SHOWN
    return ", ".join(entries[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def remedy(heads: Iterable[str]) -> str:
    names = ", ".join(head.removesuffix(".") for head in heads)
    take = "take config.json and the weights from one BERT"
    if not names:
        return take
    return f'{take}, or draw what lacks entirely ({names}) anew by missing_heads="initialize"'


def initialize(params: ParamStore, names: Iterable[str], key: Key, std: float) -> None:
    """Draw some parameters as ``ParamStore.initialize`` would, and leave the others alone."""
    fresh = ParamStore(params.dtype)
    for name in names:
        fresh.declare(params[name].spec)
    fresh.allocate()
    fresh.initialize(key, std)
    for parameter in fresh:
        params[parameter.name].value[...] = parameter.value


@contextmanager
def open_weights(folder: Path) -> Iterator[tuple[Path, dict[str, Tensor]]]:
    """Open a folder's weights; yield the file that they are in, or its index, and the tensors."""
    single, index = folder / WEIGHTS, folder / INDEX
    with ExitStack() as files:
        if single.is_file():
            yield single, files.enter_context(open_tensors(single))[0]
        elif index.is_file():
            yield index, open_shards(index, files)
        else:
            raise no_weights(folder)


def open_shards(index: Path, files: ExitStack) -> dict[str, Tensor]:
    """Return the tensors of all files that an index names; none of them may be missing."""
    try:
        places = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        names = sorted({str(name) for name in places.values()})
    except (UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{index} is damaged: it does not say which file a tensor is in") from None
    paths = {name: index.parent / Path(name).name for name in names}  # never beyond the folder
    if absent := [name for name, path in paths.items() if not path.is_file()]:
        raise ValueError(
            f"{index} names files that are not there: {listing(absent)}: copy them beside it"
        )
    shards = {name: files.enter_context(open_tensors(path))[0] for name, path in paths.items()}
    if lost := [
        f"{name} in {place}" for name, place in places.items() if name not in shards[place]
    ]:
        raise ValueError(f"{index} names tensors that are not there: {listing(lost)}")
    return {name: tensor for shard in shards.values() for name, tensor in shard.items()}


def no_weights(folder: Path) -> Exception:
    """Return the error for a folder without weights that minibert opens, and the way out."""
    pickles = sorted(
        path for pattern in ("*.bin", "*.pt", "*.pth") for path in folder.glob(pattern)
    )
    if not pickles:
        return FileNotFoundError(
            f"{folder} has no {WEIGHTS}: give a folder that minibert or transformers saved"
        )
    return ValueError(
        f"{folder} has its weights in {pickles[0].name}, a pickle, which can run any code and is "
        "never opened here: if you trust it, convert it with PyTorch, "
        f"{CONVERT % (pickles[0], folder / WEIGHTS)}"
    )
