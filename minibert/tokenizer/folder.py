"""Where a tokenizer lies in a model's folder, in one of the forms that models are published in.

vocab.txt               the vocabulary
tokenizer_config.json   settings
tokenizer.json          both; newer folders often have nothing else
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .pipeline import FILE as PIPELINE
from .pipeline import read_pipeline
from .settings import read_settings
from .vocab import Vocabulary


def read_tokenizer(path: Path) -> tuple[Vocabulary, dict[str, Any]]:
    """Return the vocabulary and the settings of a folder, or of a vocabulary file and its folder.

    The vocabulary is that of `vocab.txt`, else of `tokenizer.json`.  A setting is what
    `tokenizer_config.json` says, else `tokenizer.json`; what neither says keeps its default.
    """
    folder, file = path.parent, path
    if path.is_dir():
        folder, file = path, path / "vocab.txt"
        if not file.is_file():
            file = folder / PIPELINE
        if not file.is_file():
            raise FileNotFoundError(
                f"{folder} has no vocab.txt and no {PIPELINE}, without which text cannot become "
                "ids: copy one from where the model came from"
            )
    settings = read_settings(folder)
    if file.suffix == ".json":
        vocab, described = read_pipeline(file)
        return vocab, {**described, **settings}
    if "lowercase" not in settings and (folder / PIPELINE).is_file():
        settings = {**read_pipeline(folder / PIPELINE).settings, **settings}
    return Vocabulary.load(file), settings
