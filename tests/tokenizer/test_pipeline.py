"""A tokenizer.json gives what the `tokenizers` package, which wrote it, makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers

from minibert.tokenizer import SPECIAL_TOKENS, Tokenizer, Vocabulary

from .test_oracle import HARD, check, hard_vocabulary

TEXTS = [
    "",
    "The unwanted İstanbul, e\u0301te [MASK] the[SEP]ing",
    "一龥㐀 中文 Ça va? naïve ÉTÉ",
    "a" * 60 + " " + "ab" * 60,
    HARD,
]


def write(folder: Path, package: Any) -> Path:
    """Save the package's tokenizer as folder/tokenizer.json."""
    package.save(str(folder / "tokenizer.json"))
    return folder


def change(folder: Path, alter: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "tokenizer.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    alter(raw)
    path.write_text(json.dumps(raw), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    vocab = hard_vocabulary(True)
    return write(tmp_path, tokenizers.BertWordPieceTokenizer(vocab=dict(vocab.ids)))


@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("strip_accents", [None, True, False])
@pytest.mark.parametrize("split_cjk", [True, False])
def test_same_ids_and_offsets(
    tmp_path: Path, lowercase: bool, strip_accents: bool | None, split_cjk: bool
) -> None:
    package = tokenizers.BertWordPieceTokenizer(
        vocab=dict(hard_vocabulary(lowercase).ids),
        lowercase=lowercase,
        strip_accents=strip_accents,
        handle_chinese_chars=split_cjk,
    )
    package._tokenizer.model.max_input_chars_per_word = 70
    tokenizer = Tokenizer.load(write(tmp_path, package))
    assert (tokenizer.lowercase, tokenizer.strip_accents) == (lowercase, strip_accents)
    assert (tokenizer.split_cjk, tokenizer.max_word_chars) == (split_cjk, 70)
    for text in TEXTS:
        check(tokenizer, package, text, special_tokens="allowed")
    mine, theirs = tokenizer.encode("the unwanted", "ab"), package.encode("the unwanted", "ab")
    assert (mine.ids, mine.token_type_ids) == (theirs.ids, theirs.type_ids)
    alone = Tokenizer.load(tmp_path / "tokenizer.json")  # the file by itself
    assert alone.vocab == tokenizer.vocab


def test_a_template_as_published_models_have_it(folder: Path) -> None:
    parts = [("[CLS]", 0), ("A", 0), ("[SEP]", 0), ("B", 1), ("[SEP]", 1)]
    template = [
        {"Sequence" if name in "AB" else "SpecialToken": {"id": name, "type_id": kind}}
        for name, kind in parts
    ]
    processor = {
        "type": "TemplateProcessing",
        "single": template[:3],
        "pair": template,
        "special_tokens": {
            name: {"id": name, "ids": [number], "tokens": [name]}
            for name, number in (("[CLS]", 2), ("[SEP]", 3))
        },
    }
    change(folder, lambda raw: raw.update(post_processor=processor))
    package = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer = Tokenizer.load(folder)
    for text in TEXTS:
        assert tokenizer.encode(text, special_tokens="allowed").ids == package.encode(text).ids
    processor["pair"][3]["Sequence"]["type_id"] = 0
    change(folder, lambda raw: raw.update(post_processor=processor))
    with pytest.raises(ValueError, match=r"not the tokenizer of a BERT \(pair is"):
        Tokenizer.load(folder)


def test_vocab_txt_goes_first(folder: Path) -> None:
    vocab = Vocabulary([*SPECIAL_TOKENS, "a"])
    vocab.save(folder / "vocab.txt")
    change(folder, lambda raw: raw["normalizer"].update(lowercase=False))
    tokenizer = Tokenizer.load(folder)
    assert tokenizer.vocab == vocab
    assert not tokenizer.lowercase  # nothing else says so
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}', encoding="utf-8")
    (folder / "tokenizer.json").write_text("{", encoding="utf-8")  # and now nobody asks
    assert Tokenizer.load(folder).lowercase


def test_tokenizer_config_overrides(folder: Path) -> None:
    config = folder / "tokenizer_config.json"
    config.write_text('{"do_lower_case": false, "unk_token": "[UNK]"}', encoding="utf-8")
    tokenizer = Tokenizer.load(folder)
    assert (tokenizer.lowercase, tokenizer.strip_accents) == (False, None)
    config.write_text('{"do_lower_case": 3}', encoding="utf-8")
    with pytest.raises(ValueError, match="do_lower_case is 3"):
        Tokenizer.load(folder)


def test_added_tokens_keep_their_ids_and_are_text(folder: Path) -> None:
    package = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    size = package.get_vocab_size()
    package.add_special_tokens(["[E1]", "[E2]", "[MASK]"])
    package.add_tokens(["the"])  # in the vocabulary already
    write(folder, package)
    with pytest.warns(UserWarning, match=r"tokens the, \[E1\], \[E2\] are text like any other"):
        tokenizer = Tokenizer.load(folder)
    assert tokenizer.vocab.tokens[size:] == ("[E1]", "[E2]")
    assert tokenizer.vocab.ids["the"] == package.token_to_id("the")
    for text in ("the [MASK] ing", "unwanted!"):
        assert tokenizer.encode(text, special_tokens="allowed").ids == package.encode(text).ids
    assert size not in tokenizer.encode("[E1]").ids


@pytest.mark.parametrize(
    ("alter", "message"),
    [
        (lambda raw: raw["model"].update(type="BPE"), "the model is 'BPE', expected 'WordPiece'"),
        (lambda raw: raw["model"].update(unk_token="<unk>"), "unk_token is '<unk>'"),
        (
            lambda raw: raw["model"].update(continuing_subword_prefix="@@"),
            "continuing_subword_prefix is '@@'",
        ),
        (lambda raw: raw["model"].update(max_input_chars_per_word="9"), "chars_per_word is '9'"),
        (lambda raw: raw["model"].pop("vocab"), "it lacks 'vocab'"),
        (lambda raw: raw["model"]["vocab"].pop("the"), "do not have the ids 0 to"),
        (lambda raw: raw["model"]["vocab"].update(the="x"), "not supported"),
        (lambda raw: raw.update(normalizer=None), "the normalizer is None"),
        (lambda raw: raw.update(normalizer={"type": "NFC"}), "normalizer is 'NFC'"),
        (lambda raw: raw["normalizer"].update(clean_text=False), "clean_text is False"),
        (lambda raw: raw["normalizer"].update(lowercase=None), "lowercase is None"),
        (lambda raw: raw.update(pre_tokenizer={"type": "Whitespace"}), "is 'Whitespace'"),
        (
            lambda raw: raw.update(post_processor={"type": "RobertaProcessing"}),
            "the post_processor is 'RobertaProcessing'",
        ),
        (lambda raw: raw["post_processor"].update(cls=["<s>", 2]), "cls is '<s>'"),
        (lambda raw: raw["post_processor"].update(cls=[]), "range"),
        (lambda raw: raw.pop("model"), "it lacks 'model'"),
        (lambda raw: raw.update(model=[]), "indices"),
    ],
)
def test_another_tokenizer_is_refused_in_one_line(
    folder: Path, alter: Callable[[dict[str, Any]], object], message: str
) -> None:
    change(folder, alter)
    with pytest.raises(ValueError, match=r"tokenizer\.json is not the tokenizer of a BERT") as info:
        Tokenizer.load(folder)
    assert message in str(info.value)
    assert "\n" not in str(info.value)


def test_a_text_gets_its_frame_also_where_the_file_does_not_say(folder: Path) -> None:
    """BERT always reads [CLS] text [SEP]; some programs leave that to the caller."""
    change(folder, lambda raw: raw.update(post_processor=None))
    assert Tokenizer.load(folder).encode("the").tokens == ["[CLS]", "the", "[SEP]"]


def test_damage_is_refused_in_one_line(folder: Path) -> None:
    path = folder / "tokenizer.json"
    for data in (b"", b"{", b"\xff", b"[" * 100_000):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"tokenizer\.json is not JSON"):
            Tokenizer.load(folder)
    path.write_bytes(b"[]")
    with pytest.raises(ValueError, match="not the tokenizer of a BERT"):
        Tokenizer.load(folder)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"has no vocab\.txt and no tokenizer\.json"):
        Tokenizer.load(folder)
