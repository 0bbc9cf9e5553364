from pathlib import Path

import pytest

from minibert.data.tasks.columns import (
    KNOWN_NAMES,
    check_columns,
    chosen_column,
    is_header,
    listed,
    named_column,
    named_pair,
    plain,
)
from minibert.data.tasks.tables import Table

PATH = Path("a.tsv")


def table(*columns: str, **fields) -> Table:
    return Table(list(columns), [["x"] * len(columns)], [2], PATH, **fields)


def test_names_are_compared_plainly():
    for name in ("Sentence_A", "sentence-a", "SENTENCE A", " sentenceA"):
        assert plain(name) == "sentencea"
    assert all(plain(name) == name for name in KNOWN_NAMES)


def test_the_rule_for_headers():
    assert is_header(["id", "Gold-Label"])
    assert is_header(["Body", "Stars"], ["body", None])
    assert not is_header(["Body", "Stars"])
    assert not is_header(["A text with a label", "2"], ["2", None])
    assert not is_header([])


def test_a_column_is_chosen_by_name_or_number():
    names = table("2", "Text", "text", "Label")
    assert chosen_column(names, "text", "--text-column") == 2
    assert chosen_column(names, "LABEL", "--text-column") == 3
    assert chosen_column(names, "2", "--text-column") == 0  # a name before a number
    assert chosen_column(names, "3", "--text-column") == 2
    assert chosen_column(names._replace(columns=None), "2", "--text-column") == 1


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ("Body", "--text-column is 'Body', but the columns are 'Text', 'text', 'id': give one"),
        ("TEXT", "but 2 columns have that name: give a number, 1 or 2"),
        ("0", "or a number, 1 to 3"),
        ("4", "or a number, 1 to 3"),
        ("²", "or a number, 1 to 3"),
        ("9" * 5000, "or a number, 1 to 3"),
    ],
)
def test_a_choice_that_leads_nowhere(choice, words):
    with pytest.raises(ValueError, match=r"a.tsv, line 1: --text-column is") as error:
        chosen_column(table("Text", "text", "id"), choice, "--text-column")
    assert words in str(error.value)


def test_a_name_without_a_header():
    with pytest.raises(ValueError, match=r"first row does not have that name: give a number, 1,"):
        chosen_column(Table(None, [["x"]], [1], PATH), "Body", "--text-column")


def test_known_names_decide_by_priority():
    assert named_column(table("b", "Label", "class"), ["class", "label"]) == 2
    assert named_column(table("b", "Label"), ["class", "label"]) == 1
    assert named_column(table("b", "Label"), ["label"], taken=[1]) is None
    assert named_column(Table(None, [["x"]], [1], PATH), ["label"]) is None
    with pytest.raises(ValueError, match="2 columns are named 'Label'"):
        named_column(table("Label", "label"), ["label"])


def test_pairs_belong_together():
    assert named_pair(table("hypothesis", "sentence2", "premise")) == (2, 0)
    assert named_pair(table("sentence", "question")) == (1, 0)
    assert named_pair(table("premise", "sentence2")) is None


def test_columns_that_cannot_be_used():
    with pytest.raises(ValueError, match=r"--a and --b are both column 'y': name two"):
        check_columns(table("x", "y"), [("--a", 1), ("--c", None), ("--b", 1)])
    with pytest.raises(ValueError, match=r"a.tsv, line 7: column 'y' holds a list or an object"):
        check_columns(table("x", "y", nested={1: 7}), [("--a", 0), ("--b", 1)])
    check_columns(table("x", "y", nested={1: 7}), [("--a", 0)])


def test_many_or_long_names_are_shortened():
    assert listed(table(*["a" * 99] * 20)).endswith("…', …")
    assert len(listed(table(*["a" * 99] * 20))) < 500
