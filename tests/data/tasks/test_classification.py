import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minibert.data.tasks import TextExample, read_texts

from .common import DATA, TEXTS, TRICKY, real_data, refused


def texts(write, content: str, name: str = "a.csv", **options):
    return [tuple(example) for example in read_texts(write(name, content), **options)]


def test_known_names(write):
    assert texts(write, "id,Review,Sentiment\n7,good,pos\n") == [("good", None, "pos", 2)]
    assert texts(write, "label,premise,hypothesis\nyes,a,b\n") == [("a", "b", "yes", 2)]
    assert texts(write, "sentence,question,label\ns,q,1\n") == [("q", "s", "1", 2)]
    assert texts(write, "class,content,pair,label\nx,a,b,y\n") == [("a", "b", "y", 2)]
    sick = (
        "pair_ID,sentence_A,sentence_B,relatedness_score,entailment_judgment\n1,a,b,3.5,NEUTRAL\n"
    )
    assert texts(write, sick) == [("a", "b", "NEUTRAL", 2)]
    snli = {"annotator_labels": ["x"], "gold_label": "x", "sentence1": "a", "sentence2": "b"}
    assert texts(write, json.dumps(snli), "a.jsonl") == [("a", "b", "x", 1)]


def test_chosen_columns(write):
    content = "sentence1,sentence2,label,mood\na,b,x,sad\n"
    assert texts(write, content, label="mood") == [("a", "b", "sad", 2)]
    assert texts(write, content, text="sentence2") == [("b", None, "x", 2)]  # no pair then
    assert texts(write, content, pair="2") == [("a", "b", "x", 2)]
    assert texts(write, "Body,Stars\na,5\n", text="body", label="stars") == [("a", None, "5", 2)]
    four = "gj04\t1\t\tThe sailors rode.\n"
    assert texts(write, four, "a.tsv", text="4", label="2") == [("The sailors rode.", None, "1", 1)]
    assert texts(write, "a,b,c\n", text="1", pair="2", labelled=False) == [("a", "b", None, 1)]


def test_without_a_header(write):
    assert texts(write, "a\n b \n", labelled=False) == [
        ("a", None, None, 1),
        (" b ", None, None, 2),
    ]
    assert texts(write, "a,1\nb,1\n") == [("a", None, "1", 1), ("b", None, "1", 2)]
    assert texts(write, "1,a\n 1 ,b\n") == [("a", None, "1", 1), ("b", None, "1", 2)]
    assert texts(write, "1,a\n2,b\n") == [("1", None, "a", 1), ("2", None, "b", 2)]  # a tie
    assert texts(write, "pos,good\n") == [("pos", None, "good", 1)]
    assert texts(write, "a,b,1\n") == [("a", "b", "1", 1)]
    many = "".join(f"text {i},{i},{i % 2}\n" for i in range(30))
    assert texts(write, many)[29] == ("text 29", "29", "1", 30)


def test_without_labels(write):
    assert texts(write, "text,x\na,b\n", labelled=False) == [("a", None, None, 2)]
    content = "text,label\na,x\nb,\n"
    assert [row[2] for row in texts(write, content, labelled=False)] == ["x", None]
    null = '{"text": "a", "label": null}'
    assert texts(write, null, "a.json", labelled=False) == [("a", None, None, 1)]


@pytest.mark.parametrize(
    ("content", "row", "words", "options"),
    [
        ("text,label\n\na,\n", 3, "the label (column 'label') is empty", {}),
        ("text,label\na,x\n , x\n", 3, "the text (column 'text') is empty", {}),
        ("text,label\n,x\n", 2, "the text (column 'text') is empty", {"labelled": False}),
        ("sentence1,sentence2,label\na,,x\n", 2, "the second text (column 'sentence2')", {}),
        ("a,1\n,2\nb,1\n", 2, "the text (column 1) is empty: fill it in or remove the row", {}),
        ("a\nb\n", 1, "1 column, expected texts and labels", {}),
        ("\na,b,c,d\n", 2, "4 columns without a header: name the columns with --text-column", {}),
        ("".join(f"1,{i},{i}\n" for i in range(20)), 1, "the last does not look like labels", {}),
        ("text,x\na,b\n", 1, "which column is the label? none of the names, 'text', 'x',", {}),
        ("label,x\na,b\n", 1, "which column is the text? none of the names", {}),
        ("a,b,c\n", 1, "there are 3 columns without names: name it with --label", {"text": "1"}),
        ("a,b\n", 1, "--label-column is 'mood', but the first row", {"label": "mood"}),
        ("text,label\na,b\n", 1, "--text-column is 'x', but the columns are", {"text": "x"}),
        ("a,b\n", 1, "--text-column and --label-column are both", {"text": "1", "label": "1"}),
    ],
)
def test_what_is_refused(write, content, row, words, options):
    refused(read_texts, write("a.csv", content), row, words, **options)


def test_a_nested_column_is_refused_where_it_is_used(write):
    path = write("a.jsonl", '{"text": "a", "label": "x"}\n{"text": "b", "label": ["x", "y"]}\n')
    refused(read_texts, path, 2, "column 'label' holds a list or an object")
    path = write("a.jsonl", '{"text": "a", "label": "x", "tokens": ["a"]}')
    assert read_texts(path) == [TextExample("a", None, "x", 1)]


@settings(max_examples=40)
@given(st.lists(st.tuples(TEXTS | TRICKY, TEXTS | TRICKY, TEXTS), min_size=1, max_size=5))
def test_round_trip(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("c") / "a.jsonl"
    lines = [json.dumps({"premise": a, "hypothesis": b, "label": c}) for a, b, c in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    assert read_texts(path) == [
        TextExample(a, b, c.strip(), row) for row, (a, b, c) in enumerate(rows, start=1)
    ]


@real_data
@pytest.mark.parametrize(
    ("name", "count"), [("train", 4500), ("trial", 500), ("test_annotated", 4927)]
)
def test_real_pairs(name, count):
    examples = read_texts(DATA / "sick" / f"SICK_{name}.txt")
    assert len(examples) == count
    assert {example.label for example in examples} == {"NEUTRAL", "ENTAILMENT", "CONTRADICTION"}
    assert all(example.pair for example in examples)
    assert [example.row for example in examples] == list(range(2, count + 2))


@real_data
def test_real_reviews(write):
    lines = []
    for label in ("neg", "pos"):
        text = (DATA / "sentence_polarity" / f"rt-polarity.{label}").read_text(encoding="utf-8")
        lines += [f"{label}\t{line}" for line in text.split("\n") if line]
    examples = read_texts(write("a.tsv", "\n".join(lines)))
    counts = Counter(example.label for example in examples)
    assert counts == {"neg": 5331, "pos": 5331}
