import numpy as np
import pytest

from minibert.data import DocumentSet
from minibert.keys import Key

KEY = Key(3)


def numbers(documents: DocumentSet) -> list[int]:
    return np.searchsorted(documents.corpus.documents, documents.first).tolist()


def test_every_document_lands_on_one_side(numbered):
    corpus, _ = numbered([[2, 3]] * 200)
    train, held_out = corpus.split(0.05, KEY)
    assert sorted(numbers(train) + numbers(held_out)) == list(range(200))
    assert numbers(train) == sorted(numbers(train))
    assert len(held_out) == 10
    assert held_out.sentence_count == 20
    assert held_out.token_count == 50
    assert (train.end - train.first == 2).all()


def test_the_key_decides(numbered):
    corpus, _ = numbered([[2, 3]] * 200)
    held_out = [numbers(corpus.split(0.1, key)[1]) for key in (KEY, KEY, Key(4))]
    assert held_out[0] == held_out[1] != held_out[2]
    # A larger share holds out the same ones, and more.
    assert set(held_out[0]) < set(numbers(corpus.split(0.3, KEY)[1]))


@pytest.mark.parametrize(
    ("documents", "held_out"), [(2, 1), (3, 1), (4, 2), (5, 2), (60, 3), (1000, 50)]
)
def test_few_documents(numbered, documents, held_out):
    corpus, _ = numbered([[1]] * documents)
    sizes = [len(side) for side in corpus.split(0.05, KEY)]
    assert sizes == [documents - held_out, held_out]
    assert min(len(side) for side in corpus.split(0.999, KEY)) >= 1


def test_one_document_is_cut(numbered):
    corpus, _ = numbered([[1, 2, 3, 4] * 10])
    train, held_out = corpus.split(0.05, KEY)
    assert (train.first.tolist(), train.end.tolist()) == ([0], [38])
    assert (held_out.first.tolist(), held_out.end.tolist()) == ([38], [40])


def test_what_cannot_be_split(numbered):
    corpus, _ = numbered([[3]])
    with pytest.raises(ValueError, match="a single sentence"):
        corpus.split(0.05, KEY)
    assert len(corpus.all_documents()) == 1
    for fraction in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(ValueError, match="expected a number between 0 and 1"):
            corpus.split(fraction, KEY)
