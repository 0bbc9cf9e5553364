import numpy as np
import pytest

from minibert.arrays import IGNORED
from minibert.data.pairs import RowDrawer, Rows
from minibert.keys import Key

KEY = Key(11)


def draw(drawer: RowDrawer, count: int, first: int = 0) -> Rows:
    return drawer.rows(np.arange(first, first + count), KEY.child("rows", first).generator())


def places(corpus, tokens):
    """The sentences and documents in which tokens stand."""
    sentences = np.searchsorted(corpus.sentences, tokens, side="right") - 1
    return sentences, np.searchsorted(corpus.documents, sentences, side="right") - 1


@pytest.mark.parametrize("max_length", [8, 13, 40, 128])
def test_labels_are_true_of_the_corpus(mixed, max_length):
    corpus, _ = mixed
    documents = corpus.split(0.2, KEY)[0]
    drawer = RowDrawer(documents, max_length=max_length, key=KEY)
    rows = draw(drawer, 5_000)
    a_last = rows.a_start + rows.a_length - 1
    b_last = rows.b_start + rows.b_length - 1
    a_sentence, a_document = places(corpus, rows.a_start)
    a_end_sentence, a_end_document = places(corpus, a_last)
    b_sentence, b_document = places(corpus, rows.b_start)

    # Both texts lie within one document of the set, are not empty, and fit together into a row.
    allowed = places(corpus, corpus.sentences[documents.first])[1]
    assert np.isin(a_document, allowed).all()
    assert np.isin(b_document, allowed).all()
    assert (a_document == a_end_document).all()
    assert (b_document == places(corpus, b_last)[1]).all()
    assert min(rows.a_length.min(), rows.b_length.min()) >= 1
    assert (rows.a_length + rows.b_length).max() <= max_length - 3

    # 1: from another document.
    random = rows.labels == 1
    assert (a_document[random] != b_document[random]).all()
    # 0: the same document, the sentence after A's last; at most tokens cut from long texts between.
    follows = ~random
    assert follows.any()
    assert (a_document[follows] == b_document[follows]).all()
    assert (b_sentence[follows] > a_end_sentence[follows]).all()
    whole = follows & (rows.a_length + rows.b_length < max_length - 3)
    assert (rows.b_start[whole] == a_last[whole] + 1).all()
    assert whole.any() or max_length == 8


def test_each_start_sentence_comes_once_an_epoch(numbered):
    # Sentences of one token, so nothing is ever cut off and a_start tells the start sentence.
    lengths = np.random.default_rng(2).integers(1, 9, 50)
    corpus, _ = numbered([[1] * n for n in lengths])
    drawer = RowDrawer(corpus.all_documents(), max_length=16, key=KEY)
    last = corpus.documents[1:] - 1
    starts = np.setdiff1d(np.arange(lengths.sum()), last[lengths > 1])
    assert drawer.rows_per_epoch == len(starts)
    n = len(starts)
    epochs = [draw(drawer, n, first=epoch * n).a_start for epoch in range(3)]
    for epoch in epochs:
        assert np.array_equal(np.sort(epoch), starts)
    assert not np.array_equal(epochs[0], epochs[1])
    # A batch across the end of an epoch, and one of many epochs.
    assert np.array_equal(
        draw(drawer, 9, n - 4).a_start, np.concatenate([epochs[0][-4:], epochs[1][:5]])
    )
    assert np.array_equal(draw(drawer, 3 * n).a_start, np.concatenate(epochs))


@pytest.mark.parametrize("alone", [0, 30, 100])
def test_half_of_the_labels_are_random(numbered, alone):
    """Also with many documents of one sentence, whose B is always random."""
    corpus, _ = numbered([[3] * 5] * 60 + [[3]] * alone)
    drawer = RowDrawer(corpus.all_documents(), max_length=32, key=KEY)
    count = 40_000 // drawer.rows_per_epoch * drawer.rows_per_epoch
    labels = draw(drawer, count).labels
    assert abs(labels.mean() - 0.5) < 4 * (0.25 / count) ** 0.5


def test_documents_of_one_sentence_only(numbered):
    corpus, _ = numbered([[3], [4], [5]])
    rows = draw(RowDrawer(corpus.all_documents(), max_length=16, key=KEY), 300)
    assert (rows.labels == 1).all()
    assert (places(corpus, rows.a_start)[1] != places(corpus, rows.b_start)[1]).all()


def test_random_sentences_come_from_everywhere_alike(numbered):
    corpus, _ = numbered([[1] * n for n in (1, 2, 3, 20, 4)])
    rows = draw(RowDrawer(corpus.all_documents(), max_length=9, key=KEY), 60_000)
    random = (rows.labels == 1) & (places(corpus, rows.a_start)[1] == 2)
    counts = np.bincount(rows.b_start[random], minlength=30)
    others = np.delete(counts, [3, 4, 5])
    assert counts[3:6].sum() == 0
    assert abs(others / others.mean() - 1).max() < 5 / others.mean() ** 0.5


def test_short_rows(numbered):
    corpus, _ = numbered([[1] * 200] * 20)
    for probability in (0.0, 0.1, 1.0):
        drawer = RowDrawer(
            corpus.all_documents(), max_length=67, key=KEY, short_probability=probability
        )
        rows = draw(drawer, 20_000)
        # Rows that run into the end of a document are left out.
        room = places(corpus, rows.a_start)[0] % 200 < 130
        size = (rows.a_length + rows.b_length)[room & (rows.labels == 0)]
        share = (size < 64).mean()
        assert abs(share - probability * 62 / 63) < 0.01
        assert size.min() >= 2
        assert size.max() == 64 if probability < 1 else size.max() <= 64


def test_the_longer_text_is_cut_first(numbered):
    corpus, _ = numbered([[30, 4], [4, 30], [30, 30]] * 4)
    drawer = RowDrawer(corpus.all_documents(), max_length=24, key=KEY, short_probability=0)
    rows = draw(drawer, 600)
    document = places(corpus, rows.a_start)[1] % 3
    sizes = [
        set(zip(*rows_of, strict=True))
        for rows_of in (
            (rows.a_length[follow].tolist(), rows.b_length[follow].tolist())
            for follow in ((document == kind) & (rows.labels == 0) for kind in range(3))
        )
    ]
    assert sizes == [{(17, 4)}, {(4, 17)}, {(11, 10)}]
    # Every part of a long sentence is seen.
    long = rows.a_length == 17
    seen = rows.a_start[long] - corpus.sentences[places(corpus, rows.a_start[long])[0]]
    assert set(seen.tolist()) == set(range(14))


def test_without_next_sentence_prediction(numbered):
    corpus, _ = numbered([[1] * 40])
    drawer = RowDrawer(corpus.all_documents(), max_length=12, key=KEY, nsp=False)
    rows = draw(drawer, drawer.rows_per_epoch)
    assert np.array_equal(np.sort(rows.a_start), np.arange(40))
    assert (rows.labels == IGNORED).all()
    assert (rows.b_length == 0).all()
    assert rows.a_length.max() == 10
    assert (rows.a_start + rows.a_length).max() == 40


def test_one_document_needs_next_sentence_prediction_off(numbered):
    corpus, _ = numbered([[2, 3, 4]])
    with pytest.raises(ValueError, match=r"blank lines between documents.*--next-weight 0"):
        RowDrawer(corpus.all_documents(), max_length=16, key=KEY)


def test_true_continuations_are_never_called_random(numbered):
    """Three short texts in one document and a stranger: B is the stranger's, or what follows."""
    corpus, _ = numbered([[1, 1, 1], [1]])
    rows = draw(RowDrawer(corpus.all_documents(), max_length=16, key=KEY), 2_000)
    first = rows.a_start < 3
    assert (rows.b_start[first & (rows.labels == 1)] == 3).all()
    assert (rows.b_start[~first] < 3).all()
    assert (rows.labels[~first] == 1).all()
