"""The benchmarks are programs in a folder of their own, so that folder is made importable here.

No speed is asked for: programs run in this process, at tiny sizes, in the shortest of turns.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import measure

BENCHMARKS = (
    "kernels", "matmul", "pretraining", "scaling", "startup", "time_to_quality", "tokenizer",
)  # fmt: skip


class Here:
    """Stands in for ``measure.Program``: the same calls, in this process."""

    def __init__(self, make: Callable[..., measure.Calls], *arguments: Any, **options: Any) -> None:
        self.calls = make(*arguments)

    def result(self, name: str, *arguments: Any) -> Any:
        return self.calls[name](*arguments)

    def seconds(self, name: str, at_least: float = 0.0) -> float:
        return measure.turn(self.calls[name])

    def close(self) -> None: ...

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *reason: object) -> None: ...


@pytest.fixture(autouse=True)
def idle_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "busy_cores", lambda: 0.0)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all programs in this process, and leave PyTorch out even where it is installed."""
    for name in BENCHMARKS:
        module = import_module(name)
        if hasattr(module, "Program"):
            monkeypatch.setattr(module, "Program", Here)
        if hasattr(module, "installed"):
            monkeypatch.setattr(module, "installed", lambda *packages: False)


@pytest.fixture
def torch_here(here: None, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The same with PyTorch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch = pytest.importorskip("torch")
        pytest.importorskip("transformers").BertForPreTraining  # noqa: B018  loads it
    for name in ("kernels", "matmul"):
        monkeypatch.setattr(import_module(name), "installed", lambda *packages: True)
    return torch


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small text in three documents, and a cache of its own for what is made of it."""
    monkeypatch.setenv("MINIBERT_CACHE", str(tmp_path / "cache"))
    sentences = "The cat sat on the mat .\nA dog ran over the green hill .\nNobody saw it there .\n"
    file = tmp_path / "text.txt"
    file.write_text("\n".join([sentences * 4] * 5), encoding="utf-8")
    return file
