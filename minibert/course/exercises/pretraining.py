"""Lesson 16: one step of training, and the loss of a model that only counts words."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from minibert.arrays import Array
from minibert.course.exercise import Case, Exercise, Slip
from minibert.keys import Key
from minibert.models.pretraining import LossWeights
from minibert.ops import get_ops
from minibert.training.loop import update_weights
from minibert.training.run import unigram_entropy

OPS = get_ops("numpy")


# --- one step: a model of a few weights has all that a step asks of a BERT


class ToyBatch(NamedTuple):
    x: Array  # (N, n)
    target: Array  # (N,)

    def __repr__(self) -> str:
        return f"x {self.x.tolist()}, target {self.target.tolist()}"


class ToyOutput(NamedTuple):
    loss: float


class ToyModel:
    """The loss is weights.masked · Σ ½ (x · value - target)², with dropout on the weights."""

    def __init__(self, value: Array, grad: Array, rate: float) -> None:
        self.ops, self.rate = OPS, rate
        self.params: Any = ToyParams(value, grad)

    def forward(
        self, batch: ToyBatch, key: Key | None = None, weights: LossWeights | None = None
    ) -> tuple[ToyOutput, Any]:
        weight = 1 / len(batch.target) if weights is None else weights.masked
        kept = np.ones(len(self.params.value))
        if key is not None:
            kept = OPS.dropout_forward(kept, self.rate, key.seed)
        error = batch.x @ (self.params.value * kept) - batch.target
        dvalue = weight * (error @ batch.x) * kept
        return ToyOutput(float(weight * (error @ error) / 2)), dvalue

    def backward(self, cache: Array) -> None:
        self.params.grad += cache


class ToyParams(list[Any]):
    """The flat buffers of a ParamStore; it lists no single parameters."""

    def __init__(self, value: Array, grad: Array) -> None:
        super().__init__()
        self.value, self.grad = value.copy(), grad.copy()

    def zero_grad(self) -> None:
        self.grad[:] = 0


class ToyOptimizer:
    """Plain descent, which notes what it was asked for."""

    def __init__(self, params: Any) -> None:
        self.params, self.asked = params, list[tuple[float, float]]()

    def update(self, learning_rate: float, grad_scale: float = 1.0) -> None:
        self.asked.append((learning_rate, grad_scale))
        self.params.value -= learning_rate * grad_scale * self.params.grad


class ToyRun:
    """A run as ``update_weights`` sees it; equal where weights and updates are."""

    def __init__(self, value: Array, grad: Array, clip_norm: float, rate: float) -> None:
        self.model = ToyModel(value, grad, rate)
        self.optimizer = ToyOptimizer(self.model.params)
        self.config = SimpleNamespace(clip_norm=clip_norm)
        self.position = SimpleNamespace(step=0)

    def copy(self) -> ToyRun:
        params = self.model.params
        other = ToyRun(params.value, params.grad, self.config.clip_norm, self.model.rate)
        other.optimizer.asked = list(self.optimizer.asked)
        return other

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ToyRun):
            return False
        mine, theirs = (
            np.concatenate([run.model.params.value, np.ravel(run.optimizer.asked)])
            for run in (self, other)
        )
        return mine.shape == theirs.shape and np.allclose(mine, theirs, rtol=1e-9, atol=1e-12)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        text = f"weights {np.round(self.model.params.value, 4).tolist()}"
        if not self.optimizer.asked:
            left = self.model.params.grad.tolist()
            return f"{text}, gradient left over {left}, clip_norm {self.config.clip_norm}"
        asked = "; ".join(f"rate {lr:.4g}, grad_scale {s:.4g}" for lr, s in self.optimizer.asked)
        return f"{text} after update({asked})"


class Arguments(dict[str, Any]):
    """A step's arguments; whoever goes through them gets a run that has not moved yet."""

    def items(self) -> Any:
        return {**self, "run": self["run"].copy()}.items()


def step_by_hand() -> Case:
    batches = [
        ToyBatch(np.array([[1.0, 0]]), np.array([4.0])),
        ToyBatch(np.array([[0, 1.0]]), np.array([-2.0])),
    ]
    run = ToyRun(np.array([1.0, 2]), np.ones(2), 1.0, 0.0)
    weights = LossWeights(1.0, 1.0)
    return Case(Arguments(run=run, batches=batches, weights=weights, learning_rate=0.5, key=Key(0)))


def draw_step(generator: np.random.Generator) -> Case:
    """Some gradients are longer than the limit, some shorter."""
    long, n, count = generator.random() > 0.5, 7, int(generator.integers(2, 5))
    rows = generator.permutation([2, 3, 5, 6])[:count]
    batches = [ToyBatch(generator.normal(size=(N, n)), generator.normal(size=N)) for N in rows]
    value, left = generator.normal(size=(2, n))
    arguments = Arguments(
        run=ToyRun(value, left, 1.0, 0.5),
        batches=batches,
        weights=LossWeights(1 / float(rows.sum()), 1.0),
        learning_rate=float(generator.uniform(0.05, 0.2)),
        key=Key(int(generator.integers(1000))),
    )
    _, norm = update_weights(**dict(arguments.items()))
    arguments["run"].config.clip_norm = norm * float(generator.uniform(0.1, 0.2) if long else 3)
    return Case(arguments)


def step_with(
    *,
    zero: str = "before",
    keyed: Callable[[Key, int], Key | None] = lambda key, micro: key.child("micro", micro),
    weighted: bool = True,
    clip: Callable[[float, float], float] = lambda limit, norm: min(1.0, limit / norm),
    updates: str = "once",
    clip_each: bool = False,
    returned: Callable[[float, float], float] = lambda limit, norm: norm,
) -> Any:
    """The step with a choice of mistakes."""

    def step(
        run: Any, batches: Any, weights: LossWeights, learning_rate: float, key: Key
    ) -> tuple[list[Any], float]:
        params, limit, outputs, norm = run.model.params, run.config.clip_norm, [], 0.0
        if zero == "before":
            params.zero_grad()
        for micro, batch in enumerate(batches):
            if zero == "each":
                params.zero_grad()
            before = params.grad.copy()
            output, cache = run.model.forward(
                batch, keyed(key, micro), weights if weighted else None
            )
            run.model.backward(cache)
            if clip_each:
                part = params.grad - before
                params.grad[:] = before + part * min(1.0, limit / OPS.global_norm(part))
            outputs.append(output)
            if updates == "each":
                norm = OPS.global_norm(params.grad)
                run.optimizer.update(learning_rate, grad_scale=clip(limit, norm))
        if updates == "once":
            norm = OPS.global_norm(params.grad)
            run.optimizer.update(learning_rate, grad_scale=clip(limit, norm) / scale_of(batches))
        elif updates == "none":
            norm = OPS.global_norm(params.grad)
        return outputs, returned(limit, norm)

    divide = updates == "divided"
    if divide:
        updates = "once"

    def scale_of(batches: Any) -> float:
        return len(batches) if divide else 1.0

    return step


STEP = Exercise(
    lesson=16,
    answer=update_weights,
    outputs=("outputs", "norm"),
    changes=("run",),
    by_hand=step_by_hand,
    draw=draw_step,
    hints=(
        "Backward adds to the gradients.  What has to stand there before the first micro-batch?",
        "Clear once, then forward and backward for every micro-batch, each with a key and with the "
        "weights.  After the loop: one norm, one scale, one update.",
        "run.model.params.zero_grad();  for micro, batch: output, cache = run.model.forward(batch, "
        'key.child("micro", micro), weights), then run.model.backward(cache), and keep output;  '
        "norm = run.model.ops.global_norm(run.model.params.grad);  run.optimizer.update("
        "learning_rate, grad_scale=min(1, clip_norm / norm)).",
    ),
    slips=(
        Slip(
            "the last step's gradients are not cleared",
            "backward adds to what is there, so the gradients of all steps ever made would pile "
            "up: zero_grad() comes first.",
            step_with(zero="never"),
        ),
        Slip(
            "only the last micro-batch's gradient is left",
            "zero_grad() stands before the loop and backward inside it: the gradients add up.",
            step_with(zero="each"),
        ),
        Slip(
            "there is an update for every micro-batch",
            "they are parts of one batch: the weights move once, when all gradients are there.",
            step_with(updates="each"),
        ),
        Slip(
            "the weights are never updated",
            "gradients alone move nothing: optimizer.update is missing.",
            step_with(updates="none"),
        ),
        Slip(
            "nothing is clipped",
            "grad_scale is min(1, clip_norm / norm); without it one strange batch can undo hours.",
            step_with(clip=lambda limit, norm: 1.0),
        ),
        Slip(
            "a short gradient is made longer",
            "below the limit the scale is 1: clipping only ever shortens, so min(1, …).",
            step_with(clip=lambda limit, norm: limit / norm),
        ),
        Slip(
            "long gradients are left alone and short ones are made longer",
            "max(1, …) has to be min(1, …).",
            step_with(clip=lambda limit, norm: max(1.0, limit / norm)),
        ),
        Slip(
            "norm / clip_norm stands upside down",
            "a long gradient needs a small scale.",
            step_with(clip=lambda limit, norm: min(1.0, norm / limit)),
        ),
        Slip(
            "every micro-batch is clipped by itself",
            "the parts are shortened differently, so their sum points elsewhere: clip the sum.",
            step_with(clip_each=True),
        ),
        Slip(
            "the gradient is divided by the number of micro-batches",
            "weights has counted all of their tokens already; the sum is the gradient.",
            step_with(updates="divided"),
        ),
        Slip(
            "every micro-batch takes its own mean",
            "weights was not passed to forward, so a token counts for more where there are few.",
            step_with(weighted=False),
        ),
        Slip(
            "all micro-batches have the same dropout",
            'the same key draws the same masks: key.child("micro", micro) gives each its own.',
            step_with(keyed=lambda key, micro: key),
        ),
        Slip(
            "dropout is off",
            "forward without a key is for evaluation.",
            step_with(keyed=lambda key, micro: None),
        ),
        Slip(
            "the norm is that after clipping",
            "clipped, it never shows how wild the gradient was: return it as it came.",
            step_with(returned=min),
        ),
    ),
)


# --- the loss of a model that knows how often each token occurs


def entropy_by_hand() -> Case:
    return Case({"counts": np.array([2, 1, 0, 1])})


def draw_entropy(generator: np.random.Generator) -> Case:
    counts = generator.integers(1, 60, int(generator.integers(7, 19)))
    counts[generator.integers(len(counts), size=2)] = 0
    return Case({"counts": counts})


def shares(counts: Array) -> Array:
    return counts[counts > 0] / counts.sum()


def entropy_with(change: Callable[[Array, Array], Any]) -> Any:
    """``change`` takes the shares of the tokens that occur, and all counts."""
    return lambda counts: float(change(shares(counts), counts))


ENTROPY = Exercise(
    lesson=16,
    answer=unigram_entropy,
    outputs=("entropy",),
    by_hand=entropy_by_hand,
    draw=draw_entropy,
    hints=(
        "If the model gives every token the share p that it has in the text, what is the loss at a "
        "token, and how often does that token come?",
        "A token with the share p has the loss -ln p, and comes with the share p.  So the mean "
        "loss is Σ p · (-ln p).  Leave out tokens that never come: ln 0 is no number.",
        "p = counts[counts > 0] / counts.sum();  entropy = float(-(p * np.log(p)).sum()).",
    ),
    slips=(
        Slip(
            "it is in bits",
            "np.log2 counts in bits; losses here are in nats, with np.log.",
            entropy_with(lambda p, counts: -(p * np.log2(p)).sum()),
        ),
        Slip(
            "it is in powers of ten",
            "losses here are in nats, with np.log, not np.log10.",
            entropy_with(lambda p, counts: -(p * np.log10(p)).sum()),
        ),
        Slip(
            "the minus is missing",
            "the logarithm of a share is negative, and a loss is positive.",
            entropy_with(lambda p, counts: (p * np.log(p)).sum()),
        ),
        Slip(
            "rare tokens count as much as frequent ones",
            "each loss -ln p has to be weighted by how often it occurs: by p.",
            entropy_with(lambda p, counts: -np.log(p).mean()),
        ),
        Slip(
            "the losses are added up without weights",
            "each loss -ln p has to be weighted by how often it occurs: by p.",
            entropy_with(lambda p, counts: -np.log(p).sum()),
        ),
        Slip(
            "the sum is over all tokens of the text",
            "counts times ln p is the loss of the whole text; per token it is p times ln p.",
            entropy_with(lambda p, counts: -(counts[counts > 0] * np.log(p)).sum()),
        ),
        Slip(
            "the logarithm is taken of the counts",
            "divide by counts.sum() first: ln of a share, not of a number of times.",
            entropy_with(lambda p, counts: -(p * np.log(counts[counts > 0])).sum()),
        ),
        Slip(
            "the counts are divided by the number of tokens in the vocabulary",
            "shares add up to 1: divide by counts.sum(), not by len(counts).",
            entropy_with(
                lambda p, counts: (
                    -(
                        counts[counts > 0] / len(counts) * np.log(counts[counts > 0] / len(counts))
                    ).sum()
                )
            ),
        ),
        Slip(
            "it is ln V",
            "that is the loss of a model that knows nothing; this one has counted.",
            entropy_with(lambda p, counts: np.log(len(counts))),
        ),
        Slip(
            "it is the perplexity",
            "e to the entropy says among how many tokens one guesses; the loss is its logarithm.",
            entropy_with(lambda p, counts: np.exp(-(p * np.log(p)).sum())),
        ),
    ),
)

EXERCISES = (STEP, ENTROPY)
