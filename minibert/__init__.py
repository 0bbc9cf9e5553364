"""minibert: BERT from scratch in NumPy, every gradient written by hand and checked.

    >>> import minibert
    >>> model, tokenizer = minibert.load_pretrained("runs/first")        # doctest: +SKIP
    >>> minibert.fill_mask(model, tokenizer, "The [MASK] is raised.")    # doctest: +SKIP

The names below are imported when they are first used, so that ``import minibert`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minibert.checkpoint.huggingface import load_pretrained, save_model
    from minibert.config import PRESETS, BertConfig, FineTuneConfig, TrainConfig
    from minibert.gradcheck import check_gradients, check_model
    from minibert.inference import attention_maps, embed, fill_mask, next_sentence
    from minibert.keys import Key
    from minibert.models.pretraining import BertForPreTraining
    from minibert.ops import get_ops
    from minibert.tasks.finetuned import FineTuned, load_finetuned
    from minibert.tokenizer import Tokenizer, Vocabulary, train_vocabulary
    from minibert.training.finetune import finetune

__version__ = "0.1.0"

_HOMES = {
    "PRESETS": "minibert.config",
    "BertConfig": "minibert.config",
    "BertForPreTraining": "minibert.models.pretraining",
    "FineTuneConfig": "minibert.config",
    "FineTuned": "minibert.tasks.finetuned",
    "Key": "minibert.keys",
    "Tokenizer": "minibert.tokenizer",
    "TrainConfig": "minibert.config",
    "Vocabulary": "minibert.tokenizer",
    "attention_maps": "minibert.inference",
    "check_gradients": "minibert.gradcheck",
    "check_model": "minibert.gradcheck",
    "embed": "minibert.inference",
    "fill_mask": "minibert.inference",
    "finetune": "minibert.training.finetune",
    "get_ops": "minibert.ops",
    "load_finetuned": "minibert.tasks.finetuned",
    "load_pretrained": "minibert.checkpoint.huggingface",
    "next_sentence": "minibert.inference",
    "save_model": "minibert.checkpoint.huggingface",
    "train_vocabulary": "minibert.tokenizer",
}

__all__ = [
    "PRESETS",
    "BertConfig",
    "BertForPreTraining",
    "FineTuneConfig",
    "FineTuned",
    "Key",
    "Tokenizer",
    "TrainConfig",
    "Vocabulary",
    "__version__",
    "attention_maps",
    "check_gradients",
    "check_model",
    "embed",
    "fill_mask",
    "finetune",
    "get_ops",
    "load_finetuned",
    "load_pretrained",
    "next_sentence",
    "save_model",
    "train_vocabulary",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'minibert' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
