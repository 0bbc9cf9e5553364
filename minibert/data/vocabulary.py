"""The vocabulary of a corpus: learned from its text once, then kept in the cache."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import chain
from pathlib import Path

from minibert.data.cache import code_digest, source_facts
from minibert.data.documents import read_documents
from minibert.data.embedded import embedded_documents
from minibert.tokenizer import Vocabulary, train_vocabulary


def cached_vocabulary(
    sources: Sequence[str | os.PathLike[str]],
    size: int,
    cache_dir: str | os.PathLike[str],
    *,
    lowercase: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Vocabulary:
    """Return a vocabulary of at most ``size`` pieces for ``sources``; none: the embedded corpus.

    Raises what ``read_documents`` and ``train_vocabulary`` raise.
    """
    facts = json.dumps([source_facts(sources), size, lowercase, code_digest()])
    digest = blake2b(facts.encode("ascii"), digest_size=12).hexdigest()
    path = Path(cache_dir, f"vocab-{digest}.txt")
    if path.exists():
        return Vocabulary.load(path)
    documents = read_documents(sources) if sources else embedded_documents()
    vocab = train_vocabulary(
        chain.from_iterable(documents), size, lowercase=lowercase, progress=progress
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    vocab.save(path)
    return vocab
