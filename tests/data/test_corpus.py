import tracemalloc

import numpy as np
import pytest

from minibert.data import TokenCorpus, build_corpus
from minibert.data import corpus as module
from minibert.data.corpus import PARTIAL
from minibert.tokenizer import Tokenizer, Vocabulary
from minibert.tokenizer.vocab import SPECIAL_TOKENS

from .common import Numbers


def texts(corpus: TokenCorpus) -> list[list[list[int]]]:
    """The corpus as documents of sentences of ids."""
    return [
        [
            corpus.tokens[corpus.sentences[s] : corpus.sentences[s + 1]].tolist()
            for s in range(corpus.documents[d], corpus.documents[d + 1])
        ]
        for d in range(len(corpus.documents) - 1)
    ]


def test_what_is_written_is_read(tmp_path):
    documents = [["5 6", "7"], ["8 9 10"], ["5"]]
    built = build_corpus(documents, Numbers(6), tmp_path / "deep" / "corpus")
    expected = [[[5, 6], [7]], [[8, 9, 10]], [[5]]]
    for corpus in (built, TokenCorpus.open(str(tmp_path / "deep" / "corpus"))):
        assert texts(corpus) == expected
        assert corpus.vocab_size == 11
        assert corpus.tokens.dtype == np.uint16
        assert corpus.sentences.dtype == corpus.documents.dtype == np.int64
        assert corpus.token_counts().tolist() == [0, 0, 0, 0, 0, 2, 1, 1, 1, 1, 1]
        assert not corpus.tokens.flags.writeable
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["corpus"]


def test_sentences_and_documents_without_tokens_are_dropped(tmp_path):
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, "a", "b"]))
    zero_width = "\u200b"
    documents = [[zero_width], [], ["", "a", " ", zero_width, "b a"], ["\n", ""], ["b"], []]
    corpus = build_corpus(documents, tokenizer, tmp_path / "corpus")
    assert texts(corpus) == [[[5], [6, 5]], [[6]]]


@pytest.mark.parametrize("documents", [[], [[]], [["\u200b"], ["", " "]]])
def test_a_corpus_without_tokens_is_refused_and_leaves_nothing(tmp_path, documents):
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, "a"]))
    with pytest.raises(ValueError, match="hold no token"):
        build_corpus(documents, tokenizer, tmp_path / "corpus")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "dtype"), [(65_531, np.uint16), (65_532, np.int32), (40_000, np.uint16)]
)
def test_large_ids_stay_what_they_are(tmp_path, words, dtype):
    largest = words + 4
    corpus = build_corpus([[f"36917 {largest}"]], Numbers(words), tmp_path / "corpus")
    assert corpus.tokens.dtype == dtype
    assert corpus.tokens.tolist() == [36_917, largest]


def test_an_id_out_of_range_is_refused(tmp_path):
    with pytest.raises(ValueError, match="ids holds 11, expected 0 to 10"):
        build_corpus([["5 11"]], Numbers(6), tmp_path / "corpus")
    assert not list(tmp_path.iterdir())


def test_an_interrupted_build_leaves_nothing(tmp_path):
    def documents():
        yield ["5 6"]
        assert [PARTIAL in path.name for path in tmp_path.iterdir()] == [True]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_corpus(documents(), Numbers(6), tmp_path / "corpus")
    assert not list(tmp_path.iterdir())


def test_an_existing_folder_is_not_overwritten(tmp_path):
    build_corpus([["5"]], Numbers(6), tmp_path / "corpus")
    with pytest.raises(FileExistsError, match="delete it"):
        build_corpus([["6"]], Numbers(6), tmp_path / "corpus")
    assert texts(TokenCorpus.open(tmp_path / "corpus")) == [[[5]]]


def test_the_quicker_of_two_writers_wins(tmp_path):
    def documents():
        yield ["5 6"]
        build_corpus([["5 6"]], Numbers(6), tmp_path / "corpus")

    corpus = build_corpus(documents(), Numbers(6), tmp_path / "corpus")
    assert texts(corpus) == [[[5, 6]]]
    assert [path.name for path in tmp_path.iterdir()] == ["corpus"]


def test_damaged_folders_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        TokenCorpus.open(tmp_path)
    folder = tmp_path / "corpus"
    build_corpus([["5 6 7"]], Numbers(6), folder)
    saved = {path: path.read_bytes() for path in folder.iterdir()}
    assert len(saved) == 4
    for path, data in saved.items():
        for damage in (data[:-1], b"", b"{}", b"\xff[]"):
            path.write_bytes(damage)
            with pytest.raises(ValueError, match="delete the folder"):
                TokenCorpus.open(folder)
        path.write_bytes(data)
    (folder / "tokens.bin").unlink()
    with pytest.raises(ValueError, match="delete the folder"):
        TokenCorpus.open(folder)


def test_memory_does_not_grow_with_the_corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_BUFFERED", 1 << 13)

    class Sevens(Numbers):
        def encode_ids(self, text: str) -> list[int]:
            return [7] * len(text)

    documents = (["x" * 300] * 10 for _ in range(2_000))
    tracemalloc.start()
    try:
        corpus = build_corpus(documents, Sevens(6), tmp_path / "corpus")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (corpus.folder / "tokens.bin").stat().st_size == 12_000_000
    assert peak < 400_000


def test_progress(tmp_path):
    calls = []
    documents = [["5 6", "7"]] * 600
    build_corpus(
        documents, Numbers(6), tmp_path / "corpus", progress=lambda *done: calls.append(done)
    )
    assert calls[-1] == (600, 1800)
    assert len(calls) >= 3
    assert calls == sorted(calls)
