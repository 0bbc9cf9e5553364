from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from minibert.arrays import Array
from minibert.checkpoint.tensors import open_tensors, read_tensors, write_tensors

ARRAYS: dict[str, Array] = {
    "a.weight": np.array([[1.5, -0.0, np.nan], [np.inf, 1e-45, 3.0]], np.float32),
    "b": np.array([7, -(2**62)], np.int64),
    "scalar": np.array(2.5, np.float32),
    "empty": np.zeros((0, 3), np.float32),
    "double": np.array([1 / 3], np.float64),
    "half": np.array([1 / 3, -65504], np.float16),
    "ids": np.array([[36917]], np.int32),
    "transposed": np.arange(6, dtype=np.float32).reshape(2, 3).T,
}


def write_raw(path: Path, header: object, content: bytes = b"") -> Path:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(raw).to_bytes(8, "little") + raw + content)
    return path


def assert_same(got: Array, wanted: Array) -> None:
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    assert got.tobytes() == wanted.tobytes()


def test_round_trip_is_exact(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x", ARRAYS, {"format": "pt"})
    tensors, metadata = read_tensors(tmp_path / "x")
    assert metadata == {"format": "pt"}
    assert list(tensors) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert_same(tensors[name], array)


def test_published_library_reads_our_file(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x", ARRAYS, {"format": "pt"})
    loaded = load_file(tmp_path / "x")
    assert set(loaded) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert_same(loaded[name], array)


def test_published_librarys_file_is_read(tmp_path: Path) -> None:
    arrays = {name: np.ascontiguousarray(array) for name, array in ARRAYS.items()}
    save_file(arrays, tmp_path / "x", {"state": "三"})
    tensors, metadata = read_tensors(tmp_path / "x")
    assert metadata == {"state": "三"}
    for name, array in arrays.items():
        assert_same(tensors[name], array)


def test_same_arrays_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("x", "y"):
        write_tensors(tmp_path / name, ARRAYS, {"one": "1", "two": "2", "three": "3"})
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


def test_bfloat16_by_hand(tmp_path: Path) -> None:
    header = {"x": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}}
    tensors, _ = read_tensors(write_raw(tmp_path / "x", header, b"\x49\x40"))
    assert_same(tensors["x"], np.array([3.140625], np.float32))


def test_every_bfloat16_keeps_its_bits(tmp_path: Path) -> None:
    patterns = np.arange(2**16, dtype="<u2")
    header = {"x": {"dtype": "BF16", "shape": [2**8, 2**8], "data_offsets": [0, 2**17]}}
    tensors, _ = read_tensors(write_raw(tmp_path / "x", header, patterns.tobytes()))
    bits = tensors["x"].view(np.uint32).reshape(-1)
    np.testing.assert_array_equal(bits >> 16, patterns)
    assert not (bits & 0xFFFF).any()


def test_every_cut_is_one_clear_line(tmp_path: Path) -> None:
    write_tensors(tmp_path / "whole", {"a": np.ones(3, np.float32), "b": np.ones(2, np.float32)})
    whole = (tmp_path / "whole").read_bytes()
    path = tmp_path / "cut"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=f"cut is cut short: it has {length} bytes") as info:
            read_tensors(path)
        assert "\n" not in str(info.value)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"{", "header is not JSON"),
        (b"\xff\xff", "header is not JSON"),
        (b"[1]", "not an object"),
        ({"__metadata__": 3}, "not an object"),
        (b"[" * 100_000, "header is not JSON"),
        ({"x": 3}, "has 3 for x"),
        ({"x": {"dtype": "F32", "shape": [float("inf")], "data_offsets": [0, 4]}}, "for x"),
        ({"x": {"dtype": "F32", "shape": [1]}}, "for x"),
        ({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}, "for x"),
        ({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, "bytes 0 to 4"),
        ({"x": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}}, "bytes 4 to 0"),
        ({"x": {"dtype": "F32", "shape": [-1, -1], "data_offsets": [0, 4]}}, "bytes 0 to 4"),
        ({"x": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}, "bytes -4 to 0"),
        ({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, "cut short"),
        ({"x": {"dtype": "Q4", "shape": [64], "data_offsets": [0, 32]}}, "cut short"),
    ],
)
def test_damaged_header(tmp_path: Path, header: object, message: str) -> None:
    path = write_raw(tmp_path / "x", header, b"1234")
    with pytest.raises(ValueError, match=message):
        read_tensors(path)


def test_reading_into_an_array(tmp_path: Path) -> None:
    write_tensors(tmp_path / "x", {"x": np.arange(6, dtype=np.float32).reshape(2, 3)})
    outs = [np.zeros((2, 3), np.float32), np.zeros((2, 3)), np.zeros((3, 2), np.float32).T]
    with open_tensors(tmp_path / "x") as (tensors, _):
        for out in outs:  # straight, converted, and into an array that is not contiguous
            tensors["x"].read_into(out)
    for out in outs:
        np.testing.assert_array_equal(out, [[0, 1, 2], [3, 4, 5]])


@pytest.mark.skipif(sys.platform == "win32", reason="an open file keeps its name there")
def test_a_file_replaced_while_it_is_read(tmp_path: Path) -> None:
    """All numbers are of one save."""
    write_tensors(tmp_path / "x", {"a": np.zeros(3), "b": np.zeros(3)})
    with open_tensors(tmp_path / "x") as (tensors, _):
        first = tensors["a"].read()
        write_tensors(tmp_path / "x", {"a": np.ones(3), "b": np.ones(3)})
        np.testing.assert_array_equal(tensors["b"].read(), first)


def test_not_a_safetensors_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P.")
    with pytest.raises(ValueError, match="not a safetensors file"):
        read_tensors(tmp_path / "x")
    (tmp_path / "x").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n")
    with pytest.raises(ValueError, match="git lfs pull"):
        read_tensors(tmp_path / "x")


def test_unknown_dtype_is_named(tmp_path: Path) -> None:
    header = {"x": {"dtype": "F8_E4M3", "shape": [3], "data_offsets": [0, 3]}}
    path = write_raw(tmp_path / "x", header, b"123")
    with open_tensors(path) as (tensors, _):
        assert (tensors["x"].dtype, tensors["x"].shape) == ("F8_E4M3", (3,))
    with pytest.raises(ValueError, match="x has dtype F8_E4M3"):
        read_tensors(path)
    with pytest.raises(TypeError, match="x has dtype complex64"):
        write_tensors(tmp_path / "y", {"x": np.ones(1, np.complex64)})
    assert not (tmp_path / "y").exists()


@given(st.binary(max_size=80))
def test_any_bytes_give_a_value_error_or_tensors(tmp_path_factory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    with suppress(ValueError):
        read_tensors(path)


@given(st.binary(max_size=60))
def test_any_header_gives_a_value_error_or_tensors(tmp_path_factory, content: bytes) -> None:
    path = write_raw(tmp_path_factory.getbasetemp() / "any", content)
    with suppress(ValueError):
        read_tensors(path)
