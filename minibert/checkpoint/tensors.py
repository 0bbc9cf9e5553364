"""The safetensors format, read and written: named arrays in one file, and no code in it.

    8 bytes      N, the length of the header, little-endian
    N bytes      JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …}
    the rest     the numbers themselves, little-endian, one array after the other

``"__metadata__"`` in the header may hold texts by name.  A pickle, the older form of checkpoints,
runs whatever code its author put in; here there is nothing to run, and since the offsets are
known an array can be read straight into its place.

The format is written out here because the package's NumPy interface has no bfloat16, gives its
files to their owner alone, and leaves temporary files under random names when it is killed.
Source: https://huggingface.co/docs/safetensors, "Format".
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minibert.arrays import Array
from minibert.files import replacing

STORED = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4"}
"""The dtypes that are understood, and how NumPy reads their bytes."""

MAX_HEADER = 100_000_000  # bytes, the format's own limit


class Tensor(NamedTuple):
    """One array of an open file, yet to be read."""

    name: str
    dtype: str  # as stored: a key of STORED, or one that is unknown
    shape: tuple[int, ...]
    file: BufferedReader
    start: int  # byte of the file

    def read(self) -> Array:
        """Return the numbers, bfloat16 widened to float32.  ValueError on an unknown dtype.

        A bfloat16 is the upper half of a float32, so widening is a shift by 16 bits, and exact:
        0x4049 becomes 0x40490000, which is 3.140625.
        """
        if self.dtype not in STORED:
            raise ValueError(
                f"{self.name} has dtype {self.dtype}, expected one of {', '.join(STORED)}"
            )
        numbers = np.empty(self.shape, STORED[self.dtype])
        self.fill(numbers)
        if self.dtype == "BF16":
            return (numbers.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return numbers

    def read_into(self, out: Array) -> None:
        """Put the numbers into an array of the same shape, converted to its dtype."""
        same = STORED.get(self.dtype) == out.dtype.newbyteorder("<").str and self.dtype != "BF16"
        if same and out.flags.c_contiguous:
            self.fill(out)
        else:
            out[...] = self.read()

    def fill(self, out: Array) -> None:
        """Read the bytes straight to where they are wanted: a mapping would cost a copy more."""
        self.file.seek(self.start)
        if self.file.readinto(out.reshape(-1).view(np.uint8).data) != out.nbytes:
            raise ValueError(f"{self.file.name} became shorter while it was read: read it again")


@contextmanager
def open_tensors(path: Path) -> Iterator[tuple[dict[str, Tensor], dict[str, str]]]:
    """Open a file and yield its tensors, yet to be read, and its metadata.

    Within the block the file stays open: if a new one takes its name meanwhile, all numbers still
    come from the old.  Every size is checked against the file's before any number is read.  Raises
    ValueError, one line, on a file that is cut short or no safetensors file.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = file.read(8)
        length = int.from_bytes(first, "little")
        if first.startswith(b"version "):
            raise ValueError(f"{path} is a Git LFS pointer, not the weights: run 'git lfs pull'")
        if size >= 8 and length > MAX_HEADER:
            raise ValueError(
                f"{path} is not a safetensors file: its header would be {length} bytes"
            )
        begin = 8 + length
        if size < begin:
            raise ValueError(cut_short(path, size, begin))
        header = parse_header(path, file.read(length))
        metadata = header.pop("__metadata__", {})
        yield {name: locate(file, size, name, header[name], begin) for name in header}, metadata


def read_tensors(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Return all arrays of a file, and its metadata; raises as ``open_tensors`` does."""
    with open_tensors(path) as (tensors, metadata):
        return {name: tensor.read() for name, tensor in tensors.items()}, metadata


def parse_header(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        header = json.loads(raw.decode("utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: its header is not JSON ({error})") from None
    if not isinstance(header, dict) or not isinstance(header.get("__metadata__", {}), dict):
        raise ValueError(f"{path} is damaged: its header is not an object of names")
    return header


def locate(file: BufferedReader, size: int, name: str, entry: Any, begin: int) -> Tensor:
    """Return the tensor that a header's ``entry`` puts somewhere after byte ``begin``."""
    try:
        dtype, shape = str(entry["dtype"]), tuple(int(n) for n in entry["shape"])
        start, stop = (int(n) for n in entry["data_offsets"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise ValueError(f"{file.name} is damaged: its header has {entry!r} for {name}") from None
    expected = stop - start  # the width of an unknown dtype is unknown too
    if dtype in STORED:
        expected = math.prod(shape) * np.dtype(STORED[dtype]).itemsize
    if not 0 <= start <= stop or min(shape, default=0) < 0 or stop - start != expected:
        raise ValueError(
            f"{file.name} is damaged: {name} is {dtype} {shape}, but has bytes {start} to {stop}"
        )
    if begin + stop > size:
        raise ValueError(cut_short(file.name, size, begin + stop))
    return Tensor(name, dtype, shape, file, begin + start)


def cut_short(path: Path | str, size: int, expected: int) -> str:
    return f"{path} is cut short: it has {size} bytes of at least {expected}"


def write_tensors(
    path: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None
) -> None:
    """Write arrays by name; the old file stays until the new one is whole (see ``replacing``).

    The same arrays give the same bytes.
    """
    names = {np.dtype(code): name for name, code in STORED.items() if name != "BF16"}
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    start = 0
    for name, array in arrays.items():
        stored = array.dtype.newbyteorder("<")
        if stored not in names:
            raise TypeError(
                f"{name} has dtype {array.dtype}, expected {', '.join(map(str, names))}"
            )
        stop = start + array.nbytes
        header[name] = {
            "dtype": names[stored],
            "shape": list(array.shape),
            "data_offsets": [start, stop],
        }
        start = stop
    raw = json.dumps(header, separators=(",", ":")).encode("utf-8")
    raw += b" " * (-(8 + len(raw)) % 64)  # so that the numbers begin at a cache line
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array, array.dtype.newbyteorder("<")).data)
