"""How fast does it train?  python benchmarks/pretraining.py [--quick] [--check] [--compile]

One step of pretraining, with everything that belongs to it: drawing the batch, forward, backward,
clipping, AdamW.  The peers are PyTorch's BertForPreTraining as transformers has it ("stock"), which
scores the vocabulary at every position, and what somebody who wants speed makes of the same parts
("best effort", see twin.py); that one also compiled, if asked for.  Where the processor multiplies
in bfloat16, minibert with --precision bf16 and the best effort under autocast race, too.

All get the same batches of 32 rows of 128 tokens, the same weights and the same rates, and dropout
0.1.  PyTorch draws its dropout otherwise, so equality is checked without: two steps must have the
same losses.  Only then the models with dropout are made and timed.

Tokens are all places of a batch.  "Useful" are the multiplications and additions of the matrix
products without which there is no step: in the last layer, and for the vocabulary, masked rows and
[CLS] alone.  So useful GFLOP/s compare programs of which one computes more than it has to.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from machine import peak_memory
from programs import Calls, Program, Ratio, check_equal, take_turns, turn
from report import Figure, finish, need, new_parser, parse, positive

from minibert.config import BertConfig, TrainConfig
from minibert.data.batches import BatchSource
from minibert.data.corpus import TokenCorpus
from minibert.keys import Key
from minibert.models.pretraining import BertForPreTraining
from minibert.ops.cpu.vectors import PAIRS
from minibert.tokenizer import SPECIAL_TOKENS, Vocabulary
from minibert.training.adamw import AdamW
from minibert.training.loop import Position, training_step
from minibert.training.schedule import warmup_linear

AT_LEAST = {  # tokens/s ÷ the peer's, for every vocabulary
    "best effort": {"tiny": 2.0, "mini": 2.0, "small": 2.0},
    "stock": {"tiny": 4.0, "mini": 3.0, "small": 2.5},
    "compiled": {"tiny": 1.6, "mini": 1.8, "small": 1.8},
    "bfloat16": {"tiny": 1.2, "mini": 1.2, "small": 1.1},
}
SHARE = {"tiny": 0.5, "mini": 0.6, "small": 0.7}  # of the products' peak, at least
MEMORY = 0.8  # of the best effort's, at most
OURS = {"minibert": "numba", "minibert bf16": "numba-bf16"}  # our sides, each with its backend
RIVAL = {"bfloat16": "minibert bf16"}  # whom a peer is compared with, if not "minibert"
VOCABULARIES = (8192, 30522)
DROPOUT = 0.1
PROGRESS = 0.5  # of a run: decides the learning rate
CLOSE_IN_FLOAT32 = 1e-4  # the largest gap of two losses, relative to one of them
CLOSE = {"bfloat16": 2e-2, "minibert bf16": 2e-2}  # the same, for those that round
DROPPED = 1e-6  # the least gap that dropout makes
TURN = 1.0  # seconds
OPTIONS: dict[str, dict[str, bool]] = {
    "stock": {},
    "best effort": {"best_effort": True},
    "compiled": {"best_effort": True, "compiled": True},
    "bfloat16": {"best_effort": True, "bfloat16": True},
}


class Setting(NamedTuple):
    preset: str
    vocab_size: int
    batch_size: int = 32
    length: int = 128
    width: int | None = None  # instead of the preset's; heads are 64 wide, as in all presets

    def model(self, dropout: float, backend: str = "numba") -> BertForPreTraining:
        changes: dict[str, Any] = {
            "vocab_size": self.vocab_size,
            "hidden_dropout_prob": dropout,
            "attention_probs_dropout_prob": dropout,
        }
        if self.width is not None:
            changes |= {
                "hidden_size": self.width,
                "num_attention_heads": self.width // 64,
                "intermediate_size": 4 * self.width,
            }
        config = BertConfig.preset(self.preset, **changes)
        model = BertForPreTraining(config, backend)
        model.initialize(Key(0).child("weights"))
        return model

    def training(self) -> TrainConfig:
        return TrainConfig(
            steps=1000,
            batch_size=self.batch_size,
            max_length=self.length,
            learning_rate=1e-4,
        )

    def source(self) -> BatchSource:
        """Return batches of made-up text, all rows of full length.

        Words occur as often as Zipf's law has it: the r-th most frequent one in inverse proportion
        to r.
        """
        generator, special = np.random.default_rng(0), len(SPECIAL_TOKENS)
        words = self.vocab_size - special
        ranks = np.exp(generator.uniform(0, np.log(words), 300_000)).astype(np.int32) - 1
        sentences = np.arange(0, len(ranks) + 1, 20)
        documents = np.arange(0, len(sentences), 100)
        tokens = special + np.minimum(ranks, words - 1)
        corpus = TokenCorpus(Path(), tokens, sentences, documents, self.vocab_size)
        return BatchSource(
            corpus.all_documents(),
            Vocabulary([*SPECIAL_TOKENS, *(f"word{number}" for number in range(words))]),
            batch_size=self.batch_size,
            max_length=self.length,
            key=Key(0),
            short_probability=0.0,
        )


class OurSteps:
    """minibert's training loop, one step after another."""

    def __init__(self, setting: Setting, dropout: float, backend: str = "numba") -> None:
        model, config = setting.model(dropout, backend), setting.training()
        self.run: Any = SimpleNamespace(
            config=config,
            model=model,
            optimizer=AdamW(model.params, model.ops, weight_decay=config.weight_decay),
            source=setting.source(),
            position=Position(),
        )

    def step(self) -> float:
        return training_step(self.run, PROGRESS)["loss"]


class TheirSteps:
    """The same in PyTorch."""

    def __init__(self, setting: Setting, dropout: float, options: dict[str, bool]) -> None:
        from twin import Twin

        model, config = setting.model(dropout), setting.training()
        optimizer = AdamW(model.params, model.ops, weight_decay=config.weight_decay)
        self.source, self.number = setting.source(), 0
        self.rate = config.learning_rate * warmup_linear(PROGRESS, config.warmup)
        self.twin = Twin(
            model, optimizer, clip_norm=config.clip_norm, dropout=dropout > 0, **options
        )

    def step(self) -> float:
        loss = self.twin.step(self.source.batch(self.number), self.rate)
        self.number += 1
        return loss


def program(setting: Setting, side: str) -> Calls:
    """Be one side of the race; the model that is timed is made when it is first asked for."""

    def make(dropout: float) -> OurSteps | TheirSteps:
        if side in OURS:
            return OurSteps(setting, dropout, OURS[side])
        return TheirSteps(setting, dropout, OPTIONS[side])

    def losses(dropout: float) -> list[float]:
        steps = make(dropout)
        return [steps.step() for _ in range(2)]

    timed = cache(partial(make, DROPOUT))
    return {
        "losses": losses,
        "prepare": lambda: [timed().step() for _ in range(2)],
        "step": lambda: timed().step(),
        "peak": partial(product_rate, in_torch=side not in OURS),
        "memory": peak_memory,
    }


def product_rate(in_torch: bool, size: int = 1024) -> float:
    """Return the FLOP/s of a large product in float32, the best of three tries."""
    a, b = np.random.default_rng(0).standard_normal((2, size, size), dtype=np.float32)
    if in_torch:
        import torch

        call = partial(torch.matmul, torch.from_numpy(a), torch.from_numpy(b))
    else:
        from minibert.ops.cpu.gemm import matmul

        call = partial(matmul, a, b)
    return 2 * size**3 / min(turn(call, 0.1) for _ in range(3))


def useful_work(config: BertConfig, B: int, T: int, M: float) -> float:
    """Return the floating-point operations of one step's products, M of B x T tokens masked.

    A product is one forward and two backward (both gradients), each of 2 operations for every
    multiplication; scores and weighted values are 2 T C multiplications for each query.
    """
    C, F, V = config.hidden_size, config.intermediate_size, config.vocab_size
    tokens, wanted = B * T, M + B  # the last layer's wanted rows: masked ones and [CLS]
    whole_layer = tokens * (4 * C * C + 2 * C * F + 2 * T * C)
    last_layer = tokens * 2 * C * C + wanted * (2 * C * C + 2 * C * F + 2 * T * C)
    heads = M * (C * C + C * V) + B * (C * C + 2 * C)
    return 6 * ((config.num_hidden_layers - 1) * whole_layer + last_layer + heads)


def sides_of(options: Any) -> list[str]:
    sides = ["minibert", "best effort", "stock"] + ["compiled"] * options.compile
    return sides + ["minibert bf16", "bfloat16"] * PAIRS


def race(setting: Setting, sides: Sequence[str], options: Any) -> tuple[list[list[str]], list[Any]]:
    """Time one setting; return its rows of the table and its figures."""
    programs = {side: Program(program, setting, side, threads=options.threads) for side in sides}
    label = f"{setting.preset}, vocabulary {setting.vocab_size:,}"
    losses = {side: programs[side].result("losses", 0.0) for side in sides}
    for side in sides:
        near = CLOSE.get(side, CLOSE_IN_FLOAT32)
        check_equal(f"{label}, {side}", losses["minibert"], losses[side], near)
        dropped, whole = programs[side].result("prepare")[0], losses[side][0]
        if abs(dropped - whole) < DROPPED * abs(whole):
            raise SystemExit(f"{label}, {side}: the loss is the same with dropout as without")
    seconds = take_turns(programs, "step", options.rounds, TURN)
    peak = max(side.result("peak") for side in programs.values())
    memory = {side: programs[side].result("memory") for side in sides}
    for side in programs.values():
        side.close()
    return report(setting, label, Found(seconds, peak, memory))


class Found(NamedTuple):
    seconds: dict[str, list[float]]  # for a step, by side
    peak: float  # FLOP/s
    memory: dict[str, float]  # bytes, by side


def report(setting: Setting, label: str, found: Found) -> tuple[list[list[str]], list[Figure]]:
    source = setting.source()
    masked = float(np.mean([len(source.batch(i).masked_positions) for i in range(8)]))
    tokens = setting.batch_size * setting.length
    work = useful_work(setting.model(0).config, setting.batch_size, setting.length, masked)
    rows, figures = [], []
    for side, rounds in found.seconds.items():
        seconds, share, ratio = median(rounds), "", ""
        figures.append(Figure(f"{label}: {side}, tokens/s", tokens / seconds))
        if side not in (*RIVAL, *RIVAL.values()):  # the peak is one of float32
            share = f"{work / seconds / found.peak:.0%}"
        if side not in OURS:
            rival = RIVAL.get(side, "minibert")
            faster = Ratio.of(rounds, found.seconds[rival])
            ratio, limit = str(faster), AT_LEAST[side].get(setting.preset)
            figures.append(Figure(f"{label}: {rival} ÷ {side}, tokens/s", faster.median, limit))
        rows.append([
            label, side, f"{tokens / seconds:,.0f}", f"{1e-9 * work / seconds:.0f}", share,
            f"{found.memory[side] / 1e6:,.0f}", ratio,
        ])  # fmt: skip
    share = work / median(found.seconds["minibert"]) / found.peak
    memory = found.memory["minibert"] / found.memory["best effort"]
    figures += [
        Figure(f"{label}: largest product rate, GFLOP/s", 1e-9 * found.peak),
        Figure(f"{label}: share of it in a step", share, at_least=SHARE.get(setting.preset)),
        Figure(f"{label}: memory ÷ best effort", memory, at_most=MEMORY),
    ]
    return rows, figures


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser("How fast does it train?")
    parser.add_argument(
        "--preset", action="append", choices=list(AT_LEAST["stock"]), help="may be given again"
    )
    parser.add_argument("--vocab-size", action="append", type=positive, metavar="N")
    parser.add_argument("--rounds", type=positive, metavar="N", help="default: 5, quick: 3")
    parser.add_argument("--compile", action="store_true", help="race against torch.compile, too")
    options = parse(parser, arguments)
    need("torch", "transformers")
    options.rounds = options.rounds or (3 if options.quick else 5)
    presets = options.preset or (["tiny"] if options.quick else list(AT_LEAST["stock"]))
    vocabularies = options.vocab_size or VOCABULARIES[: 1 if options.quick else None]
    sides = sides_of(options)
    rows, figures = [], []
    for preset in presets:
        for vocab_size in vocabularies:
            more_rows, more_figures = race(Setting(preset, vocab_size), sides, options)
            rows += more_rows
            figures += more_figures
    headers = [
        "32 x 128 tokens", "", "tokens/s", "useful GFLOP/s", "of peak", "memory MB",
        "minibert is faster",
    ]  # fmt: skip
    return finish(options, headers, rows, figures)


if __name__ == "__main__":
    sys.exit(main())
