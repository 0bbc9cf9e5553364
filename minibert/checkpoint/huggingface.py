"""A model as a folder, in the form that Hugging Face's ``transformers`` reads and writes.

config.json              sizes, see ``BertConfig``
model.safetensors        weights by name; those of the tied decoder are in it once
vocab.txt                one token a line
tokenizer_config.json    lower-casing and the like
"""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minibert.checkpoint.tensors import write_tensors
from minibert.checkpoint.weights import WEIGHTS, MissingHeads, load_weights
from minibert.config import BertConfig
from minibert.files import write_text
from minibert.keys import Key
from minibert.models.pretraining import BertForPreTraining
from minibert.tokenizer import Tokenizer

if TYPE_CHECKING:
    from minibert.ops import Ops


def save_model(
    model: BertForPreTraining, tokenizer: Tokenizer | None, folder: str | os.PathLike[str]
) -> None:
    """Write a folder that ``transformers`` and ``load_pretrained`` open as it is.

    Each file is replaced as a whole, the weights last: once they are there, all is.  Raises
    ValueError where the tokenizer has ids that the model has no embedding for.
    """
    folder = Path(folder)
    if tokenizer is not None:
        check_vocabulary(folder, model.config, tokenizer)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "config.json", json.dumps(model.config.to_json(), indent=2) + "\n")
    if tokenizer is not None:
        tokenizer.save(folder, model_max_length=model.config.max_position_embeddings)
    arrays = {parameter.name: parameter.value for parameter in model.params}
    write_tensors(folder / WEIGHTS, arrays, {"format": "pt"})


def load_model(
    folder: str | os.PathLike[str],
    ops: str | Ops = "numba",
    dtype: Any = np.float32,
    *,
    missing_heads: MissingHeads = "refuse",
    key: Key | None = None,
) -> BertForPreTraining:
    """Open a folder as a model; the last two arguments are those of ``load_weights``.

    Raises FileNotFoundError or ValueError, one line, where the folder is not a whole BERT.
    """
    config = load_config(folder)
    model = BertForPreTraining(config, ops, dtype)
    load_weights(
        model.params,
        folder,
        missing_heads=missing_heads,
        key=key,
        std=config.initializer_range,
    )
    return model


def load_pretrained(
    folder: str | os.PathLike[str],
    ops: str | Ops = "numba",
    dtype: Any = np.float32,
    *,
    missing_heads: MissingHeads = "refuse",
    key: Key | None = None,
) -> tuple[BertForPreTraining, Tokenizer]:
    """Open a folder as a model and its tokenizer.

    Raises as ``load_model`` does, and where vocab.txt is missing or has more tokens than the
    model has embeddings.  Warns where it has fewer: published models are sometimes padded to a
    round number of rows, which no text ever reaches.
    """
    folder, config = Path(folder), load_config(folder)
    if not (folder / "vocab.txt").is_file():
        raise FileNotFoundError(
            f"{folder} has no vocab.txt, without which text cannot become ids: "
            "copy it from where the model came from"
        )
    tokenizer = Tokenizer.load(folder)
    check_vocabulary(folder, config, tokenizer)
    model = load_model(folder, ops, dtype, missing_heads=missing_heads, key=key)
    if config.vocab_size > len(tokenizer.vocab):
        warnings.warn(
            f"{folder}: the model has {config.vocab_size} embeddings and vocab.txt has "
            f"{len(tokenizer.vocab)} tokens, so the embeddings beyond them stay unused",
            stacklevel=2,
        )
    return model, tokenizer


def load_config(folder: str | os.PathLike[str]) -> BertConfig:
    """Read a folder's config.json; FileNotFoundError where there is no folder or no such file."""
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"no folder at {folder}: give one that holds a saved model")
    path = folder / "config.json"
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} has no config.json: give a folder that minibert or transformers saved"
        )
    return BertConfig.load(path)


def check_vocabulary(folder: Path, config: BertConfig, tokenizer: Tokenizer) -> None:
    """Raise ValueError where the tokenizer makes ids that the model has no embedding for."""
    if len(tokenizer.vocab) > config.vocab_size:
        raise ValueError(
            f"{folder}: the vocabulary has {len(tokenizer.vocab)} tokens, but vocab_size of the "
            f"model is {config.vocab_size}: take config.json, weights and vocab.txt from one model"
        )
