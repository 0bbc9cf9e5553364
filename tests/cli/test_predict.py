"""predict: a text, a pair, a file or stdin, for each task, and what is refused."""

from __future__ import annotations

import io
import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minibert.cli import screen
from minibert.tasks.finetuned import load_finetuned

from ..tasks.common import FILES, INPUTS, pretrained, write_lines
from .conftest import Command, Result, assert_refused

NUMPY = ("--backend", "numpy")
Tuned = Callable[[str], Path]
Typed = Callable[..., Result]

GIVEN = {  # TEXT and --pair
    "classify": ("the film was bad .",),
    "similarity": ("the film was good .", "--pair", "a bad film"),
    "tag": ("Ada lives in Oslo.",),
    "answer": ("who lives ?", "--pair", "Ada lives in Oslo."),
}
HEADERS = {
    "classify": ["label", "probability", "text"],
    "similarity": ["score", "first", "second"],
    "tag": ["row", "kind", "entity"],
    "answer": ["answer", "probability", "question"],
}


@pytest.fixture
def typed(cli: Command, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """Run a command with something on stdin."""

    def run(stdin: str | bytes, *arguments: str | Path) -> Result:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        return cli(*arguments)

    return run


def rows_of(result: Result) -> list[list[str]]:
    assert (result.status, result.err) == (0, "")
    return [line.split("\t") for line in result.out.splitlines()]


def test_a_text_for_each_task(cli: Command, tuned: Tuned) -> None:
    found = {task: rows_of(cli("predict", tuned(task), *GIVEN[task], *NUMPY)) for task in GIVEN}
    assert {task: rows[0] for task, rows in found.items()} == HEADERS
    assert found["classify"][1][0] == "neg"
    assert found["classify"][1][2] == "the film was bad ."
    assert 0.5 <= float(found["classify"][1][1]) <= 1
    assert found["similarity"][1][1:] == ["the film was good .", "a bad film"]
    assert 0 < float(found["similarity"][1][0]) < 1
    assert ["1", "PER", "Ada"] in found["tag"]
    assert ["1", "LOC", "Oslo"] in found["tag"]
    assert found["answer"][1][0] == "Ada"
    assert found["answer"][1][2] == "who lives ?"


def test_json_says_what_the_library_says(cli: Command, tuned: Tuned) -> None:
    for task, given in GIVEN.items():
        (line,) = cli("predict", tuned(task), *given, "--json", *NUMPY).out.splitlines()
        answer = json.loads(line)
        inputs: Any = given[0] if len(given) == 1 else (given[0], given[2])
        (wanted,) = load_finetuned(tuned(task), "numpy").predict([inputs])
        for name, value in wanted._asdict().items():
            if name != "entities":
                assert answer[name] == value
        if task == "tag":
            assert {"kind": "LOC", "start": 3, "stop": 4, "text": "Oslo"} in answer["entities"]
        if task == "answer":
            passage = given[2]
            assert passage[answer["start"] : answer["stop"]] == answer["text"] == "Ada"


@pytest.mark.parametrize("task", list(FILES))
def test_a_file_of_each_form(cli: Command, tuned: Tuned, task: str) -> None:
    """Right answers in it do no harm, and are not needed."""
    file = FILES[task](tuned(task).parent)
    lines = cli("predict", tuned(task), "--file", file, "--json", *NUMPY).out.splitlines()
    answers = [json.loads(line) for line in lines]
    assert len(answers) == {"classify": 32, "similarity": 16, "tag": 4, "answer": 8}[task]
    if task == "classify":
        assert [answer["label"] for answer in answers][:8] == ["pos"] * 4 + ["neg"] * 4
    if task == "answer":
        assert [answer["text"] for answer in answers][:2] == ["Ada", "Rome"]


def test_a_file_without_right_answers(cli: Command, tuned: Tuned, tmp_path: Path) -> None:
    files = {
        "classify": write_lines(tmp_path / "c.tsv", ["the film was bad .", "a good film"]),
        "similarity": write_lines(tmp_path / "s.tsv", ["good\tbad", "a\tthe"]),
        "tag": write_lines(tmp_path / "t.conll", ["Ada", "lives", "", "in", "Rome"]),
        "answer": write_lines(
            tmp_path / "q.jsonl", ['{"question": "who ?", "context": "Ada lives in Rome."}'] * 1
        ),
    }
    counts = {"classify": 2, "similarity": 2, "tag": 2, "answer": 1}
    for task, file in files.items():
        result = cli("predict", tuned(task), "--file", file, "--json", *NUMPY)
        assert len(result.out.splitlines()) == counts[task], result.err


def test_columns_of_a_file(cli: Command, tuned: Tuned, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "t.csv", ["id,body,more", '1,"bad, poor",x', "2,fine,y"])
    flags = ("--file", file, "--text-column", "body", *NUMPY)
    assert [row[2] for row in rows_of(cli("predict", tuned("classify"), *flags))] == [
        "text", "bad, poor", "fine",
    ]  # fmt: skip


def test_stdin(typed: Typed, tuned: Tuned) -> None:
    """Blank lines are left out; a tab parts a pair; line ends of all systems."""
    lines = "a good film\r\n\n  the film was bad .  \nfine\n"
    found = rows_of(typed(lines, "predict", tuned("classify"), *NUMPY))
    assert [row[2] for row in found[1:]] == ["a good film", "the film was bad .", "fine"]
    found = rows_of(typed("who lives ?\tAda lives in Rome.\n", "predict", tuned("answer"), *NUMPY))
    assert found[1][0] == "Ada"


def test_undecodable_bytes_are_dropped(typed: Typed, tuned: Tuned) -> None:
    """Case TOK-10: the same rule as for files of text."""
    found = rows_of(typed(b"\xef\xbb\xbfa good\xff film\n", "predict", tuned("classify"), *NUMPY))
    assert found[1][2] == "a good\ufffd film"
    assert found[1][:2] == rows_of(
        typed("a good film\n", "predict", tuned("classify"), *NUMPY)
    )[1][:2]  # fmt: skip


def test_no_entity_is_said_on_a_terminal(
    cli: Command, tuned: Tuned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(screen, "on_terminal", lambda: True)
    monkeypatch.setattr("minibert.cli.predict.on_terminal", lambda: True)
    assert cli("predict", tuned("tag"), "", *NUMPY).out == "no entity was found\n"
    assert json.loads(cli("predict", tuned("tag"), "", "--json", *NUMPY).out)["words"] == []


def test_a_text_may_be_too_long(cli: Command, tuned: Tuned) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = cli("predict", tuned("classify"), "good " * 30, *NUMPY)
    assert result.status == 0
    (line,) = result.err.splitlines()
    assert line.startswith("minibert: warning: 1 of 1 texts have more than 20 tokens")
    long = cli("predict", tuned("tag"), "Ada lives in Rome. " * 30, "--json", *NUMPY)
    assert len(json.loads(long.out)["tags"]) == 150
    assert long.err == ""


def test_what_does_not_fit_the_task_is_refused(cli: Command, tuned: Tuned) -> None:
    refused = [
        ("similarity", ("a film",), ['--pair "TEXT"']),
        ("answer", ("who lives ?",), ['--pair "TEXT"']),
        ("tag", ("a film", "--pair", "x"), ["leave out --pair"]),
        ("similarity", ("a", "--pair", " "), ["one of the two texts is empty"]),
        ("classify", ("a", "--pair", "b"), ["this model reads one text: leave out --pair"]),
        ("answer", ("", "--pair", "a"), ["one of the two texts is empty"]),
        ("classify", ("--pair", "x"), ["--pair is given without a TEXT"]),
        ("classify", ("a", "--file", "x.tsv"), ["TEXT and --file"]),
        ("classify", ("a", "--text-column", "x"), ["--file"]),
        ("classify", ("--file", "none.tsv"), ["none.tsv"]),
        ("classify", ("--file", "."), ["."]),
    ]
    for task, given, words in refused:
        assert_refused(cli("predict", tuned(task), *given, *NUMPY), *words)


def test_a_line_of_stdin_that_does_not_fit_is_named(typed: Typed, tuned: Tuned) -> None:
    refused = [
        ("classify", "", ["stdin holds no text", "--file"]),
        ("classify", " \n\n", ["stdin holds no text"]),
        ("similarity", "a\tb\n\nc\n", ["line 3 of stdin", "tab"]),
        ("answer", "who ?\n", ["line 1 of stdin", "tab"]),
        ("tag", "\na\tb\n", ["line 2 of stdin", "remove the tab"]),
        ("classify", "a\n\na\tb\n", ["line 3 of stdin", "remove the tab"]),
        ("similarity", "a\tb\n\tb\n", ["line 2 of stdin", "empty"]),
    ]
    for task, stdin, words in refused:
        assert_refused(typed(stdin, "predict", tuned(task), *NUMPY), *words)


def test_files_that_do_not_fit_are_refused(cli: Command, tuned: Tuned, tmp_path: Path) -> None:
    cut = write_lines(tmp_path / "cut.jsonl", ['{"question": "who ?", "cont'])
    one = write_lines(tmp_path / "one.tsv", ["a film"])
    table = write_lines(tmp_path / "t.tsv", ["text\tlabel", "a\tx"])
    for task, flags, words in (
        ("answer", ("--file", cut), ["cut.jsonl, line 1"]),
        ("similarity", ("--file", one), ["one.tsv"]),
        ("classify", ("--file", table, "--text-column", "nope"), ["nope", "'text'"]),
        ("tag", ("--file", table, "--text-column", "text"), ["columns are for tables"]),
        ("answer", ("--file", cut, "--text-column", "1"), ["columns are for tables"]),
    ):
        assert_refused(cli("predict", tuned(task), *flags, *NUMPY), *words)


def test_a_folder_that_is_not_fine_tuned_is_refused(
    cli: Command, bert: Path, tuned: Tuned, tmp_path: Path
) -> None:
    assert_refused(cli("predict", bert, "a film"), "BertForPreTraining", "minibert finetune")
    assert_refused(cli("predict", tmp_path / "none", "a"), "no folder at")
    assert_refused(cli("predict", tmp_path, "a"), "config.json")
    spoilt = pretrained(tmp_path / "spoilt")
    for file in tuned("tag").iterdir():
        (spoilt / file.name).write_bytes(file.read_bytes())
    (spoilt / "finetuning.json").write_text('{"task": "tag", ', encoding="utf-8")
    assert_refused(cli("predict", spoilt, "a"), "finetuning.json is not JSON")
    (spoilt / "finetuning.json").unlink()
    assert cli("predict", spoilt, *GIVEN["tag"], *NUMPY).status == 0


def test_inputs_of_the_library_work_here_too(typed: Typed, tuned: Tuned) -> None:
    lines = ["\t".join(x) if isinstance(x, tuple) else x for x in INPUTS["classify"]]
    found = typed("\n".join(lines), "predict", tuned("classify"), "--json", *NUMPY)
    labels = [json.loads(line)["label"] for line in found.out.splitlines()]
    model = load_finetuned(tuned("classify"), "numpy")
    assert labels == [answer.label for answer in model.predict(INPUTS["classify"])]
