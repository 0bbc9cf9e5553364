"""From raw text to words: clean, set CJK apart, strip accents, lower-case, set punctuation apart.

BERT's five rules (Devlin et al. 2018, the released `BasicTokenizer`) act on one character at a
time, so together they are one table from a code point to a short string.  `Normalizer` is that
table, filled in as characters turn up, and `str.translate` applies it at C speed:

    Ça va, 中文?   ->   ca va ,  中  文  ?   ->   ca | va | , | 中 | 文 | ?

In order, for each character:

1. clean: NUL, U+FFFD, lone surrogates, control, format and private-use characters go; every white
   space becomes a blank.
2. CJK ideographs get a blank on either side.
3. strip accents: canonical decomposition (NFD, UAX #15), then nonspacing marks (Mn) go.
4. lower-case, letter by letter: no final sigma, and plain ``I`` is ``i`` in every language.
5. punctuation, which is category P and every ASCII symbol, gets a blank on either side.

One thing looks beyond a character: NFD also sorts neighbouring marks (see `_reordered`).

The Unicode version is pinned, as ids must not change with Python's.  Published vocabularies meet
text through the `tokenizers` package, whose categories are Unicode 8 (2015), whose decompositions
are Unicode 9, and whose lower-casing is Unicode 17.  Characters added since are in `_NEWER` and are
plain word characters; letters whose lower case Python 3.11 does not know are in `_LOWER`.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from itertools import chain, groupby
from operator import itemgetter


def _bounds(spans: str) -> list[int]:
    """Where the spans "5C8-5C9 61D" begin and end: [0x5C8, 0x5CA, 0x61D, 0x61E]."""
    ends = (span.partition("-") for span in spans.split())
    return [end for low, _, high in ends for end in (int(low, 16), int(high or low, 16) + 1)]


def _within(code: int, bounds: list[int]) -> bool:
    return bisect_right(bounds, code) % 2 == 1


# Between these bounds Unicode 8 has no mark, punctuation, format character or decomposition; later
# versions do.  Spans also cover neighbours that are letters or unassigned, to stay few and to hold
# for coming versions.
_NEWER = _bounds("""
5C8-5C9 61D 7FD 890-8E2 9FD-9FE A76 AFA-AFF B53-B55 C04-C3C C77 C84 D00 D3B-D3C D81 EBA ECE 1715
180F-1886 1ABF-1AF0 1B4E-1B4F 1B7D-1B7F 1DF6-1DFB 2E43-2E63 A82C A8C5 A8FF A9BD 105C9-105E4
10D24-10F89 11070-11074 110C2-110CD 111CF 1123E-11241 1133B 11383-1145E 11660-1166C 116B9
1182F-11FFF 12FF1-1612F 16D68-16F4F 16FE2-16FF1 1CF00-1D128 1D250-1D281 1E000-1E6F5 1E944-1E95F
""")

# Marks of Unicode 9, which the package sorts though it does not yet know them to be marks.
_SORTED_NEWER = _bounds("8D4-8E1 1DFB 11442 11446 11C3F 1E000-1E02A 1E944-1E94A")

# Letters of Unicode 15 to 17 with a lower case.
_LOWER = {
    0x1C89: 0x1C8A,
    0xA7CB: 0x0264,
    0xA7DC: 0x019B,
    **{code: code + 1 for code in (0xA7CC, 0xA7CE, 0xA7D2, 0xA7D4, 0xA7DA)},
    **{code: code + 0x20 for code in range(0x10D50, 0x10D66)},
    **{code: code + 0x1B for code in range(0x16EA0, 0x16EB9)},
}

# Characters whose category changed after Unicode 8, with the old one.
_RECLASSIFIED = {0x166D: "Po", 0x1734: "Mn", 0x111C9: "Po", 0x1171E: "Mn"}

# Ideographs.  Extension E starts at 2B820; the package has 2B920, and parity decides.
_CJK = _bounds("3400-4DBF 4E00-9FFF F900-FAFF 20000-2A6DF 2A700-2B81F 2B920-2CEAF 2F800-2FA1F")

_LARGEST_TABLE = 1 << 16  # entries; a text of all Unicode must not fill memory


def category(char: str) -> str:
    """The general category, as of Unicode 8 where it matters; "Lo" for anything newer.

    >>> category("\\u00ad"), category("!"), category("\\u0301"), category("\\u1ac0")
    ('Cf', 'Po', 'Mn', 'Lo')
    """
    code = ord(char)
    if code in _RECLASSIFIED:
        return _RECLASSIFIED[code]
    return "Lo" if _within(code, _NEWER) else unicodedata.category(char)


def is_punctuation(char: str) -> bool:
    """Category P, or an ASCII symbol such as ``$`` or ``+``, which Unicode files under S."""
    return category(char)[0] == "P" or ("!" <= char <= "~" and not char.isalnum())


def is_cjk(char: str) -> bool:
    """An ideograph.  Kana and Hangul are not: their words are written with more than one."""
    return _within(ord(char), _CJK)


def clean(char: str) -> str:
    """The character, a blank for any white space, or "" for what is not text."""
    if char in "\t\n\r":
        return " "
    if category(char) in ("Cc", "Cf", "Co", "Cs") or char == "\ufffd":
        return ""
    return " " if char.isspace() else char


class Normalizer(dict[int, str]):
    """The table from a code point to its text, filled on first use.

    strip_accents=None does as lowercase says, as in the released models.

    >>> Normalizer().words("Ça va, 中文?")
    ['ca', 'va', ',', '中', '文', '?']
    >>> Normalizer(lowercase=False).words("Don't")
    ['Don', "'", 't']
    """

    def __init__(
        self, *, lowercase: bool = True, strip_accents: bool | None = None, split_cjk: bool = True
    ) -> None:
        super().__init__()
        self.lowercase = lowercase
        self.strip_accents = lowercase if strip_accents is None else strip_accents
        self.split_cjk = split_cjk
        self._movable: set[str] = set()  # characters met that leave a mark which NFD may move

    def __missing__(self, code: int) -> str:
        char = chr(code)
        units = self._units(char)
        if any(combining and image for combining, _, image in units):
            self._movable.add(char)
        if len(self) >= _LARGEST_TABLE:
            self.clear()
        self[code] = "".join(image for _, _, image in units)
        return self[code]

    def _units(self, char: str) -> list[tuple[int, bool, str]]:
        """What a character decomposes to: for each part (combining class, is first, image)."""
        char = clean(char)
        if not char:
            return []
        decomposes = self.strip_accents and not _within(ord(char), _NEWER)
        parts = unicodedata.normalize("NFD", char) if decomposes else char
        blank = " " if self.split_cjk and is_cjk(char) else ""
        return [
            (self._combining(part), not place, self._image(part))
            for place, part in enumerate(blank + parts + blank)
        ]

    def _combining(self, part: str) -> int:
        """The canonical combining class: where NFD sorts a mark to; 0 is never moved."""
        code = ord(part)
        known = not _within(code, _NEWER) or _within(code, _SORTED_NEWER)
        return unicodedata.combining(part) if self.strip_accents and known else 0

    def _image(self, part: str) -> str:
        """Rules 3 to 5 for one part of a decomposition."""
        if self.strip_accents and category(part) == "Mn":
            return ""
        if self.lowercase:
            part = chr(_LOWER[ord(part)]) if ord(part) in _LOWER else part.lower()
        return f" {part} " if is_punctuation(part[0]) else part

    def spaced(self, text: str) -> str:
        """The normalised text with a blank around each word; time is linear in the length."""
        spaced = text.translate(self)
        if self._movable and not self._movable.isdisjoint(text):
            return "".join(image for image, _ in self._reordered(text))
        return spaced

    def words(self, text: str) -> list[str]:
        """The words of a text, punctuation and ideographs apart."""
        return self.spaced(text).split()

    def aligned(self, text: str) -> tuple[str, list[int]]:
        """`spaced(text)`, and for each of its characters the index in `text` that it came from.

        >>> Normalizer().aligned("\\u00e9\\u0301 X")
        ('e x', [0, 2, 3])
        """
        spaced = text.translate(self)
        if self._movable and not self._movable.isdisjoint(text):
            units = list(self._reordered(text))
            spaced = "".join(image for image, _ in units)
            return spaced, [index for image, index in units for _ in image]
        images = map(self.__getitem__, map(ord, text))
        return spaced, [index for index, image in enumerate(images) for _ in image]

    def _reordered(self, text: str) -> Iterator[tuple[str, int]]:
        """Normalise with NFD's sorting of marks (UAX #15, canonical ordering algorithm).

        A run of marks with nonzero combining class is sorted by class, stably.  That only shows
        where a mark outlives the removal of accents: a few spacing vowel signs, tone marks and
        musical signs.  Sorted marks share out their source positions from left to right, as in the
        package, so that offsets never run backwards.
        """
        units = {char: self._units(char) for char in set(text)}
        unused = (index for index, char in enumerate(text) if units[char])
        sequence = chain.from_iterable(map(units.__getitem__, text))
        index = 0
        for _, run in groupby(sequence, lambda unit: unit[0] > 0):
            for _, is_first, image in sorted(run, key=itemgetter(0)):
                index = next(unused) if is_first else index
                yield image, index
