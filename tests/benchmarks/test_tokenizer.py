from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizer


def test_race(here: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "a.json"
    assert tokenizer.main(["--lines", "300", "--rounds", "1", "--json", str(file)]) == 0
    out = capsys.readouterr().out
    assert "300 lines" in out
    names = tokenizer.OURS, tokenizer.AGAIN, tokenizer.SINGLE, tokenizer.BATCH
    assert all(name in out for name in names)
    figures = json.loads(file.read_text(encoding="utf-8"))["figures"]
    assert all(figures[f"{name}: lines/s"] > 0 for name in names)
    assert figures["minibert ÷ tokenizers, one thread"] > 0


def test_line_with_other_ids_is_named() -> None:
    with pytest.raises(SystemExit, match=r"ids differ for 'b': \[2\] and \[3\]"):
        tokenizer.check_ids([[1], [2]], [[1], [3]], ["a", "b"])


def test_text_is_as_long_as_asked_for() -> None:
    assert len(tokenizer.text(7)) == 7
    assert all(line.strip() for line in tokenizer.text(50))
