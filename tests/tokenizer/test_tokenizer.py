"""The tokenizer by hand-worked values; comparison with the package is in test_oracle.py."""

from __future__ import annotations

import json
import pickle
import time

import numpy as np
import pytest

from minibert.tokenizer import SPECIAL_TOKENS, Tokenizer, Vocabulary
from minibert.tokenizer.encoding import truncated_lengths

TURKISH = "İstanbul X"


# ---- offsets into the original text


def test_turkish(make) -> None:
    """İ lower-cases to two code points; the words after it keep their place."""
    encoding = make("istanbul", "x").encode(TURKISH)
    assert encoding.tokens == ["[CLS]", "istanbul", "x", "[SEP]"]
    assert encoding.offsets == [(0, 0), (0, 8), (9, 10), (0, 0)]


@pytest.mark.parametrize("text", ["á", "a\u0301"])
def test_accents_composed_or_not(make, text: str) -> None:
    assert make("a").encode_ids(text) == [5]
    assert make("á", "a\u0301", lowercase=False).encode_ids(text) == [5 if text == "á" else 6]


def test_kana_and_decomposed_offsets(make) -> None:
    tokenizer = make("ハ", "cafe", "x", "kanto")
    assert tokenizer.encode("バ").tokens[1:-1] == ["ハ"]
    assert tokenizer.encode("Kantō").tokens[1:-1] == ["kanto"]
    assert tokenizer.encode("cafe\u0301 x").offsets[1:-1] == [(0, 4), (6, 7)]


def test_what_is_not_text_vanishes_and_offsets_stay(make) -> None:
    text = "这是一个\ufffd\ufffd\ufffd中文句子"
    tokenizer = make(*"这是一个中文句子")
    assert tokenizer.encode("\xad", add_special_tokens=False).ids == []
    encoding = tokenizer.encode(text, add_special_tokens=False)
    assert encoding.tokens == list("这是一个中文句子")
    assert encoding.offsets[4] == (7, 8)


def test_unknown_words(make) -> None:
    tokenizer = make("来", "描", "述")
    encoding = tokenizer.encode("💩💩", add_special_tokens=False)
    assert (encoding.tokens, encoding.offsets) == (["[UNK]"], [(0, 2)])
    encoding = tokenizer.encode("σπδ来描述", add_special_tokens=False)
    assert encoding.tokens == ["[UNK]", "来", "描", "述"]
    assert encoding.offsets == [(0, 3), (3, 4), (4, 5), (5, 6)]
    family = "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
    encoding = tokenizer.encode("x" * 17 + " " + family, add_special_tokens=False)
    assert encoding.offsets == [(0, 17), (18, 25)]


def test_long_words(make) -> None:
    tokenizer = make("hello", "##hello")
    assert tokenizer.encode("Hello" * 20).tokens[1:-1] == ["hello"] + ["##hello"] * 19
    encoding = tokenizer.encode("Hello" * 26)
    assert (encoding.tokens[1:-1], encoding.offsets[1:-1]) == (["[UNK]"], [(0, 130)])
    start = time.perf_counter()
    encoding = tokenizer.encode("a" * 1_000_000 + " hello")
    assert encoding.offsets[1:-1] == [(0, 1_000_000), (1_000_001, 1_000_006)]
    assert tokenizer.encode_ids("a" * 1_000_000 + " hello") == [1, 5]
    assert time.perf_counter() - start < 20


def test_lone_surrogates_count_as_replacement_characters(make) -> None:
    tokenizer = make("okbad")
    for text in (
        "ok\ud800bad",
        "ok\ufffdbad",
        b"ok\xffbad".decode("utf-8", "surrogateescape"),
        b"ok\xffbad".decode("utf-8", "replace"),
    ):
        assert tokenizer.encode_ids(text) == [5]
        assert tokenizer.encode(text).offsets[1] == (0, 6)


# ---- special tokens


def test_special_tokens_allowed_or_plain(make) -> None:
    tokenizer = make("this", "is", "a", "test", "go", "to", "mask", "sep", "[", "]")
    encoding = tokenizer.encode("This is[SEP]a test", special_tokens="allowed")
    assert encoding.tokens == ["[CLS]", "this", "is", "[SEP]", "a", "test", "[SEP]"]
    assert encoding.special_tokens_mask == [1, 0, 0, 1, 0, 0, 1]
    assert encoding.offsets[3] == (7, 12)
    assert encoding.word_ids == [None, 0, 1, 2, 3, 4, None]
    encoding = tokenizer.encode("go to [MASK]", special_tokens="allowed")
    assert encoding.ids == [2, 9, 10, 4, 3]
    encoding = tokenizer.encode("go to [MASK]")
    assert encoding.tokens == ["[CLS]", "go", "to", "[", "mask", "]", "[SEP]"]
    assert encoding.special_tokens_mask == [1, 0, 0, 0, 0, 0, 1]


@pytest.mark.parametrize("token", SPECIAL_TOKENS)
@pytest.mark.parametrize("frame", ["{}", "a{}b", "{} {}", "\u200b{}", "[{}]", "[[CLS]{}", "##{}"])
def test_plain_text_never_gives_a_special_id(make, token: str, frame: str) -> None:
    text = frame.format(token, token)
    for lowercase in (True, False):
        tokenizer = make("a", "##b", "[", "]", "#", "mask", "MASK", lowercase=lowercase)
        special = tokenizer.vocab.special_ids - {tokenizer.vocab.unk_id}
        assert special.isdisjoint(tokenizer.encode(text, add_special_tokens=False).ids)
        assert special.isdisjoint(tokenizer.encode_ids(text))


def test_special_tokens_of_a_published_vocabulary() -> None:
    filler = [f"[unused{i}]" for i in range(99)]
    vocab = Vocabulary(["[PAD]", *filler, "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the"])
    assert Tokenizer(vocab).encode("The x").ids == [101, 104, 100, 102]


# ---- pairs, truncation, batches


def test_pair(make) -> None:
    encoding = make("a", "##b", "c").encode("ab", "c c")
    assert encoding.tokens == ["[CLS]", "a", "##b", "[SEP]", "c", "c", "[SEP]"]
    assert encoding.token_type_ids == [0, 0, 0, 0, 1, 1, 1]
    assert encoding.word_ids == [None, 0, 0, None, 0, 1, None]
    assert encoding.offsets == [(0, 0), (0, 1), (1, 2), (0, 0), (0, 1), (2, 3), (0, 0)]
    assert make("a").encode("a", "").tokens == ["[CLS]", "a", "[SEP]", "[SEP]"]
    assert make("a").encode("a", "a", add_special_tokens=False).token_type_ids == [0, 1]


@pytest.mark.parametrize(
    ("lengths", "room", "expected"),
    [
        ([9], 8, [8]),
        ([3], 8, [3]),
        ([4, 5], 9, [4, 5]),
        ([4, 5], 5, [2, 3]),
        ([5, 4], 5, [3, 2]),
        ([4, 4], 5, [2, 3]),
        ([9, 1], 4, [3, 1]),
        ([1, 9], 4, [1, 3]),
        ([0, 9], 4, [0, 4]),
        ([9, 9], 0, [0, 0]),
    ],
)
def test_truncated_lengths(lengths: list[int], room: int, expected: list[int]) -> None:
    assert truncated_lengths(lengths, room) == expected


def test_max_length(make) -> None:
    tokenizer = make("a", "b")
    assert tokenizer.encode("a a a a", max_length=4).tokens == ["[CLS]", "a", "a", "[SEP]"]
    assert tokenizer.encode("a a", max_length=2).tokens == ["[CLS]", "[SEP]"]
    assert tokenizer.encode("a a a", max_length=2, add_special_tokens=False).ids == [5, 5]
    pair = tokenizer.encode("a a a", "b", max_length=5)
    assert pair.tokens == ["[CLS]", "a", "[SEP]", "b", "[SEP]"]
    with pytest.raises(ValueError, match="max_length is 2, but must be at least 3"):
        tokenizer.encode("a", "b", max_length=2)


def test_batch(make) -> None:
    batch = make("a", "b").encode_batch(["a b", "", "a"], ["b", "a", ""])
    assert batch.input_ids.dtype == batch.token_type_ids.dtype == np.int32
    assert batch.attention_mask.dtype == np.bool_
    assert batch.input_ids.tolist() == [
        [2, 5, 6, 3, 6, 3],
        [2, 3, 5, 3, 0, 0],
        [2, 5, 3, 3, 0, 0],
    ]
    assert batch.token_type_ids.tolist() == [
        [0, 0, 0, 0, 1, 1],
        [0, 0, 1, 1, 0, 0],
        [0, 0, 0, 1, 0, 0],
    ]
    assert batch.attention_mask.sum(axis=1).tolist() == [6, 4, 4]
    assert batch.encodings[1] == make("a", "b").encode("", "a")
    assert make("a").encode_batch([]).input_ids.shape == (0, 0)


def test_large_ids_stay_what_they_are() -> None:
    """16-bit integers would turn 36,917 into -28,619."""
    words = [f"w{i}" for i in range(40_000)]
    tokenizer = Tokenizer(Vocabulary([*SPECIAL_TOKENS, *words]))
    assert tokenizer.encode_batch(["w36912"]).input_ids.tolist() == [[2, 36_917, 3]]


# ---- the fast way


@pytest.mark.parametrize(
    "text",
    ["", "  a  b ", "a\nb\ta\u3000b", "a\x0bb \x1ca", "A,b-a", "a" * 200 + " b", "é\u0301 中a"],
)
def test_encode_ids_agrees(make, text: str) -> None:
    tokenizer = make("a", "##b", "b", ",", "中")
    for _ in range(2):  # the second time from the cache
        expected = tokenizer.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode_ids(text) == expected


def test_caches_are_bounded(make, monkeypatch) -> None:
    monkeypatch.setattr("minibert.tokenizer.cache._SIZE", 50)
    tokenizer = make("a", "##a", "##b")
    words = ["a" + "ab"[i % 2] * (i // 2) for i in range(180)]
    assert tokenizer.encode_ids(" ".join(words * 2)) == 2 * [
        index for word in words for index in tokenizer.encode(word, add_special_tokens=False).ids
    ]
    assert len(tokenizer._chunk_ids) <= 50
    assert len(tokenizer._pieces) <= 50
    assert max(map(len, tokenizer._chunk_ids)) <= 32


# ---- back to text


def test_decode(make) -> None:
    tokenizer = make("foo", "(", "bar", ")", "un", "##want", "##ed")
    assert tokenizer.decode(tokenizer.encode("foo (bar)").ids) == "foo ( bar )"
    assert tokenizer.decode([2, 9, 10, 11, 3]) == "unwanted"
    assert tokenizer.decode([2, 9, 4, 3], skip_special_tokens=False) == "[CLS] un [MASK] [SEP]"
    assert tokenizer.decode(np.array([10, 11], np.int32)) == "##wanted"
    assert tokenizer.decode([]) == ""


# ---- files


@pytest.mark.parametrize("lowercase", [True, False])
def test_save_and_load(make, tmp_path, lowercase: bool) -> None:
    tokenizer = Tokenizer(
        make("a", "É").vocab,
        lowercase=lowercase,
        strip_accents=False,
        split_cjk=False,
        max_word_chars=7,
    )
    tokenizer.save(tmp_path / "new" / "folder", model_max_length=64)
    config = json.loads((tmp_path / "new/folder/tokenizer_config.json").read_text("utf-8"))
    assert config["tokenizer_class"] == "BertTokenizer"
    assert config["model_max_length"] == 64
    assert config["do_lower_case"] is lowercase
    again = Tokenizer.load(tmp_path / "new" / "folder")
    assert again.__getstate__() == tokenizer.__getstate__()
    assert sorted(path.name for path in (tmp_path / "new/folder").iterdir()) == [
        "tokenizer_config.json",
        "vocab.txt",
    ]


def test_pickle_leaves_the_caches_behind(make) -> None:
    tokenizer = make("a", "b")
    tokenizer.encode_ids("a b")
    again = pickle.loads(pickle.dumps(tokenizer))
    assert len(again._chunk_ids) == 0
    assert again.encode_ids("a b") == [5, 6]


def test_load_without_config(make, tmp_path) -> None:
    make("a").vocab.save(tmp_path / "vocab.txt")
    for place in (tmp_path, str(tmp_path), tmp_path / "vocab.txt"):
        tokenizer = Tokenizer.load(place)
        assert (tokenizer.lowercase, tokenizer.strip_accents) == (True, None)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("", "tokenizer_config.json is not JSON"),
        ("{", "tokenizer_config.json is not JSON"),
        ("[]", "holds a list, expected an object"),
        ('{"do_lower_case": "yes"}', "do_lower_case is 'yes', expected true or false"),
        ('{"strip_accents": 1}', "strip_accents is 1, expected true or false or null"),
        ('{"max_word_chars": true}', "max_word_chars is True, expected a whole number"),
        ('{"max_word_chars": 0}', "max_word_chars is 0, but must be at least 1"),
    ],
)
def test_bad_config(make, tmp_path, config: str, message: str) -> None:
    make("a").vocab.save(tmp_path / "vocab.txt")
    (tmp_path / "tokenizer_config.json").write_text(config, "utf-8")
    with pytest.raises(ValueError, match=message):
        Tokenizer.load(tmp_path)


def test_missing_folder(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no vocabulary at .*nowhere"):
        Tokenizer.load(tmp_path / "nowhere")


@pytest.mark.parity
@pytest.mark.parametrize("lowercase", [True, False])
def test_transformers_opens_the_folder(make, tmp_path, lowercase: bool) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = make("the", "istanbul", "a", "##b", "中", lowercase=lowercase)
    tokenizer.save(tmp_path)
    text = "The [MASK] İstanbul ab 中中"
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    assert theirs(text)["input_ids"] == tokenizer.encode(text, special_tokens="allowed").ids


# ---- wrong arguments


@pytest.mark.parametrize("text", [None, b"a", 3, ["a"]])
def test_text_of_the_wrong_type(make, text) -> None:
    tokenizer = make("a")
    for call in (tokenizer.encode, tokenizer.encode_ids):
        with pytest.raises(TypeError, match=f"text must be a str, got {type(text).__name__}: "):
            call(text)
    with pytest.raises(TypeError, match=r"texts\[1\] must be a str"):
        tokenizer.encode_batch(["a", text])
    if text is not None:
        with pytest.raises(TypeError, match="pair must be a str"):
            tokenizer.encode("a", text)


def test_other_wrong_arguments(make) -> None:
    tokenizer = make("a")
    with pytest.raises(TypeError, match="texts must be a sequence of str, got one str"):
        tokenizer.encode_batch("abc")
    with pytest.raises(ValueError, match="texts has 2 rows and pairs 1"):
        tokenizer.encode_batch(["a", "b"], ["a"])
    with pytest.raises(ValueError, match="special_tokens is 'all'"):
        tokenizer.encode("a", special_tokens="all")
    with pytest.raises(TypeError, match="max_length must be an int, got str"):
        tokenizer.encode("a", max_length="5")
    with pytest.raises(ValueError, match="ids has 6, but the vocabulary ends at 5"):
        tokenizer.decode([5, 6])
    with pytest.raises(ValueError, match="ids has -1"):
        tokenizer.decode([-1])
    with pytest.raises(TypeError, match="ids must be a sequence of int, got one int"):
        tokenizer.decode(5)
    with pytest.raises(TypeError, match="vocab must be a Vocabulary, got list"):
        Tokenizer(["a"])  # type: ignore[arg-type]
