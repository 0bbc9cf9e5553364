"""A whole tokenizer in one file: the `tokenizer.json` of Hugging Face's `tokenizers` package.

It describes any pipeline of normalizer, splitter and model.  BERT's is one of them, and the only
one that is read here; whatever another one does differently, its ids would be wrong.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from .vocab import CONTINUATION, SPECIAL_TOKENS, Vocabulary

FILE = "tokenizer.json"

# Where a setting stands, our name for it, and what it may be.
_SETTINGS: list[tuple[str, str, str, tuple[type, ...]]] = [
    ("normalizer", "lowercase", "lowercase", (bool,)),
    ("normalizer", "strip_accents", "strip_accents", (bool, type(None))),
    ("normalizer", "handle_chinese_chars", "split_cjk", (bool,)),
    ("model", "max_input_chars_per_word", "max_word_chars", (int,)),
]
_TEMPLATES = {
    "single": [("[CLS]", 0), ("A", 0), ("[SEP]", 0)],
    "pair": [("[CLS]", 0), ("A", 0), ("[SEP]", 0), ("B", 1), ("[SEP]", 1)],
}


class Pipeline(NamedTuple):
    vocab: Vocabulary
    settings: dict[str, Any]  # by the names of Tokenizer's arguments


def read_pipeline(path: Path) -> Pipeline:
    """Read a `tokenizer.json`.

    Tokens that were added to the vocabulary after it was trained keep their ids; but unlike there,
    they are cut into pieces where a text holds them, except for BERT's own five.  A warning says
    which.  Raises ValueError, one line, where it is no BERT's tokenizer or is damaged.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not UTF-8, or not JSON
        raise ValueError(f"{path} is not JSON ({error}): copy it again") from None
    try:
        return Pipeline(_vocabulary(raw, path), _settings(raw))
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(
            f"{path} is not the tokenizer of a BERT ({what}): "
            "use the vocab.txt and tokenizer_config.json of the model"
        ) from None


def _settings(raw: dict[str, Any]) -> dict[str, Any]:
    """What the file says beside its vocabulary, everything checked that could change an id."""
    normalizer = raw["normalizer"]
    _expect("the normalizer", _kind(normalizer), "BertNormalizer")
    _expect("clean_text", normalizer.get("clean_text", True), True)
    _expect("the pre_tokenizer", _kind(raw["pre_tokenizer"]), "BertPreTokenizer")
    _check_frame(raw.get("post_processor"))
    settings: dict[str, Any] = {}
    for part, key, name, kinds in _SETTINGS:
        value = raw[part][key]
        if type(value) not in kinds:
            raise ValueError(f"{key} is {value!r:.40}")
        settings[name] = value
    return settings


def _vocabulary(raw: dict[str, Any], path: Path) -> Vocabulary:
    """All tokens by id: those of the model, and those that were added to it."""
    model = raw["model"]
    _expect("the model", _kind(model), "WordPiece")
    _expect("unk_token", model["unk_token"], "[UNK]")
    _expect("continuing_subword_prefix", model["continuing_subword_prefix"], CONTINUATION)
    added = {entry["content"]: entry["id"] for entry in raw.get("added_tokens") or ()}
    ids = {**model["vocab"], **added}
    tokens = sorted(ids, key=ids.__getitem__)
    if [ids[token] for token in tokens] != list(range(len(tokens))):
        raise ValueError(f"its {len(tokens)} tokens do not have the ids 0 to {len(tokens) - 1}")
    vocab = Vocabulary(tokens)
    others = [token for token in added if token not in SPECIAL_TOKENS]
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        warnings.warn(
            f"{path}: the added tokens {', '.join(others[:3])}{more} are text like any other "
            "here, and are cut into pieces",
            stacklevel=5,
        )
    return vocab


def _check_frame(post: dict[str, Any] | None) -> None:
    """Raise ValueError unless texts are put as ``[CLS] A [SEP]`` and ``[CLS] A [SEP] B [SEP]``."""
    if post is None:
        return
    if _kind(post) == "BertProcessing":
        _expect("cls", post["cls"][0], "[CLS]")
        _expect("sep", post["sep"][0], "[SEP]")
        return
    _expect("the post_processor", _kind(post), "TemplateProcessing")
    for name, wanted in _TEMPLATES.items():
        parts = [next(iter(part.values()), {}) for part in post[name]]
        _expect(name, [(part["id"], part["type_id"]) for part in parts], wanted)


def _kind(part: dict[str, Any] | None) -> Any:
    return part["type"] if part is not None else None


def _expect(what: str, value: Any, wanted: Any) -> None:
    if value != wanted:
        raise ValueError(f"{what} is {value!r:.80}, expected {wanted!r}")
