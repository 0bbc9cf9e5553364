"""A run: everything that training needs, made from text or opened from a folder.

What a run leaves in its folder:

    config.json, vocab.txt, tokenizer_config.json, model.safetensors    the model, as others open it
    training.safetensors                                                 to go on, bit for bit
    state.json, metrics.jsonl, report.png                                to read
    best/                                                                the model of lowest loss
"""

from __future__ import annotations

import dataclasses
import math
import os
import platform
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from minibert import __version__
from minibert.arrays import Array
from minibert.checkpoint.huggingface import check_vocabulary, save_model
from minibert.checkpoint.names import bare
from minibert.checkpoint.resume import load_training, save_training
from minibert.checkpoint.weights import load_weights
from minibert.config import FRESH, BertConfig, TrainConfig
from minibert.data.batches import BatchSource, PretrainingBatch
from minibert.data.cache import cached_corpus, source_facts
from minibert.data.corpus import TokenCorpus
from minibert.data.vocabulary import cached_vocabulary
from minibert.files import is_free
from minibert.keys import Key
from minibert.models.pretraining import BertForPreTraining
from minibert.tokenizer import Tokenizer, Vocabulary
from minibert.training.adamw import AdamW
from minibert.training.blanks import choose_blanks
from minibert.training.evaluate import Blank
from minibert.training.loop import Position
from minibert.training.metrics import MetricsFile
from minibert.training.muon import Muon

if TYPE_CHECKING:
    from minibert.ops import Ops

EVAL_BATCHES = 64  # at most; on a small corpus every held-out start sentence comes up once
Status = Callable[[str], None]
"""Told in a few words what is being prepared."""


@dataclass
class TextConfig:
    """Where the text comes from, and how it becomes ids."""

    files: list[str]  # absolute paths; none: the embedded corpus
    lowercase: bool = True
    vocab: str | None = None  # a vocab.txt to use instead of learning one


@dataclass
class Run:
    folder: Path
    config: TrainConfig
    text: TextConfig
    model: BertForPreTraining
    tokenizer: Tokenizer
    optimizer: AdamW
    source: BatchSource
    eval_batches: list[PretrainingBatch]
    blanks: list[Blank]
    metrics: MetricsFile
    position: Position
    corpus: TokenCorpus
    text_facts: Any  # what tells the text of today from another day's

    def begin(self) -> None:
        """Create the folder, and open the metrics of a new run with what does not change in it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.position.step == 0:
            vocab_size = self.model.config.vocab_size
            self.metrics.append({
                "type": "start",
                "parameters": self.model.params.value.size,
                "vocab_size": vocab_size,
                "ln_vocab": math.log(vocab_size),
                "unigram_entropy": unigram_entropy(self.corpus.token_counts()),
                "documents": len(self.corpus.documents) - 1,
                "sentences": len(self.corpus.sentences) - 1,
                "tokens": len(self.corpus.tokens),
            })  # fmt: skip

    def save(self) -> None:
        """Write what resuming needs, then the model for use; each file is replaced as a whole."""
        arrays = {
            "value": self.model.params.value,
            "moment1": self.optimizer.moment1,
            "moment2": self.optimizer.moment2,
        }
        save_training(self.folder, arrays, self.state())
        save_model(self.model, self.tokenizer, self.folder)

    def save_best(self) -> None:
        save_model(self.model, self.tokenizer, self.folder / "best")

    def state(self) -> dict[str, Any]:
        return {
            "position": dataclasses.asdict(self.position),
            "updates": self.optimizer.updates,
            "train": dataclasses.asdict(self.config),
            "text": dataclasses.asdict(self.text),
            "text_facts": self.text_facts,
            "model": dataclasses.asdict(self.model.config),
            "versions": {
                "minibert": __version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
        }


def cache_folder() -> Path:
    """Return where vocabularies and token ids are kept: $MINIBERT_CACHE, or the user's cache."""
    if chosen := os.environ.get("MINIBERT_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "minibert")


def start_run(
    folder: Path,
    config: TrainConfig,
    model_config: BertConfig,  # of a fresh model: vocab_size is the largest it may come to
    text: TextConfig,
    ops: str | Ops = "numba",
    status: Status = lambda message: None,
) -> Run:
    """Prepare text, vocabulary and model; nothing is written to ``folder`` yet.

    A run that begins with a folder's weights takes the folder's vocabulary with them.

    Raises ValueError if the folder holds something already, or text or weights are not fit.
    """
    check_new_folder(folder)
    check_rows(config, model_config)
    text = dataclasses.replace(text, files=[str(Path(file).absolute()) for file in text.files])
    if config.model == FRESH:
        model, tokenizer = fresh_model(config, model_config, text, ops, status)
    else:
        config = dataclasses.replace(config, model=str(Path(config.model).absolute()))
        model, tokenizer = opened_model(config, model_config, ops, status)
        if text.vocab is not None:
            raise ValueError(f"{config.model} has a vocabulary: leave out {text.vocab}")
        text = dataclasses.replace(text, lowercase=tokenizer.lowercase)
    return assemble(folder, config, text, model, tokenizer, Position(), status)


def fresh_model(
    config: TrainConfig, model_config: BertConfig, text: TextConfig, ops: str | Ops, status: Status
) -> tuple[BertForPreTraining, Tokenizer]:
    """Return a model of random numbers, and a tokenizer, its vocabulary learned from the text."""
    if text.vocab is not None:
        vocab = Vocabulary.load(Path(text.vocab))
    else:
        status("learning the vocabulary")
        vocab = cached_vocabulary(
            text.files, model_config.vocab_size, cache_folder(), lowercase=text.lowercase
        )
    model_config = dataclasses.replace(
        model_config, vocab_size=len(vocab), pad_token_id=vocab.pad_id
    )
    model = BertForPreTraining(model_config, ops)
    model.initialize(Key(config.seed).child("weights"))
    return model, Tokenizer(vocab, lowercase=text.lowercase)


def opened_model(
    config: TrainConfig, model_config: BertConfig, ops: str | Ops, status: Status
) -> tuple[BertForPreTraining, Tokenizer]:
    """Return the model and the tokenizer of a folder.

    Warns of heads of pretraining that the folder lacks, which are drawn, and of others, left out.
    """
    status("opening the model")
    folder = Path(config.model)
    tokenizer = Tokenizer.load(folder)
    check_vocabulary(folder, model_config, tokenizer)
    model = BertForPreTraining(model_config, ops)
    drawn, dropped = load_weights(
        model.params,
        folder,
        missing_heads="initialize",
        foreign_heads="drop",
        key=Key(config.seed).child("weights"),
        std=model_config.initializer_range,
    )
    if drawn:
        warnings.warn(f"{folder} lacks {bare(drawn)}: begun from random numbers", stacklevel=2)
    if dropped:
        warnings.warn(f"{folder}: {bare(dropped)} is for another task, and left out", stacklevel=2)
    return model, tokenizer


def resume_run(
    folder: Path, ops: str | Ops = "numba", status: Status = lambda message: None
) -> Run:
    """Open a run where it stopped.  Raises ValueError if it cannot go on with the same bytes."""
    arrays, state = load_training(folder)
    config, text = TrainConfig(**state["train"]), TextConfig(**state["text"])
    facts = source_facts(text.files)
    if facts != state["text_facts"]:
        raise ValueError(
            f"the text of {folder} has changed since: put it back, or start a new run with --out"
        )
    tokenizer = Tokenizer.load(folder)
    model = BertForPreTraining(BertConfig(**state["model"]), ops)
    run = assemble(folder, config, text, model, tokenizer, Position(**state["position"]), status)
    model.params.value[:] = arrays["value"]
    run.optimizer.moment1[:] = arrays["moment1"]
    run.optimizer.moment2[:] = arrays["moment2"]
    run.optimizer.updates = state["updates"]
    run.metrics.rewind(run.position.step)
    return run


def assemble(
    folder: Path,
    config: TrainConfig,
    text: TextConfig,
    model: BertForPreTraining,
    tokenizer: Tokenizer,
    position: Position,
    status: Status,
) -> Run:
    """Put the parts together; all of them follow from the arguments and the text."""
    status("reading the text")
    corpus = cached_corpus(text.files, tokenizer, cache_folder())
    key = Key(config.seed)
    training, held_out = corpus.split(config.held_out, key)

    def source(documents: Any, name: str) -> BatchSource:
        return BatchSource(
            documents,
            tokenizer.vocab,
            batch_size=config.batch_size,
            max_length=config.max_length,
            key=key.child(name),
            nsp=config.next_weight > 0,
            whole_word=config.whole_word,
            short_probability=config.short_probability,
            mask_probability=config.mask_probability,
        )

    evaluation = source(held_out, "evaluation")
    count = min(EVAL_BATCHES, -(-evaluation.rows_per_epoch // config.batch_size))
    return Run(
        folder=folder,
        config=config,
        text=text,
        model=model,
        tokenizer=tokenizer,
        optimizer=make_optimizer(config, model),
        source=source(training, "training"),
        eval_batches=[evaluation.batch(index) for index in range(count)],
        blanks=choose_blanks(held_out, tokenizer, key.child("blanks")),
        metrics=MetricsFile(folder / "metrics.jsonl"),
        position=position,
        corpus=corpus,
        text_facts=source_facts(text.files),
    )


def make_optimizer(config: TrainConfig, model: BertForPreTraining) -> AdamW:
    make = Muon if config.optimizer == "muon" else AdamW
    return make(
        model.params,
        model.ops,
        beta2=config.beta2,
        weight_decay=config.weight_decay,
        bias_correction=config.optimizer != "bertadam",
    )


def unigram_entropy(
    counts: Array,  # (V,), how often each token occurs
) -> float:
    """Return the loss, in nats, of a model that knows how often each token occurs and no more.

    -Σ p log p, with p = counts / Σ counts; a token that never occurs adds 0.  It is about where a
    model stands that has not yet learned to look around.
    """
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log(p)).sum())


def check_new_folder(folder: Path) -> None:
    """Raise ValueError unless ``folder`` is free to become a run's."""
    if not is_free(folder):
        raise ValueError(
            f"{folder} exists already: choose another --out, or go on with it by --resume"
        )


def check_rows(config: TrainConfig, model_config: BertConfig) -> None:
    """Raise ValueError if rows would be longer, or have more segments, than the model knows."""
    if config.next_weight > 0 and model_config.type_vocab_size < 2:
        raise ValueError(
            "the model cannot tell the two sentences of a pair apart (type_vocab_size is 1): train "
            "without next-sentence prediction (--next-weight 0)"
        )
    longest = model_config.max_position_embeddings
    if config.max_length > longest:
        raise ValueError(
            f"max_length is {config.max_length}, but the model has positions for {longest} tokens: "
            "shorten it"
        )
