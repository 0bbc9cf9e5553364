"""A tokenizer for texts that are written as ids."""

from minibert.tokenizer import Vocabulary
from minibert.tokenizer.vocab import SPECIAL_TOKENS

SPECIALS = len(SPECIAL_TOKENS)


class Numbers:
    """The words are w0, w1, …, with the ids 5, 6, …; a text is a list of ids."""

    def __init__(self, words: int) -> None:
        self.vocab = Vocabulary([*SPECIAL_TOKENS, *(f"w{i}" for i in range(words))])

    def encode_ids(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]
