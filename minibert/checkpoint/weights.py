"""From a folder's weights to a model's parameters, strictly.

Whatever is missing, unexpected, of another shape or of an unknown kind is listed in one error
before a single parameter changes: a tensor that silently keeps its random start costs days.
Only heads may differ, as a whole and on request.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from minibert.checkpoint.names import TASK_HEADS, bare, canonical, group, heads_among
from minibert.checkpoint.stored import StoredWeights, listing, open_weights
from minibert.checkpoint.tensors import Tensor
from minibert.keys import Key
from minibert.params import ParamStore

FLOATS = ("F32", "F64", "F16", "BF16")

MissingHeads: TypeAlias = Literal["refuse", "initialize"]
ForeignHeads: TypeAlias = Literal["refuse", "drop"]

SHAPES = "of another shape"
ANOTHER_HEAD = (
    "a head made for other labels cannot be taken over: start from the model that this one was "
    "fine-tuned from, or leave its head out by save_model(*load_pretrained(FOLDER), NEW_FOLDER)"
)


class LoadedHeads(NamedTuple):
    """In which heads a model and the folder that filled it differ, as prefixes of names."""

    drawn: list[str]  # heads of the model that the folder lacks: drawn anew
    dropped: list[str]  # heads of the folder that the model has no place for: left out


def load_weights(
    params: ParamStore,
    folder: str | os.PathLike[str],
    *,
    missing_heads: MissingHeads = "refuse",
    foreign_heads: ForeignHeads = "refuse",
    redraw: Collection[str] = (),
    key: Key | None = None,
    std: float = 0.02,
) -> LoadedHeads:
    """Fill all parameters from a folder; float16 and bfloat16 are widened, which is exact.

    A head is one of ``names.HEADS``: the pooler, the two heads of pretraining, and those of
    fine-tuning.  All else must be there, and nothing else.

    Args:
        missing_heads: what becomes of a head that the folder lacks entirely.  "initialize" draws
            it, with the values that a fresh model has for ``key`` (None: Key(0)) and ``std``.
            A head of which a part is there is still refused.
        foreign_heads: what becomes of a head that the model has no place for.  "drop" leaves it
            out.
        redraw: heads that count as lacking even if the folder has them: for other labels, say.

    Raises ValueError, or FileNotFoundError where there are no weights; params are then unchanged.
    """
    if missing_heads not in ("refuse", "initialize"):
        raise ValueError(f"missing_heads is {missing_heads!r}: use 'refuse' or 'initialize'")
    if foreign_heads not in ("refuse", "drop"):
        raise ValueError(f"foreign_heads is {foreign_heads!r}: use 'refuse' or 'drop'")
    with open_weights(Path(folder)) as stored:
        return fill(
            params,
            stored,
            missing_heads=missing_heads,
            foreign_heads=foreign_heads,
            redraw=redraw,
            key=key,
            std=std,
        )


def fill(
    params: ParamStore,
    stored: StoredWeights,
    *,
    missing_heads: MissingHeads,
    foreign_heads: ForeignHeads,
    redraw: Collection[str] = (),
    key: Key | None,
    std: float,
) -> LoadedHeads:
    """Do what ``load_weights`` does, from a folder that is open already."""
    wanted, stored_heads = heads_among(params.parameters), heads_among(stored.tensors)
    present = [head for head in stored_heads if head not in redraw]
    missing = [head for head in wanted if head not in present]
    foreign = [head for head in present if head not in wanted]
    drawn = missing if missing_heads == "initialize" else []
    dropped = foreign if foreign_heads == "drop" else []
    fresh = [name for name in params.parameters if name.startswith(tuple(drawn))]

    tensors = without(stored.tensors, [*dropped, *redraw], params)
    groups = group(tensors)
    lacking = [name for name in params.parameters if name not in groups and name not in fresh]
    if problems := find_problems(params, tensors, groups, lacking):
        listed = "; ".join(f"{kind}: {listing(entries)}" for kind, entries in problems.items())
        ways_out = remedies(
            [head for head in missing if head not in drawn],
            [head for head in foreign if head not in dropped],
            heads_among(entry.split()[0] for entry in problems.get(SHAPES, [])),
        )
        raise ValueError(f"{stored.where} does not fit the model: {listed}: {ways_out}")
    for name, copies in groups.items():
        tensors[copies[0]].read_into(params[name].value)
    initialize(params, fresh, key or Key(0), std)
    return LoadedHeads(drawn, dropped)


def without(
    tensors: dict[str, Tensor], dropped: list[str], params: ParamStore
) -> dict[str, Tensor]:
    """Return the tensors without those of the dropped heads.

    The decoder's copy of the token embedding goes with its head, unless there is no other copy.
    """
    kept = {name: t for name, t in tensors.items() if not set(heads_among([name])) & set(dropped)}
    found = group(kept)
    alone = {
        name: tensor
        for name, tensor in tensors.items()
        if name not in kept and canonical(name) in params.parameters.keys() - found.keys()
    }
    return kept | alone


def find_problems(
    params: ParamStore,
    tensors: dict[str, Tensor],
    groups: dict[str, list[str]],
    lacking: Iterable[str],
) -> dict[str, list[str]]:
    """Return what keeps the tensors from being the parameters, by kind; every entry has a name."""
    known = {name: t for name, t in tensors.items() if canonical(name) in params.parameters}
    unexpected = [n for n in tensors if n not in known and canonical(n) is not None]
    shapes = {name: params[canonical(name) or ""].shape for name in known}
    problems = {
        "missing": [f"{name} {params[name].shape}" for name in lacking],
        "unexpected": [f"{name} {tensors[name].shape}" for name in unexpected],
        SHAPES: [
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
            if not all(equal(tensors[copies[0]], tensors[copy]) for copy in copies[1:])
        ]
    return {kind: entries for kind, entries in problems.items() if entries}


def equal(first: Tensor, second: Tensor) -> bool:
    return np.array_equal(first.read(), second.read())


def remedies(missing: list[str], foreign: list[str], reshaped: list[str]) -> str:
    """Return the ways out: of heads that are missing, foreign, or of another shape."""
    if set(TASK_HEADS).intersection(reshaped):
        return ANOTHER_HEAD
    ways = ["take config.json and the weights from one BERT"]
    if missing:
        ways.append(f'draw what lacks ({bare(missing)}) anew by missing_heads="initialize"')
    if foreign:
        ways.append(f'leave what has no place ({bare(foreign)}) out by foreign_heads="drop"')
    return ", or ".join(ways)


def initialize(params: ParamStore, names: Iterable[str], key: Key, std: float) -> None:
    """Draw some parameters as ``ParamStore.initialize`` would, and leave the others alone."""
    fresh = ParamStore(params.dtype)
    for name in names:
        fresh.declare(params[name].spec)
    fresh.allocate()
    fresh.initialize(key, std)
    for parameter in fresh:
        params[parameter.name].value[...] = parameter.value
