"""``minibert next``: does the second sentence follow the first?"""

from __future__ import annotations

from typing import Annotated

import typer

from minibert.cli.options import Backend, BackendFlag, Folder, JsonFlag, limit_threads
from minibert.cli.screen import on_terminal, print_json


def next_(
    folder: Folder,
    first: Annotated[str, typer.Argument(metavar="FIRST", help="A sentence, in quotes.")],
    second: Annotated[str, typer.Argument(metavar="SECOND", help="Another one.")],
    json: JsonFlag = False,
    backend: BackendFlag = Backend.numpy,
) -> None:
    """Tell whether the second sentence follows the first in a text, with the probability.

    Example:  minibert next runs/first "Open the file." "Then read its lines."
    """
    limit_threads(None)
    from minibert.checkpoint.huggingface import load_pretrained
    from minibert.inference import next_sentence

    model, tokenizer = load_pretrained(folder, ops=backend)
    probability = next_sentence(model, tokenizer, first, second)
    follows = probability >= 0.5
    if json:
        print_json({"is_next": follows, "probability": probability})
    elif on_terminal():
        certain = max(probability, 1 - probability)
        verdict = "follows" if follows else "does not follow"
        print(f"The second sentence {verdict} the first (probability of that: {certain:.3f}).")
    else:
        print(f"{'next' if follows else 'random'}\t{probability:.4f}")
