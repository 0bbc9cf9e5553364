"""How fast is the tokenizer?  python benchmarks/tokenizer.py [--quick] [--json FILE]

The peer is the ``tokenizers`` package, compiled Rust: line by line, and its batch call on all
threads.  The text is the standard library's source code, whose lines are hard: names, numbers,
punctuation.  minibert reads it twice: with empty tables, as a corpus is read first, and again with
the tables that a first reading has filled; the package keeps no such table for WordPiece.

The ids must be equal before anything is timed.  The last two rows are the time to learn a
vocabulary from the same lines; the two learn by different rules, so those are not compared.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

from programs import Calls, Program, Ratio
from report import Figure, finish, need, new_parser, parse, positive

from minibert.tokenizer import Tokenizer, Vocabulary, train_vocabulary

VOCAB_SIZE = 8192
AT_LEAST = 1.0  # lines/s ÷ the package's on one thread
OURS, AGAIN = "minibert", "minibert, again"
SINGLE, BATCH = "tokenizers, one thread", "tokenizers, batch"


@cache
def text(count: int) -> list[str]:
    """Return so many lines, none of them blank, of the standard library's sources."""
    lines: list[str] = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        content = path.read_text(encoding="utf-8", errors="replace")
        lines += [line for line in content.split("\n") if line.strip()]
    return (lines * (1 + count // len(lines)))[:count]


def in_minibert(count: int, vocabulary: Vocabulary) -> Calls:
    warm = Tokenizer(vocabulary)

    def encode(tokenizer: Tokenizer) -> list[list[int]]:
        return [tokenizer.encode_ids(line) for line in text(count)]

    return {
        "ids": lambda: encode(warm),
        OURS: lambda: encode(Tokenizer(vocabulary)),
        AGAIN: lambda: encode(warm),
        "learn": lambda: train_vocabulary(text(count), VOCAB_SIZE),
    }


def in_package(count: int, vocabulary: Vocabulary) -> Calls:
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(vocab=dict(vocabulary.ids), lowercase=True)
    tokenizer._tokenizer.encode_special_tokens = True  # "[MASK]" in a text is text

    def learn() -> None:
        fresh = BertWordPieceTokenizer(lowercase=True)
        fresh.train_from_iterator(text(count), VOCAB_SIZE, show_progress=False)

    def one_by_one() -> list[Any]:
        return [tokenizer.encode(line, add_special_tokens=False) for line in text(count)]

    # The fast form, which newer packages have, leaves offsets out, as encode_ids does.
    encode_batch = getattr(
        tokenizer._tokenizer, "encode_batch_fast", tokenizer._tokenizer.encode_batch
    )

    def batch() -> list[Any]:
        return encode_batch(text(count), add_special_tokens=False)

    return {
        "ids": lambda: [encoding.ids for encoding in one_by_one()],
        SINGLE: one_by_one,
        BATCH: batch,
        "learn": learn,
    }


def check_ids(ours: list[list[int]], theirs: list[list[int]], lines: Sequence[str]) -> None:
    for line, our_ids, their_ids in zip(lines, ours, theirs, strict=True):
        if our_ids != their_ids:
            raise SystemExit(f"ids differ for {line!r}: {our_ids} and {their_ids}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser("How fast is the tokenizer?")
    parser.add_argument("--lines", type=positive, metavar="N", help="default: 100000, quick: 20000")
    parser.add_argument("--rounds", type=positive, metavar="N", help="default: 5, quick: 3")
    options = parse(parser, arguments)
    need("tokenizers", extra="test")
    rounds = options.rounds or (3 if options.quick else 5)
    count = options.lines or (20_000 if options.quick else 100_000)
    lines = text(count)
    megabytes = 1e-6 * sum(len(line.encode()) + 1 for line in lines)
    vocabulary = train_vocabulary(lines, VOCAB_SIZE)
    makes: dict[str, Callable[..., Calls]] = {"ours": in_minibert, "theirs": in_package}
    ours, theirs = (
        Program(make, count, vocabulary, threads=options.threads) for make in makes.values()
    )
    check_ids(ours.result("ids"), theirs.result("ids"), lines)
    seconds: dict[str, list[float]] = {name: [] for name in (OURS, AGAIN, SINGLE, BATCH)}
    learning: dict[str, list[float]] = {"minibert": [], "tokenizers": []}
    for _ in range(rounds):
        for name in seconds:
            seconds[name].append((ours if name in (OURS, AGAIN) else theirs).seconds(name))
    for _ in range(2):
        learning["minibert"].append(ours.seconds("learn"))
        learning["tokenizers"].append(theirs.seconds("learn"))
    ours.close()
    theirs.close()
    rows, figures = [], []
    for name, times in seconds.items():
        middle = median(times)
        rows.append([
            name, f"{count / middle:,.0f}", f"{megabytes / middle:.1f}",
            str(Ratio.of(times, seconds[OURS])), str(Ratio.of(times, seconds[AGAIN])), "",
        ])  # fmt: skip
        figures.append(Figure(f"{name}: lines/s", count / middle))
    ratio = Ratio.of(seconds[SINGLE], seconds[OURS]).median
    figures.append(Figure(f"{OURS} ÷ {SINGLE}", ratio, at_least=AT_LEAST))
    for name, times in learning.items():
        rows.append([f"{name}, {VOCAB_SIZE:,} pieces learned", "", "", "", "", f"{min(times):.2f}"])
        figures.append(Figure(f"{name}: seconds to learn a vocabulary", min(times)))
    print(f"{count:,} lines, {megabytes:.1f} MB")
    headers = ["", "lines/s", "MB/s", "minibert is faster", "again is faster", "seconds"]
    return finish(options, headers, rows, figures)


if __name__ == "__main__":
    sys.exit(main())
