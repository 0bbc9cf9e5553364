"""What a run needs to go on, in one file.

``training.safetensors`` holds the weights, both moments and, in its metadata, the state of the
run as JSON.  Were they several files, a crash between two renames would leave the weights of one
step beside the counter of another; one file is one step.  ``state.json`` repeats the state for
people to read, and nothing reads it back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minibert.arrays import Array
from minibert.checkpoint.tensors import read_tensors, write_tensors
from minibert.files import write_text

TRAINING, STATE = "training.safetensors", "state.json"


def save_training(
    folder: str | os.PathLike[str], arrays: Mapping[str, Array], state: dict[str, Any]
) -> None:
    """Write a run's arrays and state; until both are whole the old ones stay.

    ``state`` is what JSON can hold: words, numbers (floats come back bit for bit, also inf and
    nan), None, lists, and dicts with words as names.  Raises TypeError on anything else.
    """
    folder = Path(folder)
    try:
        text = json.dumps(state, indent=2)
    except TypeError as error:
        raise TypeError(f"state holds what JSON cannot ({error}): use int, float, str") from None
    folder.mkdir(parents=True, exist_ok=True)
    write_tensors(folder / TRAINING, arrays, {"state": text})
    write_text(folder / STATE, text + "\n")


def load_training(folder: str | os.PathLike[str]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays and the state that ``save_training`` wrote, bit for bit.

    Raises ValueError, one line, where the file is missing, cut short or damaged.
    """
    path = Path(folder) / TRAINING
    if not path.is_file():
        raise ValueError(
            f"{path} is not there, so there is no run to go on with: start a new one, or give the "
            "folder of a run that has saved"
        )
    try:
        arrays, metadata = read_tensors(path)
        state = json.loads(metadata["state"])
    except KeyError:
        raise ValueError(f"{path} was not written by a minibert run: it holds no state") from None
    except ValueError as error:  # a JSONDecodeError is one too
        raise ValueError(
            f"{error}: this run cannot go on, so start a new one; its saved model still opens"
        ) from None
    return arrays, state
