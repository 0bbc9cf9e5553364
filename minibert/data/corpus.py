"""Token ids of a whole corpus on disk, mapped into memory: text is read and tokenised once.

    tokens     (N,)    uint16 or int32   the ids of all sentences, one after another
    sentences  (S+1,)  int64             sentence s is tokens[sentences[s] : sentences[s + 1]]
    documents  (D+1,)  int64             document d is sentences documents[d] … documents[d + 1] - 1

The arrays are plain little-endian files, and ``corpus.json`` beside them holds their lengths.  Only
pages that are looked at take memory, so a corpus may be larger than it.  uint16 reaches to 65,535,
so the published vocabularies fit; int16 would turn id 36,917 into -28,619.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np

from minibert.arrays import Array, check_ids
from minibert.data.split import DocumentSet, split_documents
from minibert.keys import Key

FORMAT = 1
_BUFFERED = 1 << 20  # numbers held before they are written
PARTIAL = ".partial-"  # stands in the name of a folder that is being written

Progress = Callable[[int, int], None]
"""Called now and then with the documents and the tokens written so far."""


class EncodesText(Protocol):
    """What is asked of a tokenizer: a vocabulary with a length, and ids without special tokens."""

    @property
    def vocab(self) -> _Sized: ...
    def encode_ids(self, text: str) -> list[int]: ...


class _Sized(Protocol):
    def __len__(self) -> int: ...


@dataclass(frozen=True, eq=False)
class TokenCorpus:
    """A tokenised corpus, read-only."""

    folder: Path
    tokens: Array  # (N,)
    sentences: Array  # (S+1,) offsets into tokens
    documents: Array  # (D+1,) offsets into sentences
    vocab_size: int

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> TokenCorpus:
        """Open what ``build_corpus`` wrote; takes milliseconds at any size.

        Raises FileNotFoundError where there is none, ValueError where files are damaged.
        """
        folder = Path(folder)
        text = (folder / "corpus.json").read_text(encoding="utf-8", errors="replace")
        try:
            meta = json.loads(text)
            if meta["format"] != FORMAT:
                raise ValueError(f"its format is {meta['format']}, expected {FORMAT}")
            tokens, sentences, documents = (
                _mapped(folder / f"{name}.bin", meta["dtypes"][name], meta["lengths"][name])
                for name in ("tokens", "sentences", "documents")
            )
            vocab_size = int(meta["vocab_size"])
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise ValueError(
                f"{folder} is not a corpus, or a damaged one ({error}): delete the folder"
            ) from None
        return cls(folder, tokens, sentences, documents, vocab_size)

    def all_documents(self) -> DocumentSet:
        """Return every document, for training without held-out ones."""
        return DocumentSet(self, self.documents[:-1], self.documents[1:])

    def split(self, fraction: float, key: Key) -> tuple[DocumentSet, DocumentSet]:
        """Return (training, held-out) documents; see ``split_documents``."""
        return split_documents(self, fraction, key)

    def token_counts(self) -> Array:
        """Return how often each id occurs, int64 (V,); the entropy of that is a unigram's loss."""
        counts = np.zeros(self.vocab_size, np.int64)
        for start in range(0, len(self.tokens), _BUFFERED):
            part = self.tokens[start : start + _BUFFERED]
            counts += np.bincount(part, minlength=self.vocab_size)
        return counts


def build_corpus(
    documents: Iterable[list[str]],
    tokenizer: EncodesText,
    folder: str | os.PathLike[str],
    *,
    progress: Progress | None = None,
) -> TokenCorpus:
    """Tokenise documents into ``folder``, which must not exist yet, and open it.

    Documents are taken one at a time: memory holds one document and about 20 MB of buffers,
    whatever the size of the corpus.  Sentences without tokens are dropped, then documents without
    sentences.  Everything is written to a folder of another name, flushed, and renamed at the end,
    so ``folder`` is whole or not there; work that was interrupted starts again.

    Raises FileExistsError, and ValueError where no token is left or an id is out of range.
    """
    folder = Path(folder)
    if folder.exists():
        raise FileExistsError(f"{folder} exists: open it with TokenCorpus.open, or delete it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.with_name(f"{folder.name}{PARTIAL}{os.getpid()}-{secrets.token_hex(4)}")
    partial.mkdir()
    try:
        _write_corpus(documents, tokenizer, partial, progress)
        partial.replace(folder)
    except OSError:
        if not folder.exists():  # else another process was quicker with the same corpus
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return TokenCorpus.open(folder)


def _write_corpus(
    documents: Iterable[list[str]],
    tokenizer: EncodesText,
    folder: Path,
    progress: Progress | None,
) -> None:
    vocab_size = len(tokenizer.vocab)
    dtype = np.dtype("<u2" if vocab_size <= 1 << 16 else "<i4")
    offsets = np.dtype("<i8")
    with (
        (folder / "tokens.bin").open("wb") as token_file,
        (folder / "sentences.bin").open("wb") as sentence_file,
        (folder / "documents.bin").open("wb") as document_file,
    ):
        tokens = _Column(token_file, "i", dtype, vocab_size)
        sentences = _Column(sentence_file, "q", offsets)
        ends = _Column(document_file, "q", offsets)
        sentences.add([0])
        ends.add([0])
        for document in documents:
            before = sentences.length
            for sentence in document:
                ids = tokenizer.encode_ids(sentence)
                if ids:
                    tokens.add(ids)
                    sentences.add([tokens.length])
            if sentences.length > before:
                ends.add([sentences.length - 1])
                if progress is not None and ends.length % 256 == 1:
                    progress(ends.length - 1, tokens.length)
        if not tokens.length:
            raise ValueError("the documents hold no token: are they empty or blank?")
        if progress is not None:
            progress(ends.length - 1, tokens.length)
        columns = {"tokens": tokens, "sentences": sentences, "documents": ends}
        for column in columns.values():
            column.finish()
    meta = {
        "format": FORMAT,
        "vocab_size": vocab_size,
        "lengths": {name: column.length for name, column in columns.items()},
        "dtypes": {name: column.dtype.str for name, column in columns.items()},
    }
    with (folder / "corpus.json").open("w", encoding="utf-8") as file:
        json.dump(meta, file, indent=2)
        file.flush()
        os.fsync(file.fileno())


class _Column:
    """Numbers on their way into a file, a million at a time."""

    def __init__(
        self, file: BinaryIO, typecode: str, dtype: np.dtype, upper: int | None = None
    ) -> None:
        self.file, self.dtype, self.upper = file, dtype, upper
        self.length = 0
        self._held = array(typecode)

    def add(self, numbers: list[int]) -> None:
        self._held.extend(numbers)
        self.length += len(numbers)
        if len(self._held) >= _BUFFERED:
            self._write()

    def _write(self) -> None:
        values = np.frombuffer(self._held, dtype=f"i{self._held.itemsize}")
        if self.upper is not None:
            check_ids("the tokenizer's ids", values, self.upper)
        self.file.write(values.astype(self.dtype).tobytes())
        self._held = array(self._held.typecode)

    def finish(self) -> None:
        if self._held:
            self._write()
        self.file.flush()
        os.fsync(self.file.fileno())


def _mapped(path: Path, dtype: str, length: int) -> Array:
    expected = length * np.dtype(dtype).itemsize
    size = path.stat().st_size
    if size != expected:
        raise ValueError(f"{path.name} has {size} bytes, expected {expected}")
    # asarray: a plain view of the map, as the subclass makes every small look-up slow.
    return np.asarray(np.memmap(path, dtype, "r", shape=(length,)))
