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
    assert read_labels(config, len(labels)) == tuple(labels)
    assert [config["label2id"][label] for label in labels] == list(range(len(labels)))


def test_order_is_that_of_the_numbers() -> None:
    """Of the numbers, not of the file, and not 10 before 2."""
    names = {str(n): f"class {n}" for n in (10, 2, 0, 11, 1, 3, 4, 5, 6, 7, 8, 9)}
    assert read_labels({"id2label": names}, 12) == tuple(f"class {n}" for n in range(12))


def test_numbers_may_be_numbers_and_names_too() -> None:
    """In Python, transformers' own config has integers for keys."""
    assert read_labels({"id2label": {0: "no", 1: "yes"}}, 2) == ("no", "yes")
    assert read_labels({"id2label": {"0": 1, "1": 5}}, 2) == ("1", "5")


def test_without_names_they_are_numbered() -> None:
    assert read_labels({}, 3) == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert read_labels({"id2label": None}, 1) == ("LABEL_0",)


@pytest.mark.parametrize(
    "names",
    [
        {"0": "no"},
        {"0": "no", "1": "yes", "2": "perhaps"},
        {"1": "no", "2": "yes"},
        {},
        ["no", "yes"],
        "no",
        7,
    ],
)
def test_another_number_of_names_is_refused(names: object) -> None:
    message = "id2label is .* expected names for 0 to 1, as many as the classifier has rows"
    with pytest.raises(ValueError, match=message):
        read_labels({"id2label": names}, 2)


def test_a_long_list_is_cut_in_the_message() -> None:
    names = {str(n): "x" * 50 for n in range(100)}
    with pytest.raises(ValueError, match="expected names for 0 to 1") as caught:
        read_labels({"id2label": names}, 2)
    assert len(str(caught.value)) < 250
