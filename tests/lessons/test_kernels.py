"""Lesson 15's answers are compiled kernels without the compiler, loaded only when asked for."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from minibert.course.exercises import kernels
from minibert.course.exercises.kernels import NORMALISE, SUMS


def test_other_lessons_do_not_wait_for_numba() -> None:
    program = (
        "import sys; from minibert.course.exercises import exercise_named; "
        "exercise_named('layernorm_backward'); assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_share_has_as_many_rows_as_in_the_library() -> None:
    from minibert.ops.cpu.linear import SHARE

    assert kernels.SHARE == SHARE


def test_the_answers_are_the_librarys_code() -> None:
    from minibert.ops.cpu import linear, norm

    for exercise, kernel in ((NORMALISE, norm.normalise), (SUMS, linear.sum_columns)):
        assert exercise.answer.__code__ is getattr(kernel, "py_func", kernel).__code__  # type: ignore[attr-defined]
        assert exercise.answer.__module__ == kernel.__module__


def test_a_plain_kernel_returns_what_a_compiled_one_does() -> None:
    from minibert.ops.cpu.linear import column_sums

    x = np.random.default_rng(0).normal(size=(150, 3))
    partial, total = np.zeros((3, 3)), np.zeros(3)
    SUMS.answer(x, partial, total)
    np.testing.assert_allclose(total, column_sums(x), rtol=1e-12)
