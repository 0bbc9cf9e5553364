from __future__ import annotations

import numpy as np
import pytest
from ladder import STEPS


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 5, 3), (29, 18, 67)])
def test_every_step_is_a_product(name: str, shape: tuple[int, int, int]) -> None:
    M, K, N = shape
    generator = np.random.default_rng(M)
    a = generator.standard_normal((M, K), dtype=np.float32)
    b = generator.standard_normal((K, N), dtype=np.float32)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    c = STEPS[name](a, b)
    assert c.shape == (M, N)
    assert c.dtype == np.float32
    assert np.max(np.abs(c - expected)) <= 1e-6 * K * np.max(np.abs(expected))
