"""PyTorch's numbers, kept in files: the same logits, loss, gradients and training, without torch.

``tests/fixtures/make_torch.py`` says what the files hold and how they were made.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from safetensors import safe_open

from minibert.arrays import IGNORED
from minibert.config import BertConfig, TrainConfig
from minibert.data.batches import PretrainingBatch
from minibert.models.pretraining import BertForPreTraining
from minibert.ops import Ops
from minibert.training.adamw import AdamW
from minibert.training.loop import Position, training_step

FILES = sorted((Path(__file__).parents[1] / "fixtures").glob("torch_*.safetensors"))
STEPS = 10
LIMIT = {"float64": 1e-10, "float32": 1e-5}
KEY_BIAS_LIMIT = {"float64": 1e-10, "float32": 1e-2}
"""Of the key bias after ten steps.  Its true gradient is 0, and Adam divides what rounding leaves
of it by its own size: the bias wanders a little, which no loss can notice."""


class Frozen(NamedTuple):
    """One file."""

    config: BertConfig
    training: dict[str, Any]
    tensors: dict[str, np.ndarray]

    def part(self, prefix: str) -> dict[str, np.ndarray]:
        return {
            name.removeprefix(prefix): array
            for name, array in self.tensors.items()
            if name.startswith(prefix)
        }

    def batch(self, index: int, *, with_ignored: bool = False) -> PretrainingBatch:
        """Return a batch in minibert's form; if asked, with positions whose label is ignored."""
        part = self.part(f"batch.{index}.")
        labels = part["labels"].reshape(-1)
        listed = labels != IGNORED
        if with_ignored:
            listed |= np.arange(len(labels)) % 3 == 0
        positions = np.flatnonzero(listed).astype(np.int32)
        return PretrainingBatch(
            part["input_ids"],
            part["token_type_ids"],
            part["attention_mask"],
            positions,
            labels[positions],
            part["next_sentence_label"],
        )

    def model(self, ops: Ops, dtype: np.dtype, **options: Any) -> BertForPreTraining:
        model = BertForPreTraining(self.config, ops, dtype, **options)
        initial = self.part("initial.")
        assert sorted(initial) == sorted(parameter.name for parameter in model.params)
        for name, array in initial.items():
            model.params[name].value[...] = array
        return model


@pytest.fixture(scope="module", params=FILES, ids=lambda path: path.stem)
def frozen(request: pytest.FixtureRequest) -> Frozen:
    with safe_open(request.param, "numpy") as file:
        metadata = file.metadata()
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    config = BertConfig(
        **json.loads(metadata["config"]), hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    return Frozen(config, json.loads(metadata["training"]), tensors)


def deviation(got: np.ndarray, wanted: np.ndarray, scale: float | None = None) -> float:
    """Return the largest difference as a share of the largest wanted number."""
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    scale = float(abs(wanted).max()) if scale is None else scale
    return float(abs(got - wanted).max()) / scale


def scale_of(name: str, wanted: dict[str, np.ndarray]) -> float:
    """Return a tensor's largest number; the query bias's for the key bias.

    The key bias adds one number to all scores of a row, so its true gradient is 0, and what is
    computed is rounding alone.
    """
    return float(abs(wanted[name.replace("key.bias", "query.bias")]).max())


def test_there_are_files() -> None:
    assert len(FILES) == 2
    assert sum(path.stat().st_size for path in FILES) < 300_000


def test_logits(frozen: Frozen, ops: Ops, dtype: np.dtype) -> None:
    model, batch, wanted = frozen.model(ops, dtype), frozen.batch(0), frozen.part(f"{dtype}.")
    hidden, pooled, _ = model.bert.forward(
        batch.input_ids, batch.token_type_ids, batch.attention_mask
    )
    real = batch.attention_mask  # what stands on padding is nobody's
    assert not real.all()
    masked = model.masked_head.logits(hidden[real])
    assert deviation(masked, wanted["masked_logits"][real]) < LIMIT[dtype.name]
    assert deviation(model.next_head.logits(pooled), wanted["next_logits"]) < LIMIT[dtype.name]


@pytest.mark.parametrize("every_place", [False, True])
@pytest.mark.parametrize("with_ignored", [False, True])
def test_loss_and_every_gradient(
    frozen: Frozen, ops: Ops, dtype: np.dtype, every_place: bool, with_ignored: bool
) -> None:
    model = frozen.model(ops, dtype, every_place=every_place)
    output, cache = model.forward(frozen.batch(0, with_ignored=with_ignored))
    model.backward(cache)
    wanted = frozen.part(f"{dtype}.")
    assert output.loss == pytest.approx(float(wanted["losses"][0]), rel=LIMIT[dtype.name])
    gradients = frozen.part(f"{dtype}.gradient.")
    assert len(gradients) == len(model.params)
    for parameter in model.params:
        scale = scale_of(parameter.name, gradients)
        found = deviation(parameter.grad, gradients[parameter.name], scale)
        assert found < LIMIT[dtype.name], parameter.name


def test_ten_steps(frozen: Frozen, ops: Ops, dtype: np.dtype) -> None:
    """The step is the training loop's own, with its schedule, clipping and AdamW."""
    model, config = frozen.model(ops, dtype), TrainConfig(steps=STEPS, **frozen.training)
    run: Any = SimpleNamespace(
        config=config,
        model=model,
        optimizer=AdamW(model.params, ops, beta2=config.beta2, weight_decay=config.weight_decay),
        source=SimpleNamespace(batch=lambda step: frozen.batch(step % 3)),
        position=Position(),
    )
    records = [training_step(run, (step + 1) / (STEPS + 1)) for step in range(STEPS)]
    wanted, limit = frozen.part(f"{dtype}."), LIMIT[dtype.name]
    for record, loss, norm in zip(records, wanted["losses"], wanted["norms"], strict=True):
        assert record["loss"] == pytest.approx(loss, rel=limit)
        assert record["grad_norm"] == pytest.approx(norm, rel=limit)
    assert wanted["norms"].min() < config.clip_norm < wanted["norms"].max()  # clipped, and not
    final, initial = frozen.part(f"{dtype}.final."), frozen.part("initial.")
    for parameter in model.params:
        found = deviation(parameter.value, final[parameter.name])
        if parameter.name.endswith("key.bias"):
            assert found < KEY_BIAS_LIMIT[dtype.name], parameter.name
        else:
            assert found < limit, parameter.name
            assert abs(final[parameter.name] - initial[parameter.name]).max() > 1e-3
