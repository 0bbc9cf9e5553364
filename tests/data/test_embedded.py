import subprocess
import sys
from hashlib import blake2b

import pytest

from minibert.data.embedded import embedded_documents

DIGEST = """
from hashlib import blake2b
import sys
from minibert.data.embedded import embedded_documents
text = "\\n\\n".join("\\n".join(document) for document in embedded_documents())
print(blake2b(text.encode("utf-8")).hexdigest())
print(*{"antigravity", "turtle", "this", "tkinter"}.intersection(sys.modules))
"""


@pytest.fixture(scope="module")
def documents():
    return list(embedded_documents())


def test_size(documents):
    sentences = [sentence for document in documents for sentence in document]
    assert len(documents) > 1_000
    assert 20_000 < len(sentences) < 40_000
    assert 250_000 < sum(len(sentence.split()) for sentence in sentences) < 500_000


def test_each_sentence_is_clean_and_occurs_once(documents):
    sentences = [sentence for document in documents for sentence in document]
    assert len(set(sentences)) == len(sentences)
    assert all(documents)
    assert all(sentence == " ".join(sentence.split()) for sentence in sentences)
    for mark in (">>>", "``", "::=", ":func:"):
        assert not [sentence for sentence in sentences if mark in sentence][3:], mark


def test_language_reference_is_there(documents):
    sentences = {sentence for document in documents for sentence in document}
    assert (
        "break may only occur syntactically nested in a for or while loop, but not nested in a "
        "function or class definition within that loop." in sentences
    )


def test_same_text_for_every_hash_seed_without_warnings_or_imports(documents):
    text = "\n\n".join("\n".join(document) for document in documents)
    command = [sys.executable, "-W", "error", "-c", DIGEST]
    done = subprocess.run(
        command, capture_output=True, encoding="utf-8", check=True, env={"PYTHONHASHSEED": "77"}
    )
    digest, imported = done.stdout.split("\n")[:2]
    assert done.stderr == ""
    assert digest == blake2b(text.encode("utf-8")).hexdigest()
    assert imported == ""
