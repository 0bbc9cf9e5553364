"""Corpora whose tokens tell where they stand: every token of a corpus has an id of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from minibert.data import TokenCorpus, build_corpus
from minibert.tokenizer import Vocabulary

from .common import SPECIALS, Numbers


@pytest.fixture
def numbered(tmp_path: Path) -> Callable[..., tuple[TokenCorpus, Vocabulary]]:
    """Make a corpus from sentence lengths, one list a document; token i has id i + 5."""

    def make(lengths: Sequence[Sequence[int]], name: str = "corpus"):
        tokenizer = Numbers(sum(map(sum, lengths)))
        ids = iter(range(SPECIALS, len(tokenizer.vocab)))
        documents = [
            [" ".join(str(next(ids)) for _ in range(length)) for length in document]
            for document in lengths
        ]
        return build_corpus(documents, tokenizer, tmp_path / name), tokenizer.vocab

    return make


@pytest.fixture
def mixed(numbered) -> tuple[TokenCorpus, Vocabulary]:
    """60 documents of 1 to 12 sentences of 1 to 30 tokens."""
    rng = np.random.default_rng(5)
    lengths = [rng.integers(1, 31, rng.integers(1, 13)).tolist() for _ in range(60)]
    return numbered(lengths)
