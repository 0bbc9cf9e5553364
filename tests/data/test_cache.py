import os
import time

import pytest

from minibert.data import cache as module
from minibert.data import cached_corpus
from minibert.data.corpus import PARTIAL
from minibert.tokenizer import Tokenizer, Vocabulary
from minibert.tokenizer.vocab import SPECIAL_TOKENS

VOCAB = Vocabulary([*SPECIAL_TOKENS, "a", "b", "A"])


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "text" / "a.txt"
    path.parent.mkdir()
    path.write_text("A b. A a.\n\nB\n", encoding="utf-8")
    return path


def test_the_second_call_reads_no_text(source, tmp_path, monkeypatch):
    tokenizer = Tokenizer(VOCAB)
    first = cached_corpus([source], tokenizer, tmp_path / "cache")
    monkeypatch.setattr(module, "read_documents", None)
    second = cached_corpus([source.parent], Tokenizer(VOCAB), tmp_path / "cache")
    assert second.folder == first.folder
    assert second.tokens.tolist() == [5, 6, 1, 5, 5, 1, 6]


def test_whatever_decides_the_ids_names_another_folder(source, tmp_path):
    def folder(**settings):
        tokenizer = Tokenizer(settings.pop("vocab", VOCAB), **settings.pop("switches", {}))
        return cached_corpus([source], tokenizer, tmp_path / "cache", **settings).folder

    base = folder()
    others = {
        folder(switches={"lowercase": False}),
        folder(switches={"strip_accents": False}),
        folder(switches={"split_cjk": False}),
        folder(switches={"max_word_chars": 50}),
        folder(vocab=Vocabulary([*VOCAB.tokens, "c"])),
        folder(form="lines"),
    }
    assert len({base, *others}) == 7
    stat = source.stat()
    os.utime(source, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1_000_000))
    assert folder() not in {base, *others}


def test_a_damaged_folder_is_made_again(source, tmp_path):
    corpus = cached_corpus([source], Tokenizer(VOCAB), tmp_path / "cache")
    expected = corpus.tokens.tolist()
    for name, damage in [("tokens.bin", b"x"), ("corpus.json", None), ("documents.bin", None)]:
        path = corpus.folder / name
        path.unlink()
        if damage is not None:
            path.write_bytes(damage)
        again = cached_corpus([source], Tokenizer(VOCAB), tmp_path / "cache")
        assert again.folder == corpus.folder
        assert again.tokens.tolist() == expected


def test_only_abandoned_remains_are_removed(source, tmp_path):
    corpus = cached_corpus([source], Tokenizer(VOCAB), tmp_path / "cache")
    (corpus.folder / "corpus.json").unlink()
    remains = [corpus.folder.with_name(corpus.folder.name + PARTIAL + age) for age in "ab"]
    for path in remains:
        path.mkdir()
    long_ago = time.time() - 2 * 86_400
    os.utime(remains[0], (long_ago, long_ago))
    cached_corpus([source], Tokenizer(VOCAB), tmp_path / "cache")
    assert [path.exists() for path in remains] == [False, True]


def test_no_sources_mean_the_embedded_corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "embedded_documents", lambda: iter([["b a"], ["b"]]))
    corpus = cached_corpus([], Tokenizer(VOCAB), tmp_path / "cache")
    assert corpus.tokens.tolist() == [6, 5, 6]
