"""Sentences with a blank, taken from held-out text, to watch a model get better at them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minibert.keys import Key
from minibert.training.evaluate import Blank

if TYPE_CHECKING:
    from minibert.data.split import DocumentSet
    from minibert.tokenizer import Tokenizer

SHORTEST, LONGEST = 6, 16  # tokens of a sentence that reads well in one line
TRIES = 2000


def choose_blanks(
    documents: DocumentSet, tokenizer: Tokenizer, key: Key, count: int = 3
) -> list[Blank]:
    """Return up to ``count`` short held-out sentences, each with one word replaced by [MASK].

    The word is a single piece of at least three letters, so that the right answer is one token.
    Fewer are returned where the text has no such sentences.
    """
    corpus, vocab = documents.corpus, tokenizer.vocab
    generator = key.generator()
    chosen: list[Blank] = []
    for _ in range(TRIES):
        if len(chosen) == count:
            break
        document = int(generator.integers(len(documents)))
        sentence = int(generator.integers(documents.first[document], documents.end[document]))
        start, stop = corpus.sentences[sentence : sentence + 2]
        ids = corpus.tokens[start:stop].tolist()
        if not SHORTEST <= len(ids) <= LONGEST or vocab.unk_id in ids:
            continue
        words = [
            place
            for place, token in enumerate(ids)
            if len(vocab.tokens[token]) >= 3
            and vocab.tokens[token].isalpha()
            and not (place + 1 < len(ids) and vocab.continuation[ids[place + 1]])
        ]
        if not words:
            continue
        place = words[int(generator.integers(len(words)))]
        answer = vocab.tokens[ids[place]]
        ids[place] = vocab.mask_id
        chosen.append(Blank(tokenizer.decode(ids, skip_special_tokens=False), answer))
    return chosen
