"""Bad input is refused in Python, before a kernel could read foreign memory."""

import numpy as np
import pytest


def f4(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def ids(*values: int) -> np.ndarray:
    return np.array([values], np.int32)


LABELS = np.array([0, 1], np.int32)
BAD = {
    "id too large": ("embedding_forward", (ids(0, 9), ids(0, 0), f4(9, 4), f4(5, 4), f4(2, 4))),
    "id negative": ("embedding_forward", (ids(0, -1), ids(0, 0), f4(9, 4), f4(5, 4), f4(2, 4))),
    "segment": ("embedding_forward", (ids(0, 1), ids(0, 2), f4(9, 4), f4(5, 4), f4(2, 4))),
    "too long": ("embedding_forward", (ids(0, 1), ids(0, 0), f4(9, 4), f4(1, 4), f4(2, 4))),
    "scatter id": ("embedding_backward", (f4(1, 2, 4), ids(0, 9), ids(0, 0), (9, 5, 2))),
    "scatter shape": ("embedding_backward", (f4(1, 3, 4), ids(0, 1), ids(0, 0), (9, 5, 2))),
    "label too large": ("cross_entropy_forward", (f4(2, 5), np.array([0, 5], np.int32))),
    "label negative": ("cross_entropy_forward", (f4(2, 5), np.array([0, -1], np.int32))),
    "label count": ("cross_entropy_forward", (f4(3, 5), LABELS)),
    "vocab label": (
        "vocab_cross_entropy_forward", (f4(2, 4), f4(5, 4), f4(5), np.array([0, 7], np.int32))
    ),
    "vocab bias": ("vocab_cross_entropy_forward", (f4(2, 4), f4(5, 4), f4(4), LABELS)),
    "vocab width": ("vocab_cross_entropy_forward", (f4(2, 3), f4(5, 4), f4(5), LABELS)),
    "heads": ("attention_forward", (f4(1, 2, 6), f4(1, 2, 6), f4(1, 2, 6), None, 4, 0.0, 0)),
    "keys": ("attention_forward", (f4(1, 2, 6), f4(1, 2, 5), f4(1, 2, 5), None, 2, 0.0, 0)),
    "values": ("attention_forward", (f4(1, 2, 6), f4(1, 2, 6), f4(1, 3, 6), None, 2, 0.0, 0)),
    "mask": (
        "attention_forward",
        (f4(1, 2, 6), f4(1, 2, 6), f4(1, 2, 6), np.ones((1, 1, 3), bool), 2, 0.0, 0),
    ),
    "rate": ("dropout_forward", (f4(2, 2), 1.0, 0)),
    "seed": ("dropout_forward", (f4(2, 2), 0.1, -1)),
    "large seed": ("dropout_forward", (f4(2, 2), 0.1, 2**64)),
    "no key": ("attention_forward", (f4(1, 2, 6), f4(1, 0, 6), f4(1, 0, 6), None, 2, 0.0, 0)),
    "no width": ("attention_forward", (f4(1, 2, 0), f4(1, 3, 0), f4(1, 3, 0), None, 2, 0.0, 0)),
    "gradient's label": ("cross_entropy_backward", (1.0, f4(2, 5), np.array([0, -1], np.int32))),
    "feedforward's way back": (
        "feedforward_forward", (f4(2, 4), f4(5, 4), f4(5), f4(5, 4), f4(4), "gelu")
    ),
    "feedforward's name": (
        "feedforward_forward", (f4(2, 4), f4(5, 4), f4(5), f4(4, 5), f4(4), "swish")
    ),
    "feedforward's gradient": (
        "feedforward_backward",
        (f4(3, 4), f4(2, 4), f4(2, 5), f4(2, 5), f4(5, 4), f4(4, 5), "gelu"),
    ),
    "flat table": ("embedding_forward", (ids(0, 1), ids(0, 0), f4(9), f4(5, 4), f4(2, 4))),
    "narrow table": ("embedding_forward", (ids(0, 1), ids(0, 0), f4(9, 4), f4(5, 1), f4(2, 4))),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_values_are_refused(ops, case: str) -> None:
    name, arguments = BAD[case]
    with pytest.raises(ValueError, match=r"expected|does not divide|max_position"):
        getattr(ops, name)(*arguments)


def test_bad_types_are_refused(ops) -> None:
    with pytest.raises(TypeError, match="expected integers"):
        ops.cross_entropy_forward(f4(1, 2), np.array([0.0]))
    x = f4(1, 2, 6)
    with pytest.raises(TypeError, match="expected bool"):
        ops.attention_forward(x, x, x, np.ones((1, 1, 2), np.float32), 2, 0.0, 0)
