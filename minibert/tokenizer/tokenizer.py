"""The tokenizer: text to ids and back, with offsets into the original text.

    text --Normalizer--> words --WordPiece--> pieces --> [CLS] pieces [SEP] (pieces [SEP])

Ids and offsets are those of the published BERT models (Devlin et al. 2018, section 3).  Known
limits, kept for that: no rule of any one language is applied (Turkish ``I`` becomes ``i``), and
with accents kept a composed and a decomposed letter give different ids; bring text to one form
first with ``unicodedata.normalize("NFC", text)``.

Lone surrogates (undecodable bytes read with errors="surrogateescape") count as U+FFFD, which is
what errors="replace" reads, and are dropped: the ids are the same whichever way a file was read.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from .cache import ChunkCache, PieceCache
from .checks import check_count, check_text, check_texts
from .encoding import Encoding, PaddedBatch, joined, pad_batch, truncated_lengths
from .folder import read_tokenizer
from .normalize import Normalizer
from .settings import SETTINGS, write_settings
from .vocab import CONTINUATION, SPECIAL_TOKENS, Vocabulary
from .wordpiece import WordPiece

SpecialTokens = Literal["allowed", "plain"]

_SPECIAL = re.compile("|".join(map(re.escape, SPECIAL_TOKENS)))


class Tokenizer:
    """Text to the ids of `vocab`, and back.

    lowercase and strip_accents belong to the vocabulary: True for an uncased model, False for a
    cased one; strip_accents=None does as lowercase says.  split_cjk makes a word of each ideograph.
    A word above max_word_chars is ``[UNK]``.

    >>> vocab = Vocabulary([*SPECIAL_TOKENS, "un", "##want", "##ed", "runn", "##ing", "!"])
    >>> tokenizer = Tokenizer(vocab)
    >>> encoding = tokenizer.encode("Unwanted running!")
    >>> encoding.tokens
    ['[CLS]', 'un', '##want', '##ed', 'runn', '##ing', '!', '[SEP]']
    >>> encoding.offsets[1:4], encoding.ids[1:4]
    ([(0, 2), (2, 6), (6, 8)], [5, 6, 7])
    >>> tokenizer.decode(encoding.ids)
    'unwanted running !'
    """

    def __init__(
        self,
        vocab: Vocabulary,
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_cjk: bool = True,
        max_word_chars: int = 100,
    ) -> None:
        if not isinstance(vocab, Vocabulary):
            raise TypeError(
                f"vocab must be a Vocabulary, got {type(vocab).__name__}: "
                "use Vocabulary(tokens), Vocabulary.load(path) or Tokenizer.load(folder)"
            )
        check_count(max_word_chars, "max_word_chars", 1)
        self.vocab = vocab
        self.lowercase = lowercase
        self.strip_accents = strip_accents
        self.split_cjk = split_cjk
        self.max_word_chars = max_word_chars
        self._normalizer = Normalizer(
            lowercase=lowercase, strip_accents=strip_accents, split_cjk=split_cjk
        )
        self._pieces = PieceCache(WordPiece(vocab, max_word_chars))
        self._chunk_ids = ChunkCache(self._normalizer, self._pieces)

    def __repr__(self) -> str:
        return f"Tokenizer({self.vocab!r}, lowercase={self.lowercase})"

    def __getstate__(self) -> dict[str, Any]:
        # Caches stay behind when a tokenizer is sent to another process.
        return {name: getattr(self, name) for name in ("vocab", *SETTINGS)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)

    def encode(
        self,
        text: str,
        pair: str | None = None,
        *,
        add_special_tokens: bool = True,
        max_length: int | None = None,
        special_tokens: SpecialTokens = "plain",
    ) -> Encoding:
        """Encode one text, or a pair, with offsets.

        max_length counts the added ``[CLS]`` and ``[SEP]``; tokens above it are cut from the end,
        of a pair from the longer text first.

        special_tokens says what ``[MASK]`` written in the text means.  "plain": a bracket, a word
        and a bracket; right for corpora and for what others typed.  "allowed": the special token,
        as in "The [MASK] statement"; nobody else's text should come this way.
        """
        if special_tokens not in ("allowed", "plain"):
            raise ValueError(f"special_tokens is {special_tokens!r}: use 'allowed' or 'plain'")
        allowed = special_tokens == "allowed"
        parts = [self._encoded(check_text(text, "text"), 0, allowed)]
        if pair is not None:
            parts.append(self._encoded(check_text(pair, "pair"), 1, allowed))
        if max_length is not None:
            added = len(parts) + 1 if add_special_tokens else 0
            check_count(max_length, "max_length", added, ", the number of special tokens")
            lengths = truncated_lengths([len(part.ids) for part in parts], max_length - added)
            parts = [part.cut(length) for part, length in zip(parts, lengths, strict=True)]
        if add_special_tokens:
            ends = [self._special(self.vocab.sep_id, segment) for segment in range(len(parts))]
            parts = [self._special(self.vocab.cls_id, 0), *chain(*zip(parts, ends, strict=True))]
        return joined(parts)

    def _special(self, index: int, segment: int) -> Encoding:
        """A token added round the text."""
        return Encoding([index], [self.vocab.tokens[index]], [(0, 0)], [segment], [None], [1])

    def _encoded(self, text: str, segment: int, allowed: bool) -> Encoding:
        """The tokens of a text alone; words count from 0, and a special token is a word."""
        encoding = Encoding([], [], [], [], [], [])
        start = number = 0
        for match in _SPECIAL.finditer(text) if allowed else ():
            number = self._add_plain(encoding, text[start : match.start()], start, number)
            encoding.ids.append(self.vocab.ids[match[0]])
            encoding.offsets.append(match.span())
            encoding.word_ids.append(number)
            number += 1
            start = match.end()
        self._add_plain(encoding, text[start:], start, number)
        tokens, special = self.vocab.tokens, self.vocab.special_ids - {self.vocab.unk_id}
        encoding.tokens.extend([tokens[index] for index in encoding.ids])
        encoding.token_type_ids.extend([segment] * len(encoding.ids))
        encoding.special_tokens_mask.extend([int(index in special) for index in encoding.ids])
        return encoding

    def _add_plain(self, encoding: Encoding, text: str, shift: int, number: int) -> int:
        """Append the pieces of plain text that starts at `shift`; return the next word number."""
        spaced, sources = self._normalizer.aligned(text)
        ids, offsets, word_ids = encoding.ids, encoding.offsets, encoding.word_ids
        at = 0
        for word in spaced.split():
            at = spaced.index(word, at)
            for index, start, end in self._pieces[word]:
                ids.append(index)
                offsets.append((sources[at + start] + shift, sources[at + end - 1] + 1 + shift))
                word_ids.append(number)
            at += len(word)
            number += 1
        return number

    def encode_ids(self, text: str) -> list[int]:
        """The ids of plain text alone, without ``[CLS]`` and ``[SEP]``: the fast way for corpora.

        A blank always ends a word, and what lies between two blanks means the same wherever it
        stands, so such chunks are looked up whole ("word," -> two ids).  Real text repeats itself.
        """
        chunks = check_text(text, "text").replace("\n", " ").split(" ")
        return list(chain.from_iterable(map(self._chunk_ids.__getitem__, chunks)))

    def encode_batch(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        max_length: int | None = None,
        special_tokens: SpecialTokens = "plain",
    ) -> PaddedBatch:
        """Encode texts, or pairs, into (B, T) arrays padded to the longest row."""
        texts = check_texts(texts, "texts")
        seconds = [None] * len(texts) if pairs is None else check_texts(pairs, "pairs")
        if len(seconds) != len(texts):
            raise ValueError(
                f"texts has {len(texts)} rows and pairs {len(seconds)}: they go together one by one"
            )
        encodings = [
            self.encode(text, pair, max_length=max_length, special_tokens=special_tokens)
            for text, pair in zip(texts, seconds, strict=True)
        ]
        return pad_batch(encodings, self.vocab.pad_id)

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """Join pieces to words and words by blanks.

        This does not give the text back: case, accents and spacing are gone, ``foo (bar)`` comes
        back as ``foo ( bar )``.  To quote the text use the offsets, ``text[start:end]``.
        """
        if isinstance(ids, (str, bytes)) or not hasattr(ids, "__iter__"):
            raise TypeError(
                f"ids must be a sequence of int, got one {type(ids).__name__}: pass a list of ids"
            )
        words: list[str] = []
        for index in map(operator.index, ids):
            if not 0 <= index < len(self.vocab):
                raise ValueError(
                    f"ids has {index}, but the vocabulary ends at {len(self.vocab) - 1}: "
                    "use the tokenizer that the ids came from"
                )
            if skip_special_tokens and index in self.vocab.special_ids:
                continue
            token = self.vocab.tokens[index]
            if words and token.startswith(CONTINUATION):
                words[-1] += token.removeprefix(CONTINUATION)
            else:
                words.append(token)
        return " ".join(words)

    def save(self, folder: str | os.PathLike[str], *, model_max_length: int = 512) -> None:
        """Write `vocab.txt` and `tokenizer_config.json`, which `transformers` opens as well."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.vocab.save(folder / "vocab.txt")
        settings = {name: getattr(self, name) for name in SETTINGS}
        write_settings(folder, settings, model_max_length)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Tokenizer:
        """Open a folder, or a vocabulary file by itself, with the settings that lie beside it.

        These are `vocab.txt` with `tokenizer_config.json`, or `tokenizer.json` (see `folder.py`);
        what they leave out is as in an uncased BERT.  Raises FileNotFoundError where there is no
        vocabulary, ValueError where it is damaged or no BERT's.
        """
        vocab, settings = read_tokenizer(Path(path))
        return cls(vocab, **settings)
