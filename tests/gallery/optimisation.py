"""Mistakes around the backward pass: accumulation, clipping, decay and AdamW.

Each layer's gradient is right here, so only a check of the whole step can see them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minibert.arrays import Array
from minibert.keys import Key
from minibert.models.pretraining import LossWeights, count_labels
from minibert.params import Parameter, Scope, Spec
from tests.gallery.mistake import NUMPY, Mistake

STEP = "minibert.training.loop:training_step"
DECLARE = "minibert.params:Scope.declare"


def weights_of(batches: Sequence[Any]) -> LossWeights:
    """1 / (masked tokens) and 1 / (pairs) of some batches together."""
    masked = sum(count_labels(batch.masked_labels) for batch in batches)
    pairs = sum(count_labels(batch.next_labels) for batch in batches)
    return LossWeights(1 / masked, 1 / pairs)


def step_with(
    weights: Callable[[Sequence[Any], int], LossWeights] = lambda batches, n: weights_of(batches),
    clip_each: bool = False,
    zero: bool = True,
) -> Callable[..., None]:
    """The training step in short, with a choice of mistakes."""

    def step(run: Any, progress: float) -> None:
        params, clip_norm = run.model.params, run.config.clip_norm
        key = Key(run.config.seed).child("step", run.position.step)
        batches = [run.source.batch(number) for number in range(run.config.accumulation)]
        if zero:
            params.zero_grad()
        for number, batch in enumerate(batches):
            before = params.grad.copy()
            _, cache = run.model.forward(
                batch, key.child("micro", number), weights(batches, number)
            )
            run.model.backward(cache)
            if clip_each:
                added = params.grad - before
                params.grad[:] = before + added * min(1.0, clip_norm / NUMPY.global_norm(added))
        norm = NUMPY.global_norm(params.grad)
        run.optimizer.update(1.0, grad_scale=min(1.0, clip_norm / norm))

    return step


def average_of_averages(batches: Sequence[Any], number: int) -> LossWeights:
    masked, pairs = weights_of([batches[number]])
    return LossWeights(masked / len(batches), pairs / len(batches))


def declare_with(decay_of: Callable[[str, bool], bool]) -> Callable[..., Parameter]:
    """A declaration that changes what decays: (way of initialisation, right answer) → answer."""

    def declare(
        self: Scope,
        name: str,
        shape: tuple[int, ...],
        *,
        init: Any,
        decay: bool = True,
        hidden: bool = False,
    ) -> Parameter:
        spec = Spec(self.prefix + name, shape, init, decay_of(init, decay), hidden)
        return self.store.declare(spec)

    return declare


def adamw_with(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[..., None]:
    """AdamW with one line changed."""

    def adamw(value: Array, grad: Array, moment1: Array, moment2: Array, **given: Any) -> None:
        line: dict[str, Any] = {
            "l2": 0.0,
            "decay": given["lr"] * given["decay"],
            "correction1": given["correction1"],
            "correction2": given["correction2"],
            "square": lambda g: g * g,
            "divide": lambda m, v: m / (np.sqrt(v) + given["eps"]),
        }
        line |= change(given)
        decays = np.arange(value.size) < given["decayed"]
        g = grad * given["grad_scale"] + line["l2"] * value * decays
        moment1[:] = given["beta1"] * moment1 + (1 - given["beta1"]) * g
        moment2[:] = given["beta2"] * moment2 + (1 - given["beta2"]) * line["square"](g)
        m, v = moment1 / line["correction1"], moment2 / line["correction2"]
        value -= given["lr"] * line["divide"](m, v) + line["decay"] * value * decays

    return adamw


def accumulation(name: str, why: str, step: Callable[..., None]) -> Mistake:
    return Mistake(name, why, "optimisation", "accumulation of micro-batches", {STEP: step})


def adamw(name: str, why: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Mistake:
    return Mistake(name, why, "optimisation", "AdamW by hand", {"adamw": adamw_with(change)})


MISTAKES = [
    accumulation(
        "average of micro-batch averages",
        "A token then counts for more in a micro-batch that has few of them.",
        step_with(average_of_averages),
    ),
    accumulation(
        "sum of micro-batch averages",
        "Never divided by their number: the gradient grows with the accumulation.",
        step_with(lambda batches, number: weights_of([batches[number]])),
    ),
    accumulation(
        "gradients of the last step not zeroed",
        "The gradients add up over all steps ever made.",
        step_with(zero=False),
    ),
    Mistake(
        "clipping per micro-batch",
        "Each part is shortened on its own, so their sum has another direction and length.",
        "optimisation",
        "clipping after accumulation",
        {STEP: step_with(clip_each=True)},
    ),
    Mistake(
        "decay on LayerNorm",
        "γ is pulled towards 0, where its rest is 1.",
        "optimisation",
        "no decay on LayerNorm and biases",
        {DECLARE: declare_with(lambda init, decay: decay or init == "ones")},
    ),
    Mistake(
        "decay on biases",
        "One rule for all parameters; BERT's leaves biases alone.",
        "optimisation",
        "no decay on LayerNorm and biases",
        {DECLARE: declare_with(lambda init, decay: decay or init == "zeros")},
    ),
    adamw(
        "L2 in the gradient for AdamW's decay",
        "Decay then passes through the moments and is divided by √v: plain Adam with L2.",
        lambda given: {"l2": given["decay"], "decay": 0.0},
    ),
    adamw(
        "decay without the learning rate",
        "Weights shrink by the whole decay at every step, whatever the schedule says.",
        lambda given: {"decay": given["decay"]},
    ),
    adamw(
        "no bias correction",
        "m and v start at 0, so the first steps come out up to 3.16 times too long.",
        lambda given: {"correction1": 1.0, "correction2": 1.0},
    ),
    adamw(
        "AdamW's ε inside the root",
        "√(v + ε) is not √v + ε: small gradients are damped much more.",
        lambda given: {"divide": lambda m, v: m / np.sqrt(v + given["eps"])},
    ),
    adamw(
        "second moment of the absolute value",
        "v averages |g| where it should average g², so the steps have the wrong unit.",
        lambda given: {"square": np.abs},
    ),
]
