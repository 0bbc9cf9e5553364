"""fill, next, embed, tokenize and attention, on a small model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tokenizers

from minibert.checkpoint.huggingface import load_pretrained, save_model
from minibert.checkpoint.tensors import read_tensors, write_tensors
from minibert.models.pretraining import BertForPreTraining

from .conftest import Command, assert_refused

NUMPY = ("--backend", "numpy")


def test_fill(cli: Command, model_folder: Path) -> None:
    result = cli("fill", model_folder, "the [MASK] ends .", "--top", "3")
    lines = [line.split("\t") for line in result.out.splitlines()]
    assert lines[0] == ["mask", "token", "probability", "text"]
    assert len(lines) == 4
    assert sum(float(line[2]) for line in lines[1:]) <= 1
    assert lines[1][3] == f"the {lines[1][1]} ends ." or lines[1][1].startswith("##")


def test_fill_as_json_with_two_blanks(cli: Command, model_folder: Path) -> None:
    blanks = json.loads(cli("fill", model_folder, "[MASK] loop [MASK] .", "--json").out)
    assert [len(blank) for blank in blanks] == [5, 5]
    assert set(blanks[0][0]) == {"token", "probability", "text"}


def test_fill_refuses(cli: Command, model_folder: Path) -> None:
    assert_refused(cli("fill", model_folder, "the loop ends ."), "[MASK]")
    assert_refused(cli("fill", model_folder, "[MASK] " + "loop " * 30), "16", "shorten")
    assert_refused(cli("fill", "nowhere", "[MASK]"), "nowhere")


def test_next(cli: Command, model_folder: Path) -> None:
    word, probability = cli("next", model_folder, "the loop .", "it ends .").out.split()
    assert (word == "next") == (float(probability) >= 0.5)
    answer = json.loads(cli("next", model_folder, "the loop .", "it ends .", "--json").out)
    assert answer["is_next"] == (answer["probability"] >= 0.5)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_embed_to_the_screen_and_to_a_file_agree(
    cli: Command, model_folder: Path, tmp_path: Path, pooling: str
) -> None:
    text, out = tmp_path / "sentences.txt", tmp_path / "vectors.npy"
    text.write_text("the loop ends .\na file\n", encoding="utf-8")
    options = ("--pooling", pooling, *NUMPY)
    printed = cli("embed", model_folder, text, *options).out
    assert cli("embed", model_folder, text, "--out", out, *options).status == 0
    saved = np.load(out)
    assert saved.shape == (2, 8)
    assert saved.dtype == np.float32
    rows = [[float(x) for x in line.split("\t")] for line in printed.splitlines()]
    np.testing.assert_allclose(rows, saved, rtol=1e-6)
    objects = cli("embed", model_folder, text, "--json", *options).out.splitlines()
    lines = [json.loads(line) for line in objects]
    assert [line["text"] for line in lines] == ["the loop ends .", "a file"]
    assert lines[1]["vector"] == rows[1]


def test_embed_reads_stdin(process: Command, model_folder: Path) -> None:
    result = process("embed", model_folder, "-", *NUMPY, stdin="the loop\r\na list\r\n")
    assert len(result.out.splitlines()) == 2


def test_embed_reads_undecodable_bytes(cli: Command, model_folder: Path, tmp_path: Path) -> None:
    """They count as U+FFFD, which the tokenizer drops."""
    good, bad = tmp_path / "good.txt", tmp_path / "bad.txt"
    good.write_bytes(b"the loop\n")
    bad.write_bytes(b"the loop\xff\n")
    assert cli("embed", model_folder, good, *NUMPY) == cli("embed", model_folder, bad, *NUMPY)


def test_embed_refuses(cli: Command, model_folder: Path, tmp_path: Path) -> None:
    blank, empty, taken = tmp_path / "blank.txt", tmp_path / "empty.txt", tmp_path / "taken.npy"
    blank.write_text("one\n\ntwo\n", encoding="utf-8")
    empty.write_text(" \n", encoding="utf-8")
    taken.write_bytes(b"mine")
    assert_refused(cli("embed", model_folder, blank, *NUMPY), "line 2 is blank")
    assert_refused(cli("embed", model_folder, empty, *NUMPY), "no sentence")
    assert_refused(cli("embed", model_folder, tmp_path / "none", *NUMPY), "none", "check")
    assert_refused(cli("embed", model_folder, tmp_path, *NUMPY), "folder")
    assert_refused(cli("embed", model_folder, blank, "--out", "x.txt", *NUMPY), ".npy")
    assert_refused(cli("embed", model_folder, blank, "--out", "no/x.npy", *NUMPY), "no")
    assert_refused(cli("embed", model_folder, blank, "--out", taken, *NUMPY), "--force")
    assert taken.read_bytes() == b"mine"
    assert sorted(path.name for path in tmp_path.glob("*.npy")) == ["taken.npy"]


def test_tokenize(cli: Command, model_folder: Path) -> None:
    out = cli("tokenize", model_folder, "The loops [MASK]", "--pair", "a\tfile").out
    lines = [line.split("\t") for line in out.splitlines()]
    assert lines[0] == ["position", "id", "piece", "segment", "offsets", "text"]
    assert [line[2] for line in lines[1:]] == [
        "[CLS]", "the", "loop", "##s", "[MASK]", "[SEP]", "a", "file", "[SEP]",
    ]  # fmt: skip
    assert lines[4] == ["3", "20", "##s", "0", "8-9", "s"]
    assert lines[8] == ["7", "8", "file", "1", "2-6", "file"]


def test_tokenize_plain_and_json(cli: Command, model_folder: Path) -> None:
    encoding = json.loads(cli("tokenize", model_folder, "[MASK]", "--json").out)
    assert encoding["ids"] == [2, 4, 3]
    plain = json.loads(cli("tokenize", model_folder, "[MASK]", "--json", "--plain").out)
    assert plain["special_tokens_mask"] == [1, 0, 0, 0, 1]


def test_tokenize_a_lone_surrogate(cli: Command, model_folder: Path) -> None:
    assert cli("tokenize", model_folder, "ok\udcffbad").status == 0


def test_attention(cli: Command, model_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "map.png"
    result = cli("attention", model_folder, "the 三月 loop", "--pair", "a $x$", "--out", out)
    assert result.status == 0, result.err
    assert out.read_bytes().startswith(b"\x89PNG")
    assert "layer 1 of 0-1, all 2 heads" in result.out
    one = cli("attention", model_folder, "it", "--out", out, "--layer", "0", "--head", "1")
    assert "layer 0 of 0-1, head 1 of 0-1" in one.out


def test_attention_refuses(cli: Command, model_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "map.png"
    assert_refused(cli("attention", model_folder, "it", "--out", out, "--layer", "2"), "0 to 1")
    assert_refused(cli("attention", model_folder, "it", "--out", out, "--head", "2"), "0 to 1")
    assert_refused(cli("attention", model_folder, "it", "--out", "map.bmp"), ".png")
    assert_refused(cli("attention", model_folder, "it", "--out", tmp_path / "no/map.png"), "no")
    assert not out.exists()


@pytest.fixture
def bare_folder(model_folder: Path, tmp_path: Path) -> Path:
    """The same model as it is often published: an encoder alone, with tokenizer.json."""
    model, tokenizer = load_pretrained(model_folder, "numpy")
    encoder = BertForPreTraining(model.config, "numpy", heads=())
    for parameter in encoder.params:
        parameter.value[...] = model.params[parameter.name].value
    folder = tmp_path / "bare"
    save_model(encoder, None, folder)
    tokenizers.BertWordPieceTokenizer(vocab=dict(tokenizer.vocab.ids)).save(
        str(folder / "tokenizer.json")
    )
    return folder


def test_a_published_encoder_is_used_like_our_own(
    cli: Command, model_folder: Path, bare_folder: Path, tmp_path: Path
) -> None:
    text = tmp_path / "sentences.txt"
    text.write_text("the loop ends .\na file\n", encoding="utf-8")
    for folder in (model_folder, bare_folder):
        assert cli("attention", folder, "it", "--out", tmp_path / "map.png").status == 0
    for command in (("embed", text, *NUMPY), ("tokenize", "the loops")):
        name, *rest = command
        result = cli(name, bare_folder, *rest)
        assert result == cli(name, model_folder, *rest)
        assert (result.status, result.err) == (0, "")


def test_commands_that_need_a_head_say_so(cli: Command, bare_folder: Path) -> None:
    assert_refused(cli("fill", bare_folder, "the [MASK]"), "masked-language head", "BertForMasked")
    assert_refused(cli("next", bare_folder, "a", "b"), "next-sentence head", "minibert pretrain")


def test_a_fine_tuned_model_embeds_with_one_warning(
    process: Command, cli: Command, model_folder: Path, tmp_path: Path
) -> None:
    folder, text = tmp_path / "tuned", tmp_path / "sentences.txt"
    text.write_text("the loop\n", encoding="utf-8")
    save_model(*load_pretrained(model_folder, "numpy"), folder)
    arrays, _ = read_tensors(folder / "model.safetensors")
    write_tensors(
        folder / "model.safetensors",
        {
            **{name: array for name, array in arrays.items() if not name.startswith("cls.")},
            "classifier.weight": np.zeros((3, 8), np.float32),
            "classifier.bias": np.zeros(3, np.float32),
        },
    )
    result = process("embed", folder, text, *NUMPY)
    assert result.out == cli("embed", model_folder, text, *NUMPY).out
    assert result.err == (
        f"minibert: warning: {folder}: the fine-tuned head (classifier) is left out, as only "
        "load_finetuned and 'minibert predict' use it\n"
    )


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: (folder / "vocab.txt").unlink(), ["vocab.txt"]),
        (lambda folder: (folder / "config.json").unlink(), ["config.json"]),
        (lambda folder: (folder / "config.json").write_text("{"), ["config.json", "JSON"]),
        (lambda folder: cut(folder / "model.safetensors"), ["model.safetensors"]),
        (lambda folder: (folder / "model.safetensors").unlink(), ["model.safetensors"]),
        (lambda folder: add_token(folder / "vocab.txt"), ["23", "22"]),
    ],
)
def test_a_spoilt_model_is_refused(
    cli: Command, model_folder: Path, tmp_path: Path, spoil, words: list[str]
) -> None:
    folder = tmp_path / "spoilt"
    folder.mkdir()
    for file in model_folder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    spoil(folder)
    assert_refused(cli("fill", folder, "the [MASK]"), *words)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def add_token(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8") + "more\n", encoding="utf-8")
