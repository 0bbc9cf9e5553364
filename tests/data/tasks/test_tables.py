import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.data.tasks import read_table
from minibert.data.tasks.text import line_number

from .common import CHARACTERS, TEXTS, TRICKY, refused

CELLS = TRICKY | st.text(CHARACTERS)
ROWS = st.integers(1, 4).flatmap(
    lambda width: st.lists(
        st.lists(CELLS, min_size=width, max_size=width).filter(lambda row: "".join(row).strip()),
        min_size=1,
        max_size=5,
    )
)


# The csv module leaves a lone \r unquoted where lines end in \n: to an editor that is a line end.
@given(
    ROWS,
    st.sampled_from(",;"),
    st.sampled_from([("\r\n", csv.QUOTE_MINIMAL), ("\n", csv.QUOTE_ALL)]),
)
def test_round_trip_of_csv(tmp_path_factory, rows, delimiter, form):
    form = {"delimiter": delimiter, "lineterminator": form[0], "quoting": form[1]}
    path = tmp_path_factory.mktemp("t") / "a.csv"
    header = ["id", "Text", "other", "more"][: len(rows[0])]
    header[0] = "label"
    buffer = io.StringIO()
    csv.writer(buffer, **form).writerows([header, *rows])
    path.write_text(buffer.getvalue(), encoding="utf-8", newline="")
    table = read_table(path)
    assert table.columns == header
    assert table.rows == rows
    starts = []
    for above in range(1, len(rows) + 1):
        begun = io.StringIO()
        csv.writer(begun, **form).writerows([header, *rows][:above])
        starts.append(line_number(begun.getvalue(), len(begun.getvalue())))
    assert table.lines == starts


@given(ROWS)
def test_round_trip_of_tsv(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("t") / "a.tsv"
    drop = str.maketrans("\t\r\n", "___")
    rows = [["label"] * len(rows[0])] + [[cell.translate(drop) for cell in row] for row in rows]
    path.write_text("\n".join(map("\t".join, rows)), encoding="utf-8")
    table = read_table(path)
    assert [table.columns, *table.rows] == rows
    assert table.lines == list(range(2, len(rows) + 1))


@given(st.lists(st.tuples(TEXTS, CELLS), min_size=1, max_size=5), st.booleans())
def test_round_trip_of_json(tmp_path_factory, rows, array):
    path = tmp_path_factory.mktemp("t") / "a.json"
    objects = [dict(zip(["text", "x"], row, strict=True)) for row in rows]
    text = json.dumps(objects) if array else "\n".join(map(json.dumps, objects))
    path.write_text(text, encoding="utf-8")
    table = read_table(path)
    assert table.columns == ["text", "x"]
    assert table.rows == list(map(list, rows))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("name", ["a.tsv", "a.tab", "a.txt", "a.TSV", "a.tsv.gz"])
def test_tab_separated(write, name, mark, end):
    content = mark + 'Text\tLabel\n\nHe said "no\t1\n  \nx,y; z\u2028 \t 2\n'
    table = read_table(write(name, content.replace("\n", end)))
    assert table.columns == ["Text", "Label"]
    assert table.rows == [['He said "no', "1"], ["x,y; z\u2028 ", " 2"]]
    assert table.lines == [3, 5]
    assert table.where.endswith("line 1")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("d", [",", ";"])
def test_comma_separated(write, d, end):
    lines = ["Text;Label", "", '"two', 'lines; and ""a, quote""";1', ";", 'b "c" d;2']
    content = end.join(lines).replace(";", d)
    table = read_table(write("a.csv.gz", content))
    assert table.columns == ["Text", "Label"]
    text = f'two{end}lines{d} and "a, quote"'
    assert table.rows == [[text, "1"], ['b "c" d', "2"]]
    assert table.lines == [3, 6]


def test_the_delimiter_where_both_split_the_first_row(write):
    header = read_table(write("a.csv", "text, really;label\nx;y\n"), names=["label"])
    assert header.columns == ["text, really", "label"]
    even = read_table(write("a.csv", "Well, I think, so;1\nNo;0\n"))
    assert even.rows == [["Well, I think, so", "1"], ["No", "0"]]
    both = read_table(write("a.csv", "a,b;c\n"))
    assert both.rows == [["a", "b;c"]]
    more = read_table(write("a.csv", "a;b;3,5\nc;d;1,0\n"))
    assert more.rows == [["a", "b", "3,5"], ["c", "d", "1,0"]]
    quoted = read_table(write("a.csv", '"a;b;c",1\n'))
    assert quoted.rows == [["a;b;c", "1"]]


def test_json(write):
    text = (
        '{"Text": "a", "n": 1.50}\n\n{"Text": "b", "n": true}\n{"x": null, "n": 1e999, "Text": ""}'
    )
    table = read_table(write("a.jsonl", text))
    assert table.columns == ["Text", "n", "x"]
    assert table.rows == [["a", "1.50", ""], ["b", "true", ""], ["", "1e999", ""]]
    assert table.lines == [1, 3, 4]
    array = read_table(write("a.json", "[" + text.replace("}\n", "},\n") + "]"))
    assert array[:3] == table[:3]


def test_json_with_half_characters_and_nested_values(write):
    table = read_table(
        write("a.jsonl", '{"t": "ok\\ud800bad \\ud83d\\ude00"}\n{"v": [1], "t": 1}\n')
    )
    assert table.rows == [["ok\ufffdbad 😀", ""], ["1", '["1"]']]
    assert dict(table.nested) == {1: 2}


def test_a_chosen_name_makes_a_header(write):
    path = write("a.tsv", "Body\tStars\nx\t5\n")
    assert read_table(path).columns is None
    assert read_table(path, names=["2", None]).columns is None
    assert read_table(path, names=["stars"]).columns == ["Body", "Stars"]


@pytest.mark.parametrize(
    ("name", "content", "row", "words"),
    [
        ("a.tsv", "", 1, "the file is empty"),
        ("a.tsv", "a\tb\n\na\tb\tc\n", 3, "3 columns, but the first row (line 1) has 2: a tab"),
        ("a.tsv", "\na\tb\na\n", 3, "1 column, but the first row (line 2) has 2"),
        (
            "a.csv",
            'a,b\n"x\n\ny",b\na,b,c\n',
            5,
            "3 columns, but the first row (line 1) has 2: a ,",
        ),
        ("a.csv", "a;b\na\n", 2, "a ; or a quote too many"),
        ("a.csv", 'a,b\n\n"x,b\ny,c\n', 3, "a quote that is never closed"),
        ("a.csv", 'a,b\n"x,b\n"y",c\n', 2, "text behind a closing quote, expected , there"),
        ("a.csv", 'a,b\n"x" y,b\n', 2, 'twice, "He said ""no""."'),
        ("a.csv", "a,b\n" + "x" * 200_000 + ",c\n", 2, "is a quote not closed?"),
        ("a.csv", '"a' + "x" * 200_000 + ",c\n", 1, "is a quote not closed?"),
        ("a.csv", ",\n,\n", 1, "all cells are empty"),
        ("a.csv", "a\tb\nc, d\te\n", 2, "let its name end in .tsv"),
        ("a.csv", "\ntext,label\n\n", 2, "a header, but no row below it"),
        ("a.tsv", "text\n", 1, "a header, but no row below it"),
        ("a.json", '[{"text": "a"},\n{"text": "b', 2, "not JSON (unterminated string"),
        ("a.jsonl", '{"text": "a"}\n{"text"', 2, "not JSON"),
        ("a.jsonl", "{}\n", 1, "an object without keys"),
        ("a.xlsx", b"PK\xff", None, "a table's name ends in .tsv, .tab, .txt, .csv, .jsonl"),
        ("README", "a\tb", None, "rename it"),
        ("a.csv", b"a,b\n\n\xff,b\n", 3, "byte 0xff is not UTF-8"),
    ],
)
def test_what_is_refused(write, name, content, row, words):
    refused(read_table, write(name, content), row, words)
