"""Classification: labels, texts that are cut, one class for all, weights of rare classes."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from minibert.data.tasks import TextExample
from minibert.tasks.base import ANY_COLUMNS, Columns, in_order
from minibert.tasks.classify import Classified, Classify
from minibert.tasks.labelled import balanced_weights

from .common import TOKENIZER, config, write_lines


def labelled(*labels: str) -> list[TextExample]:
    return [TextExample("the film", None, label, n) for n, label in enumerate(labels, 1)]


def test_labels_come_in_the_order_people_list_them() -> None:
    assert Classify(TOKENIZER).fitted(labelled("10", "9", "-1", "9")).labels == ("-1", "9", "10")
    assert Classify(TOKENIZER).fitted(labelled("pos", "neg")).labels == ("neg", "pos")
    assert in_order({"1", "1.0", "one"}) == ("1", "1.0", "one")
    assert in_order({"1.0", "1"}) == ("1", "1.0")  # equal as numbers: still one order


def test_one_label_is_refused() -> None:
    with pytest.raises(ValueError, match=r"all 2 training rows have the same label \(pos\)"):
        Classify(TOKENIZER).fitted(labelled("pos", "pos"))


def test_a_label_that_training_had_not_is_refused_with_file_and_row(tmp_path: Path) -> None:
    task = Classify(TOKENIZER, labels=("neg", "pos"))
    file = write_lines(tmp_path / "dev.tsv", ["the film\tpos", "a film\tmeh"])
    with pytest.raises(ValueError, match=r"dev\.tsv, row 2: the label 'meh' is not one of neg, po"):
        task.read(file, ANY_COLUMNS)


def test_rows_hold_a_text_or_a_pair() -> None:
    task = Classify(TOKENIZER, labels=("a", "b"))
    one, two = task.rows(
        [TextExample("the film", None, "b", 1), TextExample("the", "a film", None, 2)]
    )
    vocab = TOKENIZER.vocab
    assert [vocab.tokens[n] for n in one.sequences[0].input_ids] == [
        "[CLS]",
        "the",
        "film",
        "[SEP]",
    ]
    assert two.sequences[0].token_type_ids == [0, 0, 0, 1, 1, 1]
    assert (one.label, two.label) == (1, None)
    assert task.batch([one, two]).labels.tolist() == [1, 0]


def test_what_stands_in_brackets_is_text() -> None:
    """Nobody's text puts special tokens into a row (TOK-09)."""
    task = Classify(TOKENIZER, labels=("a", "b"))
    (row,) = task.rows(task.examples(["the[SEP]a"]))
    assert row.sequences[0].input_ids.count(TOKENIZER.vocab.sep_id) == 1


def test_long_texts_are_cut_with_one_warning() -> None:
    task = Classify(TOKENIZER, max_length=5, labels=("a", "b"))
    texts = ["the film was good", ("the film was good", "a a a"), "the film was"]
    with pytest.warns(UserWarning, match=r"2 of 3 texts have more than 5 tokens") as caught:
        rows = task.rows(task.examples(texts))
    assert len(caught) == 1
    assert [row.length for row in rows] == [5, 5, 5]
    assert rows[1].sequences[0].token_type_ids == [0, 0, 0, 1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        task.rows(task.examples(["the film was"]))


@pytest.mark.parametrize("length", [4, 0, -3])
def test_a_row_too_short_for_a_pair_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=f"max_length is {length}, expected at least 5"):
        Classify(TOKENIZER, max_length=length)


def test_answers_name_every_class() -> None:
    task = Classify(TOKENIZER, labels=("a", "b", "c"))
    (answer,) = task.answers([None], [], [np.log(np.array([0.2, 0.5, 0.3], np.float32))])  # type: ignore[list-item]
    assert answer.label == "b"
    assert answer.probability == pytest.approx(0.5)
    assert answer.probabilities == pytest.approx({"a": 0.2, "b": 0.5, "c": 0.3})


def test_scores() -> None:
    task, right = Classify(TOKENIZER, labels=("a", "b")), labelled("a", "a", "a", "b")
    scores = task.scores([Classified("a", 1.0, {})] * 4, right)
    assert scores == {"accuracy": 0.75, "macro_f1": pytest.approx(3 / 7)}


def test_one_class_for_all_rows_is_suspicious() -> None:
    """Case FT-01: a collapsed run says so."""
    task = Classify(TOKENIZER, labels=("a", "b"))
    a, b = Classified("a", 1.0, {}), Classified("b", 1.0, {})
    warning = task.warning([a, a])
    assert warning
    assert "'a'" in warning
    assert "--learning-rate" in warning
    assert task.warning([a, b]) is None
    assert task.warning([a]) is None  # of one row nothing can be told


def test_balanced_weights_are_n_over_k_n_k() -> None:
    labels = [0] * 6 + [1] * 3 + [2]
    assert balanced_weights(labels, 3) == pytest.approx([10 / 18, 10 / 9, 10 / 3])
    task = Classify(TOKENIZER, balanced=True).fitted(labelled("a", "b", "a", "a"))
    assert task.model(config(), "numpy").class_weights == pytest.approx([2 / 3, 2.0])
    even = Classify(TOKENIZER).fitted(labelled("a", "b", "a"))
    assert even.model(config(), "numpy").class_weights.tolist() == [1, 1]


@pytest.mark.parametrize("wrong", [None, 3, ("a",), ("a", "b", "c"), ("a", None), b"ab"])
def test_an_input_that_is_no_text_is_refused_with_its_place(wrong: object) -> None:
    with pytest.raises(TypeError, match=r"inputs\[1\] is .*, expected a tuple of two texts"):
        Classify(TOKENIZER).examples(["fine", wrong])


def paired(*pairs: str | None) -> list[TextExample]:
    return [TextExample("a", pair, "ab"[n % 2], n + 1) for n, pair in enumerate(pairs)]


@pytest.mark.parametrize(
    ("pairs", "learned"), [((None, None), False), (("x", "y"), True), ((None, "x"), None)]
)
def test_whether_training_rows_are_pairs_is_learned(pairs: tuple, learned: bool | None) -> None:
    task = Classify(TOKENIZER).fitted(paired(*pairs))
    assert task.pairs is learned
    assert task.settings() == {"max_length": 128, "pairs": learned}
    assert Classify(TOKENIZER, labels=("a", "b"), **task.settings()).pairs is learned


def test_a_model_of_pairs_refuses_one_text_and_the_other_way_round(tmp_path: Path) -> None:
    of_pairs, of_texts, of_both = (
        Classify(TOKENIZER, labels=("a", "b"), pairs=pairs) for pairs in (True, False, None)
    )
    with pytest.raises(TypeError, match=r"inputs\[1\] is 'one', expected a tuple of two texts"):
        of_pairs.examples([("a", "b"), "one"])
    with pytest.raises(TypeError, match=r"inputs\[1\] is \('a', 'b'\), expected one text"):
        of_texts.examples(["one", ("a", "b")])
    assert [example.pair for example in of_both.examples(["one", ("a", "b")])] == [None, "b"]
    texts = write_lines(tmp_path / "texts.tsv", ["text\tlabel", "the film\ta"])
    pairs = write_lines(tmp_path / "pairs.tsv", ["text\tpair\tlabel", "the film\ta film\ta"])
    for task, file, message in (
        (of_pairs, texts, r"texts\.tsv, row 2: one text, where the training rows were pairs: name"),
        (of_texts, pairs, r"pairs\.tsv, row 2: a pair, where the training rows were single texts"),
    ):
        for known in (True, False):
            with pytest.raises(ValueError, match=message):
                task.read(file, ANY_COLUMNS, known=known)
    for task, file in ((of_pairs, pairs), (of_texts, texts), (of_both, texts), (of_both, pairs)):
        assert len(task.read(file, ANY_COLUMNS)) == 1
    assert len(of_texts.read(pairs, Columns(text="text"))) == 1
