"""What the tests of all readers share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

DATA = Path(__file__).parents[3].parent / "shared" / "data"
real_data = pytest.mark.skipif(not DATA.exists(), reason=f"no real data at {DATA}")

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TEXTS = st.text(CHARACTERS, min_size=1).filter(lambda text: not text.isspace())
TRICKY = st.sampled_from(
    ['He said "no", twice', "a;b,c", " x\n\ny ", "a\u2028b", "é中💩", "5", '"']
)


def refused(call: Callable[..., Any], path: Path, row: int | None, *parts: str, **options: Any):
    """Check that a file is refused in one line with its name, the row, and some words."""
    with pytest.raises(ValueError) as error:  # noqa: PT011
        call(path, **options)
    message = str(error.value)
    place = f"{path}, line {row}" if row else str(path)
    assert message.startswith(place)
    assert not message[len(place)].isalnum()
    assert "\n" not in message
    assert "\r" not in message
    for part in parts:
        assert part in message
