import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibert.data.tasks.records import json_records
from minibert.data.tasks.text import split_lines

from .common import TEXTS, refused

OBJECTS = st.lists(st.dictionaries(TEXTS, TEXTS | st.integers() | st.none()), min_size=1)


def records(path, **options):
    return list(json_records(path, path.read_text(encoding="utf-8"), **options))


@settings(max_examples=40)
@given(OBJECTS, st.booleans())
def test_round_trip_of_lines(tmp_path_factory, objects, escapes):
    path = tmp_path_factory.mktemp("r") / "a.jsonl"
    text = "\n".join(json.dumps(item, ensure_ascii=escapes) for item in objects)
    assert list(json_records(path, text)) == list(enumerate(objects, start=1))


@settings(max_examples=40)
@given(OBJECTS, st.sampled_from([None, 0, 2]))
def test_round_trip_of_an_array(tmp_path_factory, objects, indent):
    path = tmp_path_factory.mktemp("r") / "a.json"
    text = json.dumps(objects, indent=indent)
    found = list(json_records(path, text))
    assert [item for _, item in found] == objects
    if indent == 2:
        starts = [i for i, line in enumerate(split_lines(text), 1) if re.match(r"  \{", line)]
        assert [line for line, _ in found] == starts


def test_rows(write):
    lines = write("a.jsonl", '{"a": 1}\r\n\n  {"a": 2}\n')
    assert records(lines) == [(1, {"a": 1}), (3, {"a": 2})]
    array = write("a.json", '\n[\r\n{"a": 1},\r\n\r\n {"a":\n 2}, {"a": 3}\n]\n')
    assert records(array) == [(3, {"a": 1}), (5, {"a": 2}), (6, {"a": 3})]


@pytest.mark.parametrize(
    ("text", "row", "words"),
    [
        ('{"a": 1}\n\n{"a": ', 3, "column 7: not JSON (expecting value)"),
        ('{"a": 1}\n{"a": "x', 2, "unterminated string"),
        ('{"a": 1} {"a": 2}\n', 1, "extra data"),
        ('{\n"a": 1}\n', 1, "expected one object a line, or one array"),
        ('{"a": 1}\n5\n', 2, "found a number"),
        ('{"a": 1}\n"b"\n', 2, "found 'b'"),
        ('[{"a": 1},\n{"a": 2}', 2, "expecting ',' or ']'"),
        ('[{"a": 1},\n{"a": 2},\n', 3, "expecting value"),
        ('[{"a": 1},\n{"a": 2},\n]', 3, "expecting value"),
        ('[{"a": 1},\n\n{"a": "2}', 3, "unterminated string"),
        ('[{"a": 1}\n{"a": 2}]', 2, "expecting ','"),
        ('[{"a": 1}]\n\n[', 3, "extra data"),
        ('[{"a": 1},\n[2]]', 2, "found a list"),
        ("[\n]", 1, "the array is empty"),
        ("[", 1, "expecting value"),
        ('{"a": 1}\n' + '{"a":' * 100_000, 2, "nested too deeply"),
        ('[{"a": 1},\n' + '{"a":' * 100_000, 2, "nested too deeply"),
    ],
)
def test_what_is_refused(write, text, row, words):
    refused(records, write("a.json", text), row, words, "expected")
