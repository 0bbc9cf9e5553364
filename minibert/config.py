"""Configurations: the model's, with Hugging Face's field names, and the presets of BERT's authors.

Sources: Devlin et al., BERT (2019), section 3 (base, large); Turc et al., Well-Read Students Learn
Better (2019), table 1 (tiny to medium).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

PRESETS = {  # name: (layers, width, heads)
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "medium": (8, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
}
ACTIVATION_NAMES = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu")
OPTIMIZERS = ("muon", "adamw", "bertadam")
FRESH = "fresh"
"""Stands for a model of random numbers where else the name of a folder stands."""


@dataclass(frozen=True)
class BertConfig:
    """The sizes and rates that decide a model; checked when made."""

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    pad_token_id: int = 0
    classifier_dropout: float | None = None  # of a task's head; None: hidden_dropout_prob

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int":
                least = 0 if field.name == "pad_token_id" else 1
                if not isinstance(value, int) or isinstance(value, bool) or value < least:
                    raise ValueError(
                        f"{field.name} is {value!r}, expected a whole number of at least {least}"
                    )
            elif field.type == "float" and not isinstance(value, (int, float)):
                raise ValueError(f"{field.name} is {value!r}, expected a number")
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"hidden_size {self.hidden_size} does not divide into "
                f"num_attention_heads {self.num_attention_heads}: choose a divisor"
            )
        if self.hidden_act not in ACTIVATION_NAMES:
            raise ValueError(
                f"hidden_act is {self.hidden_act!r}, expected one of {', '.join(ACTIVATION_NAMES)}"
            )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"):
            rate = getattr(self, name)
            if rate is not None and not 0 <= rate < 1:
                raise ValueError(f"{name} is {rate}, expected 0 <= rate < 1")
        if self.layer_norm_eps <= 0:
            raise ValueError(f"layer_norm_eps is {self.layer_norm_eps}, expected a number above 0")

    @property
    def head_dropout_prob(self) -> float:
        """The dropout rate in front of a task's head."""
        chosen = self.classifier_dropout
        return self.hidden_dropout_prob if chosen is None else chosen

    @classmethod
    def preset(cls, name: str, **changes: Any) -> BertConfig:
        """Return a named size, with some fields changed: ``preset("tiny", vocab_size=4096)``."""
        if name not in PRESETS:
            raise ValueError(f"preset {name!r} is unknown, expected one of {', '.join(PRESETS)}")
        layers, width, heads = PRESETS[name]
        config = cls(
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * width,
        )
        return replace(config, **changes)

    @classmethod
    def fresh(cls, preset: str = "tiny", **changes: Any) -> BertConfig:
        """Return a named size, changed like that, whose random weights are as loud as its width
        wants: see ``initial_std``.
        """
        config = cls.preset(preset, **changes)
        changes.setdefault("initializer_range", initial_std(config.hidden_size))
        return replace(config, **changes)

    def to_json(self, architecture: str = "BertForPreTraining") -> dict[str, Any]:
        """Return what Hugging Face's ``config.json`` holds for a model of that class."""
        return {
            "architectures": [architecture],
            "model_type": "bert",
            "tie_word_embeddings": True,
            **asdict(self),
        }

    @classmethod
    def load(cls, path: Path) -> BertConfig:
        """Read a ``config.json``.  Fields that only other programs use are passed over.

        Raises ValueError if it is not a BERT's, or asks for what minibert does not have.
        """
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise ValueError(f"{path} is not valid JSON: {error}") from None
        if not isinstance(raw, dict):
            raise ValueError(f"{path} holds {type(raw).__name__}, expected a JSON object")
        if raw.get("model_type", "bert") != "bert":
            raise ValueError(
                f"{path} is for a model of type {raw['model_type']!r}, expected 'bert'"
            )
        if raw.get("is_decoder") or raw.get("add_cross_attention"):
            raise ValueError(
                f"{path} is for a decoder, which looks at earlier tokens alone; minibert has "
                "encoders: take a model that was saved without is_decoder"
            )
        if raw.get("position_embedding_type", "absolute") != "absolute":
            raise ValueError(
                f"{path} asks for {raw['position_embedding_type']} positions, "
                "minibert has absolute ones"
            )
        known = {field.name for field in fields(cls)}
        try:
            return cls(**{name: value for name, value in raw.items() if name in known})
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None


def initial_std(width: int) -> float:
    """Return the standard deviation of fresh weights: BERT's 0.02 at its width of 768.

    A sum of ``width`` products grows with √width, so in a narrow model 0.02 makes every sub-layer
    whisper, and attention takes long to form.  0.02 √(768 / width) keeps base's loudness.
    """
    return round(0.02 * math.sqrt(768 / width), 4)


class Range(NamedTuple):
    expected: str
    holds: Callable[[float], bool]


AT_LEAST_1 = Range("at least 1", lambda x: x >= 1)
ABOVE_0 = Range("a number above 0", lambda x: 0 < x < math.inf)
FROM_0 = Range("0 or more", lambda x: 0 <= x < math.inf)
SHARE = Range("a share from 0 to 1", lambda x: 0 <= x <= 1)
PART = Range("0 < share < 1", lambda x: 0 < x < 1)
DROPPED = Range("0 <= rate < 1", lambda x: 0 <= x < 1)
FACTOR = Range("0 < factor <= 1", lambda x: 0 < x <= 1)


KINDS: dict[str, tuple[type | tuple[type, ...], str]] = {
    "int": (int, "a whole number"),
    "float": ((int, float), "a number"),
    "bool": (bool, "True or False"),
    "str": (str, "a text"),
}


def check_fields(config: Any, ranges: Mapping[Range, Sequence[str]]) -> None:
    """Raise ValueError at the first field of another type than its own, or not in its range."""
    for field in fields(config):
        value, (kind, *others) = getattr(config, field.name), field.type.split(" | ")
        types, expected = KINDS[kind]
        fits = isinstance(value, types) and isinstance(value, bool) == (kind == "bool")
        if not fits and not (value is None and "None" in others):
            raise ValueError(f"{field.name} is {value!r}, expected {expected}")
    for (expected, holds), names in ranges.items():
        for name in names:
            value = getattr(config, name)
            if value is not None and not holds(value):
                raise ValueError(f"{name} is {value}, expected {expected}")


@dataclass(frozen=True)
class TrainConfig:
    """How a model is pretrained; checked when made.  Times are minutes of training.

    The length of a run is ``steps``, or ``minutes`` by the clock.  A run by steps is a pure
    function of this configuration and the text: stopped and resumed at any step it ends with the
    same bytes.  A run by the clock follows its learning rate by the time that has passed, so no
    two of them are the same.

    ``model`` is a folder whose weights the run begins with.  Gururangan et al., Don't Stop
    Pretraining (2020), found that to read on in the text of a task's own field, before fine-tuning,
    brings most where that text is unlike what was read before.
    """

    steps: int | None = None
    minutes: float | None = None
    batch_size: int = 32
    accumulation: int = 1
    max_length: int = 96
    learning_rate: float = 2e-3
    warmup: float = 0.05
    weight_decay: float = 0.01
    beta2: float = 0.98
    clip_norm: float = 1.0
    optimizer: str = "muon"
    masked_weight: float = 1.0
    next_weight: float = 1.0
    mask_probability: float = 0.15
    whole_word: bool = False
    short_probability: float = 0.1
    held_out: float = 0.05
    evaluations: int = 10
    save_minutes: float = 2.0
    log_every: int = 10
    seed: int = 0
    model: str = FRESH

    def __post_init__(self) -> None:
        if isinstance(self.model, os.PathLike):
            object.__setattr__(self, "model", os.fspath(self.model))
        if (self.steps is None) == (self.minutes is None):
            raise ValueError("a run has either steps or minutes: give one of them")
        ranges = {
            Range("at least 8 tokens", lambda x: x >= 8): ["max_length"],
            AT_LEAST_1: ["batch_size", "accumulation", "evaluations", "log_every"],
            ABOVE_0: ["steps", "minutes", "learning_rate", "clip_norm", "save_minutes"],
            SHARE: ["warmup", "short_probability"],
            PART: ["mask_probability", "held_out", "beta2"],
            FROM_0: ["weight_decay", "masked_weight", "next_weight"],
        }
        check_fields(self, ranges)
        if self.masked_weight == 0 and self.next_weight == 0:
            raise ValueError("masked_weight and next_weight are both 0: nothing would be trained")
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(
                f"optimizer is {self.optimizer!r}, expected one of {', '.join(OPTIMIZERS)}"
            )


@dataclass(frozen=True)
class FineTuneConfig:
    """How a model is fine-tuned; checked when made.

    Source of the defaults: Devlin et al., BERT (2019), A.3, which found 16 or 32 rows, 2e-5 to
    5e-5 and 2 to 4 epochs to do well, with dropout 0.1 whatever a model was pretrained with;
    models narrower than base take higher rates.
    """

    epochs: int = 3
    batch_size: int = 32
    accumulation: int = 1
    learning_rate: float = 5e-5
    warmup: float = 0.1
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    dropout: float = 0.1
    layer_decay: float = 1.0
    freeze_embeddings: bool = False
    freeze_layers: int = 0
    synonyms: float = 0.0
    reorder: float = 0.0
    patience: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        ranges = {
            AT_LEAST_1: ["epochs", "batch_size", "accumulation"],
            ABOVE_0: ["learning_rate", "clip_norm"],
            SHARE: ["warmup", "synonyms", "reorder"],
            DROPPED: ["dropout"],
            FACTOR: ["layer_decay"],
            FROM_0: ["weight_decay", "freeze_layers", "patience"],
        }
        check_fields(self, ranges)
