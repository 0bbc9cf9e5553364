from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pretraining
import pytest
from pretraining import OURS, Found, Setting, program, race, report, sides_of, useful_work
from report import Figure

from minibert.config import BertConfig

SMALL = Setting("tiny", 40, batch_size=4, length=16)


def test_useful_work_of_one_layer_by_hand() -> None:
    """B = 1, T = 4, C = 2, F = 8, V = 10, one masked row, so two rows are wanted of the layer."""
    config = BertConfig(
        vocab_size=10, hidden_size=2, num_hidden_layers=1, num_attention_heads=1,
        intermediate_size=8,
    )  # fmt: skip
    keys_and_values = 4 * 2 * 2 * 2
    queries_and_output, scores_and_values, feed_forward = 2 * 2 * 4, 2 * 2 * 4 * 2, 2 * 2 * 2 * 8
    layer = keys_and_values + queries_and_output + scores_and_values + feed_forward
    heads = 1 * (2 * 2 + 2 * 10) + 1 * (2 * 2 + 2 * 2)
    assert useful_work(config, B=1, T=4, M=1) == 6 * (layer + heads)


def test_batches_are_full_and_the_same_for_all() -> None:
    batch, again = (SMALL.source().batch(0) for _ in range(2))
    assert batch.input_ids.shape == (4, 16)
    assert batch.attention_mask.mean() > 0.9
    assert (batch.input_ids == again.input_ids).all()


def test_width_can_be_chosen() -> None:
    config = SMALL._replace(width=192).model(0.0).config
    assert (config.hidden_size, config.num_attention_heads, config.intermediate_size) == (
        192,
        3,
        768,
    )


@pytest.mark.parametrize("side", ["minibert", "minibert bf16"])
def test_our_side(side: str) -> None:
    calls = program(SMALL, side)
    losses, dropped = calls["losses"](0.0), calls["losses"](0.1)
    assert losses == calls["losses"](0.0)
    assert losses[0] != dropped[0]
    calls["step"]()
    assert calls["memory"]() > 0


def test_report() -> None:
    """A step of 2 s against 4 s; in bfloat16, 1 s against 1.5 s."""
    seconds = {
        "minibert": [2.0, 2.0], "best effort": [4.0, 4.0],
        "minibert bf16": [1.0, 1.0], "bfloat16": [1.5, 1.5],
    }  # fmt: skip
    memory = dict(zip(seconds, (3e6, 4e6, 5e6, 6e6), strict=True))
    masked = np.mean([len(SMALL.source().batch(i).masked_positions) for i in range(8)])
    work = useful_work(SMALL.model(0).config, 4, 16, float(masked))
    rows, figures = report(SMALL, "a", Found(seconds, work, memory))
    found = {figure.name: figure for figure in figures}
    assert found["a: minibert bf16, tokens/s"].value == 64
    faster = {"minibert ÷ best effort": 2, "minibert bf16 ÷ bfloat16": 1.5}
    for name, value in faster.items():
        figure = found[f"a: {name}, tokens/s"]
        assert (figure.value, figure.shortfall()) == (value, None)
    assert found["a: share of it in a step"].value == 0.5
    assert found["a: memory ÷ best effort"].shortfall() is None
    assert [row[1] for row in rows] == list(seconds)
    assert [row[4] for row in rows] == ["50%", "25%", "", ""]
    seconds["minibert"], memory["minibert"] = [5.0, 5.0], 4e6
    _, figures = report(SMALL, "a", Found(seconds, work, memory))
    assert [figure.name for figure in figures if figure.shortfall()] == [
        "a: minibert ÷ best effort, tokens/s",
        "a: share of it in a step",
        "a: memory ÷ best effort",
    ]


@pytest.mark.parametrize("forgetful", ["minibert", "stock"])
def test_a_side_that_forgets_dropout_is_found_out(
    monkeypatch: pytest.MonkeyPatch, forgetful: str
) -> None:
    """Losses of two sides differ by rounding; each is compared with its own."""

    class Fake:
        def __init__(self, program: object, setting: Setting, side: str, threads: int) -> None:
            self.loss, self.side = 9.0 + 1e-5 * (side == "stock"), side

        def result(self, name: str, *arguments: float) -> list[float]:
            dropped = name == "prepare" and self.side != forgetful
            return [self.loss + 0.1 * dropped] * 2

    monkeypatch.setattr(pretraining, "Program", Fake)
    with pytest.raises(SystemExit, match=f"a, vocabulary 40, {forgetful}: the loss is the same"):
        race(SMALL._replace(preset="a"), ["minibert", "stock"], SimpleNamespace(threads=1))


def test_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = ["minibert", "best effort", "stock"]
    monkeypatch.setattr(pretraining, "PAIRS", False)
    assert sides_of(SimpleNamespace(compile=False)) == plain
    monkeypatch.setattr(pretraining, "PAIRS", True)
    expected = [*plain, "compiled", "minibert bf16", "bfloat16"]
    assert sides_of(SimpleNamespace(compile=True)) == expected
    assert {*OURS, *pretraining.OPTIONS} == {*expected}


def test_check(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    settings: list[Setting] = []

    def fake_race(setting: Setting, sides: object, options: object) -> tuple[list, list]:
        settings.append(setting)
        limit = pretraining.AT_LEAST["stock"][setting.preset]
        figure = Figure(f"{setting.preset}: tokens/s ÷ stock", 2.9, at_least=limit)
        return [[setting.preset] * 7], [figure]

    monkeypatch.setattr(pretraining, "race", fake_race)
    monkeypatch.setattr(pretraining, "need", lambda *packages: None)
    file = tmp_path / "a.json"
    assert pretraining.main(["--check", "--json", str(file)]) == 1
    assert capsys.readouterr().err.splitlines() == [
        *["tiny: tokens/s ÷ stock: 2.9, expected at least 4"] * 2,
        *["mini: tokens/s ÷ stock: 2.9, expected at least 3"] * 2,
    ]
    assert len(settings) == 6
    assert json.loads(file.read_text(encoding="utf-8"))["figures"]["small: tokens/s ÷ stock"] == 2.9
    assert pretraining.main(["--check", "--preset", "small", "--vocab-size", "9"]) == 0
    assert settings[6:] == [Setting("small", 9)]


@pytest.mark.parity
def test_race(
    torch_here: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every kind of PyTorch has minibert's losses without dropout, and has dropout when timed."""
    monkeypatch.setattr(pretraining, "Setting", lambda *arguments: SMALL)
    monkeypatch.setattr(pretraining, "PAIRS", True)
    monkeypatch.setattr(pretraining, "product_rate", lambda in_torch: 1e9)
    assert pretraining.main(["--rounds", "1", "--preset", "tiny", "--vocab-size", "40"]) == 0
    out = capsys.readouterr().out
    assert all(side in out for side in (*OURS, "best effort", "stock", "bfloat16"))


@pytest.mark.parity
def test_twin_refuses_dropout_unless_it_is_asked_for(torch_here: object) -> None:
    from twin import Twin

    from minibert.training.adamw import AdamW

    model = SMALL.model(0.1)
    optimizer = AdamW(model.params, model.ops)
    with pytest.raises(ValueError, match="dropout"):
        Twin(model, optimizer)
    twin = Twin(model, optimizer, best_effort=True, dropout=True)
    batch = SMALL.source().batch(0)
    before = twin.masked_loss([batch])
    assert twin.masked_loss([batch]) == before, "dropout is off where quality is measured"
    losses = {twin.loss(twin.tensors(batch)).item() for _ in range(2)}
    assert len(losses) == 2
