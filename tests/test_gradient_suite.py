"""The gradient suite on every backend; ``tests/gallery`` and ``tests/mutation`` test the suite."""

import numpy as np
import pytest

from minibert.gradcheck import GradCheckError
from minibert.ops import Ops, get_ops
from tests.gradients import HARD, SUITE, checks_for
from tests.gradients.problems import Problem, all_together, each_tensor, same


@pytest.mark.parametrize("name", SUITE)
def test_suite_passes(ops: Ops, name: str) -> None:
    SUITE[name](ops)


def test_checks_of_a_function_come_first() -> None:
    first, second, *_ = checks_for("Pooler.backward")
    assert first.name == "Pooler"
    assert second.covers != first.covers
    assert len(checks_for("Pooler.backward")) == len(SUITE)


def wrong_problem(factor: float) -> Problem:
    x, y = np.array([0.5, -1.0]), np.array([2.0, 3.0, 4.0])
    return Problem(
        lambda: float(np.sum(x**3) + np.sum(y * y)), {"x": (x, 3 * x * x), "y": (y, factor * y)}
    )


@pytest.mark.parametrize("compare", [each_tensor, all_together])
def test_lines_name_the_wrong_tensor(compare) -> None:
    compare(wrong_problem(2))
    with pytest.raises(GradCheckError, match="gradient of y is wrong along a random direction"):
        compare(wrong_problem(2.001))
    with pytest.raises(GradCheckError, match="gradient of y is wrong"):
        compare(wrong_problem(float("nan")))


@pytest.mark.parametrize("factor", [0.0, 1.0001])
def test_gradient_of_one_tensor_lost_or_scaled(factor: float) -> None:
    check = SUITE["EncoderLayer"]
    assert check.problem is not None
    problem = check.problem(get_ops("numpy"), HARD)
    assert len(problem.tensors) == 17
    for name, (value, gradient) in problem.tensors.items():
        if name not in problem.absolute:
            one = problem._replace(tensors={name: (value, factor * gradient)})
            with pytest.raises(GradCheckError, match=f"gradient of {name} is wrong"):
                each_tensor(one)


def test_gradient_of_a_tensor_that_has_none() -> None:
    """The keys' bias adds the same to all scores of a query, and softmax takes no notice."""
    check = SUITE["EncoderLayer"]
    assert check.problem is not None
    problem = check.problem(get_ops("numpy"), HARD)
    [name] = problem.absolute
    value, gradient = problem.tensors[name]
    gradient += 1e-6
    with pytest.raises(GradCheckError, match=f"gradient of {name} is wrong"):
        each_tensor(problem)


def test_values_are_put_back() -> None:
    problem = wrong_problem(2)
    before = {name: value.copy() for name, (value, _) in problem.tensors.items()}
    all_together(problem)
    for name, (value, _) in problem.tensors.items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("got", [[1.0, 2.1], [1.0], [1.0, float("nan")]])
def test_same_raises_on_other_values_shapes_and_nan(got: list[float]) -> None:
    same("it", [1.0, 2.0], [1.0, 2.0])
    with pytest.raises(GradCheckError, match="it is wrong"):
        same("it", got, [1.0, 2.0])


def test_hard_is_the_default_in_every_way() -> None:
    assert not any(HARD[:-1])
    assert HARD.dtype == np.float64
