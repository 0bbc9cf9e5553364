"""How fast does it turn sentences into vectors?  python benchmarks/embedding.py [--model DIR]

From text to one vector for each sentence, the mean over its tokens: tokenizer, batches, model.  The
peer is transformers' BertModel with PyTorch's fused attention and the compiled tokenizer, used in
two ways: sentences run together by length, as sentence-transformers does it and minibert too, and
in the order in which they come, as in most people's own loops.  Batches are of 32.

Sentences are those of the embedded documentation.  Without --model the model is a fresh one of the
size of "mini": the numbers in it do not change the time.  All vectors must be equal before anything
is timed.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from programs import Calls, Program, Ratio, check_equal, take_turns
from report import Figure, finish, need, new_parser, parse, positive

import minibert
from minibert.arrays import Array
from minibert.checkpoint.huggingface import save_model
from minibert.config import BertConfig
from minibert.data import embedded_documents
from minibert.keys import Key
from minibert.models.pretraining import BertForPreTraining
from minibert.tokenizer import Tokenizer, train_vocabulary

COUNT, QUICK_COUNT = 1000, 200
VOCAB_SIZE, BATCH = 8192, 32
CLOSE = 1e-4  # of the largest number
FASTER = 1.5  # times, at least, than PyTorch by length
TURN = 1.0  # seconds
SORTED, PLAIN = "PyTorch, by length", "PyTorch, as they come"
SIDES = ("minibert", SORTED, PLAIN)


@cache
def every_sentence() -> list[str]:
    """Return the documentation's sentences of two words and more."""
    found = (sentence for document in embedded_documents() for sentence in document)
    return [sentence for sentence in found if " " in sentence.strip()]


def chosen(count: int) -> list[str]:
    """Return sentences from all over the documentation, shuffled."""
    return random.Random(0).sample(every_sentence(), count)


def fresh_model(folder: Path, sentences: Sequence[str]) -> Path:
    """Save a model with random weights; return its folder."""
    vocabulary = train_vocabulary(sentences, VOCAB_SIZE)
    model = BertForPreTraining(BertConfig.preset("mini", vocab_size=len(vocabulary)))
    model.initialize(Key(0).child("weights"))
    save_model(model, Tokenizer(vocabulary), folder)
    return folder


def program(side: str, folder: Path, sentences: Sequence[str]) -> Calls:
    ours = side == "minibert"
    embed = in_minibert(folder) if ours else in_torch(folder, by_length=side == SORTED)
    return {"embed": lambda: embed(sentences)}


def in_minibert(folder: Path) -> Any:
    model, tokenizer = minibert.load_pretrained(folder)
    return lambda sentences: minibert.embed(model, tokenizer, sentences, batch_size=BATCH)


def in_torch(folder: Path, *, by_length: bool) -> Any:
    import torch
    from transformers import BertModel, BertTokenizerFast
    from transformers.utils import logging

    logging.disable_progress_bar()

    tokenizer: Any = BertTokenizerFast.from_pretrained(folder)
    model: Any = BertModel.from_pretrained(folder, attn_implementation="sdpa").eval()

    def embed(sentences: Sequence[str]) -> Array:
        order = list(range(len(sentences)))
        if by_length:
            order.sort(key=lambda number: len(sentences[number]))
        vectors = np.empty((len(sentences), model.config.hidden_size), np.float32)
        for start in range(0, len(order), BATCH):
            numbers = order[start : start + BATCH]
            inputs = tokenizer(
                [sentences[number] for number in numbers],
                padding=True, truncation=True, max_length=model.config.max_position_embeddings,
                return_tensors="pt",
            )  # fmt: skip
            with torch.inference_mode():
                hidden = model(**inputs).last_hidden_state
                weights = inputs["attention_mask"][..., None].to(hidden.dtype)
                vectors[numbers] = ((hidden * weights).sum(1) / weights.sum(1)).numpy()
        return vectors

    return embed


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser("How fast does it turn sentences into vectors?")
    parser.add_argument("--model", type=Path, metavar="DIR", help="default: a fresh one")
    parser.add_argument("--count", type=positive, metavar="N", help="default: 1000, quick: 200")
    parser.add_argument("--rounds", type=positive, metavar="N", help="default: 5, quick: 3")
    options = parse(parser, arguments)
    need("torch", "transformers")
    sentences = chosen(options.count or (QUICK_COUNT if options.quick else COUNT))
    rounds = options.rounds or (3 if options.quick else 5)
    with tempfile.TemporaryDirectory() as name:
        folder = options.model or fresh_model(Path(name), sentences)
        seconds = race(folder, sentences, rounds, options.threads)
    rows, figures = [], []
    for side, times in seconds.items():
        ratio, rate = Ratio.of(times, seconds["minibert"]), len(sentences) / median(times)
        rows.append([side, f"{rate:,.0f}", "" if side == "minibert" else str(ratio)])
        figures.append(Figure(f"{side}: sentences/s", rate))
        if side != "minibert":
            limit = FASTER if side == SORTED else None
            figures.append(Figure(f"minibert ÷ {side}", ratio.median, at_least=limit))
    print(f"{len(sentences):,} sentences")
    return finish(options, ["", "sentences/s", "minibert is faster"], rows, figures)


def race(
    folder: Path, sentences: Sequence[str], rounds: int, threads: int
) -> dict[str, list[float]]:
    """Check that all give the same vectors, then time them in turns."""
    programs = {side: Program(program, side, folder, sentences, threads=threads) for side in SIDES}
    ours = programs["minibert"].result("embed")
    for side in SIDES[1:]:
        check_equal(side, ours, programs[side].result("embed"), CLOSE)
    found = take_turns(programs, "embed", rounds, TURN)
    for side in programs.values():
        side.close()
    return found


if __name__ == "__main__":
    sys.exit(main())
