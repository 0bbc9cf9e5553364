"""Entities: the spans that a sentence's tags describe, and how many of them are found.

An entity counts as found only if its kind, its first and its last word are all right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class Entity(NamedTuple):
    """The words [start, stop) of a sentence, which name something of this kind."""

    kind: str
    start: int
    stop: int


class KindScores(NamedTuple):
    """The scores of one kind of entity, and how many of them are right (the support)."""

    precision: float
    recall: float
    f1: float
    support: int


class EntityScores(NamedTuple):
    """The scores over all entities together, and those of each kind, sorted by its name."""

    precision: float
    recall: float
    f1: float
    per_kind: dict[str, KindScores]


def entities(
    tags: Sequence[str],  # one for each word of a sentence
) -> list[Entity]:  # in the order of the words
    """Return the entities of one sentence, read as the script conlleval reads them.

    ``B-kind`` begins an entity, ``I-kind`` goes on with it, ``E-kind`` ends it; ``S-kind`` is one
    of a single word and ``O`` is outside of all.  So BIO and IOBES tags are both understood.  A
    model may also write what no scheme allows, and no tag is dropped or repaired.  The rule:

        a word goes on with the entity of the word before it if it is tagged I or E, the word
        before it B or I, and both with the same kind; any other word but O begins a new one

    Hence ``I-PER`` after ``O`` or after ``B-LOC`` begins an entity, as does every ``B-PER``.

        B-PER I-PER O I-LOC I-ORG   =>   PER [0, 2), LOC [3, 4), ORG [4, 5)

    No tags give no entities.  Raises ValueError for a tag that is neither ``O`` nor one of the four
    letters, a hyphen and a kind; what follows the first hyphen is the kind, as in ``B-geo-city``.

    Source: the script conlleval of the shared tasks of CoNLL-2000 and CoNLL-2003 (Tjong Kim Sang
    and De Meulder 2003); the default mode of seqeval (Nakayama 2018).
    """
    return _read("tags", tags)


def entity_scores(
    predicted: Sequence[Sequence[str]],  # sentences of tags
    right: Sequence[Sequence[str]],  # the same sentences
) -> EntityScores:
    """Return precision, recall and F1 of the predicted entities, over all kinds and for each.

        precision = hits / predicted,      recall = hits / right
        F1 = 2 hits / (predicted + right)

    hits counts the entities on both sides.  Over all kinds the counts are summed first (the micro
    average), so each entity weighs the same.  Where a fraction is 0/0 it is 0.0: with nothing
    predicted no precision was shown, with no right entity no recall.  A text without entities thus
    scores 0.0 even if none is predicted.

    Raises ValueError for no sentences, for sentences or tags that are not as many on both sides,
    and for a wrong tag (see `entities`).

    Source: as for `entities`; seqeval's ``f1_score`` with ``zero_division=0``.
    """
    if len(predicted) != len(right):
        raise ValueError(
            f"predicted has {len(predicted)} sentences, but right has {len(right)}: "
            "give the same sentences"
        )
    if len(right) == 0:
        raise ValueError("predicted and right are empty, expected at least one sentence")
    hits, guesses, truths = Counter[str](), Counter[str](), Counter[str]()
    for number, (guessed, true) in enumerate(zip(predicted, right, strict=True)):
        found = set(_read(f"predicted[{number}]", guessed))
        wanted = set(_read(f"right[{number}]", true))
        if len(guessed) != len(true):
            raise ValueError(
                f"predicted[{number}] has {len(guessed)} tags, but right[{number}] has "
                f"{len(true)}: give one for each word of the sentence"
            )
        hits.update(entity.kind for entity in found & wanted)
        guesses.update(entity.kind for entity in found)
        truths.update(entity.kind for entity in wanted)
    per_kind = {
        kind: KindScores(*_shares(hits[kind], guesses[kind], truths[kind]), truths[kind])
        for kind in sorted(guesses.keys() | truths.keys())
    }
    return EntityScores(*_shares(hits.total(), guesses.total(), truths.total()), per_kind)


def _read(name: str, tags: Sequence[str]) -> list[Entity]:
    """Return the entities of a sentence which errors call ``name``."""
    if isinstance(tags, str):
        raise ValueError(f"{name} is the text {tags!r}, expected a sequence of tags")
    found: list[Entity] = []
    before, kind_before = "O", ""
    for word, tag in enumerate(tags):
        prefix, kind = _split(name, word, tag)
        if prefix in "IE" and before in "BI" and kind == kind_before:
            found[-1] = found[-1]._replace(stop=word + 1)
        elif prefix != "O":
            found.append(Entity(kind, word, word + 1))
        before, kind_before = prefix, kind
    return found


def _split(name: str, word: int, tag: str) -> tuple[str, str]:
    """Return a tag's letter and kind, the latter empty for O."""
    if tag == "O":
        return "O", ""
    prefix, _, kind = tag.partition("-") if isinstance(tag, str) else ("", "", "")
    if prefix not in ("B", "I", "E", "S") or not kind:
        raise ValueError(
            f"{name} holds the tag {tag!r} at {word}, expected O or B-, I-, E- or S- and a kind"
        )
    return prefix, kind


def _shares(hits: int, predicted: int, right: int) -> tuple[float, float, float]:
    """Return precision, recall and F1; without hits all are 0, also where they would be 0/0."""
    if hits == 0:
        return 0.0, 0.0, 0.0
    return hits / predicted, hits / right, 2 * hits / (predicted + right)
