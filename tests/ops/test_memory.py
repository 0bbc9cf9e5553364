"""Memory of results is used again, but never while anybody can still see it."""

import threading

import numpy as np
import pytest

from minibert.arrays import Array
from minibert.ops.cpu import memory
from minibert.ops.cpu.memory import Pool, fit, fit_ids, rows

F4 = np.dtype(np.float32)


def take(pool: Pool, count: int) -> Array:
    return pool.take((count,), F4, 4 * count)


def address(array: Array) -> int:
    return array.__array_interface__["data"][0]


def test_a_dropped_block_is_used_again() -> None:
    pool = Pool()
    first = take(pool, 100_000)
    place = address(first)
    assert place % 64 == 0
    del first
    assert address(take(pool, 100_000)) == place


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x[5:9],
        lambda x: x.reshape(100, -1).T[3],
        lambda x: x.view(np.int32)[::7],
        lambda x: memoryview(x),
        lambda x: np.asarray(memoryview(x)[3:]),
        lambda x: [x[:1]],
    ],
)
def test_a_block_stays_while_any_view_lives(view) -> None:
    pool = Pool()
    first = take(pool, 100_000)
    place = address(first)
    kept = view(first)
    del first
    assert address(take(pool, 100_000)) != place
    del kept
    assert address(take(pool, 100_000)) == place


def test_sizes_that_are_near_share_blocks() -> None:
    pool = Pool()
    place = address(take(pool, 100_000))
    assert address(take(pool, 70_000)) == place
    assert address(take(pool, 131_072)) == place
    assert address(take(pool, 131_073)) != place
    assert address(take(pool, 10_000)) != place


def test_idle_blocks_are_given_back(monkeypatch) -> None:
    monkeypatch.setattr(memory, "SPARE", 1 << 20)
    pool = Pool()
    kept = take(pool, 200_000)
    place = address(kept)
    arrays = [take(pool, 100_000) for _ in range(5)]
    del arrays
    take(pool, 50_000)
    assert sum(len(blocks) for blocks in pool.blocks.values()) == 2  # kept, and the newest
    assert pool.held == sum(size * len(blocks) for size, blocks in pool.blocks.items())
    assert address(take(pool, 200_000)) != place


def test_threads_get_blocks_of_their_own() -> None:
    pool, found = Pool(), []

    def work(number: int) -> None:
        for _ in range(200):
            array = take(pool, 10_000)
            array[:] = number
            found.append(bool((array == number).all()))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 800
    assert all(found)


def test_fit_copies_only_what_a_kernel_cannot_read() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert fit(x) is x
    frozen = x.copy()
    frozen.setflags(write=False)
    unaligned = np.frombuffer(bytearray(49), np.uint8)[1:].view(np.float32)
    for array in (x.T, x[:, ::2], frozen, unaligned):
        copy = fit(array)
        assert copy.flags.carray
        np.testing.assert_array_equal(copy, array)
    assert type(fit(x.view(np.matrix))) is np.ndarray


def test_rows_and_ids() -> None:
    assert rows(np.zeros((2, 3, 4))).shape == (6, 4)
    assert rows(np.zeros(4)).shape == (1, 4)
    assert rows(np.zeros((0, 4))).shape == (0, 4)
    assert rows(np.zeros((2, 0))).shape[1] == 0
    assert fit_ids(np.array([[1, 2]])).dtype == np.int32
