"""A vocabulary: the list of pieces whose positions are the token ids.

On disk it is `vocab.txt`, the format of every published BERT: UTF-8, one piece a line, the line
number (from 0) is the id.  A piece that continues a word starts with ``##``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from minibert.files import write_text

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUATION = "##"


class Vocabulary:
    """An immutable list of distinct pieces, among them the five special tokens.

    The special tokens may stand anywhere: a vocabulary trained here has them at 0..4, Google's
    have ``[PAD]`` at 0 and ``[UNK]`` at 100.

    >>> vocab = Vocabulary([*SPECIAL_TOKENS, "un", "##want", "##ed"])
    >>> len(vocab), vocab.ids["##want"], vocab.mask_id
    (8, 6, 4)
    >>> vocab.continuation.nonzero()[0].tolist()
    [6, 7]

    Raises ValueError where a piece occurs twice, is empty, cannot be one line of a UTF-8 file, or
    a special token is missing.
    """

    tokens: tuple[str, ...]
    ids: Mapping[str, int]
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    special_ids: frozenset[int]
    continuation: NDArray[np.bool_]  # (V,), True where the piece starts with "##"

    def __init__(self, tokens: Sequence[str]) -> None:
        if isinstance(tokens, (str, bytes)):
            raise TypeError(
                f"tokens must be a sequence of str, got one {type(tokens).__name__}: "
                "pass a list of pieces, or use Vocabulary.load(path) for a file"
            )
        self.tokens = tuple(tokens)
        ids: dict[str, int] = {}
        for index, token in enumerate(self.tokens):
            _check_token(token, index)
            if token in ids:
                raise ValueError(
                    f"token {token!r} stands at {ids[token]} and again at {index}: "
                    "every piece must occur once, remove one of the two"
                )
            ids[token] = index
        missing = [token for token in SPECIAL_TOKENS if token not in ids]
        if missing:
            raise ValueError(
                f"the vocabulary of {len(ids)} tokens lacks {', '.join(missing)}: "
                f"a BERT vocabulary holds all of {', '.join(SPECIAL_TOKENS)}"
            )
        self.ids = MappingProxyType(ids)
        special = [ids[token] for token in SPECIAL_TOKENS]
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = special
        self.special_ids = frozenset(special)
        self.continuation = np.array([token.startswith(CONTINUATION) for token in self.tokens])
        self.continuation.flags.writeable = False

    def __len__(self) -> int:
        return len(self.tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.tokens == other.tokens

    def __hash__(self) -> int:
        return hash(self.tokens)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} tokens)"

    def __reduce__(self) -> tuple[type[Vocabulary], tuple[tuple[str, ...]]]:
        return Vocabulary, (self.tokens,)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Read a `vocab.txt`.  A byte-order mark and Windows line ends are tolerated.

        Raises FileNotFoundError where there is none, ValueError where it is blank or no vocabulary.
        """
        path = Path(path)
        if not path.is_file():
            hint = "a folder, name the file in it" if path.is_dir() else "there is no such file"
            raise FileNotFoundError(f"no vocabulary at {path}: {hint}")
        data = path.read_bytes()
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path} is not UTF-8 (byte {data[error.start]:#04x} at {error.start}): "
                "save it again as UTF-8"
            ) from None
        if not text.strip():
            raise ValueError(f"{path} is blank: a vocabulary has one token a line")
        # Not splitlines(): pieces of multilingual vocabularies hold U+2028 and the like.
        lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
        try:
            return cls(lines)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `vocab.txt`; the file appears whole or not at all."""
        write_text(path, "".join(token + "\n" for token in self.tokens))


def _check_token(token: object, index: int) -> None:
    if not isinstance(token, str):
        raise TypeError(f"token {index} must be a str, got {type(token).__name__}: {token!r:.40}")
    if not token:
        raise ValueError(f"token {index} (line {index + 1} of a file) is empty: remove it")
    if "\n" in token or "\r" in token:
        raise ValueError(f"token {index}, {token!r:.40}, holds a line break: a token is one line")
    try:
        token.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(
            f"token {index}, {token!r:.40}, holds a lone surrogate, which UTF-8 cannot store"
        ) from None
