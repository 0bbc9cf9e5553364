from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minibert.arrays import Array
from minibert.checkpoint.resume import load_training, save_training
from minibert.checkpoint.tensors import write_tensors

STATE: dict[str, Any] = {
    "step": 120,
    "elapsed": 0.1 + 0.2,
    "best_loss": math.inf,
    "versions": {"minibert": "0.1.0"},
    "text": "三 😀 \n",
    "none": None,
    "list": [1, 2.5, True],
}


@pytest.fixture
def arrays() -> dict[str, Array]:
    generator = np.random.default_rng(0)
    names = ("value", "moment1", "moment2")
    return {name: generator.standard_normal(1000).astype(np.float32) for name in names}


def test_round_trip_is_exact(tmp_path: Path, arrays: dict[str, Array]) -> None:
    save_training(tmp_path / "run", arrays, STATE)
    loaded, state = load_training(tmp_path / "run")
    assert state == STATE
    assert {name: array.tobytes() for name, array in loaded.items()} == {
        name: array.tobytes() for name, array in arrays.items()
    }
    readable = json.loads((tmp_path / "run" / "state.json").read_text(encoding="utf-8"))
    assert readable == STATE


def test_arrays_are_the_callers_own(tmp_path: Path, arrays: dict[str, Array]) -> None:
    save_training(tmp_path, arrays, STATE)
    loaded, _ = load_training(tmp_path)
    loaded["value"][:] = 0
    save_training(tmp_path, arrays, STATE)  # a file that is open could not be replaced on Windows
    assert load_training(tmp_path)[0]["value"].any()


def test_state_that_json_cannot_hold(tmp_path: Path, arrays: dict[str, Array]) -> None:
    with pytest.raises(TypeError, match="state holds what JSON cannot"):
        save_training(tmp_path, arrays, {"step": np.int64(3)})
    assert list(tmp_path.iterdir()) == []


def test_the_readable_copy_is_not_needed(tmp_path: Path, arrays: dict[str, Array]) -> None:
    save_training(tmp_path, arrays, STATE)
    (tmp_path / "state.json").unlink()
    assert load_training(tmp_path)[1] == STATE


def test_nothing_saved_yet(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"training.safetensors is not there.*start a new one"):
        load_training(tmp_path)


def test_cut_short_or_damaged(tmp_path: Path, arrays: dict[str, Array]) -> None:
    save_training(tmp_path, arrays, STATE)
    path = tmp_path / "training.safetensors"
    whole = path.read_bytes()
    for damaged in (b"", whole[:7], whole[:100], whole[:-1], whole[:8] + b"x" + whole[9:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"training.safetensors is .*start a new one") as info:
            load_training(tmp_path)
        assert "\n" not in str(info.value)


def test_a_file_without_state(tmp_path: Path, arrays: dict[str, Array]) -> None:
    write_tensors(tmp_path / "training.safetensors", arrays)
    with pytest.raises(ValueError, match="not written by a minibert run"):
        load_training(tmp_path)
