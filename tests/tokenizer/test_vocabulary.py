from __future__ import annotations

import pickle

import numpy as np
import pytest

from minibert.tokenizer import SPECIAL_TOKENS, Vocabulary

PIECES = [*SPECIAL_TOKENS, "un", "##want", "##ed", "中", "\u2028", "##é"]


def test_ids_and_masks() -> None:
    vocab = Vocabulary(PIECES)
    assert len(vocab) == 11
    assert vocab.tokens == tuple(PIECES)
    assert vocab.ids["##want"] == 6
    assert (vocab.pad_id, vocab.unk_id, vocab.cls_id, vocab.sep_id, vocab.mask_id) == (
        0,
        1,
        2,
        3,
        4,
    )
    assert vocab.special_ids == {0, 1, 2, 3, 4}
    assert vocab.continuation.dtype == np.bool_
    assert np.flatnonzero(vocab.continuation).tolist() == [6, 7, 10]


def test_special_tokens_may_stand_anywhere() -> None:
    vocab = Vocabulary(["[PAD]", "a", "[MASK]", "b", "[SEP]", "[CLS]", "[UNK]"])
    assert (vocab.pad_id, vocab.unk_id, vocab.cls_id, vocab.sep_id, vocab.mask_id) == (
        0,
        6,
        5,
        4,
        2,
    )


def test_immutable() -> None:
    vocab = Vocabulary(PIECES)
    with pytest.raises(TypeError):
        vocab.ids["x"] = 1  # type: ignore[index]
    with pytest.raises(ValueError, match="read-only"):
        vocab.continuation[0] = True


def test_equality_and_pickle() -> None:
    vocab = Vocabulary(PIECES)
    assert pickle.loads(pickle.dumps(vocab)) == vocab
    assert hash(vocab) == hash(Vocabulary(PIECES))
    assert vocab != Vocabulary(PIECES[:-1])


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([*PIECES, "un"], "'un' stands at 5 and again at 11"),
        (["[PAD]", "[UNK]", "[CLS]", "a"], r"lacks \[SEP\], \[MASK\]"),
        ([], r"the vocabulary of 0 tokens lacks \[PAD\]"),
        ([*PIECES, ""], "token 11 .line 12 of a file. is empty"),
        ([*PIECES, "a\nb"], "holds a line break"),
        ([*PIECES, "\ud800"], "lone surrogate"),
    ],
)
def test_bad_tokens(tokens: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Vocabulary(tokens)


@pytest.mark.parametrize("tokens", ["abc", b"abc", [*PIECES, 3], [*PIECES, None]])
def test_wrong_types(tokens) -> None:
    with pytest.raises(TypeError, match="must be a s"):
        Vocabulary(tokens)


def test_save_and_load(tmp_path) -> None:
    vocab = Vocabulary(PIECES)
    vocab.save(tmp_path / "vocab.txt")
    assert Vocabulary.load(tmp_path / "vocab.txt") == vocab
    assert (tmp_path / "vocab.txt").read_bytes().endswith("##é\n".encode())
    assert [path.name for path in tmp_path.iterdir()] == ["vocab.txt"]


def test_windows_file(tmp_path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(PIECES).encode())
    assert Vocabulary.load(path) == Vocabulary(PIECES)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is blank"),
        (b" \n\n", "is blank"),
        (b"[PAD]\n[UNK]\xff\n", "not UTF-8 .byte 0xff at 11."),
        (b"[PAD]\n\n[UNK]\n", "token 1 .line 2 of a file. is empty"),
        (b"the\nof\n", "vocab.txt: the vocabulary of 2 tokens lacks"),
    ],
)
def test_bad_files(tmp_path, data: bytes, message: str) -> None:
    path = tmp_path / "vocab.txt"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message):
        Vocabulary.load(path)


def test_missing_file(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no vocabulary at .*absent"):
        Vocabulary.load(tmp_path / "absent.txt")
    with pytest.raises(FileNotFoundError, match="a folder, name the file in it"):
        Vocabulary.load(tmp_path)
