import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibert.arrays import IGNORED, check_ids
from minibert.data import BatchSource, PretrainingBatch, TokenCorpus, build_corpus
from minibert.data.pairs import Rows
from minibert.keys import Key
from minibert.tokenizer import Tokenizer, Vocabulary, train_vocabulary

KEY = Key(21)


def check_batch(source: BatchSource, vocab: Vocabulary, tokens, index: int) -> PretrainingBatch:
    """Compare a batch, row by row in plain Python, with the places it was drawn from."""
    batch, rows = source.batch(index), source.rows(index)
    B, T = batch.input_ids.shape
    assert B == source.batch_size
    assert T <= source.max_length
    assert batch.attention_mask.dtype == np.bool_
    for name, array in zip(batch._fields, batch, strict=True):
        assert array.dtype == (np.bool_ if name == "attention_mask" else np.int32)
        assert array.flags.c_contiguous
    check_ids("input_ids", batch.input_ids, len(vocab))
    check_ids("labels", batch.masked_labels, len(vocab))
    assert (np.diff(batch.masked_positions) > 0).all()

    ids = batch.input_ids.copy()
    ids.reshape(-1)[batch.masked_positions] = batch.masked_labels
    longest = 0
    for row, (a, a_size, b, b_size, label) in enumerate(zip(*Rows(*rows), strict=True)):
        expected = [vocab.cls_id, *tokens[a : a + a_size].tolist(), vocab.sep_id]
        segments = [0] * len(expected)
        if b_size:
            expected += [*tokens[b : b + b_size].tolist(), vocab.sep_id]
            segments += [1] * (b_size + 1)
        longest = max(longest, len(expected))
        padding = T - len(expected)
        assert ids[row].tolist() == expected + [vocab.pad_id] * padding
        assert batch.token_type_ids[row].tolist() == segments + [0] * padding
        assert batch.attention_mask[row].tolist() == [True] * len(expected) + [False] * padding
        assert batch.next_labels[row] == label
    assert T == min(-(-longest // 8) * 8, source.max_length)
    return batch


@pytest.mark.parametrize("nsp", [True, False])
@pytest.mark.parametrize(("batch_size", "max_length"), [(1, 8), (3, 9), (32, 64), (5, 61)])
def test_batches_hold_what_the_corpus_says(mixed, batch_size, max_length, nsp):
    corpus, vocab = mixed
    source = BatchSource(
        corpus.all_documents(),
        vocab,
        batch_size=batch_size,
        max_length=max_length,
        key=KEY,
        nsp=nsp,
    )
    for index in (0, 1, 2, 1_000_000):
        batch = check_batch(source, vocab, corpus.tokens, index)
        assert np.isin(batch.next_labels, [0, 1] if nsp else [IGNORED]).all()


def test_a_batch_is_a_function_of_key_and_index(mixed):
    corpus, vocab = mixed

    def source(key: Key = KEY) -> BatchSource:
        documents = TokenCorpus.open(corpus.folder).split(0.1, KEY)[0]
        return BatchSource(documents, vocab, batch_size=4, max_length=32, key=key)

    one, other = source(), source()
    straight = [one.batch(i) for i in range(40)]
    for index in (39, 7, 7, 0, 22):
        again = other.batch(index)
        assert all(a.tobytes() == b.tobytes() for a, b in zip(straight[index], again, strict=True))
    different = source(Key(22)).batch(0)
    assert different.input_ids.tobytes() != straight[0].input_ids.tobytes()


def test_masks_are_fresh_in_each_epoch(numbered):
    corpus, vocab = numbered([[3] * 4] * 4)
    source = BatchSource(corpus.all_documents(), vocab, batch_size=12, max_length=32, key=KEY)
    assert source.rows_per_epoch == 12
    starts = [np.sort(source.rows(epoch).a_start).tolist() for epoch in range(2)]
    assert starts[0] == starts[1]
    assert not np.array_equal(source.batch(0).masked_positions, source.batch(1).masked_positions)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_length": 7}, "max_length is 7, expected at least 8"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"short_probability": 1.5}, "short_probability is 1.5"),
        ({"mask_probability": 0.0}, "mask_probability is 0.0"),
        ({"vocab": Vocabulary(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])}, "6 tokens"),
    ],
)
def test_bad_arguments(mixed, changes, message):
    corpus, vocab = mixed
    settings = {"vocab": vocab, "batch_size": 2, "max_length": 16, "key": KEY, **changes}
    with pytest.raises(ValueError, match=message):
        BatchSource(corpus.all_documents(), **settings)
    source = BatchSource(corpus.all_documents(), vocab, batch_size=2, max_length=16, key=KEY)
    with pytest.raises(ValueError, match="batch index is -1"):
        source.batch(-1)


def test_chinese_text(tmp_path):
    documents = [["今天天气很好。", "我们去公园吧!"], ["他说:好。", "We saw 三 birds."]]
    tokenizer = Tokenizer(train_vocabulary([s for d in documents * 3 for s in d], 100))
    corpus = build_corpus(documents, tokenizer, tmp_path / "corpus")
    source = BatchSource(
        corpus.all_documents(), tokenizer.vocab, batch_size=4, max_length=24, key=KEY
    )
    for index in range(5):
        batch = check_batch(source, tokenizer.vocab, corpus.tokens, index)
        assert len(batch.masked_labels) >= 4


SENTENCE = st.one_of(
    st.sampled_from(["", " ", "\u200b", "a", "The fox ran.", "今天天气很好。", "[MASK] [SEP]"]),
    st.text(max_size=12),
    st.integers(1, 400).map(lambda count: "word " * count),
)
DOCUMENTS = st.lists(st.lists(SENTENCE, max_size=5), max_size=6)
TOKENIZER = Tokenizer(
    train_vocabulary(["the fox ran word a . 今天天气很好 。 [ ] mask sep"] * 3, 90)
)


@settings(max_examples=60)
@given(DOCUMENTS, st.integers(8, 70), st.booleans(), st.booleans())
def test_documents_of_odd_forms(documents, max_length, nsp, whole_word):
    with tempfile.TemporaryDirectory() as folder:
        encoded = [[TOKENIZER.encode_ids(s) for s in document] for document in documents]
        count = sum(any(document) for document in encoded)
        if not count:
            with pytest.raises(ValueError, match="hold no token"):
                build_corpus(documents, TOKENIZER, Path(folder, "corpus"))
            return
        corpus = build_corpus(documents, TOKENIZER, Path(folder, "corpus"))
        assert len(corpus.documents) == count + 1

        def make() -> BatchSource:
            return BatchSource(
                corpus.all_documents(),
                TOKENIZER.vocab,
                batch_size=3,
                max_length=max_length,
                key=KEY,
                nsp=nsp,
                whole_word=whole_word,
            )

        if nsp and count < 2:
            with pytest.raises(ValueError, match="only 1 document"):
                make()
            return
        for index in range(2):
            check_batch(make(), TOKENIZER.vocab, corpus.tokens, index)
