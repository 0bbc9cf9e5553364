"""Cut prose into sentences, by rule.

A sentence ends at ``.``, ``!``, ``?`` or ``…``, with closing quotes and brackets, where white space
follows and the next word does not start in lower case.  A full stop is then taken back where it
belongs to the word before it: a title or other abbreviation ("Dr.", "e.g."), an initial
("J. Smith"), the number of a list item ("2. Fold it").  Chinese and Japanese ``。！？`` end a
sentence without a blank.  A blank line always does; a single line break is only white space.

Cutting too seldom is the cheaper mistake: the halves of a sentence that was cut in the middle look
like a true continuation to next-sentence prediction, and teach it nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_CLOSING = "\"'”’»›)]}」』】》〉）"
_OPENING = "\"'“‘«‹([{「『【《〈（¿¡*_"
_WIDE_STOPS = "。！？｡"  # these need no white space behind them
_STOPS = ".!?…‥؟۔।॥"

_BOUNDARY = re.compile(
    rf"""
    (?: [{_STOPS}]+ [{re.escape(_CLOSING)}]* (?= \s ) | [{_WIDE_STOPS}]+ [{re.escape(_CLOSING)}]* )
    \s*
    """,
    re.VERBOSE,
)
_BLANK_LINE = re.compile(r"\n[^\S\n]*\n\s*")
_LAST_WORD = re.compile(rf"[{re.escape(_OPENING)}—–]*([^\s—–]+)$")
_ACRONYM = re.compile(r"(?:[^\W\d_]\.)+[^\W\d_]")  # "U.S", "a.m", "e.g": letters with stops between
_LIST_NUMBER = re.compile(r"(?:\d{1,3}|[ivxIVX]{1,4}|[a-zA-Z])")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# Words whose stop is part of them: always, and only where a number follows ("No. 5", "p. 12").
_ABBREVIATIONS = _set("""
    adm al approx ave bros capt cf cmdr col comdr cpl ca dept dr ed eds esp est ex figs fr gen gov
    hon inc ltd corp jr lt maj messrs mlle mme mr mrs ms mt mx nos pp prof ref refs rep rev resp
    sec sen sens sgt sr st ste supt univ viz vol vols vs
""")
_BEFORE_NUMBER = _set("""
    art ch chap eq eqs fig no nr p par sect sec tab
    jan feb mar apr jun jul aug sep sept oct nov dec
""")
# After these, a word that often begins sentences does so: "… at Acme Inc. The firm …".
_MAY_END = _set("inc ltd corp jr sr al ave st bros est dept resp")
_STARTERS = _set("""
    a after all although an and as at because before but by during each every for from he her his
    however i if in it its many most my no on one our she since so some such that the their then
    there these they this those thus to under we what when where which while who with you your
""")


def split_sentences(text: str) -> list[str]:
    """Return the sentences of ``text``, white space inside them made single blanks.

    Takes time linear in the length.  Text without any stop is one sentence.

    >>> split_sentences('Mr. Fox paid $3.50. "Why?" he asked. The U.S. Navy came at 5 p.m. Then')
    ['Mr. Fox paid $3.50.', '"Why?" he asked.', 'The U.S. Navy came at 5 p.m.', 'Then']
    >>> split_sentences("我来了。你呢？他说：「好！」")
    ['我来了。', '你呢？', '他说：「好！」']
    """
    sentences = []
    for block in _BLANK_LINE.split(text):
        block = " ".join(block.split())
        start = 0
        for end in _ends(block):
            sentences.append(block[start:end].strip())
            start = end
        sentences.append(block[start:].strip())
    return [sentence for sentence in sentences if sentence]


def ends_sentence(line: str) -> bool:
    """Say whether a line's last visible character is one that ends a sentence.

    >>> ends_sentence('He said "yes." '), ends_sentence("He said")
    (True, False)
    """
    return line.rstrip().rstrip(_CLOSING).endswith(tuple(_STOPS + _WIDE_STOPS))


def _ends(block: str) -> Iterator[int]:
    """Yield the positions at which ``block``, free of line breaks, is to be cut."""
    start = 0
    for match in _BOUNDARY.finditer(block):
        end = match.end()
        if end == len(block):
            return
        if block[match.start()] not in _WIDE_STOPS and _goes_on(block, start, match.start(), end):
            continue
        yield end
        start = end


def _goes_on(block: str, start: int, stop: int, end: int) -> bool:
    """Say whether the stop at ``stop`` does not end the sentence that began at ``start``."""
    following = block[end : end + 40].lstrip(_OPENING)
    if following[:1].islower():
        return True
    if block[stop] != "." or block[stop : stop + 2] == "..":
        return False
    # Only the tail is looked at, so a text without blanks does not take quadratic time.
    found = _LAST_WORD.search(block[max(start, stop - 40) : stop])
    if not found:
        return False
    word = found[1]
    lower = word.lower()
    new_word = following.split(" ", 1)[0].strip(".,;:!?" + _CLOSING).lower()
    if stop - len(word) <= start and _LIST_NUMBER.fullmatch(word) and word != "I":
        return True
    if _ACRONYM.fullmatch(word):
        return lower in ("e.g", "i.e") or (
            new_word not in _STARTERS and not (lower in ("a.m", "p.m") and new_word[:1].isalpha())
        )
    if len(word) == 1 and word.isalpha() and word.isupper():
        return word != "I" and new_word not in _STARTERS
    if lower in _ABBREVIATIONS:
        return lower not in _MAY_END or new_word not in _STARTERS
    return lower in _BEFORE_NUMBER and new_word[:1].isdigit()
