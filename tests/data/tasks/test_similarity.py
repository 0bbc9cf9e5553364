import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibert.data.tasks import ScoredExample, read_pairs

from .common import DATA, TEXTS, TRICKY, real_data, refused


def pairs(write, content: str, name: str = "a.csv", **options):
    return [tuple(example) for example in read_pairs(write(name, content), **options)]


def test_known_and_chosen_columns(write):
    assert pairs(write, "score,sentence2,sentence1\n 3.5 ,b,a\n") == [("a", "b", 3.5, 2)]
    assert pairs(write, "text,pair,label\na,b,-1e-2\n") == [("a", "b", -0.01, 2)]
    content = "sentence1,sentence2,label,score\na,b,1,4\n"
    assert pairs(write, content) == [("a", "b", 4.0, 2)]
    assert pairs(write, content, score="label") == [("a", "b", 1.0, 2)]
    assert pairs(write, "Left,Right,Points\na,b,1\n", first="left", second="2", score="3") == [
        ("a", "b", 1.0, 2)
    ]
    assert pairs(write, "text,other,score\na,b,1\n", second="other") == [("a", "b", 1.0, 2)]
    assert pairs(write, "text,sentence2,gold\na,b,1\n") == [("a", "b", 1.0, 2)]
    assert pairs(write, '[{"first": "a", "second": "b", "score": 2}]', "a.json") == [
        ("a", "b", 2.0, 1)
    ]


def test_without_a_header(write):
    assert pairs(write, "a,b,1\n\nc,d,2\n") == [("a", "b", 1.0, 1), ("c", "d", 2.0, 3)]
    assert pairs(write, "a,b\n", scored=False) == [("a", "b", None, 1)]
    assert pairs(write, "9,a,b,1\n", first="2", second="3", score="4") == [("a", "b", 1.0, 1)]


def test_without_scores(write):
    assert pairs(write, "first,second,x\na,b,c\n", scored=False) == [("a", "b", None, 2)]
    some = "first,second,score\na,b,\nc,d,2\n"
    assert [row[2] for row in pairs(write, some, scored=False)] == [None, 2.0]


@pytest.mark.parametrize("score", ["nan", "inf", "-Infinity", "1_0", "high", "1e999", "3.5.1"])
def test_scores_that_are_no_finite_numbers(write, score):
    path = write("a.tsv", f"a\tb\t1\n\nc\td\t{score}\n")
    refused(read_pairs, path, 3, f"the score (column 3) is '{score}', expected a finite number")
    refused(read_pairs, path, 3, "finite number", "--score-column", scored=False)


@pytest.mark.parametrize(
    ("content", "row", "words", "options"),
    [
        (
            "a;b;3,5\n",
            1,
            "is '3,5', expected a finite number such as 3.5: correct it, write a p",
            {},
        ),
        ("first,second,score\na,b,\n", 2, "the score (column 'score') is empty", {}),
        ("first,second,score\n,b,1\n", 2, "the first text (column 'first') is empty", {}),
        ("first,second,score\na, ,1\n", 2, "the second text (column 'second') is empty", {}),
        ("a,b\n", 1, "2 of them, expected first, second, score: name the columns with", {}),
        ("a\n", 1, "1 of them, expected first, second: name", {"scored": False}),
        ("first,second\na,b\n", 1, "which column is the score? none of the names,", {}),
        ("text,score\na,1\n", 1, "which column is the second?", {}),
        ("x,score\na,1\n", 1, "which column is the first?", {}),
        ("a,b,1\n", 1, "there are 3 columns without names: name it with --second", {"first": "1"}),
        ("a,b,1\n", 1, "--first-column is 'q'", {"first": "q"}),
        (
            "first,second,score\na,b,1\n",
            1,
            "are both column 'second'",
            {"first": "2", "second": "2"},
        ),
    ],
)
def test_what_is_refused(write, content, row, words, options):
    refused(read_pairs, write("a.csv", content), row, words, **options)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(TEXTS | TRICKY, TEXTS, st.floats(allow_nan=False, allow_infinity=False)),
        min_size=1,
        max_size=5,
    )
)
def test_round_trip(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("s") / "a.jsonl"
    lines = [json.dumps({"sentence1": a, "sentence2": b, "score": c}) for a, b, c in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert read_pairs(path) == [ScoredExample(*row, i) for i, row in enumerate(rows, start=1)]


@real_data
@pytest.mark.parametrize(
    ("name", "count"), [("train", 4500), ("trial", 500), ("test_annotated", 4927)]
)
def test_real_pairs(name, count):
    examples = read_pairs(DATA / "sick" / f"SICK_{name}.txt")
    assert len(examples) == count
    assert all(example.score is not None and 1 <= example.score <= 5 for example in examples)
