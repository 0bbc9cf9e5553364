"""The training loop: it learns, counts right, stops well, and resumes with the same bytes."""

import json
import math
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from minibert.keys import Key
from minibert.models.pretraining import LossWeights
from minibert.training.loop import DivergedError, loss_weights, train, training_step
from minibert.training.run import resume_run

from .conftest import Quiet, StopAfter, new_run


def state_of(run):
    return (
        run.model.params.value.tobytes(),
        run.optimizer.moment1.tobytes(),
        run.optimizer.moment2.tobytes(),
        run.optimizer.updates,
        run.position.step,
        run.position.tokens,
        run.position.evaluations,
        run.position.best_loss,
    )


def test_loss_falls(tmp_path, text, ops) -> None:
    run, watcher = new_run(tmp_path / "run", text, ops, steps=60, learning_rate=1e-2), Quiet()
    assert train(run, watcher) == "finished"
    losses = [record["mlm_loss"] for record in watcher.steps]
    assert len(losses) == 60
    assert losses[0] == pytest.approx(math.log(run.model.config.vocab_size), rel=0.05)
    assert np.mean(losses[-10:]) < 0.75 * losses[0]


def test_first_loss_is_that_of_guessing(tmp_path, text, ops) -> None:
    run, watcher = new_run(tmp_path / "run", text, ops, steps=1), Quiet()
    train(run, watcher)
    expected = math.log(run.model.config.vocab_size) + math.log(2)
    assert watcher.steps[0]["loss"] == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("accumulation", [1, 3])
def test_resume_at_every_step_gives_the_same_bytes(tmp_path, text, ops, accumulation) -> None:
    options = {"steps": 7, "accumulation": accumulation, "batch_size": 3}
    straight = new_run(tmp_path / "straight", text, ops, **options)
    train(straight, Quiet())
    for stop in range(1, 7):
        folder = tmp_path / f"stopped-{stop}"
        assert train(new_run(folder, text, ops, **options), StopAfter(stop)) == "stopped"
        resumed = resume_run(folder, ops)
        assert resumed.position.step == stop
        assert train(resumed, Quiet()) == "finished"
        assert state_of(resumed) == state_of(straight)
        for name in ("model.safetensors", "best/model.safetensors"):
            first, second = (f / name for f in (folder, straight.folder))
            assert first.read_bytes() == second.read_bytes()


def test_stop_inside_accumulation_leaves_no_half_step(tmp_path, text) -> None:
    """The signal comes between two micro-batches; the step is finished before it is obeyed."""
    straight = new_run(tmp_path / "straight", text, steps=3, accumulation=2)
    train(straight, Quiet())
    run = new_run(tmp_path / "run", text, steps=3, accumulation=2)
    backward, calls = run.model.backward, []

    def interrupted(cache) -> None:
        backward(cache)
        calls.append(1)
        if len(calls) == 3:  # the first micro-batch of the second step
            os.kill(os.getpid(), signal.SIGINT)

    run.model.backward = interrupted
    assert train(run, Quiet()) == "stopped"
    assert run.position.step == 2
    resumed = resume_run(run.folder, "numpy")
    train(resumed, Quiet())
    assert state_of(resumed) == state_of(straight)


def test_resume_across_an_epoch_end(tmp_path, text) -> None:
    probe = new_run(tmp_path / "probe", text)
    steps = probe.source.rows_per_epoch // 16 + 3
    options = {"steps": steps, "batch_size": 16}
    straight = new_run(tmp_path / "straight", text, **options)
    train(straight, Quiet())
    for stop in range(steps - 4, steps):
        folder = tmp_path / f"stopped-{stop}"
        train(new_run(folder, text, **options), StopAfter(stop))
        resumed = resume_run(folder, "numpy")
        train(resumed, Quiet())
        assert state_of(resumed) == state_of(straight)


def test_killed_run_drops_what_it_had_not_saved(tmp_path, text) -> None:
    run = new_run(tmp_path / "run", text, steps=6, log_every=1)
    train(run, StopAfter(3))
    with (run.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"type": "train", "step": 4, "loss": 1.0}\n{"type": "train", "st')
    train(resume_run(run.folder, "numpy"), Quiet())
    lines = (run.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    assert [r["step"] for r in records if r["type"] == "train"] == [1, 2, 3, 4, 5, 6]
    assert records[0]["type"] == "start"
    assert records[0]["ln_vocab"] == pytest.approx(math.log(records[0]["vocab_size"]), rel=1e-5)
    assert 0 < records[0]["unigram_entropy"] < records[0]["ln_vocab"]


def test_evaluations_are_spread_evenly_and_end_with_the_run(tmp_path, text) -> None:
    run, watcher = new_run(tmp_path / "run", text, steps=9, evaluations=3), Quiet()
    train(run, watcher)
    assert [record["step"] for record, _ in watcher.evals] == [3, 6, 9]
    last = json.loads((run.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1])
    assert last["type"] == "eval"
    assert {"eval_mlm_loss", "eval_mlm_accuracy", "eval_nsp_accuracy"} <= last.keys()


def test_a_run_by_the_clock_ends_by_it(tmp_path, text) -> None:
    run, watcher = new_run(tmp_path / "run", text, steps=None, minutes=0.005), Quiet()
    assert train(run, watcher) == "finished"
    assert run.position.elapsed >= 0.3
    assert watcher.evals[-1][0]["step"] == run.position.step
    rates = [record["learning_rate"] for record in watcher.steps]
    assert 0 <= rates[-1] < max(rates) <= run.config.learning_rate


def test_accumulation_weighs_tokens_not_micro_batches(tmp_path, text) -> None:
    """Losses {4} and {1, 1, 1}: (4 + 1 + 1 + 1) / 4 = 1.75, where the mean of means is 2.5."""
    run = new_run(tmp_path / "run", text)
    template = run.source.batch(0)
    one = template._replace(masked_labels=np.array([5], np.int32))
    three = template._replace(masked_labels=np.array([5, 6, -100, 7], np.int32))
    weights = loss_weights([one, three], run.config)
    assert weights.masked * (4 + 1 + 1 + 1) == pytest.approx(1.75)
    assert weights.next == pytest.approx(1 / 8)


def test_nan_stops_with_step_and_cause_and_keeps_the_checkpoint(tmp_path, text) -> None:
    run = new_run(tmp_path / "run", text)
    train(run, StopAfter(2))
    saved = (run.folder / "model.safetensors").read_bytes()
    resumed = resume_run(run.folder, "numpy")
    resumed.model.params["bert.pooler.dense.weight"].value[0, 0] = np.nan
    with pytest.raises(DivergedError, match=r"step 3: the weight bert\.pooler\.dense\.weight"):
        train(resumed, Quiet())
    assert (run.folder / "model.safetensors").read_bytes() == saved


def test_gradient_is_clipped_to_the_norm(tmp_path, text, monkeypatch) -> None:
    run = new_run(tmp_path / "run", text, clip_norm=1e-3)
    scales = []
    monkeypatch.setattr(run.optimizer, "update", lambda rate, grad_scale: scales.append(grad_scale))
    record = training_step(run, 0.5)
    norm = math.sqrt(float((run.model.params.grad.astype(np.float64) ** 2).sum()))
    assert record["grad_norm"] == pytest.approx(norm, rel=1e-5)
    assert scales == [pytest.approx(1e-3 / norm, rel=1e-5)]


def test_two_steps_drop_different_values(tmp_path, text) -> None:
    run = new_run(tmp_path / "run", text)
    batch = run.source.batch(0)
    key = Key(run.config.seed)
    losses = {
        run.model.forward(batch, key.child("step", s, "micro", 0), LossWeights(1, 1))[0].loss
        for s in (0, 0, 1)
    }
    assert len(losses) == 2


def test_existing_folder_is_refused_and_left_alone(tmp_path, text) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "mine.txt").write_text("keep", encoding="utf-8")
    with pytest.raises(ValueError, match="exists already"):
        new_run(folder, text)
    assert [path.name for path in folder.iterdir()] == ["mine.txt"]


def test_changed_text_is_refused_on_resume(tmp_path, text) -> None:
    train(new_run(tmp_path / "run", text), StopAfter(1))
    with Path(text.files[0]).open("a", encoding="utf-8") as file:
        file.write("One more sentence.\n")
    with pytest.raises(ValueError, match="has changed"):
        resume_run(tmp_path / "run", "numpy")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_length": 7}, "at least 8"),
        ({"max_length": 33}, "positions for 32"),
        ({"steps": 0}, "steps is 0"),
        ({"steps": 1, "minutes": 1.0}, "either steps or minutes"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"held_out": 1.0}, "held_out"),
        ({"optimizer": "sgd"}, "muon, adamw, bertadam"),
        ({"masked_weight": 0, "next_weight": 0}, "nothing would be trained"),
    ],
)
def test_bad_settings_are_refused(tmp_path, text, changes, message) -> None:
    with pytest.raises(ValueError, match=message):
        new_run(tmp_path / "run", text, **changes)
    assert not (tmp_path / "run").exists()


def test_resume_needs_only_the_one_file_that_is_replaced_as_a_whole(tmp_path, text) -> None:
    """A crash between two renames may leave the model's file of another step, or a damaged one."""
    straight = new_run(tmp_path / "straight", text)
    train(straight, Quiet())
    train(new_run(tmp_path / "run", text), StopAfter(2))
    (tmp_path / "run" / "model.safetensors").write_bytes(b"cut sh")
    resumed = resume_run(tmp_path / "run", "numpy")
    train(resumed, Quiet())
    assert state_of(resumed) == state_of(straight)
