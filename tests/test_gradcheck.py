"""The checker is checked: it accepts what is right, rejects what is wrong, and says why."""

import math
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibert.arrays import IGNORED, Array
from minibert.config import BertConfig
from minibert.gradcheck import (
    GradCheckError,
    KinkError,
    check_gradients,
    check_layer,
    check_model,
    check_pair,
    format_table,
    four_point,
    numeric_gradient,
)
from minibert.gradcheck.differences import slope_jump
from minibert.keys import Key
from minibert.layers.linear import Linear
from minibert.models.pretraining import BertForPreTraining
from minibert.ops import get_ops
from minibert.params import ParamStore

SMALL, LARGE = (5, 4), (11, 23)  # checked element by element, and along directions


def problem(shape: tuple[int, ...], seed: int = 0) -> tuple[Array, Callable[[], float], Array]:
    """A value, a loss that reads it, and its gradient by hand.

    loss = Σ c sin(x) + (Σ d x)², so gradient = c cos(x) + 2 d Σ d x: no element is like another.
    """
    rng = np.random.default_rng(seed)
    x, c, d = (np.array(drawn) for drawn in rng.standard_normal((3, *shape)))
    d = d / math.sqrt(d.size)

    def loss() -> float:
        return float(np.sum(c * np.sin(x)) + np.sum(d * x) ** 2)

    return x, loss, c * np.cos(x) + 2 * d * np.sum(d * x)


def expect_wrong(loss, value, gradient, **options) -> GradCheckError:
    with pytest.raises(GradCheckError) as caught:
        check_gradients(loss, {"x": (value, gradient)}, **options)
    assert not isinstance(caught.value, KinkError)
    return caught.value


# ---------------------------------------------------------------------------------------------
# right gradients pass


@pytest.mark.parametrize(
    "shape", [(), (1,), (7,), SMALL, (2, 3, 5), (1, 1, 1, 1), LARGE, (70, 1, 3)]
)
def test_right_gradient_passes_with_a_wide_margin(shape):
    x, loss, gradient = problem(shape)
    [result] = check_gradients(loss, {"x": (x, gradient)})
    assert result.passed
    assert result.error < 1e-10
    assert (result.name, result.shape, result.limit) == ("x", shape, 1e-9)
    assert result.checked == (f"all {x.size}" if x.size <= 64 else "12 directions + 16")


@settings(max_examples=25)
@given(
    scale=st.sampled_from([1e-6, 1e-3, 1.0, 1e3, 1e6]),
    size=st.sampled_from([1e-4, 0.02, 1.0, 100.0]),
    seed=st.integers(0, 999),
)
def test_neither_scale_of_value_nor_of_loss_matters(scale, size, seed):
    # loss = scale · Σ c (x / size)³, so that the natural step is a share of ``size``
    rng = np.random.default_rng(seed)
    x, c = size * rng.standard_normal(9), rng.standard_normal(9)
    gradient = scale * 3 * c * x**2 / size**3
    check_gradients(lambda: scale * float(np.sum(c * (x / size) ** 3)), {"x": (x, gradient)})


def test_small_weights_that_hardly_matter():
    # At initialisation attention looks everywhere alike, and the gradient of its weights is 1e-5
    # of the loss: the step must grow far beyond the weights, or rounding drowns the slope.
    x = 0.02 * np.random.default_rng(0).standard_normal(9)
    gradient = 1e-5 * np.cos(x)
    check_gradients(lambda: 5.0 + 1e-5 * float(np.sin(x).sum()), {"x": (x, gradient)}, limit=1e-8)


def test_several_tensors_and_views():
    store = np.random.default_rng(0).standard_normal((6, 10))
    a, b = store[::2, 1::3], store.T[2]  # neither is contiguous
    weights = np.random.default_rng(1).standard_normal(a.shape)

    def loss() -> float:
        return float(np.sum(weights * a**2) + np.sum(b) ** 3)

    # row 2 of the transpose is column 2 of the store, which a does not hold: it has 1, 4 and 7
    results = check_gradients(
        loss, {"a": (a, 2 * weights * a), "b": (b, np.full(6, 3 * b.sum() ** 2))}
    )
    assert [result.name for result in results] == ["a", "b"]


def test_true_gradient_zero_is_checked_absolutely():
    x, y = np.ones(3), np.random.default_rng(0).standard_normal(5)

    def loss() -> float:  # like softmax, unmoved by a shift
        e = np.exp(y + x[0])
        return float((e / e.sum()) @ np.arange(5))

    p = np.exp(y) / np.exp(y).sum()
    dy = p * (np.arange(5) - p @ np.arange(5))
    rounding = np.array([1e-17, 0, 0])
    with pytest.raises(GradCheckError, match=r"name it in absolute|is wrong"):
        check_gradients(loss, {"x": (x, rounding), "y": (y, dy)})
    results = check_gradients(loss, {"x": (x, rounding), "y": (y, dy)}, absolute=["x"])
    assert [result.absolute for result in results] == [True, False]
    with pytest.raises(
        GradCheckError, match=r"gradient of x is wrong at \[1\].*true gradient is 0"
    ):
        check_gradients(loss, {"x": (x, np.array([0, 1e-6, 0])), "y": (y, dy)}, absolute=["x"])
    with pytest.raises(GradCheckError, match="named in absolute, as having a true gradient of 0"):
        check_gradients(loss, {"x": (x, rounding), "y": (y, dy)}, absolute=["x", "y"])


def test_a_gradient_that_is_exactly_zero_on_both_sides_passes():
    x = np.ones(4)
    [result] = check_gradients(lambda: 3.0, {"x": (x, np.zeros(4))})
    assert result.error == 0.0


def test_empty_tensor_passes():
    [result] = check_gradients(lambda: 3.0, {"x": (np.zeros((0, 4)), np.zeros((0, 4)))})
    assert (result.passed, result.checked) == (True, "empty")


# ---------------------------------------------------------------------------------------------
# wrong gradients fail


def one_row(g):
    g[3] *= 1.5


def swap_rows(g):
    g[[0, 1]] = g[[1, 0]]


def one_element(g):
    g[-1, 2] += 1e-7 * np.abs(g).max()


def beyond_the_first(g):
    g[1:, 1:] *= 1.001


def later_elements(g):
    g.reshape(-1)[g.size // 2 :] *= -1


def odd_columns(g):
    g[:, 1::2] = 0.0


PLANTED = {
    "sign": lambda g: np.negative(g, out=g),
    "1 % too large": lambda g: np.multiply(g, 1.01, out=g),
    "1e-8 too small": lambda g: np.multiply(g, 1 - 1e-8, out=g),
    "missing factor ½": lambda g: np.multiply(g, 2.0, out=g),
    "all zero": lambda g: g.fill(0.0),
    "constant added": lambda g: np.add(g, 1e-3, out=g),
    "mean taken off": lambda g: np.subtract(g, g.mean(), out=g),
    "one wrong row": one_row,
    "one wrong element, by 1e-7": one_element,
    "two rows swapped": swap_rows,
    "right in the first row and column only": beyond_the_first,
    "right in the first half only": later_elements,
    "odd columns missing": odd_columns,
    "absolute value": lambda g: np.abs(g, out=g),
    "noise of 1e-7": lambda g: np.add(
        g, 1e-7 * np.random.default_rng(9).normal(size=g.shape), out=g
    ),
}


@pytest.mark.parametrize("shape", [SMALL, LARGE, (421, 3)], ids=["small", "large", "huge"])
@pytest.mark.parametrize("name", PLANTED)
def test_planted_error_is_found(name, shape):
    x, loss, gradient = problem(shape)
    PLANTED[name](gradient)
    error = expect_wrong(loss, x, gradient)
    assert error.results[0].verdict == "wrong"
    assert not error.results[0].passed


def test_dropped_term_is_found():
    x, c = np.random.default_rng(0).standard_normal((2, *SMALL))
    expect_wrong(lambda: float(np.sum(c * np.sin(x)) + 0.1 * np.sum(x) ** 2), x, c * np.cos(x))


def test_transpose_is_found_and_named():
    x, loss, gradient = problem((5, 5))
    error = expect_wrong(loss, x, gradient.T.copy())
    assert "it is the transpose of the right value" in str(error)


def test_scatter_that_forgets_repeated_ids_is_found():
    table, c = np.random.default_rng(0).standard_normal((2, 9, 4))
    ids = np.array([3, 1, 3, 8, 3, 0, 1, 3, 8])
    right, wrong = np.zeros((9, 4)), np.zeros((9, 4))
    np.add.at(right, ids, c)
    wrong[ids] += c

    def loss() -> float:
        return float(np.sum(c * table[ids]))

    check_gradients(loss, {"table": (table, right)})
    error = expect_wrong(loss, table, wrong)
    assert "3 of 9 rows are wrong: 1, 3, 8" in str(error)


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), rows=st.integers(30, 140), data=st.data())
def test_one_wrong_element_anywhere_is_found(seed, rows, data):
    # Neither among the largest gradients nor, most often, among the elements drawn: the
    # directions must show it.
    x, loss, gradient = problem((rows, 7), seed)
    i, j = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, 6))
    gradient[i, j] += 1e-6 * np.abs(gradient).max()
    error = expect_wrong(loss, x, gradient)
    assert error.results[0].at == (i, j)


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda g: -g, "the sign is turned"),
        (lambda g: 2 * g, "twice the right value: added two times, or not zeroed before"),
        (lambda g: 0.25 * g, "0.25 times the right value everywhere: look for a scale"),
        (lambda g: 0 * g, "backward gives 0 everywhere looked at"),
        (lambda g: g + 0.1, "off by the same amount everywhere"),
        (lambda g: g * (np.arange(5) != 2)[:, None], "1 of 5 rows are wrong: 2"),
        (lambda g: g * 1.1 + 0.3 * np.sin(g), "of 20 elements looked at are wrong"),
    ],
)
def test_hint_names_the_kind_of_mistake(change, hint):
    x, loss, gradient = problem(SMALL)
    assert hint in str(expect_wrong(loss, x, change(gradient)))


@pytest.mark.parametrize("shape", [SMALL, (50, 20), (601, 7)])
def test_message_names_the_worst_tensor_and_element(shape):
    x, loss, gradient = problem(shape)
    other = np.random.default_rng(5).standard_normal(3)
    right = gradient[4, 2]
    gradient[4, 2] += 0.5 * np.abs(gradient).max()
    gradient[1, 1] += 0.001
    with pytest.raises(GradCheckError) as caught:
        check_gradients(
            lambda: loss() + float(np.sum(other**2)),
            {"good": (other, 2 * other), "bad": (x, gradient), "off": (other, 2.001 * other)},
        )
    message, results = str(caught.value), caught.value.results
    assert "the gradient of bad is wrong at [4, 2]" in message
    assert f"backward gives {gradient[4, 2]:.10g}" in message
    assert f"differences give {right:.6g}"[:-1] in message
    assert "limit 1e-09" in message
    assert "Also wrong: off" in message
    assert [result.passed for result in results] == [True, False, False]
    assert results[1].at == (4, 2)
    assert results[1].analytic == gradient[4, 2]
    assert results[1].numeric == pytest.approx(right, rel=1e-8)
    assert results[1].error == pytest.approx(
        abs(gradient[4, 2] - right) / max(np.abs(gradient).max(), abs(right)), rel=1e-6
    )


def test_weaker_checks_let_mistakes_through():
    # Why the upstream gradient is random: all ones make softmax's true gradient 0, and a backward
    # without its second term passes if compared with an absolute tolerance.
    x = np.array([0.5, -1.0, 2.0])
    p = np.exp(x) / np.exp(x).sum()
    ones = np.ones(3)
    assert np.abs(p * (ones - ones @ p)).max() < 1e-15
    with pytest.raises(GradCheckError):
        check_pair(
            lambda x: np.exp(x) / np.exp(x).sum(),
            lambda dy, x: dy * np.exp(x) / np.exp(x).sum(),
            {"x": x},
        )


# ---------------------------------------------------------------------------------------------
# what cannot be checked is said


def test_float32_is_refused_with_the_reason():
    x = np.ones(3)
    reason = r"is float32, expected float64: rounding in float32 is divided by the step"
    with pytest.raises(TypeError, match="x " + reason):
        check_gradients(lambda: 0.0, {"x": (x.astype(np.float32), x)})
    with pytest.raises(TypeError, match="the gradient of x " + reason):
        check_gradients(lambda: 0.0, {"x": (x, x.astype(np.float32))})
    with pytest.raises(TypeError, match="x is int64, expected float64"):
        check_gradients(lambda: 0.0, {"x": (np.arange(3), x)})
    with pytest.raises(TypeError, match="the loss is not float64"):
        check_gradients(
            lambda: np.float32(0),  # pyright: ignore[reportArgumentType]
            {"x": (x, x)},
        )


@pytest.mark.parametrize(
    ("dtype", "h", "expected"),
    [(np.float32, 1e-6, 6.6e-2), (np.float64, 1e-5, 1.3e-11), (np.float64, 1e-2, 1.7e-5),
     (np.float64, 1e-8, 6e-9)],
)  # fmt: skip
def test_why_float32_is_refused(dtype, h, expected):
    # d exp(x) at 0.7 by two points: in float32 a right gradient is 7 % off.
    x, h = dtype(0.7), dtype(h)
    slope = (np.exp(x + h) - np.exp(x - h)) / (2 * h)
    error = abs(float(slope) / math.exp(float(x)) - 1)
    assert error == pytest.approx(expected, rel=0.2)


def test_four_points_beat_two():
    def f(t: float) -> float:
        return math.exp(0.7 + t)

    errors = {h: abs(four_point(f, h) / math.exp(0.7) - 1) for h in (0.1, 0.05, 1e-3)}
    # The first term left out is h⁴ f⁽⁵⁾ / 30, and f⁽⁵⁾ = f for exp
    assert errors[0.1] == pytest.approx(0.1**4 / 30, rel=0.02)
    assert errors[0.1] / errors[0.05] == pytest.approx(16, rel=0.02)
    assert errors[1e-3] < 1e-12


def test_four_points_are_exact_for_a_quartic():
    # (-2h)⁴ and (2h)⁴ cancel, as all even powers do; of the odd ones h and h³ come out exactly
    assert four_point(lambda t: 7 + 3 * t - 5 * t**2 + 2 * t**3 + t**4, 0.25) == 3.0


@pytest.mark.parametrize("shape", [(), (1,), (2, 3, 5)])
def test_numeric_gradient_leaves_x_as_it_was(shape):
    x, _, _ = problem(shape)
    before = x.tobytes()
    dx = numeric_gradient(lambda x: float(np.sum(np.sin(x)) ** 2), x, 1e-3)
    assert np.allclose(dx, 2 * np.sum(np.sin(x)) * np.cos(x), rtol=1e-9)
    assert dx.shape == shape
    assert x.tobytes() == before


def test_numeric_gradient_says_where_the_loss_is_not_a_number():
    with pytest.raises(GradCheckError, match=r"nan when x\[1\] moves by"):
        numeric_gradient(lambda x: math.nan if x[1] > 0 else 0.0, np.zeros(2), 1e-3)


def test_jump_stays_at_a_kink_and_shrinks_without_one():
    assert slope_jump(lambda t: t * t - 3 * abs(t), 1.0) == -4.0
    assert [slope_jump(abs, h) for h in (0.5, 0.25)] == [2.0, 2.0]
    assert [slope_jump(lambda t: t * t, h) for h in (0.5, 0.25)] == [1.0, 0.5]


def test_float32_inside_the_forward_is_suspected():
    x = np.random.default_rng(0).standard_normal(5)
    with pytest.raises(GradCheckError, match="Is part of the forward in float32"):
        check_gradients(
            lambda: float(np.sum(np.sin(x.astype(np.float32)), dtype=np.float64)),
            {"x": (x, np.cos(x))},
        )


def test_loss_that_is_not_deterministic():
    x, rng = np.ones(3), np.random.default_rng(0)
    with pytest.raises(GradCheckError, match=r"not deterministic.*Pass a fixed key for dropout"):
        check_gradients(lambda: float(rng.random()), {"x": (x, x)})


def test_loss_that_drifts():
    x, calls = np.ones(3), []

    def loss() -> float:  # the same number twice, then another: a cache that fills, say
        calls.append(1)
        return float(x.sum()) + (len(calls) > 20)

    with pytest.raises(GradCheckError):
        check_gradients(loss, {"x": (x, np.ones(3))})

    x = np.ones(1)
    other = np.zeros(1)

    def tampering() -> float:  # moves something else along
        if x[0] != 1.0:
            other[0] = 1.0
        return float(x[0] + other[0] * 1e-9)

    with pytest.raises(GradCheckError, match=r"before the check and .* after it.*forward keep"):
        check_gradients(tampering, {"x": (x, np.ones(1))}, limit=1e-6)


@pytest.mark.parametrize("distance", [0.0, 1e-9, 1e-7])
@pytest.mark.parametrize("given_slope", [0.0, 1.0, 0.5])
def test_kink_is_not_called_a_wrong_gradient(distance, given_slope):
    x = np.array([distance, 1.5, -2.0, 0.7])
    weights = np.array([3.0, 1.0, 1.0, 1.0])
    gradient = weights * np.array([given_slope, 1.0, 0.0, 1.0])
    tensors = {"x": (x, gradient)}

    def loss() -> float:
        return float(np.sum(weights * np.maximum(x, 0)))

    if given_slope == 0.5:  # what the differences give; nothing to object to
        check_gradients(loss, tensors, limit=1e-4)
    else:
        with pytest.raises(
            KinkError, match=r"near a kink of ReLU or max.*move the input"
        ) as caught:
            check_gradients(loss, tensors)
        assert "x cannot be checked at [0]" in str(caught.value)
        assert "wrong" not in str(caught.value)
        assert caught.value.results[0].verdict == "kink"


def test_kink_at_some_distance_is_stepped_around():
    x = np.array([1e-3, 1.5, -2.0])
    gradient = np.array([1.0, 1.0, 0.0])
    check_gradients(lambda: float(np.maximum(x, 0).sum()), {"x": (x, gradient)})


def test_wrong_gradient_beside_a_kink_is_wrong():
    x = np.array([0.0, 1.5, -2.0])
    error = expect_wrong(lambda: float(np.maximum(x, 0).sum()), x, np.array([0.0, 1.1, 0.0]))
    assert "the gradient of x is wrong at [1]" in str(error)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_named(bad):
    x = np.ones((2, 3))
    wrong = x.copy()
    wrong[1, 2] = bad
    with pytest.raises(GradCheckError, match=rf"the gradient of x is {bad} at \[1, 2\]"):
        check_gradients(lambda: float(x.sum()), {"x": (x, wrong)})
    with pytest.raises(GradCheckError, match=rf"^x is {bad} at \[1, 2\]"):
        check_gradients(lambda: 0.0, {"x": (wrong, x)})
    with pytest.raises(GradCheckError, match=f"the loss is {bad} at the given point"):
        check_gradients(lambda: bad, {"x": (x, x)})
    with pytest.raises(GradCheckError, match=rf"the loss is {bad} when x\[0, 0\] moves by"):
        check_gradients(lambda: bad if x[0, 0] != 1.0 else float(x.sum()), {"x": (x, x)}, step=1e-3)


def test_loss_that_is_not_finite_around_the_point():
    x = np.ones(1)
    with pytest.raises(GradCheckError, match="not finite in any neighbourhood"):
        check_gradients(lambda: math.nan if x[0] != 1.0 else 1.0, {"x": (x, x)})


def test_long_steps_that_leave_the_domain_are_passed_over():
    x = np.array([1e-2, 5.0])  # log is NaN for a step of 1/8
    check_gradients(lambda: float(np.log(x).sum()), {"x": (x, 1 / x)})


def test_wrong_arguments_are_named():
    x = np.ones((2, 3))
    with pytest.raises(ValueError, match="nothing to check"):
        check_gradients(lambda: 0.0, {})
    with pytest.raises(ValueError, match=r"gradient of x has shape \(3,\), but x has \(2, 3\)"):
        check_gradients(lambda: 0.0, {"x": (x, np.ones(3))})
    with pytest.raises(ValueError, match=r"absolute names \['y'\]"):
        check_gradients(lambda: 0.0, {"x": (x, x)}, absolute=["y"])
    with pytest.raises(ValueError, match="x is read-only"):
        check_gradients(lambda: 0.0, {"x": (np.broadcast_to(1.0, (2, 3)), x)})
    with pytest.raises(TypeError, match=r"the loss has shape \(2, 3\), expected one number"):
        check_gradients(lambda: x, {"x": (x, x)})  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="backward returned 1 gradients for 2 inputs: a, b"):
        check_pair(lambda a, b: a + b, lambda dy, a, b: dy, {"a": x, "b": x})


# ---------------------------------------------------------------------------------------------
# nothing is left behind


class StopError(Exception):
    pass


@pytest.mark.parametrize("shape", [SMALL, LARGE])
@pytest.mark.parametrize("error", [StopError, KeyboardInterrupt, None])
@pytest.mark.parametrize("calls", [3, 17, 40, 130])
def test_values_are_put_back_bit_for_bit(shape, error, calls):
    x, loss, gradient = problem(shape)
    x[0, 0], x[1, 1], x[2, 2] = -0.0, 5e-324, 1e-300
    before, gradient_before = x.tobytes(), gradient.tobytes()
    count = 0

    def interrupted() -> float:
        nonlocal count
        count += 1
        if error and count == calls:
            raise error
        return loss()

    # the gradient is no longer right at the changed places, so the check itself fails too
    with pytest.raises(error or GradCheckError):
        check_gradients(interrupted, {"x": (x, gradient)})
    assert x.tobytes() == before
    assert gradient.tobytes() == gradient_before


def test_same_key_same_result():
    x, loss, gradient = problem(LARGE)
    first, again, other = (
        check_gradients(loss, {"x": (x, gradient)}, key=Key(k)) for k in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_step_is_obeyed():
    # loss = x⁵ at 1: four points give 5 - 4 h⁴ (h⁴ f⁽⁵⁾ / 30 with f⁽⁵⁾ = 120)
    x = np.array([1.0])
    with pytest.raises(GradCheckError) as caught:
        check_gradients(lambda: float(x[0] ** 5), {"x": (x, np.array([5.0]))}, step=0.5)
    assert caught.value.results[0].numeric == pytest.approx(5 - 4 * 0.5**4, rel=1e-12)


def test_search_by_halves_ends():
    x, loss, gradient = problem((601, 7))
    gradient[500, 3] += 1.0
    error = expect_wrong(loss, x, gradient, max_elements=0)
    assert error.results[0].at == (500, 3)


def test_sizes_are_obeyed():
    x, loss, gradient = problem((5, 6))
    [result] = check_gradients(loss, {"x": (x, gradient)}, max_elements=29, directions=3)
    assert result.checked == "3 directions + 16"
    [result] = check_gradients(loss, {"x": (x, gradient)}, max_elements=30)
    assert result.checked == "all 30"


# ---------------------------------------------------------------------------------------------
# pairs, layers, models


def test_pair_leaves_the_inputs_alone_and_draws_the_upstream():
    x = np.random.default_rng(0).standard_normal(5)
    kept, seen = x.copy(), []

    def backward(dy, x):
        seen.append(dy)
        return dy * 2 * x

    check_pair(lambda x: x**2, backward, {"x": x}, key=Key(3))
    np.testing.assert_array_equal(x, kept)
    assert seen[0].shape == (5,)
    assert len(np.unique(seen[0])) == 5


def test_pair_with_a_number_as_output():
    check_pair(
        lambda a, b: float(a @ b),
        lambda dloss, a, b: (dloss * b, dloss * a),
        {"a": np.arange(3.0), "b": np.array([1.0, -2.0, 0.5])},
    )


def linear(wrong: str = "") -> tuple[Linear, ParamStore]:
    """A linear layer in float64; ``wrong`` names a mistake in its backward."""

    def backward(dy, x, weight):
        dx, dweight, dbias = dy @ weight, dy.T @ x, dy.sum(axis=0)
        match wrong:
            case "input":
                dx *= 1.01
            case "weight":
                dweight = dweight[::-1].copy()
            case "bias":
                dbias = dy.mean(axis=0)
        return dx, dweight, dbias

    ops = SimpleNamespace(linear_forward=lambda x, w, b: x @ w.T + b, linear_backward=backward)
    store = ParamStore(np.float64)
    layer = Linear(store.scope("part"), 3, 2, ops)  # pyright: ignore[reportArgumentType]
    store.allocate()
    store.value[:] = np.random.default_rng(0).standard_normal(store.value.size)
    return layer, store


@pytest.mark.parametrize(
    ("wrong", "named"), [("input", "x"), ("weight", "part.weight"), ("bias", "part.bias")]
)
def test_layer_check_finds_each_gradient(wrong, named):
    x = np.random.default_rng(1).standard_normal((5, 3))
    results = check_layer(*linear(), {"x": x})
    assert [result.name for result in results] == ["x", "part.weight", "part.bias"]
    with pytest.raises(GradCheckError, match=f"the gradient of {named} is wrong") as caught:
        check_layer(*linear(wrong), {"x": x})
    assert [result.name for result in caught.value.results if not result.passed] == [named]


def test_layer_check_clears_old_gradients_and_keeps_values():
    layer, store = linear()
    store.grad[:] = 1e9
    kept = store.value.copy()
    check_layer(layer, store, {"x": np.random.default_rng(1).standard_normal((5, 3))})
    np.testing.assert_array_equal(store.value, kept)


def test_layer_in_float32_is_refused():
    store = ParamStore(np.float32)
    layer = Linear(
        store.scope("part"),
        3,
        2,
        SimpleNamespace(  # pyright: ignore[reportArgumentType]
            linear_forward=lambda x, w, b: x @ w.T + b,
            linear_backward=lambda dy, x, w: (
                (dy @ w).astype("f"),
                dy.T.astype("f") @ x,
                dy.sum(0),
            ),
        ),
    )
    store.allocate()
    with pytest.raises(TypeError, match="float32"):
        check_layer(layer, store, {"x": np.ones((5, 3), np.float32)})


CONFIG = BertConfig(
    vocab_size=11,
    hidden_size=6,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=7,
    max_position_embeddings=6,
    hidden_dropout_prob=0.2,
    attention_probs_dropout_prob=0.2,
)


def pretraining(ops) -> tuple[BertForPreTraining, SimpleNamespace]:
    """A model with random gains and biases; a batch with padding, repeated and ignored ids."""
    model = BertForPreTraining(CONFIG, ops=ops, dtype=np.float64)
    rng = np.random.default_rng(0)
    for parameter in model.params:
        mean = 1.0 if parameter.spec.init == "ones" else 0.0
        parameter.value[...] = rng.normal(mean, 0.5, parameter.shape)
    return model, SimpleNamespace(
        input_ids=np.array([[2, 5, 5, 7, 3], [2, 9, 3, 0, 0]], np.int32),
        token_type_ids=np.array([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]], np.int32),
        attention_mask=np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], bool),
        masked_positions=np.array([1, 3, 3, 6], np.int32),
        masked_labels=np.array([4, 0, IGNORED, 9], np.int32),
        next_labels=np.array([1, IGNORED], np.int32),
    )


def test_whole_model(ops):
    model, batch = pretraining(ops)
    results = check_model(model, batch, Key(5), max_elements=4, directions=4)
    assert [result.name for result in results] == [parameter.name for parameter in model.params]
    assert [result.name for result in results if result.absolute] == [
        "bert.encoder.layer.0.attention.self.key.bias"
    ]
    assert {result.limit for result in results} == {1e-8}


MISTAKES = {
    "embedding_backward": lambda right: (
        lambda *given: (
            0.999 * right(*given)[0],
            *right(*given)[1:],
        )
    ),
    "tanh_backward": lambda right: lambda dy, y: dy * (1 - y),
    "vocab_cross_entropy_backward": lambda right: (
        lambda dloss, dlogits, x, table: (
            right(dloss, dlogits, x, table)[0],
            np.zeros_like(table),  # one of the tied table's two gradients is missing
            right(dloss, dlogits, x, table)[2],
        )
    ),
}


@pytest.mark.parametrize(
    "name",
    [
        "embedding_backward",
        "vocab_cross_entropy_backward",
        pytest.param("tanh_backward", marks=pytest.mark.slow),
    ],
)
def test_whole_model_with_one_mistake(name):
    ops = get_ops("numpy")
    table = {key: getattr(ops, key) for key in dir(ops) if not key.startswith("_")}
    table[name] = MISTAKES[name](table[name])
    model, batch = pretraining(SimpleNamespace(**table))
    with pytest.raises(GradCheckError, match="is wrong") as caught:
        check_model(model, batch, Key(5), max_elements=0, directions=2)
    wrong = {result.name for result in caught.value.results if not result.passed}
    if name == "tanh_backward":  # behind the pooler everything is wrong, but not the heads
        assert {"bert.pooler.dense.weight", "bert.embeddings.LayerNorm.bias"} < wrong
        assert not any(tensor.startswith("cls.") for tensor in wrong)
    else:
        assert wrong == {"bert.embeddings.word_embeddings.weight"}


# ---------------------------------------------------------------------------------------------
# the table


def test_table_is_aligned_plain_text():
    x, loss, gradient = problem(SMALL)
    good = check_gradients(loss, {"a.long.name": (x, gradient)})
    bad = expect_wrong(loss, x, -gradient).results
    zero = np.ones(())
    absolute = check_gradients(lambda: 1.0, {"z": (zero, np.zeros(()))}, absolute=["z"])
    lines = format_table([*good, *bad, *absolute]).split("\n")
    assert lines[0].split() == [
        "tensor",
        "shape",
        "checked",
        "error",
        "limit",
        "worst",
        "at",
        "verdict",
    ]
    assert lines[1].startswith("a.long.name  5×4 ")
    assert lines[1].endswith("ok")
    assert lines[2].startswith("x            5×4 ")
    assert lines[2].endswith("WRONG")
    assert "abs" in lines[3]
    assert "one number" in lines[3]
    assert (
        len({line.index(word) for line, word in zip(lines[1:4], ["1e-09"] * 3, strict=True)}) == 1
    )
    assert lines[-1].startswith("2 of 3 tensors passed, largest error ")
    assert all(line == line.rstrip() for line in lines)


def test_public_names():
    import minibert.gradcheck

    for name in minibert.gradcheck.__all__:
        assert getattr(minibert.gradcheck, name).__doc__
