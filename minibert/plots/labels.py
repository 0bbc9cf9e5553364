"""Labels that can be drawn: every character has a glyph in a font, or becomes a visible escape.

matplotlib draws an empty box, and warns, where no font has a character.  A token may hold any
character, so each one is looked up first: in the font that matplotlib brings along, then in the
others of this computer, and if none has it, 三 is written as ``\\u4e09``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from matplotlib.font_manager import FontEntry, fontManager
from matplotlib.ft2font import FT2Font
from matplotlib.text import Text

BUNDLED = "DejaVu Sans"
PREFERRED = (  # broad fonts that draw CJK, by the names they have on Linux, macOS and Windows
    "Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Source Han Sans", "Hiragino Sans",
    "PingFang SC", "Yu Gothic", "Microsoft YaHei", "MS Gothic", "SimHei", "Malgun Gothic",
    "WenQuanYi Zen Hei", "IPAGothic", "Arial Unicode MS", "Noto Sans Symbols2", "Noto Emoji",
)  # fmt: skip
DISHONEST = (
    "last resort", "lastresort", "adobe blank",  # frames, or nothing, for every character
    "cm", "stixnonunicode", "stixsize", "dejavu math",  # mathematical signs under other codes
    "symbol", "wingdings", "webdings", "zapf dingbats", "bodoni ornaments",
)  # fmt: skip
"""How the names of fonts begin whose glyphs are not what their codes say."""


class Labels(NamedTuple):
    """Texts that every one of ``families``, asked in this order, can draw together."""

    texts: list[str]
    families: list[str]

    def style(self, text: Text) -> None:
        """Set the fonts of a text; a ``$`` in a token is a dollar, not the start of a formula."""
        text.set_fontfamily(self.families)
        text.set_parse_math(False)


def drawable(tokens: Iterable[str], longest: int = 24) -> Labels:
    """Return the tokens with an escape for each character that no font can draw.

    >>> drawable(["caf\u00e9", "a\\tb"]).texts
    ['café', 'a\\\\tb']
    """
    tokens = list(tokens)
    families = [BUNDLED]
    fonts: dict[str, str | None] = {}  # character → family
    for char in sorted(set("".join(tokens))):
        fonts[char] = family = find_font(char)
        if family is not None and family not in families:
            families.append(family)
    texts = [
        "".join(escape(char) if fonts[char] is None else char for char in token) for token in tokens
    ]
    return Labels([shorten(text, longest) for text in texts], families)


def shorten(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 3] + "..."


def escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


@cache
def find_font(char: str) -> str | None:
    """Return the family of a font that draws ``char``, None where there is none or nothing to see.

    Control characters, lone surrogates and blanks other than a space have nothing to see.
    """
    if not char.isprintable():
        return None
    for entry in candidates():
        if has_glyph(entry.fname, ord(char)):
            return entry.name
    return None


@cache
def candidates() -> tuple[FontEntry, ...]:
    """Return one upright face of each family: the bundled one, those known for CJK, the others."""

    def rank(entry: FontEntry) -> tuple[int, int, str]:
        known = (BUNDLED, *PREFERRED)
        place = known.index(entry.name) if entry.name in known else len(known)
        return place, abs(int(entry.weight) - 400) if str(entry.weight).isdigit() else 0, entry.name

    faces = [e for e in fontManager.ttflist if e.style == "normal" and is_honest(e.name)]
    first: dict[str, FontEntry] = {}
    for entry in sorted(faces, key=rank):
        first.setdefault(entry.name, entry)
    return tuple(first.values())


def is_honest(family: str) -> bool:
    return not family.lower().startswith(DISHONEST)


def has_glyph(path: str, codepoint: int) -> bool:
    font = open_font(path)
    return font is not None and font.get_char_index(codepoint) != 0


@cache
def open_font(path: str) -> FT2Font | None:
    """Return a font, or None for one that matplotlib cannot draw: unreadable, or made of pixels."""
    try:
        font = FT2Font(path)
    except (OSError, RuntimeError):
        return None
    return font if font.scalable else None
