"""The embedded corpus: the English that came with Python and NumPy.

A first training run should need no download, and the repository should hold nobody's text.  Every
installation already has about 2 MB of well-kept English: the topics of ``help()`` and the
docstrings of the standard library and of NumPy.  They are read as text: no module is imported for
it but ``pydoc_data.topics``, which is nothing but text.
"""

from __future__ import annotations

import os
import sysconfig
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np

from minibert.data.docstrings import docstrings
from minibert.data.markup import is_prose, paragraphs
from minibert.data.sentences import split_sentences

_SKIPPED_FOLDERS = """
    site-packages dist-packages __pycache__ test tests testing idlelib lib2to3 turtledemo
    ensurepip pydoc_data
"""
LONG_DOCSTRING = 4
"""A docstring of so many sentences is a document of its own."""
DOCUMENT_SENTENCES = 12
"""The shorter docstrings of a module are gathered, in order, into documents of at least this size.

Most have one to three sentences, too few for next-sentence prediction."""


def embedded_documents() -> Iterator[list[str]]:
    """Yield the documents of the embedded corpus, each a list of sentences.

    The same installation always gives the same documents, in the same order.  No sentence occurs
    twice, so none of the held-out documents was partly trained on.
    """
    for document in _documents():
        yield list(document)


@cache
def _documents() -> tuple[tuple[str, ...], ...]:
    """All documents, some 2 MB: a first run reads them for the vocabulary and for the tokens."""
    seen: set[str] = set()
    documents = [_new_sentences(text, seen) for text in _topics()]
    for path in _source_files():
        gathered: list[str] = []
        for text in docstrings(path.read_text(encoding="utf-8", errors="replace")):
            sentences = _new_sentences(text, seen)
            if len(sentences) >= LONG_DOCSTRING:
                documents.append(sentences)
            else:
                gathered += sentences
            if len(gathered) >= DOCUMENT_SENTENCES:
                documents.append(gathered)
                gathered = []
        documents.append(gathered)
    return tuple(tuple(document) for document in documents if document)


def _topics() -> list[str]:
    """Return the texts behind ``help("if")`` and its like; none where Python came without them."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return []
    # In these texts double quotes stand for the markup of code: the "break" statement.
    return [topics[name].replace('"', "") for name in sorted(topics)]


def _source_files() -> Iterator[Path]:
    """Yield the Python files of the standard library and NumPy, in a fixed order."""
    for root in (sysconfig.get_path("stdlib"), Path(np.__file__).parent):
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(set(folders).difference(_SKIPPED_FOLDERS.split()))
            for name in sorted(names):
                if name.endswith(".py"):
                    yield Path(folder, name)


def _new_sentences(text: str, seen: set[str]) -> list[str]:
    """Return the sentences of a documentation text that are prose and not in ``seen`` yet."""
    new = []
    for paragraph in paragraphs(text):
        for sentence in split_sentences(paragraph):
            if sentence not in seen and is_prose(sentence):
                seen.add(sentence)
                new.append(sentence)
    return new
