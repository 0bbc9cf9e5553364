"""Lesson 14: one update of the weights, from the losses' weights to AdamW."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from minibert.arrays import IGNORED, Array
from minibert.course.exercise import Case, Exercise, Slip
from minibert.models.pretraining import count_labels
from minibert.ops.update import adamw, global_norm
from minibert.training.loop import loss_weights

# --- what a token counts for


def micro_batch(masked: Any, pairs: Any) -> SimpleNamespace:
    return SimpleNamespace(
        masked_labels=np.array(masked, np.int32), next_labels=np.array(pairs, np.int32)
    )


def weights_by_hand() -> Case:
    batches = [micro_batch([7], [0]), micro_batch([8, 5, 9], [1])]
    return Case({"batches": batches, "config": SimpleNamespace(masked_weight=1.0, next_weight=1.0)})


def draw_weights(generator: np.random.Generator) -> Case:
    """Micro-batches with other numbers of tokens and pairs each, some of them without a label."""
    batches = []
    masked_sizes = generator.choice(np.arange(4, 20), 3, replace=False)
    pair_sizes = generator.choice(np.arange(4, 20), 3, replace=False)
    for masked, pairs in zip(masked_sizes, pair_sizes, strict=True):
        tokens = generator.integers(5, 90, masked)
        tokens[:2] = IGNORED
        follows = generator.integers(0, 2, pairs)
        follows[:3] = IGNORED, 0, 1
        batches.append(micro_batch(generator.permutation(tokens), follows))
    weights = generator.uniform(0.3, 0.9, 2)
    config = SimpleNamespace(masked_weight=float(weights[0]), next_weight=float(weights[1]))
    return Case({"batches": batches, "config": config})


def weights_with(
    count: Callable[[Array], float] = count_labels,
    of: Callable[[Sequence[float]], float] = sum,
    scaled: bool = True,
) -> Callable[..., Any]:
    """``count`` takes the labels of one micro-batch, ``of`` the counts of all."""

    def weights(batches: Sequence[Any], config: Any) -> tuple[float, float]:
        masked = of([count(batch.masked_labels) for batch in batches])
        pairs = of([count(batch.next_labels) for batch in batches])
        factors = (config.masked_weight, config.next_weight) if scaled else (1.0, 1.0)
        return factors[0] / masked, factors[1] / pairs

    return weights


def one_denominator(batches: Sequence[Any], config: Any) -> tuple[float, float]:
    masked = sum(count_labels(batch.masked_labels) for batch in batches)
    return config.masked_weight / masked, config.next_weight / masked


WEIGHTS = Exercise(
    lesson=14,
    answer=loss_weights,
    outputs=("masked", "next"),
    by_hand=weights_by_hand,
    draw=draw_weights,
    hints=(
        "If all micro-batches were one large batch, by what would you divide?",
        "Count the labels that are not IGNORED, over all batches together, once for the tokens "
        "and once for the pairs.",
        "masked = sum of (batch.masked_labels != IGNORED).sum() over the batches;  the weight is "
        "config.masked_weight / masked;  the same with next_labels and config.next_weight.",
    ),
    slips=(
        Slip(
            "ignored labels are counted",
            "a place without a label adds nothing to the loss, so it may not enlarge the number "
            "that the loss is divided by.",
            weights_with(count=len),
        ),
        Slip(
            "label 0 is not counted",
            "labels > 0 leaves out the class 0, is next, which is half of all pairs: compare "
            "with IGNORED.",
            weights_with(count=lambda labels: int((labels > 0).sum())),
        ),
        Slip(
            "it is a mean of the micro-batches' means",
            "a token then counts for more, the fewer others its micro-batch has: first add up "
            "the counts, then divide once.",
            weights_with(of=lambda counts: len(counts) / sum(1 / count for count in counts)),
        ),
        Slip(
            "it is a sum of the micro-batches' means",
            "1/n₁ + 1/n₂ grows with the number of micro-batches: first add up the counts, then "
            "divide once.",
            weights_with(of=lambda counts: 1 / sum(1 / count for count in counts)),
        ),
        Slip(
            "the micro-batches' counts are averaged",
            "the gradients of all micro-batches are added, so their sum has to be divided by the "
            "sum of the counts; this way it grows with the number of micro-batches.",
            weights_with(of=lambda counts: sum(counts) / len(counts)),
        ),
        Slip(
            "it divides by the number of micro-batches as well",
            "the total count has all of them in it already.",
            weights_with(of=lambda counts: sum(counts) * len(counts)),
        ),
        Slip(
            "only the first micro-batch is counted",
            "one pair of weights serves all micro-batches of the step: count them all first.",
            weights_with(of=lambda counts: counts[0]),
        ),
        Slip(
            "only the last micro-batch is counted",
            "is the count written anew in each round of the loop, instead of added to?",
            weights_with(of=lambda counts: counts[-1]),
        ),
        Slip(
            "the pairs are divided by the number of tokens",
            "each of the two losses is a mean of its own.",
            one_denominator,
        ),
        Slip(
            "the weights of the two losses are left out",
            "config.masked_weight and config.next_weight say how much each mean counts for.",
            weights_with(scaled=False),
        ),
    ),
    sizes=lambda batches, config: {"the number of micro-batches": len(batches)},
)


# --- how long the gradient is


def draw_norm(generator: np.random.Generator) -> Case:
    return Case({"grad": generator.normal(size=int(generator.integers(11, 17))) + 0.3})


NORM = Exercise(
    lesson=14,
    answer=global_norm,
    outputs=("norm",),
    by_hand=lambda: Case({"grad": np.array([3.0, -4.0])}),
    draw=draw_norm,
    hints=(
        "How long is an arrow that goes 3 to the right and 4 down?",
        "Pythagoras, in as many directions as there are weights.",
        "The root of the sum of the squares: math.sqrt(np.sum(grad * grad)).",
    ),
    slips=(
        Slip(
            "the root is missing",
            "that is the squared length: of a gradient twice as long it is four times as large.",
            lambda grad: float(np.sum(grad * grad)),
        ),
        Slip(
            "absolute values are added",
            "that is the way along the streets, not the straight line.",
            lambda grad: float(np.abs(grad).sum()),
        ),
        Slip(
            "it is the largest element",
            "a gradient with a thousand elements of that size is longer.",
            lambda grad: float(np.abs(grad).max()),
        ),
        Slip(
            "the squares are averaged",
            "with a mean, a limit of 1.0 would mean something else for every size of model.",
            lambda grad: float(np.sqrt(np.mean(grad * grad))),
        ),
        Slip(
            "the sum of the squares is halved",
            "½ Σ g² is what some libraries call an L2 loss; the norm is √Σ g².",
            lambda grad: float(np.sum(grad * grad) / 2),
        ),
        Slip(
            "elements are added before they are squared",
            "positive and negative ones then cancel: square each first.",
            lambda grad: float(abs(grad.sum())),
        ),
    ),
    sizes=lambda grad: {"the number of elements": grad.size},
)


# --- the update


def update_by_hand() -> Case:
    arrays = {"value": [1.0, 1.0], "grad": [4.0, -16.0], "moment1": [0.0, 0.0]}
    return Case(
        {name: np.array(numbers) for name, numbers in arrays.items()}
        | {
            "moment2": np.zeros(2), "lr": 0.1, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8,
            "decay": 0.5, "decayed": 1, "correction1": 1 - 0.9, "correction2": 1 - 0.999,
            "grad_scale": 0.5,
        }
    )  # fmt: skip


def draw_update(generator: np.random.Generator) -> Case:
    n, step = int(generator.integers(7, 12)), int(generator.integers(2, 6))
    value, grad, moment1 = generator.normal(size=(3, n))
    return Case(
        {
            "value": value, "grad": grad, "moment1": moment1,
            "moment2": generator.uniform(0.2, 2, n), "lr": 0.2, "beta1": 0.8, "beta2": 0.95,
            "eps": 0.1, "decay": 0.3, "decayed": n // 2, "correction1": 1 - 0.8**step,
            "correction2": 1 - 0.95**step, "grad_scale": float(generator.uniform(0.3, 0.8)),
        }
    )  # fmt: skip


def update_with(change: Callable[[SimpleNamespace], Any]) -> Callable[..., None]:
    """AdamW with one of its numbers or lines changed; ``change`` takes and alters them."""

    def update(value: Array, grad: Array, moment1: Array, moment2: Array, **given: Any) -> None:
        a = SimpleNamespace(
            **given,
            l2=0.0,
            keep=1 - given["beta1"],
            square=lambda g: g * g,
            divide=lambda m, v, a: (m / a.correction1) / (np.sqrt(v / a.correction2) + a.eps),
            decay_rate=given["lr"] * given["decay"],
            before=False,
            sign=1.0,
        )
        change(a)
        decays = np.arange(value.size) < a.decayed
        g = grad * a.grad_scale + a.l2 * value * decays
        old = moment1.copy(), moment2.copy()
        moment1[:] = a.beta1 * moment1 + a.keep * g
        moment2[:] = a.beta2 * moment2 + (1 - a.beta2) * a.square(g)
        m, v = old if a.before else (moment1, moment2)
        value -= a.sign * a.lr * a.divide(m, v, a) + a.decay_rate * value * decays

    return update


def setting(**numbers: Any) -> Callable[..., None]:
    return update_with(lambda a: vars(a).update(numbers))


UPDATE = Exercise(
    lesson=14,
    answer=adamw,
    outputs=(),
    changes=("value", "moment1", "moment2"),
    by_hand=update_by_hand,
    draw=draw_update,
    hints=(
        "Which three arrays have to be different afterwards, and in which order?",
        "First g = grad * grad_scale, then both moments with g, then the step from the new "
        "moments, each divided by its correction.  The decay joins the step, not g.",
        "moment1[:] = beta1 * moment1 + (1 - beta1) * g;  moment2[:] the same with g * g;  step = "
        "(moment1 / correction1) / (sqrt(moment2 / correction2) + eps);  step[:decayed] += decay * "
        "value[:decayed];  value -= lr * step.",
    ),
    slips=(
        Slip(
            "it is not changed in place",
            "m = … makes a new array and gives it the old name; the caller keeps the array that it "
            "had: write moment1[:] = …, value -= ….",
            lambda value, grad, moment1, moment2, **given: None,
        ),
        Slip(
            "the decay is added to the gradient",
            "then it runs through both moments and is divided by √v: Adam with L2, in which the "
            "weights with large gradients hardly decay.",
            update_with(lambda a: vars(a).update(l2=a.decay, decay_rate=0.0)),
        ),
        Slip(
            "the decay of all elements is added to the gradient",
            "two things: it belongs to the step, after the division by √v, and only the first "
            "`decayed` elements have one.",
            update_with(lambda a: vars(a).update(l2=a.decay, decay_rate=0.0, decayed=10**6)),
        ),
        Slip(
            "the decay lacks the learning rate",
            "weights would shrink by the whole decay at each step, in warm-up too: it belongs "
            "inside the bracket that lr multiplies.",
            update_with(lambda a: vars(a).update(decay_rate=a.decay)),
        ),
        Slip(
            "the decay has the wrong sign",
            "weights would grow: decay · θ is added to the step, and the step is subtracted.",
            update_with(lambda a: vars(a).update(decay_rate=-a.decay_rate)),
        ),
        Slip(
            "all elements decay",
            "only the first `decayed` do: biases and LayerNorm's gains stand behind them.",
            setting(decayed=10**6),
        ),
        Slip(
            "nothing decays",
            "the term decay · θ is missing in the step.",
            setting(decay_rate=0.0),
        ),
        Slip(
            "the moments are not corrected",
            "both begin at 0 and are too small at first, but not equally: divide m by "
            "correction1 and v by correction2.",
            setting(correction1=1.0, correction2=1.0),
        ),
        Slip(
            "v's correction stands outside the root",
            "v is too small by the factor c₂, so √v by √c₂.",
            setting(
                divide=lambda m, v, a: (m / a.correction1) / (np.sqrt(v) / a.correction2 + a.eps)
            ),
        ),
        Slip(
            "ε stands inside the root",
            "√(v + ε) is not √v + ε: with ε = 1e-6, gradients of 1e-4 would make steps ten times "
            "shorter, instead of 1 % shorter.",
            setting(
                divide=lambda m, v, a: (m / a.correction1) / np.sqrt(v / a.correction2 + a.eps)
            ),
        ),
        Slip(
            "the root is missing",
            "m / v has the unit 1 / gradient; m / √v has none, so a step is about lr long.",
            setting(divide=lambda m, v, a: (m / a.correction1) / (v / a.correction2 + a.eps)),
        ),
        Slip(
            "v averages |g|",
            "v is the mean of the squares, of which the step takes the root.",
            setting(square=np.abs),
        ),
        Slip(
            "grad_scale is left out",
            "clipping happens here: g = grad · grad_scale comes before both moments.",
            setting(grad_scale=1.0),
        ),
        Slip(
            "β₁ and β₂ are exchanged",
            "m forgets fast (0.9), v slowly (0.999).",
            update_with(lambda a: vars(a).update(beta1=a.beta2, beta2=a.beta1, keep=1 - a.beta2)),
        ),
        Slip(
            "m lacks the factor 1 - β₁",
            "β₁ m + g is classical momentum, 1 / (1 - β₁) times as large; m is to be a mean.",
            setting(keep=1.0),
        ),
        Slip(
            "the step is made with the old moments",
            "first both moments take in this gradient, then the step is made from them.",
            setting(before=True),
        ),
        Slip(
            "the step goes uphill",
            "the gradient points to where the loss grows: subtract.",
            setting(sign=-1.0),
        ),
    ),
)

EXERCISES = (WEIGHTS, NORM, UPDATE)
