"""Processes that are killed, and disks that are full, in the middle of a save."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from minibert.checkpoint.huggingface import load_model
from minibert.checkpoint.resume import load_training

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="uses POSIX signals and limits")

SAVE_FOR_EVER = """
import sys
import numpy as np
from minibert.checkpoint import save_model, save_training
from minibert.config import BertConfig
from minibert.models.pretraining import BertForPreTraining

config = BertConfig(vocab_size=2000, hidden_size=64, num_hidden_layers=1, num_attention_heads=1,
                    intermediate_size=64)
model = BertForPreTraining(config, "numpy")
step = int(sys.argv[2])
while True:
    step += 1
    model.params.value[:] = step
    moments = {"moment1": model.params.value + 0.25, "moment2": model.params.value + 0.5}
    save_model(model, None, sys.argv[1])
    save_training(sys.argv[1], {"value": model.params.value, **moments}, {"step": step})
    print(step, flush=True)
"""

SAVE_TO_A_FULL_DISK = """
import resource, signal, sys
import numpy as np
from minibert.checkpoint import load_training, save_training

arrays = {"value": np.zeros(100_000, np.float32)}
save_training(sys.argv[1], arrays, {"step": 1})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))  # half of what the file needs
try:
    save_training(sys.argv[1], {"value": arrays["value"] + 1}, {"step": 2})
except OSError as error:
    print(error.strerror)
"""


def kill_while_saving(folder: Path, delay: float, step: int) -> int:
    """Let a process save for ever, kill it after a while; return what was saved last."""
    process = subprocess.Popen(
        [sys.executable, "-c", SAVE_FOR_EVER, str(folder), str(step)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    with process, process.stdout:
        reported = int(process.stdout.readline())
        time.sleep(delay)
        process.kill()
        for line in process.stdout:
            if line.endswith(b"\n"):
                reported = int(line)
    return reported


def check_whole(folder: Path, reported: int) -> None:
    """What was reported as saved is there, or the save after it; never a mixture."""
    arrays, state = load_training(folder)
    step = state["step"]
    assert step in (reported, reported + 1)
    for name, extra in (("value", 0), ("moment1", 0.25), ("moment2", 0.5)):
        np.testing.assert_array_equal(arrays[name], np.float32(step + extra))
    value = load_model(folder, "numpy").params.value
    assert value[0] in (reported, reported + 1)
    np.testing.assert_array_equal(value, value[0])


def kill_repeatedly(folder: Path, times: int) -> None:
    generator = np.random.default_rng(times)
    step = 0
    for _ in range(times):
        reported = kill_while_saving(folder, generator.uniform(0, 0.05), step)
        check_whole(folder, reported)
        step = reported + 1
        assert len(list(folder.glob(".*.tmp"))) <= 4  # one for each file at most


def test_killed_while_saving(tmp_path: Path) -> None:
    kill_repeatedly(tmp_path, 8)


@pytest.mark.slow
def test_killed_while_saving_many_times(tmp_path: Path) -> None:
    kill_repeatedly(tmp_path, 100)


def test_full_disk(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SAVE_TO_A_FULL_DISK, str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "File too large"
    arrays, state = load_training(tmp_path)
    assert state == {"step": 1}
    assert not arrays["value"].any()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["state.json", "training.safetensors"]
