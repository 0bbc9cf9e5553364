from __future__ import annotations

import json
from pathlib import Path

import embedding
import numpy as np
import pytest


def test_sentences_are_as_many_as_asked_for_and_always_the_same() -> None:
    sentences = embedding.chosen(50)
    assert len(set(sentences)) > 40
    assert all(" " in sentence for sentence in sentences)
    assert sentences == embedding.chosen(50)


def test_our_side(tmp_path: Path) -> None:
    sentences = embedding.chosen(40)
    folder = embedding.fresh_model(tmp_path / "model", sentences)
    vectors = embedding.program("minibert", folder, sentences)["embed"]()
    assert vectors.shape == (40, 256)
    assert np.abs(vectors[:-1] - vectors[1:]).max() > 0.1


def test_table_and_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def race(*arguments: object) -> dict[str, list[float]]:
        return dict(zip(embedding.SIDES, ([2.0, 2.0], [2.8, 2.8], [5.0, 5.0]), strict=True))

    monkeypatch.setattr(embedding, "need", lambda *packages: None)
    monkeypatch.setattr(embedding, "race", race)
    assert embedding.main(["--count", "10", "--check"]) == 1
    shown = capsys.readouterr()
    assert "2.50" in shown.out
    assert shown.err.splitlines() == ["minibert ÷ PyTorch, by length: 1.4, expected at least 1.5"]


@pytest.mark.parity
def test_race(torch_here: object, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    assert embedding.main(["--count", "40", "--rounds", "1", "--json", str(file)]) == 0
    figures = json.loads(file.read_text(encoding="utf-8"))["figures"]
    assert all(figures[f"{side}: sentences/s"] > 0 for side in embedding.SIDES)
