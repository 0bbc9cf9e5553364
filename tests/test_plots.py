"""Pictures: they are drawn whatever the text, fonts or display, whole or not at all."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from minibert.inference import AttentionMaps
from minibert.plots import plot_attention, plot_report
from minibert.plots.labels import drawable, find_font, is_honest
from minibert.plots.report import running_mean

STRANGE = ["[CLS]", "三月", "\t", "$x$", "$", "💩", "é", "\u200b", "\ud800", "\ue000", "##ing", ""]


def maps(tokens: list[str], layers: int = 2, heads: int = 3) -> AttentionMaps:
    T = len(tokens)
    weights = np.random.default_rng(0).dirichlet(np.ones(T), (layers, heads, T))
    return AttentionMaps(tokens, weights.astype(np.float32))


def write_metrics(path: Path, steps: int, **start: object) -> Path:
    lines = [{"type": "start", "vocab_size": 100, "ln_vocab": math.log(100), **start}]
    for step in range(1, steps + 1):
        lines.append({
            "type": "train", "step": step, "mlm_loss": 4 / step, "mlm_accuracy": 0.1,
            "nsp_accuracy": 0.5, "learning_rate": 1e-3, "grad_norm": 1.0,
            "tokens_per_second": 9e3, "elapsed": step * 0.5,
        })  # fmt: skip
    if steps:
        lines.append({
            "type": "eval", "step": steps, "eval_mlm_loss": 2.0, "eval_mlm_accuracy": 0.2,
            "eval_nsp_loss": 0.6, "eval_nsp_accuracy": 0.7, "elapsed": 1.0,
        })  # fmt: skip
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def without_other_fonts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a computer with no font but the one that matplotlib brings along."""
    from minibert.plots import labels

    bundled = tuple(e for e in labels.candidates() if e.name == labels.BUNDLED)
    find_font.cache_clear()
    monkeypatch.setattr(labels, "candidates", lambda: bundled)
    yield
    find_font.cache_clear()


def test_what_no_font_has_becomes_an_escape(without_other_fonts: None) -> None:
    assert drawable(STRANGE).texts == [
        "[CLS]", "\\u4e09\\u6708", "\\t", "$x$", "$", "\\U0001f4a9", "é", "\\u200b", "\\ud800",
        "\\ue000", "##ing", "",
    ]  # fmt: skip


def test_long_labels_are_cut() -> None:
    assert drawable(["x" * 99], longest=10).texts == ["xxxxxxx..."]


def test_fonts_that_claim_what_they_do_not_draw_are_not_asked() -> None:
    assert not is_honest("Last Resort High-Efficiency")
    assert not is_honest("cmr10")
    assert is_honest("DejaVu Sans")
    assert is_honest("Noto Sans CJK JP")


@pytest.mark.parametrize("head", [None, 2])
def test_attention_of_strange_tokens_gives_no_warning(tmp_path: Path, head: int | None) -> None:
    out = tmp_path / "map.png"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot_attention(maps(STRANGE), out, head=head)
    assert out.read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["map.png"]


@pytest.mark.parametrize("count", [1, 2, 200])
def test_attention_of_any_length(tmp_path: Path, count: int) -> None:
    plot_attention(maps(["token"] * count, 1, 1), tmp_path / "map.svg", layer=0)
    assert (tmp_path / "map.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_attention_refuses_what_is_not_there(tmp_path: Path) -> None:
    for choice, message in (
        ({"layer": 2}, "layer is 2, but the model has 2: 0 to 1"),
        ({"head": -1}, "head is -1, but the model has 3: 0 to 2"),
    ):
        with pytest.raises(ValueError, match=message):
            plot_attention(maps(["a"]), tmp_path / "map.png", **choice)
    with pytest.raises(ValueError, match=r"expected \.png"):
        plot_attention(maps(["a"]), tmp_path / "map.bmp")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("steps", [1, 5, 60])
def test_report(tmp_path: Path, steps: int) -> None:
    metrics = write_metrics(tmp_path / "metrics.jsonl", steps, unigram_entropy=3.9, parameters=9)
    plot_report(metrics, tmp_path / "report.png")
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


def texts_of_report(metrics: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    drawn: list[str] = []

    def save(figure: Figure, out: Path) -> None:
        drawn.extend(text.get_text() for text in figure.findobj(Text))

    monkeypatch.setattr("minibert.plots.report.save", save)
    plot_report(metrics, metrics.with_name("report.png"))
    return " | ".join(drawn)


@pytest.mark.parametrize("pairs", [True, False])
def test_report_speaks_of_next_sentence_where_there_are_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pairs: bool
) -> None:
    metrics = write_metrics(tmp_path / "metrics.jsonl", 5)
    if not pairs:
        lines = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
        lines = [{k: v for k, v in line.items() if "nsp" not in k} for line in lines]
        metrics.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    written = texts_of_report(metrics, monkeypatch)
    for text in ("next sentence", "next-sentence accuracy 70.0%", "chance, for next sentence"):
        assert (text in written) == pairs, text
    assert "masked words" in written


def test_report_of_evaluations_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metrics = write_metrics(tmp_path / "metrics.jsonl", 5)
    lines = [line for line in metrics.read_text("utf-8").splitlines() if '"train"' not in line]
    metrics.write_text("\n".join(lines), encoding="utf-8")
    assert "chance, for next sentence" in texts_of_report(metrics, monkeypatch)


def test_report_passes_over_a_line_cut_short_and_numbers_that_are_none(tmp_path: Path) -> None:
    metrics = write_metrics(tmp_path / "metrics.jsonl", 3)
    with metrics.open("a", encoding="utf-8") as file:
        file.write('{"type": "train", "step": 4, "mlm_loss": NaN}\n{"type": "train", "st')
    plot_report(metrics, tmp_path / "report.png")


def test_report_refuses_a_run_that_has_no_step(tmp_path: Path) -> None:
    metrics = write_metrics(tmp_path / "metrics.jsonl", 0)
    with pytest.raises(ValueError, match="no step of training yet"):
        plot_report(metrics, tmp_path / "report.png")
    assert not (tmp_path / "report.png").exists()


def test_the_same_numbers_give_the_same_picture(tmp_path: Path) -> None:
    metrics = write_metrics(tmp_path / "metrics.jsonl", 4)
    plot_report(metrics, tmp_path / "a.png")
    plot_report(metrics, tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_a_failed_save_leaves_the_old_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from matplotlib.figure import Figure

    def full(self: Figure, path: Path, **_: object) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    out = tmp_path / "map.png"
    out.write_bytes(b"old")
    monkeypatch.setattr(Figure, "savefig", full)
    with pytest.raises(OSError, match="No space"):
        plot_attention(maps(["a"]), out)
    assert out.read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["map.png"]


def test_no_display_and_no_pyplot_are_needed(tmp_path: Path) -> None:
    code = (
        "import sys, minibert.plots as p, numpy as np; from minibert.inference import *; "
        "from pathlib import Path; "
        "p.plot_attention(AttentionMaps(['a'], np.ones((1, 1, 1, 1))), Path('m.png')); "
        "sys.exit('matplotlib.pyplot' in sys.modules)"
    )
    environment = {"MPLBACKEND": "tkagg", "DISPLAY": "", "MPLCONFIGDIR": str(tmp_path)}
    subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, **environment},
        cwd=tmp_path,
        check=True,
    )


def test_running_mean_keeps_a_steep_start_and_a_smooth_end() -> None:
    y = np.array([9.0, 3.0, 1.0, 2.0, 1.0, 2.0])
    assert running_mean(y, 0).tolist() == y.tolist()
    assert running_mean(y, 2).tolist()[0] == 9.0
    assert running_mean(y, 2).tolist()[-1] == pytest.approx(5 / 3)
