from __future__ import annotations

import pytest

from minibert.checkpoint.names import absent_heads, canonical, group


@pytest.mark.parametrize(
    ("stored", "ours"),
    [
        ("bert.pooler.dense.weight", "bert.pooler.dense.weight"),
        ("pooler.dense.weight", "bert.pooler.dense.weight"),
        ("encoder.layer.10.output.dense.bias", "bert.encoder.layer.10.output.dense.bias"),
        ("bert.embeddings.LayerNorm.gamma", "bert.embeddings.LayerNorm.weight"),
        ("embeddings.LayerNorm.beta", "bert.embeddings.LayerNorm.bias"),
        ("cls.predictions.transform.LayerNorm.beta", "cls.predictions.transform.LayerNorm.bias"),
        ("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
        ("cls.predictions.decoder.bias", "cls.predictions.bias"),
        ("bert.embeddings.position_ids", None),
        ("embeddings.position_ids", None),
        ("embeddings.token_type_ids", None),
        ("classifier.weight", "classifier.weight"),  # unknown: stays, and is refused later
        ("gamma", "weight"),
    ],
)
def test_canonical(stored: str, ours: str | None) -> None:
    assert canonical(stored) == ours


def test_copies_of_one_tensor_are_grouped() -> None:
    names = ["cls.predictions.decoder.bias", "bert.embeddings.position_ids", "cls.predictions.bias"]
    assert group(names) == {"cls.predictions.bias": [names[0], names[2]]}


def test_a_head_is_absent_only_as_a_whole() -> None:
    declared = [
        "bert.embeddings.LayerNorm.bias",
        "bert.pooler.dense.bias",
        "cls.predictions.bias",
        "cls.predictions.transform.dense.bias",
    ]
    assert absent_heads(declared, declared) == ["bert.pooler.", "cls.predictions."]
    assert absent_heads([declared[3]], declared) == []
    assert absent_heads([declared[0]], declared) == []
