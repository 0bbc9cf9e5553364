"""What only the compiled backend has: threads, accuracy of its own functions, and its cache."""

import math
import os
import shutil
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from minibert.ops import Ops, cpu
from minibert.ops.cpu import jit
from minibert.ops.cpu.warmup import HELPERS_SHARE, example_calls, warmup
from minibert.ops.cpu.warmup import main as compile_named
from tests.common import run_python


def results(threads: int) -> list[bytes]:
    """Return the bytes of every operation's result, at sizes that are dealt out to threads."""
    generator = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape).astype(np.float32)

    B, T, C, V = 4, 33, 48, 301
    x, dy, gain = normal(B, T, C), normal(B, T, C), normal(C)
    ids = generator.integers(0, V, (B, T)).astype(np.int32)
    labels = generator.integers(0, V, 70).astype(np.int32)
    rows, table = normal(70, C), normal(V, C)
    before = numba.get_num_threads()
    numba.set_num_threads(threads)
    try:
        _, x_hat, rstd = norm = cpu.add_norm_forward(x, dy, gain, gain, 1e-12, 0.1, 5)
        context, lse = cpu.attention_forward(x, dy, x, None, 3, 0.1, 5)
        loss, right, dlogits = cpu.vocab_cross_entropy_forward(rows, table, normal(V), labels)
        wide = cpu.feedforward_forward(x, normal(150, C), normal(150), normal(C, 150), gain, "gelu")
        saved = *wide[1:], normal(150, C), normal(C, 150)
        found = [
            *wide,
            *cpu.feedforward_backward(dy, x, *saved, "gelu"),
            cpu.linear_forward(x, normal(96, C), normal(96)),
            *cpu.linear_backward(dy, x, normal(C, C)),
            *cpu.embedding_backward(dy, ids, ids % 2, (V, T, 2)),
            *norm,
            *cpu.add_norm_backward(dy, x_hat, rstd, gain, 0.1, 5),
            context,
            *cpu.attention_backward(dy, x, dy, x, None, lse, 3, 0.1, 5),
            np.array([loss, right]),
            *cpu.vocab_cross_entropy_backward(0.3, dlogits, rows, table),
            np.array(cpu.global_norm(normal(100_003))),
            cpu.dropout_forward(x, 0.1, 5),
            cpu.gelu_backward(dy, x),
            cpu.softmax_backward(dy, cpu.softmax_forward(x)),
        ]
    finally:
        numba.set_num_threads(before)
    return [array.tobytes() for array in found]


def test_same_bytes_in_every_run_and_at_every_thread_count(monkeypatch) -> None:
    monkeypatch.setattr(cpu.threads, "WORTH", 0)  # nothing is too little to share out
    first = results(1)
    for threads in {1, numba.config.NUMBA_NUM_THREADS}:
        for _ in range(3):
            assert results(threads) == first


def largest_gap(actual: np.ndarray, exact: list[float]) -> float:
    return float(np.abs(actual.astype(np.float64) - np.array(exact)).max())


def test_float32_functions_against_math() -> None:
    """Polynomials stand in for the C library in float32; math in float64 is the measure."""
    x = np.linspace(-12, 12, 40_001).astype(np.float32)
    wide = x.astype(np.float64).tolist()
    gelu = [0.5 * v * math.erfc(-v / math.sqrt(2)) for v in wide]
    assert largest_gap(cpu.gelu_forward(x), gelu) <= 1e-6  # |x| <= 12, so under 1e-7 relative
    assert largest_gap(cpu.tanh_forward(x), [math.tanh(v) for v in wide]) <= 2e-7
    scores = np.stack([x, np.zeros_like(x)], axis=1)
    exact = [1 / (1 + math.exp(-v)) for v in wide]
    assert largest_gap(cpu.softmax_forward(scores)[:, 0], exact) <= 2e-7


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "relu", "tanh"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_an_element_has_the_same_bytes_wherever_it_stands(name, dtype) -> None:
    """A vector of elements, and what is left over at the end of a row, are computed alike."""
    x, dy = (np.random.default_rng(n).standard_normal(150).astype(dtype) for n in (1, 2))
    forward, backward = (getattr(cpu, f"{name}_{way}") for way in ("forward", "backward"))
    y, dx = forward(x), backward(dy, x)
    for start in range(70):
        here = slice(start, start + 1 + start % 37)
        assert forward(x[here]).tobytes() == y[here].tobytes()
        assert backward(dy[here], x[here]).tobytes() == dx[here].tobytes()


def test_gelu_tail_keeps_its_digits() -> None:
    x = np.linspace(-9, -1, 5000).astype(np.float32)
    exact = np.array([0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x.astype(float).tolist()])
    assert np.abs(cpu.gelu_forward(x) / exact - 1).max() <= 2e-5


def test_warmup_calls_every_operation() -> None:
    called: list[str] = []
    warmup(np.float32, progress=lambda name, index, total: called.append(f"{name} {index}/{total}"))
    names = [name for name, _ in example_calls(np.dtype(np.float32))]
    assert [line.split()[1] for line in called] == [f"{i}/{len(names)}" for i in range(len(names))]
    assert sorted(line.split()[0] for line in called) == sorted(names)
    for beginning in HELPERS_SHARE:
        assert any(name.startswith(beginning) for name in names)
    expected = {name for name in vars(Ops) if not name.startswith("_")} - {"name", "adamw"}
    assert set(names) == expected


def test_warmup_with_a_helper(tmp_path, monkeypatch) -> None:
    """A process of its own compiles its share, once; where it cannot start, nothing is lost."""
    started: list[list[str]] = []

    class Process:
        def __init__(self, command: list[str], **_: Any) -> None:
            started.append(command)

        def wait(self) -> None:
            waited.append(len(called))

        def kill(self) -> None: ...

    def note(name: str, index: int, total: int) -> None:
        called.append(name)

    monkeypatch.setattr(jit, "CACHE", tmp_path)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("subprocess.Popen", Process)
    waits: list[list[int]] = []
    for _ in range(2):
        called: list[str] = []
        waited: list[int] = []
        warmup(np.float32, note)
        waits.append(waited)
    assert len(started) == 1
    assert started[0][1:4] == ["-m", "minibert.ops.cpu.warmup", "float32"]
    assert tuple(started[0][4:]) == HELPERS_SHARE
    helped = [name.startswith(HELPERS_SHARE) for name in called]
    assert helped == sorted(helped)
    # before the first of them, which is announced already, and at the end; the second time not
    assert waits == [[helped.index(True) + 1, len(called)], []]

    next(tmp_path.iterdir()).unlink()

    def refuse(command: list[str], **_: Any) -> None:
        raise OSError

    monkeypatch.setattr("subprocess.Popen", refuse)
    warmup(np.float32)
    assert len(list(tmp_path.iterdir())) == 1


def test_the_helper_compiles_what_it_is_told(monkeypatch) -> None:
    called = []
    for name, _ in example_calls(np.dtype(np.float64)):
        monkeypatch.setattr(cpu, name, lambda *values, name=name: called.append((name, values)))
    compile_named(["float64", "gelu", "add_norm"])
    assert sorted(name for name, _ in called) == [
        "add_norm_backward",
        "add_norm_forward",
        "gelu_backward",
        "gelu_forward",
        "gelu_tanh_backward",
        "gelu_tanh_forward",
    ]
    assert called[0][1][0].dtype == np.float64


def test_machine_code_is_kept_apart_when_any_source_changes(tmp_path, monkeypatch) -> None:
    """numba itself looks at a function's own file only, not at those of functions it calls."""
    for path in Path(jit.__file__).parent.glob("*.py"):
        shutil.copy(path, tmp_path)
    real = jit.sources_digest()
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "jit.py"))
    assert jit.sources_digest() == real
    with (tmp_path / "elementary.py").open("a", encoding="utf-8") as file:
        file.write("# a change\n")
    changed = jit.sources_digest()
    assert changed != real
    monkeypatch.setattr("minibert.__version__", "99")
    assert jit.sources_digest() not in (real, changed)


def test_machine_code_of_old_sources_is_forgotten(tmp_path) -> None:
    folders = [tmp_path / f"kernels-{number}" for number in range(7)]
    for age, folder in enumerate(folders):
        folder.mkdir()
        os.utime(folder, (1e9 - age, 1e9 - age))
    (tmp_path / "others").mkdir()
    jit.forget_old(folders[6], keep=3)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"kernels-0", "kernels-1", "kernels-2", "kernels-6", "others"}


def test_small_work_is_done_by_one_thread() -> None:
    seen: list[int] = []
    before = numba.get_num_threads()
    for work in (1, cpu.threads.WORTH):
        cpu.threads.launch(lambda: seen.append(numba.get_num_threads()), work)
    assert seen == [1, before]
    assert numba.get_num_threads() == before


def test_machine_code_goes_to_the_chosen_folder(tmp_path: Path) -> None:
    code = (
        "import numpy as np; from minibert.ops import cpu;"
        "print(cpu.relu_forward(np.array([-1.0, 2.0], np.float32)))"
    )
    result = run_python(code, NUMBA_CACHE_DIR=str(tmp_path))
    assert result.stdout == "[0. 2.]\n", result.stderr
    assert list(tmp_path.glob("kernels-*/**/*.nbi"))


@pytest.mark.skipif(os.name != "posix", reason="needs a folder that nobody can write")
def test_unwritable_cache_gives_one_warning_and_still_works() -> None:
    code = (
        "import numpy as np; from minibert.ops import cpu;"
        "print(cpu.relu_forward(np.array([-1.0, 2.0], np.float32)))"
    )
    result = run_python(code, NUMBA_CACHE_DIR="/dev/null/nowhere")
    assert result.stdout == "[0. 2.]\n", result.stderr
    assert result.stderr.count("cannot be kept") == 1


def test_switched_off_compiler_is_named() -> None:
    code = (
        "import numpy as np; from minibert.ops import cpu;"
        "print(cpu.softmax_forward(np.zeros((1, 4), np.float32)))"
    )
    result = run_python(code, NUMBA_DISABLE_JIT="1")
    assert result.stdout == "[[0.25 0.25 0.25 0.25]]\n", result.stderr
    assert result.stderr.count("NUMBA_DISABLE_JIT is set") == 1


def test_starting_threads_leaves_the_environment_alone() -> None:
    code = (
        "import os; before = dict(os.environ); import minibert.ops.cpu; print(before == os.environ)"
    )
    assert run_python(code).stdout == "True\n"


@pytest.mark.parametrize(
    ("name", "value"), [("OMP_WAIT_POLICY", "ACTIVE"), ("GOMP_SPINCOUNT", "7")]
)
def test_a_policy_that_the_user_has_set_is_left_alone(monkeypatch, name, value) -> None:
    seen: list[dict[str, str]] = []
    monkeypatch.setenv(name, value)
    monkeypatch.setattr("numba.get_num_threads", lambda: seen.append(dict(os.environ)))
    cpu.threads.start_pool()
    assert os.environ[name] == value
    (during,) = seen
    assert [during.get(n) for n in cpu.threads.WAITING if n != name] == [None]
