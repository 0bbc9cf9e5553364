"""The cache of tokenised corpora: a digest of everything that decides the ids names the folder."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minibert.data.corpus import PARTIAL, Progress, TokenCorpus, build_corpus
from minibert.data.documents import Form, expand_paths, read_documents
from minibert.data.embedded import embedded_documents

if TYPE_CHECKING:
    from minibert.tokenizer import Tokenizer

_ABANDONED = 86_400  # seconds after which a partial folder has surely lost its writer


def cached_corpus(
    sources: Sequence[str | os.PathLike[str]],
    tokenizer: Tokenizer,
    cache_dir: str | os.PathLike[str],
    *,
    form: Form = "auto",
    progress: Progress | None = None,
) -> TokenCorpus:
    """Return the tokenised text of ``sources``, or of the embedded corpus where there are none.

    It is made once: the next call with unchanged files (path, size, time of change), vocabulary and
    switches opens it in milliseconds.  A damaged folder is made again.

    Raises what ``read_documents`` and ``build_corpus`` raise.
    """
    facts = _facts(sources, tokenizer, form)
    digest = blake2b(json.dumps(facts).encode("ascii"), digest_size=12).hexdigest()
    folder = Path(cache_dir, f"corpus-{digest}")
    try:
        return TokenCorpus.open(folder)
    except (FileNotFoundError, ValueError):
        shutil.rmtree(folder, ignore_errors=True)
    _remove_abandoned(folder)
    documents = read_documents(sources, form=form) if sources else embedded_documents()
    try:
        return build_corpus(documents, tokenizer, folder, progress=progress)
    except FileExistsError:  # another process began later and was quicker
        return TokenCorpus.open(folder)


def source_facts(sources: Sequence[str | os.PathLike[str]]) -> list[Any]:
    """Return, ready for JSON, what tells one state of the text from another."""
    if not sources:
        return ["embedded", sys.version, np.__version__]
    stats = [(str(file), file.stat()) for file in expand_paths(sources)]
    return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]


def _facts(
    sources: Sequence[str | os.PathLike[str]], tokenizer: Tokenizer, form: Form
) -> list[Any]:
    switches = ("lowercase", "strip_accents", "split_cjk", "max_word_chars")
    return [
        source_facts(sources),
        form,
        code_digest(),
        [getattr(tokenizer, name) for name in switches],
        tokenizer.vocab.tokens,
    ]


def code_digest() -> str:
    """Return a digest of the code that reads and tokenises: with it the result may change."""
    state = blake2b(digest_size=12)
    package = Path(__file__).parent.parent
    for file in sorted([*package.glob("data/*.py"), *package.glob("tokenizer/*.py")]):
        state.update(file.read_bytes())
    return state.hexdigest()


def _remove_abandoned(folder: Path) -> None:
    """Delete what killed processes left of this corpus."""
    for partial in folder.parent.glob(f"{folder.name}{PARTIAL}*"):
        if time.time() - partial.stat().st_mtime > _ABANDONED:
            shutil.rmtree(partial, ignore_errors=True)
