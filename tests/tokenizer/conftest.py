"""What the tokenizer's tests share: real text from this machine, and the package as the oracle."""

from __future__ import annotations

import json
import re
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import BertWordPieceTokenizer

from minibert.tokenizer import SPECIAL_TOKENS, Tokenizer, Vocabulary

DATA = Path(__file__).parents[2].parent / "shared" / "data"  # larger data sets, where there are any


@pytest.fixture(scope="session")
def make() -> Callable[..., Tokenizer]:
    """A tokenizer with the given pieces at ids 5, 6, ..."""

    def build(*pieces: str, lowercase: bool = True) -> Tokenizer:
        return Tokenizer(Vocabulary([*SPECIAL_TOKENS, *pieces]), lowercase=lowercase)

    return build


@pytest.fixture(scope="session")
def oracle() -> Callable[..., BertWordPieceTokenizer]:
    """The package's tokenizer with the same vocabulary."""

    def build(
        vocab: Vocabulary, *, lowercase: bool = True, special_tokens: str = "plain"
    ) -> BertWordPieceTokenizer:
        tokenizer = BertWordPieceTokenizer(vocab=dict(vocab.ids), lowercase=lowercase)
        tokenizer._tokenizer.encode_special_tokens = special_tokens == "plain"
        return tokenizer

    return build


def python_files() -> list[Path]:
    """The standard library's sources; the large ones of its tests hold many scripts."""
    paths = Path(sysconfig.get_paths()["stdlib"]).glob("**/*.py")
    return sorted(path for path in paths if "site-packages" not in path.parts)


@pytest.fixture(scope="session")
def python_lines() -> list[str]:
    """100,000 lines with text from the standard library's sources."""
    lines: list[str] = []
    for path in python_files():
        text = path.read_text(encoding="utf-8", errors="replace")
        lines += [line for line in text.split("\n") if line.strip()]
        if len(lines) >= 100_000:
            return lines[:100_000]
    return pytest.skip(f"the standard library has {len(lines)} lines here, 100,000 are needed")


@pytest.fixture(scope="session")
def other_lines() -> list[str]:
    """Every line of the data sets beside the checkout: prose, tweets, plays, Chinese."""
    if not DATA.is_dir():
        return pytest.skip(f"no data sets at {DATA}")
    lines: list[str] = []
    for path in sorted(DATA.glob("*/*")):
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".json":
            text = "\n".join(strings(json.loads(text)))
        lines += [line for line in text.split("\n") if line.strip()]
    return lines


def strings(value: object) -> list[str]:
    """Every string inside a JSON value."""
    if isinstance(value, dict):
        return [text for inner in value.values() for text in strings(inner)]
    if isinstance(value, list):
        return [text for inner in value for text in strings(inner)]
    return [value] if isinstance(value, str) else []


@pytest.fixture(scope="session")
def documents() -> list[str]:
    """English documents: the docstrings of the standard library, about 2 MB."""
    found: list[str] = []
    for path in python_files():
        if not {"test", "tests", "idle_test"}.intersection(path.parts):
            text = path.read_text(encoding="utf-8", errors="replace")
            found += re.findall('"""(.+?)"""', text, re.DOTALL)
    return found
