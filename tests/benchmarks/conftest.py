"""The benchmarks are programs in a folder of their own, so that folder is made importable here.

No speed is asked for: programs run in this process, at tiny sizes, in the shortest of turns.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from minibert.checkpoint.huggingface import save_model
from minibert.config import BertConfig
from minibert.keys import Key
from minibert.models.pretraining import BertForPreTraining
from minibert.tokenizer import SPECIAL_TOKENS, Tokenizer, Vocabulary

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import programs
import report
from programs import Calls

BENCHMARKS = (
    "embedding", "finetuning", "kernels", "matmul", "pretraining", "pretraining_helps", "scaling",
    "startup", "time_to_quality", "tokenizer",
)  # fmt: skip


class Here:
    """Stands in for ``programs.Program``: the same calls, in this process."""

    def __init__(self, make: Callable[..., Calls], *arguments: Any, **options: Any) -> None:
        self.calls = make(*arguments)

    def result(self, name: str, *arguments: Any) -> Any:
        return self.calls[name](*arguments)

    def seconds(self, name: str, at_least: float = 0.0) -> float:
        return programs.turn(self.calls[name])

    def close(self) -> None: ...

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *reason: object) -> None: ...


@pytest.fixture(autouse=True)
def idle_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "busy_cores", lambda: 0.0)


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
    for name in ("finetuning", "kernels", "matmul"):
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


@pytest.fixture
def task_data(tmp_path: Path) -> Path:
    """A little of each file that ``taskdata`` looks for, in the forms that the real ones have."""
    folder = tmp_path / "data"
    for name in ("sentence_polarity", "sick", "wnut17", "xquad"):
        (folder / name).mkdir(parents=True)

    def write(name: str, text: str) -> None:
        (folder / name).write_text(text, encoding="utf-8")

    for label, word in (("neg", "dull"), ("pos", "fine")):
        lines = [f"{'very ' * (n % 5)}{word} film {n} \n" for n in range(30)]
        write(f"sentence_polarity/rt-polarity.{label}", "".join(lines))
    pairs = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"]
    for n in range(12):
        judgment = ("ENTAILMENT", "NEUTRAL", "CONTRADICTION")[n % 3]
        pairs.append(f"{n}\tA cat runs{' fast' * (n % 4)}\tA dog runs\t{1 + n % 5}\t{judgment}\n")
    for name in ("SICK_train", "SICK_trial", "SICK_test_annotated"):
        write(f"sick/{name}.txt", "".join(pairs))
    sentence = "Ada\tB-person\nLovelace\tI-person\nruns\tO\n"
    for name in ("wnut17train.conll", "emerging.dev.conll"):
        write(f"wnut17/{name}", "\n".join(sentence + "fast\tO\n" * (n % 4) for n in range(10)))
    passage = "The cat sat on the mat and the dog ran over the hill ."
    questions = [
        {
            "context": f"{passage} {n}",
            "qas": [
                {
                    "id": str(n),
                    "question": "Who sat ?",
                    "answers": [{"text": "cat", "answer_start": 4}],
                }
            ],
        }
        for n in range(15)
    ]
    write("xquad/xquad.en.json", json.dumps({"data": [{"paragraphs": questions}]}))
    return folder


@pytest.fixture
def small_bert(tmp_path: Path) -> Path:
    """A folder with a BERT of one narrow layer whose weights are random."""
    words = (
        "a cat dog runs fast the sat on mat and ran over hill who ada lovelace film dull fine very"
    )
    tokens = [*SPECIAL_TOKENS, *words.split(), *"?.0123456789", *(f"##{n}" for n in range(10))]
    config = BertConfig(
        vocab_size=len(tokens), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=12, initializer_range=0.3,
    )  # fmt: skip
    model = BertForPreTraining(config, "numpy")
    model.initialize(Key(0))
    save_model(model, Tokenizer(Vocabulary(tokens)), tmp_path / "bert")
    return tmp_path / "bert"
