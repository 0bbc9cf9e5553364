"""A tokenizer's settings as `tokenizer_config.json`, the file that `transformers` reads too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from minibert.files import write_text

from .vocab import SPECIAL_TOKENS

FILE = "tokenizer_config.json"

# Our name -> the file's name, and what it may hold.
SETTINGS: dict[str, tuple[str, tuple[type, ...]]] = {
    "lowercase": ("do_lower_case", (bool,)),
    "strip_accents": ("strip_accents", (bool, type(None))),
    "split_cjk": ("tokenize_chinese_chars", (bool,)),
    "max_word_chars": ("max_word_chars", (int,)),
}
_EXPECTED = {bool: "true or false", type(None): "null", int: "a whole number"}


def write_settings(folder: Path, settings: dict[str, Any], model_max_length: int) -> None:
    """Write the settings with what `transformers` asks for beside them."""
    roles = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    config = {
        "tokenizer_class": "BertTokenizer",
        **{SETTINGS[name][0]: value for name, value in settings.items()},
        "model_max_length": model_max_length,
        **dict(zip(roles, SPECIAL_TOKENS, strict=True)),
    }
    write_text(folder / FILE, json.dumps(config, indent=2) + "\n")


def read_settings(folder: Path) -> dict[str, Any]:
    """The settings that the file gives, checked; what it leaves out keeps its default.

    Published folders of uncased models often have no such file: that is an empty answer.
    """
    path = folder / FILE
    if not path.exists():
        return {}
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # not UTF-8, or not JSON
        raise ValueError(f"{path} is not JSON ({error}): save the tokenizer again") from None
    if not isinstance(config, dict):
        raise ValueError(f"{path} holds a {type(config).__name__}, expected an object of settings")
    settings: dict[str, Any] = {}
    for name, (key, kinds) in SETTINGS.items():
        if key not in config:
            continue
        value = config[key]
        if type(value) not in kinds:
            expected = " or ".join(_EXPECTED[kind] for kind in kinds)
            raise ValueError(f"{path}: {key} is {value!r:.40}, expected {expected}")
        settings[name] = value
    return settings
