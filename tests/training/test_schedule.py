"""The learning rate over a run, at values worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.training.schedule import warmup_linear


@pytest.mark.parametrize(
    ("progress", "warmup", "factor"),
    [
        (0.0, 0.4, 0.0),
        (0.1, 0.4, 0.25),  # 0.1 / 0.4
        (0.4, 0.4, 1.0),
        (0.7, 0.4, 0.5),  # 0.3 / 0.6
        (1.0, 0.4, 0.0),
        (0.0, 0.0, 1.0),  # no warm-up: the peak at once, and nothing divided by 0
        (0.5, 0.0, 0.5),
        (0.5, 1.0, 0.5),  # nothing but warm-up
        (1.0, 1.0, 1.0),
        (1.3, 0.1, 0.0),  # the clock ran over
    ],
)
def test_factor(progress: float, warmup: float, factor: float) -> None:
    assert warmup_linear(progress, warmup) == pytest.approx(factor, abs=1e-15)


@given(st.floats(0, 2), st.floats(0, 1))
def test_factor_lies_between_0_and_1(progress: float, warmup: float) -> None:
    assert 0 <= warmup_linear(progress, warmup) <= 1
