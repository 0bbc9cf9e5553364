"""vocab: a vocabulary from text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minibert.tokenizer import SPECIAL_TOKENS, Vocabulary

from .conftest import Command, assert_refused


def test_vocab(cli: Command, text_file: Path) -> None:
    result = cli("vocab", text_file, "--size", "50", "--out", "v.txt")
    assert result.status == 0, result.err
    vocabulary = Vocabulary.load("v.txt")
    assert len(vocabulary) == 50
    assert vocabulary.tokens[:5] == SPECIAL_TOKENS
    assert result.out.startswith("v.txt: 50 pieces, uncased")
    assert "T" not in vocabulary.ids


def test_cased_and_smaller_than_asked(cli: Command, text_file: Path) -> None:
    result = cli("vocab", text_file, "--cased", "--size", "5000")
    assert "T" in Vocabulary.load("vocab.txt").ids
    assert "fewer than 5,000" in result.out


def test_nothing_is_overwritten_unasked(cli: Command, text_file: Path) -> None:
    Path("vocab.txt").write_text("mine", encoding="utf-8")
    assert_refused(cli("vocab", text_file, "--size", "50"), "vocab.txt", "--force")
    assert Path("vocab.txt").read_text(encoding="utf-8") == "mine"
    assert cli("vocab", text_file, "--size", "50", "--force").status == 0
    assert len(Vocabulary.load("vocab.txt")) == 50


@pytest.mark.parametrize("content", [b"", b" \n\t\n", b"caf\xe9\n"])
def test_texts_that_are_refused(cli: Command, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    assert_refused(cli("vocab", path))
    assert not list(Path().iterdir())


def test_sizes_and_places_that_are_refused(cli: Command, text_file: Path, tmp_path: Path) -> None:
    assert_refused(cli("vocab", text_file, "--size", "12"), "12", "at least")
    assert_refused(cli("vocab", text_file, "--size", "2"), "--size")
    assert_refused(cli("vocab", tmp_path / "none.txt"), "none.txt")
    assert_refused(cli("vocab", text_file, "--out", tmp_path), "folder")
    assert_refused(cli("vocab", text_file, "--out", "no/v.txt"), "no", "--out")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        assert_refused(cli("vocab", text_file, "--out", tmp_path / "pipe", "--force"), "pipe")
    (tmp_path / "empty").mkdir()
    assert_refused(cli("vocab", tmp_path / "empty"), "empty")
    assert not list(Path().iterdir())
