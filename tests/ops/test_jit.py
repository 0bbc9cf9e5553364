"""Where machine code is kept, and what becomes of the decorators without a place or a compiler."""

import sys
from pathlib import Path

import numpy as np
import pytest

from minibert.ops.cpu import jit
from tests.common import run_python


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("win32", "LOCALAPPDATA", "base/minibert"),
        ("darwin", "HOME", "base/Library/Caches/minibert"),
        ("linux", "XDG_CACHE_HOME", "base/minibert"),
    ],
)
def test_folders_of_each_system(monkeypatch, platform, variable, expected) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(jit.settings, "CACHE_DIR", "")
    monkeypatch.setattr(Path, "home", lambda: Path("base"))
    monkeypatch.setenv(variable, "base")
    beside, own = jit.cache_folders()
    assert beside == Path(jit.__file__).parent / "__pycache__"
    assert own == Path(expected)


def test_a_chosen_folder_is_the_only_one(monkeypatch) -> None:
    monkeypatch.setattr(jit.settings, "CACHE_DIR", "chosen")
    assert jit.cache_folders() == [Path("chosen")]


def test_the_first_folder_that_can_be_written_is_taken(monkeypatch, tmp_path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(jit, "cache_folders", lambda: [tmp_path / "file", tmp_path / "folder"])
    assert jit.find_cache() == tmp_path / "folder" / f"kernels-{jit.sources_digest()}"
    monkeypatch.setattr(jit, "cache_folders", lambda: [tmp_path / "file"])
    with pytest.warns(RuntimeWarning, match="cannot be kept, since .*file.* cannot be written"):
        assert jit.find_cache() is None


def test_code_with_bounds_checks_is_kept_apart(monkeypatch) -> None:
    """Else it would be used, several times slower, where nobody asked for the checks."""
    monkeypatch.setattr(jit.settings, "BOUNDSCHECK", None)
    plain = jit.sources_digest()
    monkeypatch.setattr(jit.settings, "BOUNDSCHECK", 1)
    assert jit.sources_digest() != plain


def test_without_a_folder_kernels_are_compiled_all_the_same(monkeypatch) -> None:
    monkeypatch.setattr(jit, "CACHE", None)
    twice = jit.compiler()(lambda x: 2 * x)
    assert twice(21) == 42


def test_without_a_compiler_kernels_are_python_with_the_arithmetic_of_machine_code(
    monkeypatch,
) -> None:
    monkeypatch.setattr(jit.settings, "DISABLE_JIT", 1)

    @jit.compiler(fastmath=jit.FLAGS)
    def wrap(x, y):
        return x + x, y / (y - y)

    wrapped, infinite = wrap(np.uint32(2**31 + 3), np.float32(1))  # neither warns
    assert wrapped == 6
    assert infinite == np.inf


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        ("+avx2,+avx512f,+fma", "+avx2,+avx512f,+fma,-prefer-256-bit"),
        ("+avx2,-avx512f,+fma", "+avx2,-avx512f,+fma"),
        ("+neon", "+neon"),
        ("", ""),
    ],
)
def test_plain_loops_get_the_whole_of_wide_registers(features, expected) -> None:
    assert jit.widened(features) == expected


FEATURES = (
    "from numba.core.registry import cpu_target; from numba.core import config; "
    "features = cpu_target.target_context.codegen().magic_tuple()[2]; "
)


def test_the_compiler_is_set_up_before_the_first_kernel() -> None:
    code = (
        f"from minibert.ops.cpu import jit; {FEATURES}"
        "print(features == jit.widened(jit.get_host_cpu_features()), config.CPU_FEATURES)"
    )
    assert run_python(code).stdout == "True None\n"


def test_a_compiler_that_has_started_stays_as_it_is() -> None:
    code = (
        "import numba; numba.njit(lambda x: x); import minibert.ops.cpu.jit; "
        f"{FEATURES}print('prefer' in features)"
    )
    assert run_python(code, NUMBA_DISABLE_JIT="0").stdout == "False\n"


def test_a_processor_that_the_user_names_is_taken() -> None:
    code = f"import minibert.ops.cpu.jit; {FEATURES}print(features)"
    result = run_python(code, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="+avx2,+avx512f")
    assert result.stdout == "+avx2,+avx512f\n", result.stderr
