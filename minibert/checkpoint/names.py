"""The names that published BERTs have for their tensors, brought to one.

Eight years of programs wrote the same model in several ways:

    embeddings.…, encoder.…, pooler.…    the encoder saved without its task: "bert." is missing
    ….LayerNorm.gamma, ….LayerNorm.beta  TensorFlow's names for the weight and the bias
    bert.embeddings.position_ids         0, 1, 2, …: a constant that older programs saved
    cls.predictions.decoder.weight       a second copy of the tied token embedding
    cls.predictions.decoder.bias         a second copy of cls.predictions.bias
"""

from __future__ import annotations

from collections.abc import Iterable

TASK_HEADS = ("classifier.", "qa_outputs.")
"""What fine-tuning adds: nothing of it is there before."""

HEADS = ("bert.pooler.", "cls.predictions.", "cls.seq_relationship.", *TASK_HEADS)
"""What a checkpoint may have more or less of, because it was trained for something else."""

CONSTANTS = ("embeddings.position_ids", "embeddings.token_type_ids")
ENCODER = ("embeddings.", "encoder.", "pooler.")
ENDINGS = {"gamma": "weight", "beta": "bias"}
TIED = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}


def canonical(name: str) -> str | None:
    """Return minibert's name for a stored tensor, None for a constant that is not needed.

    >>> canonical("encoder.layer.0.output.LayerNorm.gamma")
    'bert.encoder.layer.0.output.LayerNorm.weight'
    >>> canonical("cls.predictions.decoder.bias")
    'cls.predictions.bias'
    """
    if name.startswith(ENCODER):
        name = "bert." + name
    if name.removeprefix("bert.") in CONSTANTS:
        return None
    stem, dot, ending = name.rpartition(".")
    name = stem + dot + ENDINGS.get(ending, ending)
    return TIED.get(name, name)


def group(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the stored names by canonical name; two or more are copies of one tensor."""
    groups: dict[str, list[str]] = {}
    for name in names:
        ours = canonical(name)
        if ours is not None:
            groups.setdefault(ours, []).append(name)
    return groups


def heads_among(names: Iterable[str]) -> list[str]:
    """Return the prefixes of the heads that have a tensor, any at all, among these.

    >>> heads_among(["encoder.layer.0.output.dense.bias", "pooler.dense.bias", "classifier.bias"])
    ['bert.pooler.', 'classifier.']
    """
    full = ["bert." + name if name.startswith(ENCODER) else name for name in names]
    return [head for head in HEADS if any(name.startswith(head) for name in full)]


def bare(heads: Iterable[str]) -> str:
    """Return heads as an error or a warning names them.

    >>> bare(["bert.pooler.", "classifier."])
    'bert.pooler, classifier'
    """
    return ", ".join(head.removesuffix(".") for head in heads)
