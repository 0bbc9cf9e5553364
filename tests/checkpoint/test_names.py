from __future__ import annotations

import pytest

from minibert.checkpoint.names import HEADS, canonical, group, heads_among


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


def test_a_head_is_there_with_any_of_its_tensors() -> None:
    assert heads_among(["bert.embeddings.LayerNorm.bias", "encoder.layer.0.output.bias"]) == []
    assert heads_among(["pooler.dense.bias"]) == ["bert.pooler."]
    assert heads_among(["cls.predictions.decoder.weight"]) == ["cls.predictions."]
    everything = ["qa_outputs.bias", "classifier.weight", "cls.seq_relationship.bias", "x.pooler."]
    assert heads_among(everything) == list(HEADS[2:])
