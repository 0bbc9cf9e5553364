"""Checks of what surrounds the backward pass: accumulation, clipping, decay and the update.

None of it is a derivative of one forward pass.  Accumulated gradients are compared with
differences of the whole step's loss, the rest with numbers worked out one by one.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from minibert.arrays import IGNORED
from minibert.config import TrainConfig
from minibert.keys import Key
from minibert.layers.layernorm import LayerNorm
from minibert.layers.linear import Linear
from minibert.ops import Ops
from minibert.params import ParamStore
from minibert.training import loop
from minibert.training.adamw import AdamW
from tests.gradients.models import make_batch, make_model
from tests.gradients.problems import (
    HARD,
    Problem,
    Setting,
    all_together,
    by_hand,
    draw,
    gradient,
    same,
)


class Recorder:
    """In the optimizer's place: remembers the gradient it was to use."""

    def __init__(self, params: ParamStore) -> None:
        self.params, self.gradients = params, []

    def update(self, learning_rate: float, grad_scale: float = 1.0) -> None:
        self.gradients.append(self.params.grad * grad_scale)


def step_problem(ops: Ops, setting: Setting, clip_norm: float = 1e9) -> tuple[Problem, Any]:
    """Make one training step of two micro-batches, unequal unless it is to be easy.

    The loss is that of all masked tokens and all pairs together, each a plain mean.
    """
    model = make_model(ops, setting)
    first = make_batch(setting)
    if setting.easy:
        second = first._replace(input_ids=first.input_ids[:, ::-1].copy())
    else:  # fewer masked tokens and fewer pairs that count
        second = first._replace(
            input_ids=np.where(first.attention_mask, 12 - first.input_ids, 0).astype(np.int32),
            masked_labels=np.where(np.arange(7) > 1, IGNORED, first.masked_labels).astype(np.int32),
            next_labels=np.array([IGNORED, IGNORED, 1], np.int32),
        )
    batches = [first, second]
    run: Any = SimpleNamespace(
        config=TrainConfig(steps=4, accumulation=2, clip_norm=clip_norm, seed=3),
        model=model,
        optimizer=Recorder(model.params),
        position=SimpleNamespace(step=0, tokens=0),
        source=SimpleNamespace(batch=lambda number: batches[number]),
    )
    model.params.grad[:] = 1.0  # left over from another step
    loop.training_step(run, 0.5)
    key = Key(3).child("step", 0)

    def loss() -> float:
        outputs = [
            model.forward(batch, key.child("micro", number))[0]
            for number, batch in enumerate(batches)
        ]
        masked, following = (
            sum(getattr(o, f"{name}_loss") for o in outputs)
            / sum(getattr(o, f"{name}_count") for o in outputs)
            for name in ("masked", "next")
        )
        return masked + following

    [gradient] = run.optimizer.gradients
    return Problem(loss, {"all parameters": (model.params.value, gradient)}), run


@gradient("accumulation of micro-batches", "training_step", "BertForPreTraining.backward",
          compare=all_together)  # fmt: skip
def accumulation(ops: Ops, setting: Setting) -> Problem:
    return step_problem(ops, setting)[0]


@by_hand("clipping after accumulation", "training_step")
def clipping(ops: Ops) -> None:
    """One factor for the whole step: the clipped gradient is the whole one, shortened."""
    check_clipping(ops, HARD, 0.1)


def check_clipping(ops: Ops, setting: Setting, clip_norm: float) -> None:
    whole, _ = step_problem(ops, setting)
    clipped, _ = step_problem(ops, setting, clip_norm)
    (_, gradient), (_, short) = whole.tensors["all parameters"], clipped.tensors["all parameters"]
    factor = min(1.0, clip_norm / math.sqrt(math.fsum(float(g) ** 2 for g in gradient)))
    same("the clipped gradient", short, gradient * factor, 1e-9)


@by_hand("no decay on LayerNorm and biases", "adamw", "Scope.declare")
def no_decay(ops: Ops) -> None:
    """With gradients of 0 only decay moves anything: weights shrink, all else stays."""
    store = ParamStore(np.float64)
    Linear(store.scope("linear"), 5, 4, ops)
    LayerNorm(store.scope("norm"), 3, 1e-12, ops)
    store.allocate()
    draw(store, HARD)
    before = {parameter.name: parameter.value.copy() for parameter in store}
    AdamW(store, ops, weight_decay=0.5).update(0.1)
    for name, value in before.items():
        kept = 1 - 0.1 * 0.5 if name == "linear.weight" else 1.0
        same(f"{name} after a step of decay alone", store[name].value, kept * value)


@by_hand("AdamW by hand", "adamw", "AdamW.update")
def adamw(ops: Ops) -> None:
    """Two steps of four numbers, two of which decay, in plain Python."""
    store = ParamStore(np.float64)
    store.scope().declare("weight", (2,), init="normal")
    store.scope().declare("bias", (2,), init="zeros", decay=False)
    store.allocate()
    store.value[:] = values = [0.5, -2.0, 1.0, 0.25]
    optimizer = AdamW(store, ops, beta1=0.9, beta2=0.99, eps=0.01, weight_decay=0.1)
    m, v = [0.0] * 4, [0.0] * 4
    for step, gradients in enumerate(([0.3, -0.2, 0.0, 1.5], [-0.1, 0.4, 0.7, 0.2]), start=1):
        store.grad[:] = gradients
        optimizer.update(0.05, grad_scale=0.5)
        for i, given in enumerate(gradients):
            g = 0.5 * given
            m[i], v[i] = 0.9 * m[i] + 0.1 * g, 0.99 * v[i] + 0.01 * g * g
            moved = (m[i] / (1 - 0.9**step)) / (math.sqrt(v[i] / (1 - 0.99**step)) + 0.01)
            values[i] -= 0.05 * (moved + (0.1 * values[i] if i < 2 else 0.0))
        same(f"the weights after AdamW's step {step}", store.value, values)


@by_hand("norm of the gradient by hand", "global_norm")
def norm(ops: Ops) -> None:
    same("the norm of [3, -4, 12]", ops.global_norm(np.array([3.0, -4.0, 12.0])), 13.0)
