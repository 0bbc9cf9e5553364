"""The gallery: wrong backward passes that people have published, or that learners write.

    python -m tests.gallery

plants every one of them in turn, shows that the gradient suite rejects it, and which weaker tests
it would have slipped through.  Lessons take their examples from here:

    >>> from tests.gallery import MISTAKES
    >>> len(MISTAKES) >= 40
    True
    >>> sorted({mistake.topic for mistake in MISTAKES})[:3]
    ['activations', 'add_norm', 'attention']
"""

from tests.gallery import (
    activations,
    attention,
    embedding,
    encoder,
    layernorm,
    linear,
    optimisation,
    softmax,
)  # fmt: skip
from tests.gallery.mistake import TOPICS, Mistake, planted, rejection

MISTAKES: list[Mistake] = [
    *linear.MISTAKES,
    *softmax.MISTAKES,
    *layernorm.MISTAKES,
    *activations.MISTAKES,
    *embedding.MISTAKES,
    *attention.MISTAKES,
    *encoder.MISTAKES,
    *optimisation.MISTAKES,
]

__all__ = ["MISTAKES", "TOPICS", "Mistake", "planted", "rejection"]
