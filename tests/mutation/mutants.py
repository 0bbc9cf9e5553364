"""A mutant: one changed function, and how to put it in the place of the original."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path
from types import CodeType
from typing import NamedTuple

from tests.mutation.engine import mutations
from tests.mutation.targets import SAME_SHAPE, TARGETS, Target, find

REPOSITORY = Path(__file__).parents[2]


class Mutant(NamedTuple):
    target: Target
    operator: str
    code: CodeType
    file: str  # relative to the repository
    line: int
    before: str
    after: str

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    def install(self) -> None:
        """Change the running program.  There is no way back: do it in a child process.

        A function's code is replaced inside the function, so that every module that imported it
        by name runs the changed one too.  A shared helper goes into its module under another
        name, and the backward, with what stands between, is made to call that one.
        """
        function = self.target.function
        if not self.target.through:
            function.__code__ = self.code
            return
        chain = [find(self.target.module, name) for name in self.target.through]
        names = [function.__name__, *(f.__name__ for f in reversed(chain))]
        code = self.code
        for callee, caller in zip(names, reversed(chain), strict=False):
            hidden = f"mutated_{callee}"
            function.__globals__[hidden] = type(function)(code, function.__globals__)
            code = renamed(caller.__code__, callee, hidden)
        chain[0].__code__ = code


def mutants_of(target: Target) -> list[Mutant]:
    """Return every mutant of one target, in the order of its source."""
    function = target.function
    lines, first = inspect.getsourcelines(function)
    [tree] = ast.parse(textwrap.dedent("".join(lines))).body
    assert isinstance(tree, ast.FunctionDef)
    path = Path(inspect.getfile(function)).resolve()
    file = str(path.relative_to(REPOSITORY)) if path.is_relative_to(REPOSITORY) else path.name
    return [
        Mutant(target, m.operator, compiled(m.source), file, first + m.line - 1, m.before, m.after)
        for m in mutations(tree, SAME_SHAPE, target.within)
    ]


def all_mutants(only: str = "") -> list[Mutant]:
    """Return the mutants of all targets, or of those whose name contains ``only``."""
    return [m for target in TARGETS if only in target.title for m in mutants_of(target)]


def compiled(source: str) -> CodeType:
    """Return the code of a function, without running anything."""
    module = compile(source, "<mutant>", "exec")
    [code] = [constant for constant in module.co_consts if isinstance(constant, CodeType)]
    return code


def renamed(code: CodeType, old: str, new: str) -> CodeType:
    """Return the code calling global ``new`` for ``old``, also in comprehensions within it."""
    names = tuple(new if name == old else name for name in code.co_names)
    constants = tuple(
        renamed(constant, old, new) if isinstance(constant, CodeType) else constant
        for constant in code.co_consts
    )
    return code.replace(co_names=names, co_consts=constants)
