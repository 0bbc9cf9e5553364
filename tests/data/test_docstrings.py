import ast
import sysconfig
from inspect import cleandoc
from pathlib import Path

import numpy as np
import pytest

from minibert.data.docstrings import docstrings

STDLIB = Path(sysconfig.get_path("stdlib"))
FILES = [
    *(STDLIB / name for name in ("argparse.py", "typing.py", "string.py", "json/__init__.py")),
    *(STDLIB / name for name in ("email/header.py", "unittest/mock.py", "tarfile.py")),
    Path(np.__file__).parent / "lib" / "_function_base_impl.py",
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_same_docstrings_as_the_parser_finds(path):
    if not path.exists():
        pytest.skip(f"{path} is not part of this installation")
    source = path.read_text(encoding="utf-8")
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    expected = {
        (ast.get_docstring(node) or "").strip()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, kinds)
    }
    found = set(docstrings(source))
    # Some one-line docstrings have plain quotes, and are passed over.
    assert {text for text in expected if "\n" in text} <= found
    assert found <= expected


def test_quotes_in_comments_and_strings_start_nothing():
    source = cleandoc('''
        # a comment with """ in it
        """The module.""" # and """ here

        x = "not \\" one"; y = f"""no {x}"""
        def f(a="""no""", b='"'):  # why: "
            r"""Raw \\d text."""
            """Nor is a second string."""
        class C:
            """Two\\nlines, \\"quoted\\", joined \\
        up."""
            d = {1: 2}
            z = b"""no"""
    ''')
    assert list(docstrings(source)) == [
        "The module.",
        "Raw \\d text.",
        'Two\nlines, "quoted", joined up.',
    ]


def test_text_attached_to_compiled_functions():
    source = "add_newdoc('m', 'f',\n    '''Do it.\n\n    More.\n    ''')\n"
    assert list(docstrings(source)) == ["Do it.\n\nMore."]
    assert list(docstrings("x = 1")) == []
