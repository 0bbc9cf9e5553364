from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pretraining_helps
import pytest
from pretraining_helps import Found, Setting, Trainer, figures_of, measure


class Table:
    """Stands in for a trainer: the rate 1e-3 is best on dev, which test does not know."""

    def __init__(self) -> None:
        self.asked: list[Setting] = []

    def result(self, name: str, setting: Setting) -> float:
        self.asked.append(setting)
        if name == "dev":
            return 0.9 if setting.rate == 1e-3 else 0.6
        return 0.5 + setting.seed / 100


def test_rate_is_chosen_by_dev_and_with_another_seed() -> None:
    trainer = Table()
    found = measure(trainer, "fresh", 250, 3, seeds=3)
    assert found == Found(1e-3, [0.5, 0.51, 0.52])
    seeds = pretraining_helps.CHOOSING_SEEDS
    chosen = len(pretraining_helps.RATES) * len(seeds)
    assert {setting.seed for setting in trainer.asked[:chosen]} == set(seeds)
    assert [setting.seed for setting in trainer.asked[chosen:]] == [0, 1, 2]
    assert {setting[:3] for setting in trainer.asked} == {("fresh", 250, 3)}


def test_both_get_the_same_rows_and_only_one_the_weights(small_bert: Path, task_data: Path) -> None:
    trainer = Trainer(small_bert, "reviews", task_data)
    ours, fresh = (trainer.part(Setting(side, 7, 1, 1e-3, 3)) for side in pretraining_helps.SIDES)
    assert ours.training == fresh.training
    assert len(ours.training) == 7
    other = trainer.part(Setting("fresh", 7, 1, 1e-3, 4))
    assert other.training != fresh.training
    name = "bert.embeddings.word_embeddings.weight"
    weights = [
        part.make_model(seed).params[name].value for part in (ours, fresh) for seed in (0, 1)
    ]
    assert np.array_equal(weights[0], weights[1])
    assert not np.array_equal(weights[0], weights[2])
    assert not np.array_equal(weights[2], weights[3])
    assert ours.make_model(0).config == fresh.make_model(0).config


@pytest.mark.parametrize(
    ("pretrained", "fresh", "missed"),
    [
        ([0.61, 0.7, 0.8], [0.5, 0.6, 0.9], []),
        ([0.6, 0.7, 0.8], [0.5, 0.6, 0.9], ["worst seed"]),
        ([0.5, 0.6, 0.8], [0.5, 0.6, 0.6], ["median", "worst seed"]),
    ],
)
def test_check(pretrained: list[float], fresh: list[float], missed: list[str]) -> None:
    found = {"pretrained": {500: Found(1e-3, pretrained)}, "fresh": {500: Found(1e-3, fresh)}}
    names = [figure.name for figure in figures_of("pairs", found) if figure.shortfall()]
    assert [name.rpartition(", ")[2] for name in names] == missed
    assert not any(figure.shortfall() for figure in figures_of("reviews", found))


def test_whole_run(
    here: None, small_bert: Path, task_data: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(pretraining_helps, "QUICK_EPOCHS", {4: 1, 8: 1})
    monkeypatch.setattr(pretraining_helps, "CHECKED", 8)
    file, plot = tmp_path / "a.json", tmp_path / "a.svg"
    outputs = ["--json", str(file), "--plot", str(plot)]
    folders = ["--model", str(small_bert), "--data", str(task_data)]
    assert pretraining_helps.main([*folders, "--quick", *outputs]) == 0
    assert "all seeds" in capsys.readouterr().out
    scores: Any = json.loads(file.read_text(encoding="utf-8"))["scores"]
    assert list(scores) == ["pairs", "reviews"]
    for found in scores.values():
        assert [len(found[side]["8"]["scores"]) for side in pretraining_helps.SIDES] == [1, 1]
    assert plot.read_text(encoding="utf-8").startswith("<?xml")


def test_model_is_pretrained_where_none_is_given(
    here: None, task_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def pretrain(minutes: float, preset: str, out: Path) -> Path:
        asked.append((minutes, preset))
        raise SystemExit("minibert pretrain failed, exit status 1")

    monkeypatch.setattr(pretraining_helps, "pretrain", pretrain)
    with pytest.raises(SystemExit, match="pretrain failed"):
        pretraining_helps.main(["--data", str(task_data), "--quick"])
    assert asked == [(0.2, "tiny")]


def test_absent_data_and_bad_minutes(
    here: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pretraining_helps.main(["--data", str(tmp_path)]) == 2
    assert "there is no" in capsys.readouterr().err
    with pytest.raises(SystemExit) as exit:
        pretraining_helps.main(["--minutes", "0"])
    assert exit.value.code == 2
