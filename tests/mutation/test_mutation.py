import ast
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.gradients import SUITE, Check
from tests.mutation import __main__, runner
from tests.mutation.engine import mutations
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.mutants import Mutant, all_mutants, mutants_of
from tests.mutation.targets import TARGETS, Target, find, results

JOBS = 2


@pytest.fixture(scope="module")
def mutants() -> list[Mutant]:
    return all_mutants()


def changes(source: str, operator: str = "", groups=(), within=None) -> set[str]:
    """Return the changed statements of a function with the given body."""
    body = textwrap.indent(textwrap.dedent(source), "    ")
    [function] = ast.parse(f"def f(a, b, c, i):\n{body}").body
    assert isinstance(function, ast.FunctionDef)
    return {m.after for m in mutations(function, groups, within) if operator in m.operator}


@pytest.mark.parametrize(
    ("operator", "source", "wanted"),
    [
        ("flip_sign", "return a @ b", {"return -(a @ b)"}),
        ("flip_sign", "return a.sum(axis=0)", {"return -a.sum(axis=0)"}),
        ("drop_operand", "return a - b * c", {
            "return a", "return b * c", "return a - b", "return a - c"}),
        ("opposite", "return a + b", {"return a - b"}),
        ("opposite", "return a / b", {"return a * b"}),
        ("opposite", "a -= b", {"a += b", "a = b"}),
        ("opposite", "return a > 0", {"return a <= 0", "return a >= 0"}),
        ("opposite", "return a != b", {"return a == b"}),
        ("swap_operands", "return a @ b", {"return b @ a"}),
        ("swap_operands", "return a - b", {"return b - a"}),
        ("swap_operands", "return a + b", set()),
        ("move_axis", "return a.sum(axis=-1, keepdims=True)", {
            "return a.sum(axis=0, keepdims=True)", "return a.sum(axis=-2, keepdims=True)",
            "return a.sum(keepdims=True)", "return a.sum(axis=-1)"}),
        ("transposition", "return a.T @ b", {
            "return a @ b", "return a.T @ b.swapaxes(-1, -2)"}),
        ("transposition", "return a.transpose(0, 2, 1)", {
            "return a", "return a.transpose(2, 0, 1)", "return a.transpose(0, 1, 2)"}),
        ("scatter", "np.add.at(a, i, b)", {
            "a[i] += b", "a[i] = b", "np.subtract.at(a, i, b)"}),
        ("leave_out_mask", "return np.where(a, b, 0)", {
            "return b", "return 0", "return np.where(a, 0, b)"}),
        ("leave_out_mask", "return f(a, cache.mask)", {"return f(a, None)"}),
        ("swap_arguments", "return f(a, b, c)", {"return f(b, a, c)", "return f(a, c, b)"}),
        ("swap_results", "return a, b, c", {"return (b, a, c)", "return (a, c, b)"}),
        ("twin_function", "return a.mean(axis=0)", {"return a.sum(axis=0)"}),
        ("twin_function", "return np.exp(a)", {"return a"}),
        ("nudge_number", "return 0.5 * a[:i]", {
            "return 0.55 * a[:i]", "return 0.5 * a[1:i]", "return 0.5 * a[:i - 1]"}),
        ("nudge_number", "return a[:, 0]", {"return a[:, 1]", "return a[:, -1]"}),
        ("delete_statement", "self.weight.accumulate(a)", {"(deleted)"}),
        ("delete_statement", "a[i] = b", {"(deleted)"}),
        ("delete_statement", "a = a + b", {"(deleted)"}),
        ("delete_statement", "a = b", set()),
        ("delete_statement", "if a is None:\n    return b", {"if False:", "if True:"}),
    ],
)  # fmt: skip
def test_operator(operator: str, source: str, wanted: set[str]) -> None:
    assert changes(source, operator) == wanted


def test_another_variable_of_the_same_shape() -> None:
    assert changes("return a @ b", "other_variable", (("a", "c", "unknown"),)) == {"return c @ b"}


@pytest.mark.parametrize(
    "source",
    [
        '"""A docstring of 1 or 2 lines."""',
        'check_shape("a", a, (1, 2))',
        'if a > 0:\n    raise ValueError(f"{a + 1} is too much")',
        "return a.shape",
        "return a.reshape(-1)",
    ],
)
def test_left_alone(source: str) -> None:
    assert changes(source) == set()


def test_only_the_given_parts_are_changed() -> None:
    source = "d = a + b\nreturn a - b, a * b"
    assert changes(source, "opposite", within=results(1)) == {"return (a - b, a / b)"}


def test_there_are_hundreds_of_mutants_in_every_backward(mutants: list[Mutant]) -> None:
    assert len(mutants) >= 200
    touched = {mutant.target.title for mutant in mutants}
    assert touched == {target.title for target in TARGETS}
    places = {(m.target.title, m.line, m.before, m.after, m.operator) for m in mutants}
    assert len(places) >= 0.9 * len(mutants)
    for mutant in mutants:
        assert mutant.before != mutant.after


def test_every_backward_of_the_reference_is_a_target() -> None:
    """A backward that is added later must be added to the targets too."""
    named = {target.name for target in TARGETS}
    folder = Path(__file__).parents[2] / "minibert"
    for path in [*folder.glob("layers/*.py"), *folder.glob("models/*.py")]:
        if path.stem == "combinators":  # hands on what other backwards give
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.endswith("_backward"):
                assert node.name in named, f"{path}: {node.name}"
            if isinstance(node, ast.ClassDef):
                methods = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
                assert "backward" not in methods or f"{node.name}.backward" in named, node.name


def test_explanations_are_of_mutants_that_exist(mutants: list[Mutant]) -> None:
    keys = {__main__.key(mutant) for mutant in mutants}
    assert set(EQUIVALENT) <= keys
    assert all(reason and "\n" not in reason for reason in EQUIVALENT.values())


def test_place_of_a_mutant() -> None:
    [target] = [target for target in TARGETS if target.name == "softmax_backward"]
    mutant = mutants_of(target)[0]
    path, line = mutant.place.rsplit(":", 1)
    assert Path(path) == Path("minibert/layers/softmax.py")
    text = (Path(__file__).parents[2] / path).read_text(encoding="utf-8").splitlines()
    assert text[int(line) - 1].strip() == mutant.before


@pytest.mark.parametrize("name", ["softmax_backward", "split_heads in attention_backward"])
def test_every_mutant_of_one_function_is_killed(name: str, capsys) -> None:
    assert __main__.main(["--only", name, "--jobs", str(JOBS)]) == 0
    out = capsys.readouterr().out
    assert "survived 0" in out
    assert "score 100.00 %" in out


def test_a_weak_suite_leaves_survivors(capsys) -> None:
    weak = [Check("nothing", (), lambda ops: None)]
    status = __main__.main(["--only", "softmax_backward", "--jobs", "2"], choose=lambda _: weak)
    out = capsys.readouterr().out
    assert status == 1
    assert "SURVIVED, and nothing explains it" in out
    assert "score 0.00 %" in out


def test_the_parent_stays_unchanged() -> None:
    [target] = [target for target in TARGETS if target.name == "relu_backward"]
    code = target.function.__code__
    outcomes = list(runner.run(mutants_of(target), JOBS))
    assert all(outcome.killed_by for outcome in outcomes)
    assert find(target.module, target.name).__code__ is code


def test_a_mutant_that_never_ends_is_killed_by_time() -> None:
    def never(ops) -> None:
        while True:
            pass

    mutant = all_mutants("softmax_backward")[0]
    endless = [Check("endless", (), never)]
    [outcome] = runner.run([mutant], 1, limit=0.5, choose=lambda _: endless)
    assert outcome.killed_by == "time"


def test_a_child_that_dies_counts_as_killed() -> None:
    mutant = all_mutants("softmax_backward")[0]
    deadly = [Check("deadly", (), lambda ops: os._exit(3))]
    [outcome] = runner.run([mutant], 1, choose=lambda _: deadly)
    assert outcome.killed_by == "crash"


def test_helper_is_changed_for_the_backward_alone() -> None:
    target = Target("minibert.layers.attention", "merge_heads", None, ("attention_backward",))
    for mutant in mutants_of(target)[:3]:
        [outcome] = runner.run([mutant], 1, choose=lambda _: [SUITE["attention"]])
        assert outcome.killed_by == "attention"


def test_list_and_unknown_name(capsys) -> None:
    assert __main__.main(["--only", "tanh_backward", "--list"]) == 0
    out = capsys.readouterr().out
    assert "return dy * (1 - y * y)" in out
    assert "tanh_backward" in out
    assert __main__.main(["--only", "no_such_function"]) == 2


def test_from_the_command_line() -> None:
    command = [sys.executable, "-m", "tests.mutation", "--only", "relu_backward", "--jobs", "1"]
    root = Path(__file__).parents[2]
    result = subprocess.run(command, capture_output=True, text=True, cwd=root, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "passes without any" in result.stdout
