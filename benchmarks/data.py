"""Time the way from text to batches: python benchmarks/data.py

Prints the embedded corpus's size and the time of each step on it; of a batch, the median.
"""

from __future__ import annotations

import tempfile
from statistics import median
from time import perf_counter

from minibert.data import BatchSource, cached_corpus, embedded_documents
from minibert.keys import Key
from minibert.tokenizer import Tokenizer, train_vocabulary


def main() -> None:
    start = perf_counter()
    documents = list(embedded_documents())
    sentences = [sentence for document in documents for sentence in document]
    words = sum(len(sentence.split()) for sentence in sentences)
    size = sum(len(sentence.encode("utf-8")) + 1 for sentence in sentences)
    print(
        f"embedded corpus: {len(documents):,} documents, {len(sentences):,} sentences, "
        f"{words:,} words, {size:,} bytes in {perf_counter() - start:.2f} s"
    )
    tokenizer = Tokenizer(train_vocabulary(sentences, 4096))
    with tempfile.TemporaryDirectory() as folder:
        for step in ("tokenise and write", "open again"):
            start = perf_counter()
            corpus = cached_corpus([], tokenizer, folder)
            print(f"{step}: {len(corpus.tokens):,} tokens in {perf_counter() - start:.4f} s")
        train, _ = corpus.split(0.05, Key(0))
        for max_length in (64, 128):
            for whole_word in (False, True):
                source = BatchSource(
                    train,
                    tokenizer.vocab,
                    batch_size=32,
                    max_length=max_length,
                    key=Key(0),
                    whole_word=whole_word,
                )
                print(
                    f"batch of 32 x {max_length}{', whole words' * whole_word}: "
                    f"{1000 * median(seconds(source, i) for i in range(300)):.2f} ms"
                )


def seconds(source: BatchSource, index: int) -> float:
    start = perf_counter()
    source.batch(index)
    return perf_counter() - start


if __name__ == "__main__":
    main()
