"""Text to ids: WordPiece with offsets, and a trainer for vocabularies of one's own."""

from .encoding import Encoding, PaddedBatch
from .tokenizer import Tokenizer
from .trainer import train_vocabulary
from .vocab import SPECIAL_TOKENS, Vocabulary

__all__ = [
    "SPECIAL_TOKENS",
    "Encoding",
    "PaddedBatch",
    "Tokenizer",
    "Vocabulary",
    "train_vocabulary",
]
