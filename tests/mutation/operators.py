"""The ways to change one place of a function, each on Python's syntax tree.

An operator takes a node and yields what may stand in its place; ``REMOVED`` deletes a statement.
``engine.mutations`` applies all of them to all nodes.  The examples are before → after.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

REMOVED = ast.Pass()
OPPOSITE = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
}  # fmt: skip
NEIGHBOUR = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
TWINS = {"sum": "mean", "mean": "sum", "zeros_like": "ones_like", "max": "min"}
COMMUTES = (ast.Add, ast.Mult, ast.BitAnd, ast.BitOr, ast.BitXor)
TRANSPOSES = ("swapaxes", "transpose")


def flip_sign(node: ast.AST) -> Iterator[ast.AST]:
    """a @ b → -(a @ b); of products, sums over axes and calls of backward functions."""
    matmul = isinstance(node, ast.BinOp) and isinstance(node.op, (ast.MatMult, ast.Mult, ast.Div))
    call = isinstance(node, ast.Call) and method(node) in ("sum", "mean", "backward")
    if matmul or call:
        yield ast.UnaryOp(ast.USub(), node)


def drop_operand(node: ast.AST) -> Iterator[ast.AST]:
    """a + b → a, → b; a * b → a: a term, a factor, a mask or a scale is forgotten."""
    if isinstance(node, ast.BinOp):
        yield node.left
        yield node.right


def opposite(node: ast.AST) -> Iterator[ast.AST]:
    """+ ↔ -, * ↔ /, also in ``+=``; comparisons are negated."""
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in OPPOSITE:
        yield changed(node, op=OPPOSITE[type(node.op)]())
    if isinstance(node, ast.Compare):
        for table in (OPPOSITE, NEIGHBOUR):
            if type(node.ops[0]) in table:
                yield changed(node, ops=[table[type(node.ops[0])](), *node.ops[1:]])
    if isinstance(node, ast.AugAssign):
        yield ast.Assign([node.target], node.value)


def swap_operands(node: ast.AST) -> Iterator[ast.AST]:
    """a @ b → b @ a, and of other operations that do not commute."""
    if isinstance(node, ast.BinOp) and not isinstance(node.op, COMMUTES):
        yield changed(node, left=node.right, right=node.left)


def move_axis(node: ast.AST) -> Iterator[ast.AST]:
    """axis=-1 → 0, -2, all; keepdims=True → False."""
    if not isinstance(node, ast.Call):
        return
    for i, word in enumerate(node.keywords):
        others = [*node.keywords[:i], *node.keywords[i + 1 :]]
        if word.arg == "axis":
            now = ast.literal_eval(word.value)
            for axis in {-1: (0, -2), 0: (1, -1)}.get(now, ()):
                moved = ast.keyword("axis", ast.Constant(axis))
                yield changed(node, keywords=[*node.keywords[:i], moved, *node.keywords[i + 1 :]])
            yield changed(node, keywords=others)
        elif word.arg == "keepdims":
            yield changed(node, keywords=others)


def transposition(node: ast.AST) -> Iterator[ast.AST]:
    """x.T → x, x.swapaxes(-1, -2) → x, a @ b → a.T @ b, and other orders of transpose."""
    if isinstance(node, ast.Attribute) and node.attr == "T":
        yield node.value
    if isinstance(node, ast.Call) and method(node) in TRANSPOSES:
        assert isinstance(node.func, ast.Attribute)
        yield node.func.value
        for i in range(len(node.args) - 1 if len(node.args) > 2 else 0):
            yield changed(node, args=swapped(node.args, i))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        for side in ("left", "right"):
            operand = getattr(node, side)
            if isinstance(operand, ast.Name):
                yield changed(node, **{side: parse(f"{operand.id}.swapaxes(-1, -2)")})


def scatter(node: ast.AST) -> Iterator[ast.AST]:
    """np.add.at(t, i, v) → t[i] += v, which keeps one of the repeated rows, and t[i] = v."""
    if isinstance(node, ast.Expr) and ast.unparse(node).startswith("np.add.at("):
        assert isinstance(node.value, ast.Call)
        table, index, value = map(ast.unparse, node.value.args)
        for form in (f"{table}[{index}] += {value}", f"{table}[{index}] = {value}"):
            yield ast.parse(form).body[0]
        yield ast.parse(f"np.subtract.at({table}, {index}, {value})").body[0]


def leave_out_mask(node: ast.AST) -> Iterator[ast.AST]:
    """np.where(c, a, b) → a, → b, → np.where(c, b, a); an argument named mask → None."""
    if not isinstance(node, ast.Call):
        return
    if method(node) == "where" and len(node.args) == 3:
        condition, a, b = node.args
        yield from (a, b, changed(node, args=[condition, b, a]))
    for i, argument in enumerate(node.args):
        if ast.unparse(argument).split(".")[-1] == "mask":
            yield changed(node, args=[*node.args[:i], ast.Constant(None), *node.args[i + 1 :]])


def swap_arguments(node: ast.AST) -> Iterator[ast.AST]:
    """f(a, b, c) → f(b, a, c), → f(a, c, b)."""
    if isinstance(node, ast.Call) and method(node) not in ("reshape", "at", *TRANSPOSES):
        for i in range(len(node.args) - 1):
            yield changed(node, args=swapped(node.args, i))


def swap_results(node: ast.AST) -> Iterator[ast.AST]:
    """return a, b → return b, a."""
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        for i in range(len(node.value.elts) - 1):
            yield ast.Return(ast.Tuple(swapped(node.value.elts, i), ast.Load()))


def twin_function(node: ast.AST) -> Iterator[ast.AST]:
    """sum ↔ mean, zeros_like → ones_like, np.exp(x) → x, reversed(x) → x."""
    if not isinstance(node, ast.Call):
        return
    if isinstance(node.func, ast.Attribute) and node.func.attr in TWINS:
        yield changed(node, func=changed(node.func, attr=TWINS[node.func.attr]))
    alone = len(node.args) == 1 and not node.keywords
    if alone and ast.unparse(node.func) in ("np.exp", "np.tanh", "np.log", "erfc", "reversed",
                                            "math.sqrt"):  # fmt: skip
        yield node.args[0]


def nudge_number(node: ast.AST) -> Iterator[ast.AST]:
    """n → n + 1, n - 1; 0.5 → 0.55; x[:n] → x[1:n], x[:n - 1]."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield from (ast.Constant(node.value + 1), ast.Constant(node.value - 1))
    if isinstance(node, ast.Constant) and type(node.value) is float:
        yield ast.Constant(1.1 * node.value)
    if isinstance(node, ast.Slice) and node.upper is not None:
        yield changed(node, lower=ast.Constant(1))
        yield changed(node, upper=parse(f"{ast.unparse(node.upper)} - 1"))


def delete_statement(node: ast.AST) -> Iterator[ast.AST]:
    """An accumulate, an in-place update, a body under an if: gone."""
    subscript = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)
    again = isinstance(node, ast.Assign) and any(  # x = x + …
        isinstance(n, ast.Name) and n.id == ast.unparse(node.targets[0])
        for n in ast.walk(node.value)
    )
    if isinstance(node, (ast.Expr, ast.AugAssign)) or subscript or again:
        yield REMOVED
    if isinstance(node, ast.If):
        yield changed(node, test=ast.Constant(False))
        yield changed(node, test=ast.Constant(True))


OPERATORS: tuple[Callable[[ast.AST], Iterator[ast.AST]], ...] = (
    flip_sign, drop_operand, opposite, swap_operands, move_axis, transposition, scatter,
    leave_out_mask, swap_arguments, swap_results, twin_function, nudge_number, delete_statement,
)  # fmt: skip


def other_variable(node: ast.AST, groups: tuple[tuple[str, ...], ...]) -> Iterator[ast.AST]:
    """dy → x_hat: another variable of the same shape; ``groups`` tell which are."""
    if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
        name = ast.unparse(node)
        for group in groups:
            if name in group:
                yield from (parse(other) for other in group if other != name)


def changed(node: ast.AST, **fields: object) -> ast.AST:
    """Return a copy of a node with some fields replaced."""
    new = copy.copy(node)
    for name, value in fields.items():
        setattr(new, name, value)
    return new


def swapped(items: list[ast.expr], i: int) -> list[ast.expr]:
    return [*items[:i], items[i + 1], items[i], *items[i + 2 :]]


def method(call: ast.Call) -> str:
    """Return the last part of what is called: ``sum`` of ``x.y.sum()``."""
    return ast.unparse(call.func).split(".")[-1]


def parse(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
