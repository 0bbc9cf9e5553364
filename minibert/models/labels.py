"""The names of classes, as Hugging Face's config.json keeps them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def labels_json(labels: Sequence[str]) -> dict[str, Any]:
    """Return the entries of config.json that name the classes.

    >>> labels_json(["no", "yes"])
    {'id2label': {'0': 'no', '1': 'yes'}, 'label2id': {'no': 0, 'yes': 1}}
    """
    return {
        "id2label": {str(number): label for number, label in enumerate(labels)},
        "label2id": {label: number for number, label in enumerate(labels)},
    }


def read_labels(config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the classes; where config.json has none, transformers' two.

    Raises ValueError where they are not numbered from 0 on.

    >>> read_labels({"id2label": {"1": "yes", "0": "no"}}), read_labels({})
    (('no', 'yes'), ('LABEL_0', 'LABEL_1'))
    """
    names = config.get("id2label")
    if names is None:
        return "LABEL_0", "LABEL_1"
    numbers = list(map(str, range(len(names)))) if isinstance(names, Mapping) and names else ["0"]
    if not isinstance(names, Mapping) or set(map(str, names)) != set(numbers):
        raise ValueError(
            f"id2label is {names!r:.60}, expected names for 0, 1, ...: take config.json and the "
            "weights from one model"
        )
    by_number = {str(number): str(name) for number, name in names.items()}
    return tuple(by_number[number] for number in numbers)
