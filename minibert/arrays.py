"""Arrays: the letters used for their sizes, and the checks made before any of them is read.

Shapes are written with these letters everywhere in minibert:

    B  batch: sequences in one step          F  feed-forward width (4 C in BERT)
    T  tokens in one sequence                V  vocabulary size
    S  tokens of the keys and values         L  layers
    C  hidden width                          M  masked positions in one batch
    H  attention heads                       N  rows, when their meaning does not matter
    D  width of one head, C / H

Compiled kernels do not check bounds: a wrong id would read foreign memory without a word.  So
every id, label and shape passes through one of the checks below first, in Python.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

IGNORED = -100
"""The label of a row that does not enter the loss (the convention of PyTorch and Hugging Face)."""


def check_array(name: str, array: Any) -> None:
    """Raise TypeError unless ``array`` is one; a list would do here and fail further down."""
    if not hasattr(array, "dtype"):
        kind = type(array).__name__
        raise TypeError(f"{name} is a {kind}, expected an array: use np.asarray({name})")


def check_shape(name: str, array: Array, expected: tuple[int | None, ...]) -> None:
    """Raise ValueError unless ``array`` has the ``expected`` shape; None stands for any size."""
    check_array(name, array)
    shape = array.shape
    if shape == expected:  # mostly; what follows takes longer
        return
    if len(shape) != len(expected) or any(
        want is not None and have != want for have, want in zip(shape, expected, strict=True)
    ):
        wanted = ", ".join("any" if size is None else str(size) for size in expected)
        raise ValueError(f"{name} has shape {tuple(shape)}, expected ({wanted})")


def check_ids(name: str, ids: Array, upper: int, *, ignored: bool = False) -> None:
    """Raise unless ``ids`` are integers in [0, upper), or IGNORED where ``ignored`` allows it."""
    check_array(name, ids)
    if ids.dtype.kind not in "iu":
        raise TypeError(f"{name} has dtype {ids.dtype}, expected integers: use .astype(np.int32)")
    if ids.size == 0 or (ids.min() >= 0 and ids.max() < upper):
        return
    wrong = (ids < 0) | (ids >= upper)
    if ignored:
        wrong &= ids != IGNORED
    if wrong.any():
        worst = int(ids[wrong][0])
        also = f" or {IGNORED} (ignored)" if ignored else ""
        raise ValueError(f"{name} holds {worst}, expected 0 to {upper - 1}{also}")


def check_float(name: str, array: Array, like: Array | None = None) -> None:
    """Raise TypeError unless ``array`` is float32 or float64, and of the dtype of ``like``."""
    check_array(name, array)
    if array.dtype not in (np.float32, np.float64):
        raise TypeError(f"{name} has dtype {array.dtype}, expected float32 or float64")
    if like is not None and array.dtype != like.dtype:
        raise TypeError(
            f"{name} is {array.dtype} but the parameters are {like.dtype}: convert one of them"
        )


def check_number(name: str, value: Any) -> None:
    """Raise TypeError unless ``value`` is a number; ``float`` would read one out of a text."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name} is {value!r}, expected a number")


def aligned_zeros(size: int, dtype: np.dtype[Any] | type, alignment: int = 64) -> Array:
    """Return a vector of zeros whose first element lies on an ``alignment``-byte boundary.

    64 bytes are a cache line, and the width of the widest vector register.  The memory is taken
    from the system only as it is written.
    """
    dtype = np.dtype(dtype)
    raw = np.zeros(size * dtype.itemsize + alignment, dtype=np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + size * dtype.itemsize].view(dtype)
