from __future__ import annotations

import json

import pytest

from minibert.models.labels import labels_json, read_labels


@pytest.mark.parametrize(
    "labels",
    [["no", "yes"], ["B-PER", "I-PER", "O"], ["straße", "日本"], [str(n) for n in range(12)]],
)
def test_there_and_back_through_json(labels: list[str]) -> None:
    config = json.loads(json.dumps(labels_json(labels)))
    assert read_labels(config) == tuple(labels)
    assert [config["label2id"][label] for label in labels] == list(range(len(labels)))


def test_order_is_that_of_the_numbers() -> None:
    """Of the numbers, not of the file, and not 10 before 2."""
    names = {str(n): f"class {n}" for n in (10, 2, 0, 11, 1, 3, 4, 5, 6, 7, 8, 9)}
    assert read_labels({"id2label": names}) == tuple(f"class {n}" for n in range(12))


def test_numbers_may_be_numbers_and_names_too() -> None:
    """In Python, transformers' own config has integers for keys."""
    assert read_labels({"id2label": {0: "no", 1: "yes"}}) == ("no", "yes")
    assert read_labels({"id2label": {"0": 1, "1": 5}}) == ("1", "5")


def test_without_names_they_are_numbered() -> None:
    assert read_labels({}) == read_labels({"id2label": None}) == ("LABEL_0", "LABEL_1")


@pytest.mark.parametrize(
    "names",
    [
        {"0": "no", "2": "perhaps"},
        {"1": "no", "2": "yes"},
        {},
        ["no", "yes"],
        "no",
        7,
    ],
)
def test_names_that_are_not_numbered_from_0_are_refused(names: object) -> None:
    message = "id2label is .* expected names for 0, 1, ..."
    with pytest.raises(ValueError, match=message):
        read_labels({"id2label": names})


def test_a_long_list_is_cut_in_the_message() -> None:
    names = {str(n + 1): "x" * 50 for n in range(100)}
    with pytest.raises(ValueError, match="expected names for 0, 1") as caught:
        read_labels({"id2label": names})
    assert len(str(caught.value)) < 250
