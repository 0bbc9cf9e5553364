"""``minibert attention``: a picture of which token looks at which."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from minibert.cli.options import Backend, BackendFlag, Folder, check_output, limit_threads


def attention(
    folder: Folder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A sentence, in quotes.")],
    pair: Annotated[
        str | None, typer.Option("--pair", metavar="TEXT", help="A second one, after [SEP].")
    ] = None,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE.png", help="Where to; replaces an older one."),
    ] = Path("attention.png"),
    layer: Annotated[
        int | None,
        typer.Option(
            "--layer",
            min=0,
            metavar="L",
            show_default="the last",
            help="Which layer, counted from 0.",
        ),
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(
            "--head",
            min=0,
            metavar="H",
            show_default="all, side by side",
            help="Which head, counted from 0.",
        ),
    ] = None,
    backend: BackendFlag = Backend.numpy,
) -> None:
    """Draw the attention weights of a sentence: one square per head, a row for each token.

    Example:  minibert attention runs/first "The loop ends." --out map.png
    """  # fmt: skip
    limit_threads(None)
    if out.suffix.lower() not in (".png", ".svg", ".pdf"):
        raise ValueError(f"--out is {out}, expected a name that ends in .png, .svg or .pdf")
    check_output(out, force=True)
    from minibert.checkpoint.huggingface import load_pretrained
    from minibert.inference import attention_maps
    from minibert.plots import plot_attention

    model, tokenizer = load_pretrained(folder, ops=backend)
    maps = attention_maps(model, tokenizer, text, pair)
    plot_attention(maps, out, layer=layer, head=head)
    L, H, T, _ = maps.weights.shape
    drawn = f"layer {L - 1 if layer is None else layer} of 0-{L - 1}, " + (
        f"all {H} heads" if head is None else f"head {head} of 0-{H - 1}"
    )
    print(f"{out}: {T} tokens, {drawn}")
