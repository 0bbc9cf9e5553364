import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibert.data.tasks.text import line_number, read_text, shown, split_lines, without_surrogates

from .common import refused


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "A.TXT.GZ"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_plain_and_gzip_with_and_without_a_mark(write, name, mark):
    path = write(name.replace(".GZ", ".gz"), mark + "é\r\n中\n")
    path = path.rename(path.with_name(name))
    assert read_text(path) == "é\r\n中\n"
    assert read_text(str(path)) == "é\r\n中\n"


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_not_utf_8(write, name, mark, end):
    data = mark + end.join([b"ok", b"", b"na\xefve", b"rest"])
    refused(read_text, write(name, data), 3, "byte 0xef is not UTF-8", "iconv -f WINDOWS-1252")


def test_other_kinds_of_file(write):
    utf_16 = "one\ntwo\n".encode("utf-16")
    refused(read_text, write("a.csv", utf_16), 1, "byte 0xff", "iconv -f UTF-16")
    refused(read_text, write("a.csv", "a\nb\n".encode("utf-16-le")), 1, "NUL", "iconv -f UTF-16")
    refused(read_text, write("a.csv", "a\nb\0\n"), 2, "NUL character")
    refused(read_text, write("a.csv", gzip.compress(b"a")), 1, "end in .gz")
    refused(read_text, write("a.csv", b"PK\x03\x04\xff"), 1, "spreadsheet", "save it as CSV")
    refused(read_text, write("a.csv", b"cut \xe4\xb8"), 1, "byte 0xe4")
    with pytest.raises(FileNotFoundError):
        read_text("nothing.txt")


@pytest.mark.parametrize("content", ["", "\ufeff", " \n\t\r\n\n"])
def test_an_empty_file(write, content):
    refused(read_text, write("a.txt", content), 1, "empty", "expected at least one row")


def test_damaged_gzip(write, tmp_path):
    lines = b"".join(b"row %d\n" % i for i in range(50_000))
    whole = gzip.compress(lines)
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(b"plain text")
    refused(read_text, path, 1, "not gzip")
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"a.tsv.gz, line (\d+): .* is cut off") as error:
        read_text(path)
    row = int(str(error.value).split("line ")[1].split(":")[0])
    assert 15_000 < row < 35_000  # all that could be read is counted
    path.write_bytes(whole[:-3])
    refused(read_text, path, 50_001, "cut off or damaged")
    path.write_bytes(whole[:-8] + bytes(8))
    refused(read_text, path, 50_001, "cut off or damaged")


def test_lines_are_those_of_an_editor():
    text = "a\r\nb\rc\n\nd\u2028e\x0b\x0c\x1c\x85f"
    assert split_lines(text) == ["a", "b", "c", "", "d\u2028e\x0b\x0c\x1c\x85f"]
    assert split_lines("a\n") == ["a"]
    assert split_lines("") == []
    assert [line_number(text, text.index(letter)) for letter in "abcdf"] == [1, 2, 3, 5, 5]


@given(st.text(st.sampled_from("ab\r\n\u2028")))
def test_lines_with_their_ends_are_the_text(text):
    lines = split_lines(text, ends=True)
    assert "".join(lines) == text
    assert [line.rstrip("\r\n") for line in lines] == split_lines(text)


def test_what_messages_show():
    assert shown("a\nb") == r"'a\nb'"
    assert len(shown("x" * 99)) == 32
    assert [shown(value) for value in (None, 1, True, [], {}, b"")] == [
        "null",
        "a number",
        "true or false",
        "a list",
        "an object",
        "bytes",
    ]
    assert without_surrogates("ok\ud800bad\U0001f600") == "ok\ufffdbad\U0001f600"
