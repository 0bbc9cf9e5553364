import gzip
import json
import tracemalloc
from pathlib import Path

import pytest

from minibert.data import documents as module
from minibert.data import read_documents
from minibert.data.documents import detect_form, expand_paths

DATA = Path(__file__).parents[2].parent / "shared" / "data"
PROSE = """The fox ran away. It was
late, and the moon was
out.


A second, longer text
begins. So.
"""
PROSE_DOCUMENTS = [
    ["The fox ran away.", "It was late, and the moon was out."],
    ["A second, longer text begins.", "So."],
]
LINES = "One sentence by Dr. Who.\nAnother, longer one, without a stop\nShort.\n\nNext text\nEnd\n"
LINE_DOCUMENTS = [
    ["One sentence by Dr. Who.", "Another, longer one, without a stop", "Short."],
    ["Next text", "End"],
]


@pytest.fixture
def write(tmp_path):
    def write_file(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = content.encode("utf-8") if isinstance(content, str) else content
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write_file


def one_line(error) -> str:
    message = str(error.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "README"])
@pytest.mark.parametrize(("text", "expected"), [(PROSE, PROSE_DOCUMENTS), (LINES, LINE_DOCUMENTS)])
def test_both_forms_of_text(write, text, expected, name, end):
    path = write(name, "\ufeff" + text.replace("\n", end))
    assert list(read_documents([path])) == expected


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.ndjson", "a.json"])
def test_json_lines(write, name):
    records = [{"text": "One. Two\u2028still two."}, {"text": " "}, {"id": 3, "text": "三。四。"}]
    content = "\ufeff" + "\r\n\n".join(map(json.dumps, records))
    assert list(read_documents([write(name, content)])) == [
        ["One.", "Two still two."],
        ["三。", "四。"],
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": ', "line 2 is not JSON"),
        ("[1, 2]", "line 2: expected an object"),
        ('{"txt": "a"}', "line 2: expected an object"),
        ('{"text": 5}', "line 2: expected an object"),
    ],
)
def test_bad_json_lines(write, line, message):
    path = write("a.jsonl", '{"text": "Good."}\n' + line)
    with pytest.raises(ValueError, match=message) as error:
        list(read_documents([path]))
    one_line(error)


def test_the_rule_that_tells_prose_from_lines():
    wrapped = ["A paragraph of text that has been", "wrapped at some width. Its lines end"]
    assert detect_form([*wrapped, "anywhere, as here, not with sentences"]) == "prose"
    assert detect_form(["hello", "tom sawyer", "how are you"]) == "lines"
    assert detect_form(["A long line. It holds much.", "So does it. Really."]) == "prose"
    assert detect_form(["Each block.", "", "Has one line."]) == "prose"
    assert detect_form([]) == "prose"
    ragged = ["It rained all day. We", "stayed in. Why not? Nobody", "minded that. So it", "ended."]
    assert detect_form(ragged) == "prose"
    assert detect_form(["今天天气很好。", "我们去公园吧。"]) == "lines"
    assert detect_form(["今天天气很好我", "们去公园吧明天", "再来玩好不好。"]) == "prose"


def test_the_rule_can_be_overruled(write):
    path = write("a.txt", "A b.\nC d. E f.\n")
    assert list(read_documents([path], form="lines")) == [["A b.", "C d. E f."]]
    assert list(read_documents([path], form="prose")) == [["A b.", "C d.", "E f."]]
    with pytest.raises(ValueError, match="form is 'poem'"):
        read_documents([path], form="poem")  # type: ignore[arg-type]


def test_folders_patterns_and_duplicates(write, tmp_path):
    first, second = write("b/x.txt", "B."), write("a/y.jsonl.gz", '{"text": "A."}')
    write("a/.hidden/z.txt", "Hidden.")
    write("a/z.py", "print()")
    (tmp_path / "link.txt").symlink_to(first)
    expected = [["A."], ["B."]]
    assert list(read_documents([tmp_path])) == expected
    assert list(read_documents([first, tmp_path / "*" / "*.*z", first])) == expected
    assert list(read_documents([str(tmp_path / "**" / "[xy].*")])) == expected
    assert expand_paths(str(first)) == [first.resolve()]
    assert second.resolve() in expand_paths([tmp_path])


def test_paths_that_lead_to_no_text(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "picture.png").write_bytes(b"\x89PNG")
    for path, kind, message in [
        ("nothing.txt", FileNotFoundError, "no such file or folder"),
        ("*.txt", FileNotFoundError, "no file matches it"),
        ("empty", ValueError, "a folder without text"),
    ]:
        with pytest.raises(kind, match=message) as error:
            read_documents([tmp_path / path])  # at once, not at the first document
        assert path in one_line(error)
    with pytest.raises(ValueError, match="no files were named"):
        read_documents([])


@pytest.mark.parametrize("content", ["", "   \n\n \t\r\n", "\ufeff"])
def test_blank_corpus(write, content):
    with pytest.raises(ValueError, match=r"no text in .*a.txt") as error:
        list(read_documents([write("a.txt", content)]))
    one_line(error)
    assert list(read_documents([write("a.txt", content), write("b.txt", "Text.")])) == [["Text."]]


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.jsonl"])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"ok\n\nbad \xff byte", "byte 0xff at position 8"),
        (b"\xff\xfeh\x00i\x00", "byte 0xff at position 0.*UTF-16"),
        ("naïve".encode("latin-1"), "byte 0xef at position 2.*WINDOWS-1252"),
        (b"surrogate \xed\xa0\x80", "byte 0xed at position 10"),
        (b"cut off \xe4\xb8", "byte 0xe4 at position 8"),
    ],
)
def test_undecodable_bytes(write, name, data, message):
    if name.endswith("jsonl"):
        data = data.replace(b"ok\n\n", b"    ")
    with pytest.raises(ValueError, match=message) as error:
        list(read_documents([write(name, data)]))
    assert name in one_line(error)
    assert "iconv -f" in one_line(error)


@pytest.mark.parametrize("damage", [b"plain text", gzip.compress(b"Some text. " * 99)[:-20]])
def test_damaged_gzip(tmp_path, damage):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(damage)
    with pytest.raises(ValueError, match="damaged or not gzip") as error:
        list(read_documents([path]))
    one_line(error)


def test_a_long_document_is_cut_and_memory_bounded(write, monkeypatch):
    limit = 1 << 13
    monkeypatch.setattr(module, "LONGEST_DOCUMENT", limit)
    sentences = [f"This is sentence number {i} of a long text." for i in range(15_000)]
    path = write("a.txt", "\n".join(sentences))
    tracemalloc.start()
    try:
        count = sum(len(document) for document in read_documents([path]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > 70 * limit
    assert peak < 20 * limit
    # One sentence is dropped at each cut, so that no document begins with another's continuation.
    pieces = list(read_documents([path]))
    assert count == len(sentences) - (len(pieces) - 1)
    assert pieces[1][0] == sentences[len(pieces[0]) + 1]


def test_a_line_without_end_is_cut_in_parts(write, monkeypatch):
    monkeypatch.setattr(module, "LONGEST_DOCUMENT", 100)
    path = write("a.txt", "é中 word. Another " * 200)
    pieces = list(read_documents([path], form="prose"))
    assert len(pieces) > 30
    assert all(len(" ".join(piece)) <= 200 for piece in pieces)
    with pytest.raises(ValueError, match="byte 0xff at position 251"):
        list(read_documents([write("b.txt", "é".encode() * 125 + b"x\xff")]))


@pytest.mark.skipif(not DATA.exists(), reason=f"no real data at {DATA}")
def test_real_text():
    sample = list(read_documents([DATA / "bert_sample" / "sample_text.txt"]))
    assert len(sample) == 3
    assert len(sample[0]) == 3
    assert sample[0][1].endswith("with empty lines between documents.")
    reviews = list(read_documents([DATA / "sentence_polarity" / "rt-polarity.pos"]))
    assert [len(document) for document in reviews] == [5331]
    plays = list(read_documents([DATA / "tinyshakespeare" / "input.txt"]))
    assert len(plays) == 7222
    assert plays[0][0] == "First Citizen:"
