"""Applies every operator to every place of a function."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.mutation.operators import OPERATORS, REMOVED, method, other_variable


class Mutation(NamedTuple):
    operator: str
    source: str  # of the whole changed function
    line: int  # within the function's source, from 1
    before: str  # the changed statement
    after: str


def mutations(
    function: ast.FunctionDef,
    groups: tuple[tuple[str, ...], ...] = (),
    within: Callable[[ast.AST], list[ast.AST]] | None = None,  # function → parts to change
) -> Iterator[Mutation]:
    """Yield every way to change one place of a function, no two alike."""
    tree = plain(function)
    defined = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    defined |= {a.arg for a in tree.args.args}
    groups = tuple(
        tuple(name for name in group if name.split(".")[0] in defined) for group in groups
    )
    seen = {ast.unparse(tree)}
    for slot in list(slots(tree, within(tree) if within else [tree])):
        node = slot.get()
        before = first_line(slot.statement)
        candidates = [(op.__name__, new) for op in OPERATORS for new in op(node)]
        candidates += [("other_variable", new) for new in other_variable(node, groups)]
        for operator, new in candidates:
            slot.put(new)
            ast.fix_missing_locations(tree)
            source = ast.unparse(tree)
            after = first_line(new if node is slot.statement else slot.statement)
            slot.put(node)
            if source not in seen:
                seen.add(source)
                after = "(deleted)" if new is REMOVED else after
                yield Mutation(operator, source, slot.statement.lineno, before, after)


class Slot(NamedTuple):
    """Where a node hangs in the tree, so that another can hang there for a moment."""

    parent: ast.AST
    field: str
    index: int | None  # in a list of nodes
    statement: ast.stmt  # the nearest one around it

    def get(self) -> ast.AST:
        value = getattr(self.parent, self.field)
        return value if self.index is None else value[self.index]

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.field, node)
        else:
            getattr(self.parent, self.field)[self.index] = node


def slots(
    tree: ast.AST, parts: list[ast.AST], statement: ast.stmt | None = None, inside: bool = False
) -> Iterator[Slot]:
    """Yield the place of every node in some parts of a function, from the top down."""
    inside = inside or any(tree is part for part in parts)
    for field, value in ast.iter_fields(tree):
        several = isinstance(value, list)
        for index, child in enumerate(value if several else [value]):
            if not isinstance(child, ast.AST) or is_neutral(tree, child) or is_check(child):
                continue
            nearest = child if isinstance(child, ast.stmt) else statement
            if nearest is None:
                continue
            if inside or any(child is part for part in parts):
                yield Slot(tree, field, index if several else None, nearest)
            yield from slots(child, parts, nearest, inside)


def plain(function: ast.FunctionDef) -> ast.FunctionDef:
    """Return a copy without docstring, annotations and decorators."""
    function = copy.deepcopy(function)
    if ast.get_docstring(function) is not None:
        function.body = function.body[1:]
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            node.annotation = None
    function.returns, function.decorator_list = None, []
    return function


def is_neutral(parent: ast.AST, child: ast.AST) -> bool:
    """Is it a place where a change has no meaning, or the same one?

    A signature; the array whose shape or dtype is read, as others have the same; reshape's -1,
    for which NumPy takes any negative number.
    """
    if isinstance(parent, ast.Attribute):
        return parent.attr in ("shape", "dtype")
    if isinstance(parent, ast.Call) and method(parent) == "reshape":
        return ast.unparse(child) == "-1"
    return isinstance(child, ast.arguments)


def is_check(node: ast.AST) -> bool:
    """Is it there to refuse bad input: a call of check_…, or an if that raises?"""
    if isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise):
        return True
    call = node.value if isinstance(node, ast.Expr) else node
    return isinstance(call, ast.Call) and method(call).startswith("check_")


def first_line(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0]
