"""``minibert evaluate``: how good a fine-tuned model is on a file with right answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from minibert.cli.options import (
    Backend,
    BackendFlag,
    FineTunedFolder,
    JsonFlag,
    LabelColumn,
    PairColumn,
    TextColumn,
    limit_threads,
)
from minibert.cli.screen import print_json, print_rows, progress


def evaluate(
    folder: FineTunedFolder,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Examples with right answers, as for finetune.")
    ],
    text_column: TextColumn = None,
    pair_column: PairColumn = None,
    label_column: LabelColumn = None,
    json: JsonFlag = False,
    backend: BackendFlag = Backend.numba,
) -> None:
    """Measure a fine-tuned model on a file.

    Classification: accuracy and macro-F1; similarity: Pearson and Spearman correlation; tagging:
    F1, precision and recall of whole entities; answering: F1 and exact match, SQuAD's.

    Example:  minibert evaluate runs/reviews test.tsv
    """
    limit_threads(None)
    from minibert.tasks.base import Columns
    from minibert.tasks.finetuned import load_finetuned

    model = load_finetuned(folder, ops=backend)
    with progress("evaluating") as show:
        scores = model.evaluate(file, Columns(text_column, pair_column, label_column), show)
    if json:
        print_json(scores)
        return
    rows = [(name, f"{value:.4f}") for name, value in scores.items()]
    print_rows(("score", "value"), rows, numbers=("value",))
