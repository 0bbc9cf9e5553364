import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.arrays import (
    IGNORED,
    aligned_zeros,
    check_array,
    check_float,
    check_ids,
    check_number,
    check_shape,
)

SHAPES = st.lists(st.integers(0, 3), max_size=4).map(tuple)


@pytest.mark.parametrize(
    ("shape", "expected", "fits"),
    [
        ((), (), True),
        ((2, 3), (2, 3), True),
        ((2, 3), (None, 3), True),
        ((2, 3), (None, None), True),
        ((0, 3), (None, 3), True),
        ((2, 3), (3, 2), False),
        ((2, 3), (2,), False),
        ((2, 3), (2, 3, 1), False),
        ((1, 3), (2, 3), False),
        ((), (1,), False),
    ],
)
def test_check_shape(shape, expected, fits):
    if fits:
        check_shape("x", np.zeros(shape), expected)
    else:
        with pytest.raises(ValueError, match="x has shape"):
            check_shape("x", np.zeros(shape), expected)


def test_wrong_shape_names_both():
    with pytest.raises(ValueError, match=r"dy has shape \(2, 1\), expected \(any, 3\)"):
        check_shape("dy", np.zeros((2, 1)), (None, 3))


@given(SHAPES, SHAPES)
def test_shapes_fit_exactly_if_equal(shape, other):
    if shape == other:
        check_shape("x", np.zeros(shape), other)
    else:
        with pytest.raises(ValueError, match="x has shape"):
            check_shape("x", np.zeros(shape), other)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_ids_of_every_integer_type(dtype):
    check_ids("ids", np.array([0, 4, 2], dtype), 5)
    check_ids("ids", np.zeros((0, 3), dtype), 5)
    with pytest.raises(ValueError, match="ids holds 5, expected 0 to 4"):
        check_ids("ids", np.array([[0, 5], [1, 2]], dtype), 5)


def test_ids_below_zero():
    # NumPy would take the last row, a compiled kernel the memory before the table
    with pytest.raises(ValueError, match="ids holds -1, expected 0 to 4"):
        check_ids("ids", np.array([0, -1]), 5)


def test_ignored_labels():
    labels = np.array([0, IGNORED, 4])
    check_ids("labels", labels, 5, ignored=True)
    with pytest.raises(ValueError, match=r"labels holds -100, expected 0 to 4$"):
        check_ids("labels", labels, 5)
    with pytest.raises(ValueError, match=r"labels holds -99, expected 0 to 4 or -100 \(ignored\)"):
        check_ids("labels", np.array([IGNORED, -99]), 5, ignored=True)


@pytest.mark.parametrize("ids", [np.zeros(2), np.zeros(2, bool), np.zeros(0), np.array(["a"])])
def test_ids_that_are_not_integers(ids):
    with pytest.raises(TypeError, match=r"ids has dtype .*, expected integers: use .astype"):
        check_ids("ids", ids, 5)


@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=6), st.integers(1, 2**31 - 1))
def test_ids_pass_exactly_within_the_table(numbers, upper):
    ids = np.array(numbers, np.int32)
    if all(0 <= number < upper for number in numbers):
        check_ids("ids", ids, upper)
    else:
        with pytest.raises(ValueError, match="ids holds"):
            check_ids("ids", ids, upper)


def test_check_float():
    single, double = np.zeros(2, np.float32), np.zeros(2)
    for array in (single, double):
        check_float("x", array)
        check_float("x", array, like=array)
    with pytest.raises(TypeError, match="x is float32 but the parameters are float64: convert"):
        check_float("x", single, like=double)
    with pytest.raises(TypeError, match="x is float64 but the parameters are float32: convert"):
        check_float("x", double, like=single)
    for dtype in (np.float16, np.int32, np.bool_, np.complex128):
        with pytest.raises(TypeError, match="expected float32 or float64"):
            check_float("x", np.zeros(2, dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 1, 7, 1000])
def test_aligned_zeros(size, dtype):
    for alignment in (64, 4096):
        array = aligned_zeros(size, dtype, alignment)
        assert (array.shape, array.dtype) == ((size,), dtype)
        assert array.ctypes.data % alignment == 0 or size == 0
        assert not array.any()
        array[:] = 1.0  # all of it is ours to write


@pytest.mark.parametrize("thing", [[1, 2], None, "ab", 3, (1.0,)])
def test_what_is_no_array_is_named(thing):
    for check in (
        lambda: check_array("x", thing),
        lambda: check_shape("x", thing, (2,)),
        lambda: check_ids("x", thing, 5),
        lambda: check_float("x", thing),
    ):
        with pytest.raises(TypeError, match=r"x is a \w+, expected an array: use np.asarray\(x\)"):
            check()
    check_array("x", np.float32(3))


def test_numbers():
    for number in (0, 1.5, True, np.nan, np.float32(2), np.int64(3)):
        check_number("eps", number)
    for thing in ("1.5", b"1", None, [1.0], (1,), 1j):
        with pytest.raises(TypeError, match=r"eps is .*, expected a number"):
            check_number("eps", thing)
