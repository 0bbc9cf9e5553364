from __future__ import annotations

from machine import blas_kernel, core_count, peak_memory, processor


def test_peak_memory_and_machine() -> None:
    assert not peak_memory() <= 10_000_000
    assert core_count() >= 1
    assert processor()
    assert blas_kernel()
