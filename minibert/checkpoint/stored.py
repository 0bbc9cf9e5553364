"""Where a folder keeps its tensors: in one file, or in several that an index lists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from minibert.checkpoint.tensors import Tensor, open_tensors

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
SHOWN = 8  # how many entries of a list an error names

CONVERT = (
    'python -c "import torch, safetensors.torch as s; s.save_file({n: t.clone().contiguous() for '
    "n, t in torch.load('%s', map_location='cpu', weights_only=True).items()}, '%s')\""
)


class StoredWeights(NamedTuple):
    """The tensors of an open folder, yet to be read, and the file or index that names them."""

    where: Path
    tensors: dict[str, Tensor]


@contextmanager
def open_weights(folder: Path) -> Iterator[StoredWeights]:
    """Open a folder's weights, and keep its files open within the block (see ``open_tensors``).

    Raises ValueError, or FileNotFoundError where there are no weights.
    """
    single, index = folder / WEIGHTS, folder / INDEX
    with ExitStack() as files:
        if single.is_file():
            yield StoredWeights(single, files.enter_context(open_tensors(single))[0])
        elif index.is_file():
            yield StoredWeights(index, open_shards(index, files))
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


def listing(entries: list[str]) -> str:
    more = len(entries) - SHOWN
    return ", ".join(entries[:SHOWN]) + (f" and {more} more" if more > 0 else "")
