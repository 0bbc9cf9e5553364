"""The same bytes: in every run of a training step, and at every number of threads."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from minibert.config import BertConfig
from minibert.keys import Key
from minibert.models.pretraining import BertForPreTraining
from minibert.training.adamw import AdamW

from ..models.common import make_batch
from .common import Step, training_step

RUNS = 20
CODE = """
import json, sys
import numba
from minibert.ops import cpu
from tests.invariants.test_bytes import RUNS, digest, step
cpu.threads.WORTH = 0  # nothing is too little to share out
found = {}
for threads in (1, 2, 4):
    numba.set_num_threads(threads)
    found[threads] = sorted({digest(step("numba")) for _ in range(RUNS)})
print(json.dumps(found))
"""


def step(ops) -> Step:
    """The second of two training steps of a fresh model, with sizes that are dealt out."""
    config = BertConfig.preset("tiny", vocab_size=301)
    model = BertForPreTraining(config, ops)
    model.initialize(Key(3))
    batch, optimizer = make_batch(model, (33, 17, 29, 8, 33)), AdamW(model.params, model.ops)
    training_step(model, batch, optimizer, Key(1))
    return training_step(model, batch, optimizer, Key(2))


def digest(step: Step) -> str:
    """One number for the bytes of loss, gradients, weights and moments."""
    state = hashlib.sha256()
    for part in step:
        state.update(np.asarray(part).tobytes())
    return state.hexdigest()


def test_same_bytes_in_twenty_runs(ops) -> None:
    assert len({digest(step(ops)) for _ in range(RUNS)}) == 1


@pytest.mark.skipif(
    "numba" not in os.environ.get("MINIBERT_TEST_BACKENDS", "numpy,numba"),
    reason="only the compiled kernels have threads",
)
def test_same_bytes_at_every_number_of_threads() -> None:
    """20 runs at each of 1, 2 and 4 threads, in a process that may have 4."""
    result = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True, text=True, check=False,
        env={**os.environ, "NUMBA_NUM_THREADS": "4"},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert set(found) == {"1", "2", "4"}
    assert len(found["1"]) == 1
    assert found["1"] == found["2"] == found["4"]
