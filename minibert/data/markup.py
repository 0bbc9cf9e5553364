"""Take the prose out of technical documentation: reStructuredText, NumPy's docstrings, plain lists.

Documentation is half prose and half apparatus: signatures, code, tables, option lists, doctest
sessions, headings.  ``paragraphs`` walks over the lines once and keeps what reads as running text;
``is_prose`` then looks at every sentence, since no walk over lines knows all dialects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_UNDERLINE = re.compile(r"([=\-~^*#+\"'`:.])\1{2,}[=\-~^*#+ ]*")  # a heading's, or a table's border
_TABLE_ROW = re.compile(r"[|+].*[|+]")
_COLUMN_GAP = "   "
_DIRECTIVE = re.compile(r"\.\. +([\w-]+)::")
_EXPLICIT = re.compile(r"\.\.( |$)")  # a comment, footnote, citation or link target
_BULLET = re.compile(r"(?:[-*+•·o]|\(?(?:\d{1,3}|[a-zA-Z])[.)])[ \t]+(?=\S)")
_FIELD = re.compile(r":\w[^:`]*:(?!`)\s*")  # ":param x:"
_PARAMETER = re.compile(r"\*{0,2}[\w.{}]+(?:, *(?:\*{0,2}[\w.]+|\.\.\.))* *: *\S.*")  # "x : int"
_CUT_WORD = re.compile(r"(?<=\w)-\n(?=\w)")  # "built-" at the end of a line, "in" on the next
_DROPPED_SECTIONS = frozenset(("examples", "example", "see also", "references", "methods"))
_CODE_DIRECTIVES = """
    code code-block sourcecode math plot ipython productionlist autosummary index image figure
    toctree table csv-table list-table parsed-literal testcode testsetup doctest highlight
"""

_INLINE = (  # (pattern, replacement), applied in this order
    (re.compile(r"``\s*(.+?)\s*``"), r"\1"),
    (re.compile(r":[\w:+-]+:`[~!]?([^`<]+?)(?:\s*<[^`>]*>)?`"), r"\1"),
    (re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{0,2}"), r"\1"),
    (re.compile(r"`([^`\s][^`]*)`_{0,2}"), r"\1"),
    (re.compile(r" ?\[(?:\d+|#\w*|\*)\]_?(?!\w)"), ""),
    (re.compile(r"(?<![\w*])(\*{1,2})(\w(?:[^*]*[\w.!?])?)\1(?![\w*])"), r"\2"),
    (re.compile(r"(?<!\w)\|(\w[\w ]*)\|"), r"\1"),
    (re.compile(r"\\([^\w\\])"), r"\1"),
    (re.compile(r"<https?://[^>]*>|https?://\S+"), ""),
    (re.compile(r"\s+([.,;:!?)])(?=\s|$)"), r"\1"),
)
_MAY_HAVE_MARKUP = re.compile(r"[`*|\[\\]|://|\s[.,;:!?)]")


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of prose in ``text``, each on one line and free of inline markup.

    ``text`` is documentation with its common indentation taken off (``inspect.cleandoc``).
    """
    held: list[str] = []  # lines of the paragraph being read
    column = 0  # where its lines start
    code_above: int | None = None  # skip lines indented deeper than this, and blank ones
    in_doctest = in_dropped_section = False

    def finished() -> Iterator[str]:
        if held and not in_dropped_section:
            yield plain(_CUT_WORD.sub("-", "\n".join(held)))
        held.clear()

    for line in text.split("\n"):
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        if not stripped:
            if held and held[-1].endswith("::"):
                code_above = column
            yield from finished()
            in_doctest = False
            continue
        if code_above is not None:
            if indent > code_above:
                continue
            code_above = None
        if in_doctest:
            continue
        if not stripped[0].isalnum():  # most of the apparatus begins with a sign
            if _UNDERLINE.fullmatch(stripped):
                if held:  # the line above is a heading
                    heading = held.pop().lower()
                    yield from finished()
                    in_dropped_section = heading in _DROPPED_SECTIONS
                continue
            if stripped.startswith((">>>", "...", "$ ", "% ")):
                yield from finished()
                in_doctest = True
                continue
            if directive := _DIRECTIVE.match(stripped):
                yield from finished()
                if directive[1] in _CODE_DIRECTIVES.split():
                    code_above = indent
                continue  # a note's or a warning's text follows and is prose
            if _EXPLICIT.match(stripped):
                yield from finished()
                code_above = indent
                continue
            if _TABLE_ROW.fullmatch(stripped):
                yield from finished()
                continue
        if _COLUMN_GAP in stripped or (":" in stripped and _PARAMETER.fullmatch(stripped)):
            yield from finished()
            continue
        if mark := _BULLET.match(stripped) or _FIELD.match(stripped):
            yield from finished()
            column = indent + mark.end()
            held.append(stripped[mark.end() :])
            continue
        if held and indent != column:  # a definition below its term, or a hanging list item's end
            if len(held) == 1 and indent > column and not held[0].endswith((".", ":")):
                held.clear()  # the term
            yield from finished()
        if not held:
            column = indent
        held.append(stripped)
    yield from finished()


def plain(text: str) -> str:
    """Return a paragraph without inline markup.

    >>> plain("Use :func:`len` on ``x`` or *any* `list` [1]_ , see `the docs <http://a.b>`_.")
    'Use len on x or any list, see the docs.'
    """
    if _MAY_HAVE_MARKUP.search(text):
        for pattern, replacement in _INLINE:
            text = pattern.sub(replacement, text)
    return " ".join(text.split())


_WORDS = re.compile(r"(?<!\S)[(\"'“‘]*[A-Za-z]+(?:['’-][A-Za-z]+)*(?:\(s\))?[)\"'”’.,;:!?]*(?!\S)")


def is_prose(sentence: str) -> bool:
    """Say whether a sentence reads as English: begun, ended, and made mostly of words.

    >>> is_prose("Return the number of items."), is_prose("a.put(i, v, mode='raise')")
    (True, False)
    """
    if not sentence.endswith((".", "!", "?", ":", '."', ".)")) or sentence.endswith("::"):
        return False
    if not (sentence[0].isalnum() or sentence[0] in "\"'“‘("):
        return False
    words = sentence.split()
    if not 3 <= len(words) <= 100 or "::=" in words or "->" in words:
        return False
    return len(_WORDS.findall(sentence)) >= 0.7 * len(words)
