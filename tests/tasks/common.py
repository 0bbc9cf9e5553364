"""A vocabulary and a model so small that a task is learned in a fraction of a second."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minibert.arrays import Array
from minibert.checkpoint.huggingface import save_model
from minibert.config import BertConfig
from minibert.keys import Key
from minibert.models.pretraining import BertForPreTraining
from minibert.tasks.finetuned import FineTuned
from minibert.tokenizer import SPECIAL_TOKENS, Tokenizer, Vocabulary
from minibert.training.finetune import finetune

WORDS = [
    *("the", "a", "film", "was", "good", "bad", "fine", "poor", "very", "is", "in", "lives"),
    *("ada", "paul", "jim", "hen", "##son", "rome", "oslo", "where", "who"),
    *("?", ".", ",", "-", "##s", "##ly", "x", "y", "z"),
]
TOKENIZER = Tokenizer(Vocabulary([*SPECIAL_TOKENS, *WORDS]))
GOOD, BAD = ("good", "fine"), ("bad", "poor")


def config(**changes: Any) -> BertConfig:
    """Without dropout, and with weights as loud as the width wants them."""
    sizes = {
        "vocab_size": len(TOKENIZER.vocab),
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 48,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "initializer_range": 0.25,
    }
    return BertConfig(**sizes | changes)


def pretrained(folder: Path, tokenizer: Tokenizer | None = None, **changes: Any) -> Path:
    """A folder as pretraining leaves it."""
    tokenizer = tokenizer or TOKENIZER
    sizes = config(**{"vocab_size": len(tokenizer.vocab), **changes})
    model = BertForPreTraining(sizes, ops="numpy")
    model.params.initialize(Key(1), sizes.initializer_range)
    save_model(model, tokenizer, folder)
    return folder


def write_lines(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def reviews(folder: Path) -> Path:
    """32 rows; the label hangs on one word."""
    rows = [
        f"{start} {word}{end}\t{label}"
        for start, end in (("the film was", " ."), ("a", " film"), ("very", ""), ("is it", " ?"))
        for label, words in (("pos", GOOD), ("neg", BAD))
        for word in words * 2
    ]
    return write_lines(folder / "reviews.tsv", rows)


def pairs(folder: Path, scale: float = 1.0) -> Path:
    """16 rows; two words decide, each for a half of the score."""
    rows = [
        f"the film was {a} .\ta {b} film\t{scale * ((a in GOOD) + (b in GOOD)) / 2:g}"
        for a in GOOD + BAD
        for b in GOOD + BAD
    ]
    return write_lines(folder / f"pairs-{scale:g}.tsv", rows)


def sentences(folder: Path) -> Path:
    """4 sentences with a person and a place each."""
    blocks = [
        f"{name}\tB-PER\nlives\tO\nin\tO\n{place}\tB-LOC\n"
        for name in ("Ada", "Paul")
        for place in ("Rome", "Oslo")
    ]
    return write_lines(folder / "sentences.conll", blocks)


def questions(folder: Path, name: str = "questions.jsonl") -> Path:
    """8 questions about 4 passages; the question decides which of two words is the answer."""
    rows = []
    for who in ("Ada", "Paul"):
        for where in ("Rome", "Oslo"):
            passage = f"{who} lives in {where}."
            for question, answer in (("who lives ?", who), ("where is who ?", where)):
                start = passage.index(answer)
                answers = {"text": [answer], "answer_start": [start]}
                rows.append({"question": question, "context": passage, "answers": answers})
    return write_lines(folder / name, [json.dumps(row) for row in rows])


FILES: dict[str, Callable[[Path], Path]] = {
    "classify": reviews,
    "similarity": pairs,
    "tag": sentences,
    "answer": questions,
}
INPUTS: dict[str, list[Any]] = {
    "classify": ["the film was good .", "a poor film", "very fine"],
    "similarity": [("the film was good .", "a bad film"), ("a", "a")],
    "tag": ["Ada lives in Oslo.", ["Paul", "lives", "x"], ""],
    "answer": [("who lives ?", "Ada lives in Oslo."), ("where ?", "Paul lives in Rome.")],
}
LEARN = {"epochs": 12, "batch_size": 4, "learning_rate": 5e-3, "dropout": 0.0}


def learn(task: str, model: Path, folder: Path, out: Path | None = None, **more: Any) -> FineTuned:
    """Fine-tune on the task's file, which is the dev file as well."""
    file = FILES[task](folder)
    settings = {"max_length": 20, **more.pop("settings", {})}
    return finetune(
        task, model=model, train=file, dev=file, out=out, settings=settings, ops="numpy",
        **LEARN | more,
    )  # fmt: skip


def random_logits(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(0, 3, shape).astype(np.float32)
