from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from minibert.files import replacing, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_new_file_takes_the_old_ones_place(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old", encoding="utf-8")
    with replacing(path) as temporary:
        assert temporary.parent == tmp_path
        temporary.write_text("new", encoding="utf-8")
        assert path.read_text(encoding="utf-8") == "old"
    assert path.read_text(encoding="utf-8") == "new"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_old_file_stays_when_writing_fails(tmp_path: Path, error: BaseException) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old", encoding="utf-8")

    def write() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half of the n", encoding="utf-8")
            raise error

    with pytest.raises(type(error)):
        write()
    assert path.read_text(encoding="utf-8") == "old"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_old_file_stays_when_the_disk_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "a.txt"
    write_text(path, "old")
    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(OSError, match="No space"):
        write_text(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert names(tmp_path) == ["a.txt"]


def test_first_file_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "a.txt"):
        pass  # the block wrote nothing
    assert names(tmp_path) == []


def test_leftover_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".a.txt.12345.tmp").write_text("half", encoding="utf-8")
    (tmp_path / ".b.txt.12345.tmp").write_text("another file's", encoding="utf-8")
    write_text(tmp_path / "a.txt", "whole")
    assert names(tmp_path) == [".b.txt.12345.tmp", "a.txt"]


def test_second_writer_makes_the_first_fail(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"

    def write() -> None:
        with replacing(path) as temporary:
            temporary.write_text("first", encoding="utf-8")
            write_text(path, "second")

    with pytest.raises(FileNotFoundError):
        write()
    assert path.read_text(encoding="utf-8") == "second"


def test_text_is_utf8_with_plain_line_ends(tmp_path: Path) -> None:
    write_text(tmp_path / "ü.txt", "三\nß\n")
    assert (tmp_path / "ü.txt").read_bytes() == "三\nß\n".encode()


@pytest.mark.skipif(os.name != "posix", reason="permissions are POSIX's")
def test_others_may_read_what_the_umask_lets_them(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        write_text(tmp_path / "a.txt", "x")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o644
