import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibert.scores import Entity, EntityScores, KindScores, entity_scores
from minibert.scores.entities import entities

# Two kinds that share a prefix, a kind with a hyphen, and one that looks like a tag.
KINDS = ["PER", "PERS", "geo-city", "O"]
TAG = st.one_of(
    st.just("O"),
    st.builds("{}-{}".format, st.sampled_from("BIES"), st.sampled_from(KINDS)),
    st.sampled_from(["B-PER", "I-PER", "E-PER"]),
)
TAGS = st.lists(TAG, max_size=12)
PAIR = st.lists(st.tuples(TAG, TAG), max_size=12)
PAIRS = st.lists(PAIR, min_size=1, max_size=6)
SCHEMES = st.sampled_from(["BIO", "IOBES"])
thorough = settings(max_examples=500)


def sides(pairs):
    """The predicted and the right sentences of sentences of (predicted, right) tags."""
    return tuple([[pair[side] for pair in sentence] for sentence in pairs] for side in (0, 1))


def write(spans, length, scheme):
    """The tags of a sentence's entities, by the rules of a scheme."""
    tags = ["O"] * length
    for kind, start, stop in spans:
        tags[start:stop] = [f"I-{kind}"] * (stop - start)
        tags[start] = f"B-{kind}"
        if scheme == "IOBES":
            tags[stop - 1] = f"E-{kind}" if stop - start > 1 else f"S-{kind}"
    return tags


@st.composite
def sentences(draw):
    """Entities in order, and the sentence's length."""
    spans, word = [], 0
    for _ in range(draw(st.integers(0, 5))):
        start = word + draw(st.integers(0, 2))
        word = start + draw(st.integers(1, 3))
        spans.append(Entity(draw(st.sampled_from(KINDS)), start, word))
    return spans, word + draw(st.integers(0, 2))


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("", []),
        ("O O", []),
        ("B-PER I-PER O I-LOC I-ORG", [("PER", 0, 2), ("LOC", 3, 4), ("ORG", 4, 5)]),
        ("I-PER I-PER", [("PER", 0, 2)]),  # I without B
        ("B-PER B-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("B-PER I-LOC I-LOC", [("PER", 0, 1), ("LOC", 1, 3)]),  # I of another kind
        ("I-PER O I-PER", [("PER", 0, 1), ("PER", 2, 3)]),
        ("S-PER S-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("B-PER I-PER E-PER S-LOC", [("PER", 0, 3), ("LOC", 3, 4)]),
        ("B-PER E-PER I-PER", [("PER", 0, 2), ("PER", 2, 3)]),  # E ends, whatever follows
        ("E-PER E-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("S-PER I-PER E-PER", [("PER", 0, 1), ("PER", 1, 3)]),
        ("I-PER S-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        ("B-PER E-LOC", [("PER", 0, 1), ("LOC", 1, 2)]),
        ("B-geo-city I-geo-city I-geo", [("geo-city", 0, 2), ("geo", 2, 3)]),
        ("B-O I-O O", [("O", 0, 2)]),
    ],
)
def test_entities_by_hand(tags, expected):
    assert entities(tags.split()) == expected
    assert all(isinstance(entity, Entity) for entity in entities(tags.split()))


def test_scores_by_hand():
    predicted = [["B-PER", "I-PER", "O", "B-LOC"], ["B-PER", "O"], ["O", "B-ORG"]]
    right = [["B-PER", "I-PER", "O", "B-ORG"], ["B-PER", "I-PER"], ["O", "B-ORG"]]
    # PER: the second is too short, so 1 hit of 2 predicted and 2 right.  LOC: predicted only.
    # ORG: 1 hit of 1 predicted and 2 right.  All: 2 hits, 4 predicted, 4 right.
    assert entity_scores(predicted, right) == EntityScores(
        precision=0.5,
        recall=0.5,
        f1=0.5,
        per_kind={
            "LOC": KindScores(0.0, 0.0, 0.0, 0),
            "ORG": KindScores(1.0, 0.5, 2 / 3, 2),
            "PER": KindScores(0.5, 0.5, 0.5, 2),
        },
    )
    assert list(entity_scores(predicted, right).per_kind) == ["LOC", "ORG", "PER"]


def test_nothing_to_find():
    # 0/0 everywhere is 0.0, and so it is where only one side has an entity.
    nothing = EntityScores(0.0, 0.0, 0.0, {})
    assert entity_scores([["O", "O"]], [["O", "O"]]) == nothing
    assert entity_scores([[]], [[]]) == nothing
    one = EntityScores(0.0, 0.0, 0.0, {"PER": KindScores(0.0, 0.0, 0.0, 1)})
    assert entity_scores([["O"]], [["B-PER"]]) == one
    assert entity_scores([["B-PER"]], [["O"]])[:3] == (0.0, 0.0, 0.0)


def test_entities_end_with_their_sentence():
    assert entity_scores([["B-PER"], ["I-PER"]], [["B-PER"], ["B-PER"]]).f1 == 1.0


@given(sentence=sentences(), scheme=SCHEMES)
def test_what_is_written_is_read(sentence, scheme):
    spans, length = sentence
    assert entities(write(spans, length, scheme)) == spans


@given(tags=TAGS)
def test_every_tagged_word_is_in_one_entity(tags):
    found = entities(tags)
    words = [word for entity in found for word in range(entity.start, entity.stop)]
    assert words == [word for word, tag in enumerate(tags) if tag != "O"]
    for kind, start, stop in found:
        assert {tag.partition("-")[2] for tag in tags[start:stop]} == {kind}
    # written by the rules, they are the same entities
    assert entities(write(found, len(tags), "IOBES")) == found


@given(pairs=PAIRS)
def test_bounds_and_swapped_sides(pairs):
    predicted, right = sides(pairs)
    scores, swapped = entity_scores(predicted, right), entity_scores(right, predicted)
    assert (scores.precision, scores.recall) == (swapped.recall, swapped.precision)
    assert scores.f1 == swapped.f1
    low, high = sorted(scores[:2])
    assert 0.0 <= low <= scores.f1 * (1 + 1e-15) <= high * (1 + 1e-14) <= 1.0 + 1e-14
    count = sum(len(entities(tags)) for tags in right)
    assert sum(kind.support for kind in scores.per_kind.values()) == count
    perfect = entity_scores(right, right)
    assert perfect[:3] == ((1.0, 1.0, 1.0) if count else (0.0, 0.0, 0.0))


@given(pairs=PAIRS, data=st.data())
def test_order_of_the_sentences_changes_no_bit(pairs, data):
    shuffled = data.draw(st.permutations(pairs))
    assert entity_scores(*sides(pairs)) == entity_scores(*sides(shuffled))


@pytest.mark.parametrize("bad", ["PER", "B", "I", "B-", "-PER", "", "o", "b-PER", "X-PER", "O-", 3])
def test_wrong_tag_is_named(bad):
    expected = rf"holds the tag {bad!r} at 1, expected O or B-, I-, E- or S- and a kind"
    with pytest.raises(ValueError, match=f"^tags {expected}$"):
        entities(["O", bad])
    with pytest.raises(ValueError, match=rf"^predicted\[1\] {expected}$"):
        entity_scores([["O"], ["O", bad]], [["O"], ["O", "O"]])
    with pytest.raises(ValueError, match=rf"^right\[0\] {expected}$"):
        entity_scores([["O", "O"]], [["O", bad]])


def test_wrong_input_is_named():
    with pytest.raises(ValueError, match="predicted and right are empty, expected at least one"):
        entity_scores([], [])
    with pytest.raises(ValueError, match="predicted has 1 sentences, but right has 2: give the"):
        entity_scores([["O"]], [["O"], ["O"]])
    message = r"predicted\[1\] has 1 tags, but right\[1\] has 2: give one for each word"
    with pytest.raises(ValueError, match=message):
        entity_scores([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(ValueError, match="tags is the text 'OO', expected a sequence of tags"):
        entities("OO")
    with pytest.raises(ValueError, match=r"predicted\[0\] is the text 'O', expected a sequence"):
        entity_scores(["O", "O"], ["O", "O"])


@pytest.fixture(scope="module")
def seqeval():
    return pytest.importorskip("seqeval.metrics.sequence_labeling")


@pytest.mark.parity
@thorough
@given(tags=TAGS)
def test_same_entities_as_seqeval(seqeval, tags):
    assert entities(tags) == [
        (kind, first, last + 1) for kind, first, last in seqeval.get_entities(tags)
    ]


@pytest.mark.parity
@thorough
@given(pairs=PAIRS)
def test_same_scores_as_seqeval(seqeval, pairs):
    predicted, right = sides(pairs)
    scores = entity_scores(predicted, right)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns of odd tags and of 0/0
        micro = seqeval.precision_recall_fscore_support(right, predicted, average="micro")
        each = seqeval.precision_recall_fscore_support(right, predicted, average=None)
        f1 = seqeval.f1_score(right, predicted)
    assert scores[:3] == pytest.approx(micro[:3], rel=1e-14)
    assert scores.f1 == pytest.approx(f1, rel=1e-14)
    # its arrays follow the sorted kinds
    for kind, expected in zip(scores.per_kind.values(), zip(*each, strict=True), strict=True):
        assert kind == pytest.approx(expected, rel=1e-14)
