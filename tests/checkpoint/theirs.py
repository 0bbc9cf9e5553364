"""What the comparisons with transformers share."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from minibert.config import BertConfig
from minibert.models.pretraining import HEADS, BertForPreTraining, Head

ROWS = ["The dog runs, dogs [MASK]!", "été 三", "a"]
PAIRS = ["dog", "the dog runs", "b"]


@contextmanager
def no_complaint(transformers: Any) -> Iterator[None]:
    """Fail on anything that transformers would tell its user: a warning or a line of its log."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = transformers.logging.get_logger()
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        logger.removeHandler(handler)
    assert lines == []
    assert [str(warning.message) for warning in caught] == []


def random_model(
    config: BertConfig, dtype: type = np.float32, heads: Collection[Head] = HEADS
) -> BertForPreTraining:
    model = BertForPreTraining(config, "numpy", dtype, heads=heads)
    generator = np.random.default_rng(4)
    for parameter in model.params:
        mean = 1.0 if parameter.spec.init == "ones" else 0.0
        parameter.value[...] = generator.normal(mean, 0.2, parameter.shape)
    return model


def inputs_of(torch: Any, batch: Any) -> dict[str, Any]:
    """Return what their models are called with."""
    return {
        "input_ids": torch.from_numpy(batch.input_ids).long(),
        "token_type_ids": torch.from_numpy(batch.token_type_ids).long(),
        "attention_mask": torch.from_numpy(batch.attention_mask).long(),
    }
