"""A small text and small runs on it, with a cache of their own."""

from pathlib import Path

import pytest

from minibert.config import BertConfig, TrainConfig
from minibert.training.run import Run, TextConfig, start_run

MODEL = BertConfig(
    vocab_size=120,
    hidden_size=12,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=24,
    max_position_embeddings=32,
)


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TextConfig:
    monkeypatch.setenv("MINIBERT_CACHE", str(tmp_path / "cache"))
    animals = ["cat", "dog", "hen", "cow", "fox", "owl"]
    documents = [
        "\n".join(f"The {animal} sees the {other} near hill {n}." for other in animals)
        for n, animal in enumerate(animals * 2)
    ]
    path = tmp_path / "text.txt"
    path.write_text("\n\n".join(documents), encoding="utf-8")
    return TextConfig([str(path)])


def new_run(folder: Path, text: TextConfig, ops="numpy", **changes) -> Run:
    options = {"steps": 6, "batch_size": 4, "max_length": 24, "log_every": 2, "evaluations": 3}
    return start_run(folder, TrainConfig(**options | changes), MODEL, text, ops)


class Quiet:
    """A watcher that remembers what it was told."""

    def __init__(self) -> None:
        self.steps, self.evals = [], []

    def stepped(self, record, progress) -> None:
        self.steps.append(record)

    def evaluated(self, record, filled) -> None:
        self.evals.append((record, filled))


class StopAfter(Quiet):
    """Asks the process to stop, as Ctrl-C does, after so many steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.limit = steps

    def stepped(self, record, progress) -> None:
        import os
        import signal

        super().stepped(record, progress)
        if len(self.steps) == self.limit:
            os.kill(os.getpid(), signal.SIGINT)
