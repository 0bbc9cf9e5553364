"""gradcheck: its table, its verdict, and that a wrong backward is named."""

from __future__ import annotations

import numpy as np
import pytest

from minibert.arrays import IGNORED
from minibert.cli.gradcheck import checked_config, troubled_batch
from minibert.keys import Key

from .conftest import Command, assert_refused


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """One layer, so that a check takes a few seconds."""
    from minibert.config import BertConfig

    config = BertConfig(11, 4, 1, 2, 5, max_position_embeddings=9)
    monkeypatch.setattr("minibert.cli.gradcheck.checked_config", lambda preset: config)


def test_all_is_well(cli: Command, small: None) -> None:
    result = cli("gradcheck", "--backend", "numpy")
    assert result.status == 0, result.out
    assert "numpy: 30 of 30 tensors passed" in result.out
    assert "bert.encoder.layer.0.attention.self.key.bias" in result.out
    assert "WRONG" not in result.out


def test_a_wrong_backward_is_named(
    cli: Command, small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from minibert.ops import reference

    def wrong(*arguments):
        dx, dweight1, dbias1, *rest = right(*arguments)
        return dx, dweight1, dbias1 * (1 + 1e-6), *rest

    right = reference.feedforward_backward
    monkeypatch.setattr(reference, "feedforward_backward", wrong)
    result = cli("gradcheck", "--backend", "numpy")
    assert result.status == 1
    assert "numpy: 29 of 30" in result.out
    name = "bert.encoder.layer.0.intermediate.dense.bias"
    wrong_lines = [line for line in result.out.splitlines() if line.endswith("WRONG")]
    assert len(wrong_lines) == 1
    assert wrong_lines[0].startswith(name)
    assert f"FAILED: the gradient of {name} is wrong" in result.out


def test_the_batch_has_all_that_can_go_wrong() -> None:
    batch = troubled_batch(checked_config("test"), Key(0))
    assert not batch.attention_mask.all()
    real = batch.input_ids[batch.attention_mask]
    assert len(np.unique(real)) < real.size
    assert IGNORED in batch.masked_labels
    assert IGNORED in batch.next_labels
    assert len(np.unique(batch.masked_positions)) < batch.masked_positions.size
    assert set(np.unique(batch.token_type_ids)) == {0, 1}


def test_an_unknown_preset_or_backend_is_refused(cli: Command) -> None:
    assert_refused(cli("gradcheck", "--preset", "giant"), "giant", "tiny")
    assert_refused(cli("gradcheck", "--backend", "abacus"), "--backend")
