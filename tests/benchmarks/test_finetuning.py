from __future__ import annotations

import json
from pathlib import Path

import finetuning
import numpy as np
import pytest
import taskdata
from finetuning import JOBS, SLICES, Ours, Setting, Speed, comparable, is_slice, report
from programs import Ratio

from minibert.models.classifier import TaskBatch
from minibert.tasks.answer import Answered

SPEED = Speed(30.0, Ratio(1.6, 1.5, 1.7), Ratio(1.4, 1.3, 1.5))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of 4 rows, of which a small sample has enough."""
    jobs = {
        name: job._replace(recipe=finetuning.replace(job.recipe, batch_size=4, epochs=2))
        for name, job in JOBS.items()
    }
    monkeypatch.setattr(finetuning, "JOBS", jobs)


def setting(name: str, model: Path, data: Path, quick: bool = True) -> Setting:
    return Setting(name, model, data, quick)


def test_logits_of_padding_are_not_compared() -> None:
    mask = np.array([[True, True], [True, False]])
    batch = TaskBatch(mask, mask, mask, mask)
    assert comparable(np.zeros((2, 2, 5)), batch).shape == (3, 5)
    assert comparable(np.zeros((2, 5)), batch).shape == (2, 5)
    allowed = batch._replace(allowed=np.array([[True, False], [False, False]]))
    assert comparable(np.zeros((2, 2, 2)), allowed).shape == (2, 1)


def test_slices_are_verbatim() -> None:
    assert is_slice(Answered("cat", 4, 7, 1.0), "the cat")
    assert not is_slice(Answered("Cat", 4, 7, 1.0), "the cat")
    assert not is_slice(Answered("", 0, 0, 1.0), "the cat")


def test_both_kinds_of_batches_have_all_rows_full(
    short: None, small_bert: Path, task_data: Path
) -> None:
    side = Ours(setting("polarity", small_bert, task_data))
    batches = side.batches()
    assert [len(batches[kind]) for kind in ("grouped", "random")] == [finetuning.QUICK_BATCHES] * 2
    assert all(len(batch.input_ids) == 4 for kind in batches.values() for batch in kind)
    widths = [batch.input_ids.shape[1] for batch in batches["grouped"]]
    assert widths == sorted(widths)


@pytest.mark.slow
def test_last_epoch_counts_where_nothing_else_decides(
    short: None, small_bert: Path, task_data: Path
) -> None:
    side = Ours(setting("entities", small_bert, task_data))
    model = side.prepared.make_model(0)
    assert side.test is None
    assert side.measure(model, [{"f1": 0.9}, {"f1": 0.2}]) == {"f1": 0.2}
    reviews = Ours(setting("polarity", small_bert, task_data))
    assert len(reviews.test or ()) == 20
    scores = reviews.measure(reviews.prepared.make_model(0), [{"accuracy": 2.0}])
    assert 0 <= scores["accuracy"] <= 1


def test_limits_are_those_of_the_whole_recipe(tmp_path: Path) -> None:
    scores = {"minibert": [{"f1": f1, "exact_match": 0.3, SLICES: 1.0} for f1 in (0.4, 0.5, 0.47)]}
    rows, figures = report(setting("answers", tmp_path, tmp_path, quick=False), scores, SPEED)
    assert rows[0][:5] == ["answers", "F1", "0.470 (0.400-0.500)", "0.506", "0.48"]
    assert rows[1][-3:] == ["", "", ""], "speed stands once"
    assert [text for figure in figures if (text := figure.shortfall())] == [
        "answers: F1: 0.47, expected at least 0.48",
        "answers: times faster, own batches: 1.4, expected at least 1.5",
    ]
    scores["minibert"][1][SLICES] = 0.99
    rows, figures = report(setting("answers", tmp_path, tmp_path), scores, None)
    assert rows[0][3:] == [""] * 5
    assert [figure.name for figure in figures if figure.shortfall()] == [
        "answers: share that are slices of their passages"
    ]


@pytest.mark.slow
def test_every_task_without_torch(
    here: None, short: None, small_bert: Path, task_data: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    file = tmp_path / "a.json"
    folders = ["--model", str(small_bert), "--data", str(task_data)]
    jobs = [argument for name in JOBS for argument in ("--task", name)]
    assert finetuning.main([*folders, *jobs, "--quick", "--check", "--json", str(file)]) == 0
    out, err = capsys.readouterr()
    assert all(name in out for name in JOBS)
    assert "no speed without PyTorch" in err
    record = json.loads(file.read_text(encoding="utf-8"))
    assert record["scores"].keys() == JOBS.keys()
    assert record["figures"]["answers: share that are slices of their passages"] == 1.0


def test_absent_data_leaves_a_task_out(
    here: None, short: None, small_bert: Path, task_data: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    (task_data / "sick" / "SICK_trial.txt").unlink()
    folders = ["--model", str(small_bert), "--data", str(task_data), "--quick"]
    assert finetuning.main([*folders, "--task", "relatedness", "--task", "entities"]) == 0
    out, err = capsys.readouterr()
    assert "relatedness is left out: there is no" in err
    assert "entities" in out
    assert finetuning.main([*folders, "--task", "relatedness"]) == 2


def test_model_has_to_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        finetuning.main([])
    assert exit.value.code == 2
    assert "--model DIR" in capsys.readouterr().err


def test_splits_are_disjoint_and_the_same_again(task_data: Path, tmp_path: Path) -> None:
    files, again = (taskdata.polarity(task_data, tmp_path) for _ in range(2))
    assert files == again
    lines = [set(path.read_text(encoding="utf-8").splitlines()[1:]) for path in files if path]
    assert [len(part) for part in lines] == [20, 20, 20]
    assert len(set.union(*lines)) == 60
    train, dev, test = taskdata.answers(task_data, tmp_path)
    assert test is None
    counts = [len(json.loads(path.read_text(encoding="utf-8"))["data"]) for path in (train, dev)]
    assert counts == [12, 3]


@pytest.mark.parity
def test_race(
    torch_here: object, short: None, small_bert: Path, task_data: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Both have the same logits for every task, and both can be trained."""
    folders = ["--model", str(small_bert), "--data", str(task_data), "--quick"]
    jobs = [argument for name in JOBS for argument in ("--task", name)]
    assert finetuning.main([*folders, *jobs, "--rounds", "1", "--peer", "run"]) == 0
    out, err = capsys.readouterr()
    assert all(f"{name}, PyTorch, seed 0" in err for name in JOBS)
    assert "own batches" in out
