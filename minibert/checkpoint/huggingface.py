"""A model as a folder, in the form that Hugging Face's ``transformers`` reads and writes.

config.json              sizes, see ``BertConfig``
model.safetensors        weights by name; those of the tied decoder are in it once
vocab.txt                one token a line; or all of the tokenizer in tokenizer.json
tokenizer_config.json    lower-casing and the like
"""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np

from minibert.checkpoint.names import bare, heads_among
from minibert.checkpoint.stored import WEIGHTS, StoredWeights, open_weights
from minibert.checkpoint.tensors import write_tensors
from minibert.checkpoint.weights import fill
from minibert.config import BertConfig
from minibert.files import write_text
from minibert.keys import Key
from minibert.models.pretraining import HEADS, BertForPreTraining, Head
from minibert.params import ParamStore
from minibert.tokenizer import Tokenizer

if TYPE_CHECKING:
    from minibert.ops import Ops

MissingHeads: TypeAlias = Literal["omit", "refuse", "initialize"]

OWN_HEADS: dict[str, Head] = {
    "bert.pooler.": "pooler",
    "cls.predictions.": "masked",
    "cls.seq_relationship.": "next",
}


class SavedModel(Protocol):
    """What ``save_model`` asks of a model."""

    config: BertConfig
    params: ParamStore

    def to_json(self) -> dict[str, Any]: ...  # the whole config.json


def save_model(
    model: SavedModel, tokenizer: Tokenizer | None, folder: str | os.PathLike[str]
) -> None:
    """Write a folder that ``transformers`` and ``load_pretrained`` open as it is.

    Each file is replaced as a whole, the weights last: once they are there, all is.  Raises
    ValueError where the tokenizer has ids that the model has no embedding for.
    """
    folder = Path(folder)
    if tokenizer is not None:
        check_vocabulary(folder, model.config, tokenizer)
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "config.json", json.dumps(model.to_json(), indent=2) + "\n")
    if tokenizer is not None:
        tokenizer.save(folder, model_max_length=model.config.max_position_embeddings)
    arrays = {parameter.name: parameter.value for parameter in model.params}
    write_tensors(folder / WEIGHTS, arrays, {"format": "pt"})


def load_model(
    folder: str | os.PathLike[str],
    ops: str | Ops = "numba",
    dtype: Any = np.float32,
    *,
    missing_heads: MissingHeads = "omit",
    key: Key | None = None,
) -> BertForPreTraining:
    """Open a folder as a model, with those of pooler and heads that the folder has.

    Args:
        missing_heads: what becomes of the others.  "omit": the model is built without them (see
            ``BertForPreTraining``); "refuse": it is an error; "initialize": they are drawn from
            ``key``, as by ``load_weights``.  One of which only a part is there is an error always.

    Heads of fine-tuning are left out, with a warning.  Raises FileNotFoundError or ValueError, one
    line, where the folder is not a whole BERT.
    """
    if missing_heads not in ("omit", "refuse", "initialize"):
        raise ValueError(
            f"missing_heads is {missing_heads!r}: use 'omit', 'refuse' or 'initialize'"
        )
    config = load_config(folder)
    with open_weights(Path(folder)) as stored:
        heads = heads_of(stored) if missing_heads == "omit" else HEADS
        model = BertForPreTraining(config, ops, dtype, heads=heads)
        loaded = fill(
            model.params,
            stored,
            missing_heads="initialize" if missing_heads == "initialize" else "refuse",
            foreign_heads="drop",
            key=key,
            std=config.initializer_range,
        )
    if loaded.dropped:
        warnings.warn(
            f"{folder}: the fine-tuned head ({bare(loaded.dropped)}) is left out, as only "
            "load_finetuned and 'minibert predict' use it",
            stacklevel=2,
        )
    return model


def heads_of(stored: StoredWeights) -> list[Head]:
    """Return which heads of pretraining a folder has, or raise ValueError on a useless one."""
    present = heads_among(stored.tensors)
    heads: list[Head] = [head for prefix, head in OWN_HEADS.items() if prefix in present]
    if "next" in heads and "pooler" not in heads:
        raise ValueError(
            f"{stored.where} has cls.seq_relationship, but not bert.pooler, whose vector it reads: "
            'take whole weights, or draw a pooler anew by missing_heads="initialize"'
        )
    return heads


def load_pretrained(
    folder: str | os.PathLike[str],
    ops: str | Ops = "numba",
    dtype: Any = np.float32,
    *,
    missing_heads: MissingHeads = "omit",
    key: Key | None = None,
) -> tuple[BertForPreTraining, Tokenizer]:
    """Open a folder as a model and its tokenizer; arguments are those of ``load_model``.

    Raises as ``load_model`` does, and where the vocabulary is missing or has more tokens than the
    model has embeddings.  Warns where it has fewer: published models are sometimes padded to a
    round number of rows, which no text ever reaches.
    """
    folder, config = Path(folder), load_config(folder)
    tokenizer = Tokenizer.load(folder)
    check_vocabulary(folder, config, tokenizer)
    model = load_model(folder, ops, dtype, missing_heads=missing_heads, key=key)
    if config.vocab_size > len(tokenizer.vocab):
        warnings.warn(
            f"{folder}: the model has {config.vocab_size} embeddings and the vocabulary has "
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
            f"model is {config.vocab_size}: take config.json, weights and vocabulary from one model"
        )
