"""Lesson 6: residual and dropout."""

from __future__ import annotations

from typing import Any

import numpy as np

from minibert.arrays import Array
from minibert.course.exercise import Case, Exercise, Slip
from minibert.layers.add_norm import add_norm_backward, add_norm_forward
from minibert.layers.dropout import dropout_backward, dropout_forward, keep_mask
from minibert.layers.layernorm import layernorm_backward

EPS = 0.1
SEED = 6  # with four elements and a rate of 1/4 or 1/2 it keeps, drops, keeps, keeps


def draw_rate(generator: np.random.Generator) -> tuple[float, int]:
    """Return a rate unlike 1/2 and 1/3, where two different factors may agree, and a seed."""
    return float(generator.choice([0.2, 0.3, 0.4])), int(generator.integers(1 << 62))


def draw_shape(generator: np.random.Generator) -> tuple[int, int, int]:
    A, B, C = (int(size) for size in generator.permutation([3, 4, 5, 7])[:3])
    return A, B, C


# --- dropout, both ways: what is wrong with one is wrong with the other


def kept(x: Array, rate: float, seed: int) -> Array:
    return keep_mask(x.shape, rate, seed, x)


def unscaled(x: Array, rate: float, seed: int) -> Array:
    return x * kept(x, rate, seed)


def scaled_by_rate(x: Array, rate: float, seed: int) -> Array:
    return unscaled(x, rate, seed) / rate


def scaled_down(x: Array, rate: float, seed: int) -> Array:
    return unscaled(x, rate, seed) * (1 - rate)


def inverted(x: Array, rate: float, seed: int) -> Array:
    return x * ~kept(x, rate, seed) / (1 - rate)


def nothing_dropped(x: Array, rate: float, seed: int) -> Array:
    return x / (1 - rate)


def untouched(x: Array, rate: float, seed: int) -> Array:
    return x


def drops_what_should_stay(x: Array, rate: float, seed: int) -> Array:
    return x * kept(x, 1 - rate, seed) / (1 - rate)


def keeps_with_rate(x: Array, rate: float, seed: int) -> Array:
    return x * kept(x, 1 - rate, seed) / rate


def one_mask_for_all_rows(x: Array, rate: float, seed: int) -> Array:
    return x * keep_mask(x.shape[-1:], rate, seed, x) / (1 - rate)


def without_seed(x: Array, rate: float, seed: int) -> Array:
    return dropout_forward(x, rate, 0)


FORWARD = Exercise(
    lesson=6,
    answer=dropout_forward,
    outputs=("y",),
    by_hand=lambda: Case({"x": np.array([3.0, 6, 9, 12]), "rate": 0.25, "seed": SEED}),
    draw=lambda generator: Case(
        dict(
            zip(
                ("x", "rate", "seed"),
                (generator.normal(size=draw_shape(generator)), *draw_rate(generator)),
                strict=True,
            )
        )
    ),
    hints=(
        "Which share of the numbers stays, rate or 1 - rate?  And by what does what stays have to "
        "be multiplied, so that the average over all masks is x?",
        "keep_mask(x.shape, rate, seed, x) is True where a number stays.  Multiplied by x, True "
        "keeps it and False makes it 0.",
        "keep = keep_mask(x.shape, rate, seed, x);  y = x * keep / (1 - rate).",
    ),
    slips=(
        Slip(
            "what is kept is not scaled",
            "with a share of rate set to 0, y is smaller than x on average; 1 / (1 - rate) makes "
            "up for it, so that evaluation needs no change.",
            unscaled,
        ),
        Slip(
            "scaled by 1 / rate",
            "rate is the share that is dropped; the share that is kept is 1 - rate.",
            scaled_by_rate,
        ),
        Slip(
            "multiplied by 1 - rate where it should be divided",
            "1 - rate belongs to the older dropout, which scales at evaluation; in training "
            "what is left has to grow, not to shrink.",
            scaled_down,
        ),
        Slip(
            "the mask is inverted",
            "keep_mask is True where a number is kept; here these are the ones set to 0.",
            inverted,
        ),
        Slip(
            "nothing is dropped, all is scaled",
            "only what the mask keeps is multiplied by 1 / (1 - rate); the rest is 0.",
            nothing_dropped,
        ),
        Slip("x comes out as it went in", "this is dropout at evaluation, not in training.",
             untouched),
        Slip(
            "keep_mask was given 1 - rate",
            "its rate is the share to drop, the same number that you were given.",
            drops_what_should_stay,
        ),
        Slip(
            "rate is taken for the share to keep",
            "mask and factor fit each other, but in BERT's 0.1 nine of ten numbers stay, and here "
            "one of ten.",
            keeps_with_rate,
        ),
        Slip(
            "all rows have the same mask",
            "a mask of C numbers is broadcast over the rows, so a column is dropped as a whole; "
            "every element has a random bit of its own: the mask has x's full shape.",
            one_mask_for_all_rows,
        ),
        Slip(
            "the mask does not depend on the seed",
            "with a constant seed the same numbers are dropped in every layer and every step.",
            without_seed,
        ),
    ),
)  # fmt: skip


def dropout_case(x: Array, dy: Array, rate: float, seed: int) -> Case:
    def loss() -> float:
        return float(np.sum(dy * dropout_forward(x, rate, seed)))

    return Case({"dy": dy, "rate": rate, "seed": seed}, loss, {"dx": x})


def draw_backward(generator: np.random.Generator) -> Case:
    shape = draw_shape(generator)
    x, dy = generator.normal(size=shape), generator.normal(size=shape)
    return dropout_case(x, dy, *draw_rate(generator))


def on_the_way_back(wrong: Any) -> Any:
    return lambda dy, rate, seed: wrong(dy, rate, seed)


BACKWARD = Exercise(
    lesson=6,
    answer=dropout_backward,
    outputs=("dx",),
    by_hand=lambda: dropout_case(np.array([3.0, 6, 9, 12]), np.full(4, 3.0), 0.25, SEED),
    draw=draw_backward,
    hints=(
        "y_i = k_i x_i with a constant k_i.  What is the derivative of a constant times x?",
        "dx_i = k_i dy_i, with the very k of the forward: the same mask, the same factor.",
        "It is the forward, applied to dy: dropout_forward(dy, rate, seed).",
    ),
    slips=(
        Slip(
            "another mask than the forward's",
            "a number that was dropped gets a gradient, and one that was kept gets none: the "
            "backward needs the forward's seed as it is.",
            lambda dy, rate, seed: dropout_forward(dy, rate, seed + 1),
        ),
        Slip(
            "the factor 1 / (1 - rate) is forgotten",
            "what was kept was multiplied by it on the way up, and that is its slope.",
            on_the_way_back(unscaled),
        ),
        Slip(
            "scaled by 1 / rate",
            "rate is the share that is dropped; the forward divided by 1 - rate.",
            on_the_way_back(scaled_by_rate),
        ),
        Slip(
            "the scale is undone where it should be applied",
            "the backward is no inverse: what multiplied x multiplies the gradient.",
            on_the_way_back(scaled_down),
        ),
        Slip(
            "the scale is applied twice",
            "y has the factor 1 / (1 - rate) once, so the gradient has it once.",
            lambda dy, rate, seed: unscaled(dy, rate, seed) / (1 - rate) ** 2,
        ),
        Slip(
            "dropped numbers get a gradient",
            "dy went through unchanged, but what was set to 0 did not act on the loss.",
            on_the_way_back(untouched),
        ),
        Slip(
            "scaled, but nothing is dropped",
            "the mask is missing: a dropped number's k is 0, so its gradient is 0.",
            on_the_way_back(nothing_dropped),
        ),
        Slip(
            "the mask is inverted",
            "the gradient goes to the dropped numbers, and those that were kept get none.",
            on_the_way_back(inverted),
        ),
        Slip(
            "all rows have the same mask",
            "the mask has dy's full shape; one of C numbers is broadcast over the rows.",
            on_the_way_back(one_mask_for_all_rows),
        ),
    ),
)


# --- add & norm


def add_norm_by_hand() -> Case:
    """What LayerNorm's backward gives is [2, -1, -1, 0]: it takes the level of 1 away."""
    x_hat = np.array([[1.0, 1, 1, -3]]) / np.sqrt(3)
    return Case(
        {
            "dy": np.array([[3.0, 0, 0, 1]]),
            "x_hat": x_hat,
            "rstd": np.ones((1, 1)),
            "weight": np.ones(4),
            "rate": 0.5,
            "seed": SEED,
        }
    )


def draw_add_norm(generator: np.random.Generator) -> Case:
    A, B, C = draw_shape(generator)
    x, residual, dy = (generator.normal(size=(A, B, C)) for _ in range(3))
    residual[..., 0] += 2
    weight, bias = generator.normal(size=C) + 0.5, generator.normal(size=C)
    rate, seed = draw_rate(generator)

    def loss() -> float:
        return float(np.sum(dy * add_norm_forward(x, residual, weight, bias, EPS, rate, seed)[0]))

    _, x_hat, rstd = add_norm_forward(x, residual, weight, bias, EPS, rate, seed)
    return Case(
        {"dy": dy, "x_hat": x_hat, "rstd": rstd, "weight": weight, "rate": rate, "seed": seed},
        loss,
        {"dx": x, "dresidual": residual, "dweight": weight, "dbias": bias},
    )


def terms_with(change: Any) -> Any:
    """``change`` takes ds, dy, rate and seed and returns dx and dresidual."""

    def backward(
        dy: Array, x_hat: Array, rstd: Array, weight: Array, rate: float, seed: int
    ) -> tuple[Array, ...]:
        ds, dweight, dbias = layernorm_backward(dy, x_hat, rstd, weight)
        return *change(ds, dy, rate, seed), dweight, dbias

    return backward


def dropout_too_early(
    dy: Array, x_hat: Array, rstd: Array, weight: Array, rate: float, seed: int
) -> tuple[Array, ...]:
    ds, dweight, dbias = layernorm_backward(dropout_backward(dy, rate, seed), x_hat, rstd, weight)
    return ds, ds, dweight, dbias


def branch(dropped: Any) -> Any:
    """A wrong dropout on the way to the sub-layer; the residual is right."""
    return terms_with(lambda ds, dy, rate, seed: (dropped(ds, rate, seed), ds))


ADD_NORM = Exercise(
    lesson=6,
    answer=add_norm_backward,
    outputs=("dx", "dresidual", "dweight", "dbias"),
    by_hand=add_norm_by_hand,
    draw=draw_add_norm,
    hints=(
        "Which comes first on the way back: LayerNorm, the sum or dropout?",
        "layernorm_backward turns dy into ds, and gives dweight and dbias as well.  The sum hands "
        "all of ds to both terms, and only one of them was dropped.",
        "ds, dweight, dbias = layernorm_backward(dy, x_hat, rstd, weight);  "
        "dx = dropout_backward(ds, rate, seed);  dresidual = ds.",
    ),
    slips=(
        Slip(
            "the residual's gradient is forgotten",
            "the sum hands its gradient to both terms; the residual's is the short way down, "
            "without which a deep network's lower layers learn nothing.",
            terms_with(lambda ds, dy, rate, seed: (dropout_backward(ds, rate, seed), 0 * ds)),
        ),
        Slip(
            "dropout is applied to the residual too",
            "only the sub-layer's output was dropped; the residual passes untouched.",
            terms_with(lambda ds, dy, rate, seed: (dropout_backward(ds, rate, seed),) * 2),
        ),
        Slip(
            "dropout is left out on the way back",
            "x went through dropout before the sum: what was set to 0 has no gradient, and the "
            "rest has the factor 1 / (1 - rate).",
            branch(untouched),
        ),
        Slip(
            "the gradient is shared out between the two terms",
            "a sum copies its gradient: each term gets all of it, not half.",
            terms_with(
                lambda ds, dy, rate, seed: (dropout_backward(ds, rate, seed) / 2, ds / 2)
            ),
        ),
        Slip(
            "another mask than the forward's",
            "the seed was remembered for this: dropout_backward(ds, rate, seed).",
            branch(lambda ds, rate, seed: dropout_backward(ds, rate, seed + 1)),
        ),
        Slip(
            "the factor 1 / (1 - rate) is forgotten",
            "what was kept was multiplied by it on the way up, and that is its slope.",
            branch(unscaled),
        ),
        Slip(
            "dropout comes before LayerNorm's backward",
            "backwards go in the reverse order: LayerNorm was last, so it is first, and it gets "
            "dy as it came.",
            dropout_too_early,
        ),
        Slip(
            "the residual's gradient goes around LayerNorm",
            "in BERT the residual is added before LayerNorm, so its gradient is ds, not dy; "
            "around it goes the residual of a GPT.",
            terms_with(lambda ds, dy, rate, seed: (dropout_backward(ds, rate, seed), dy)),
        ),
        Slip(
            "the sub-layer's gradient goes around LayerNorm",
            "x was normalised together with the residual: dropout's backward gets ds, not dy.",
            terms_with(lambda ds, dy, rate, seed: (dropout_backward(dy, rate, seed), ds)),
        ),
        Slip(
            "the two gradients are added too early",
            "dx still has to go back through the sub-layer; only below it do the two meet.",
            terms_with(
                lambda ds, dy, rate, seed: (
                    dropout_backward(ds, rate, seed), ds + dropout_backward(ds, rate, seed)
                )
            ),
        ),
    ),
    sizes=lambda dy, x_hat, rstd, weight, rate, seed: {
        "the number of rows": dy.size // dy.shape[-1],
        "C": dy.shape[-1],
    },
)  # fmt: skip

EXERCISES = (FORWARD, BACKWARD, ADD_NORM)
