"""Writing a file so that a crash leaves either the old one or the new one, never a part.

    write to a temporary name in the same folder   what is at ``path`` stays as it is
    fsync the file                                 its bytes are on the disk, not in a buffer
    rename it to ``path``                          one step, old or new
    fsync the folder                               the rename itself is on the disk

The order matters: a rename that reaches the disk before the bytes leaves a file of zeros.  The
temporary file lies in the same folder because a rename cannot cross to another file system.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path to write to; at the end of the block it becomes ``path``.

    If the block raises, the temporary file is removed and ``path`` stays what it was.  A process
    that is killed leaves its temporary file behind (named ``.NAME.PID.tmp``, which no loader ever
    looks at); the next write of the same file removes it.  The same rule makes two processes that
    write one file at the same time fail loudly: the second takes away the first one's temporary.
    """
    path = Path(path)
    prefix, suffix = f".{path.name}.", ".tmp"
    for stray in path.parent.iterdir():
        if stray.name.startswith(prefix) and stray.name.endswith(suffix):
            with suppress(OSError):  # Windows does not remove a file that another process has open
                stray.unlink()
    temporary = path.with_name(f"{prefix}{os.getpid()}{suffix}")
    try:
        yield temporary
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)  # noqa: PTH105, the tests replace it to act out a full disk
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def is_free(folder: Path) -> bool:
    """Return whether a folder is not there yet, or empty."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk; only POSIX systems can, and need to."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text by ``replacing``; line ends are ``\\n`` on every system."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")
