"""Every backend exports what the protocol names, with the same parameters."""

import inspect

import pytest

from minibert.ops import BACKENDS, Ops, get_ops
from tests.common import run_python

NAMES = sorted(name for name in vars(Ops) if not name.startswith("_") and name != "name")


def parameters(function) -> list[tuple[str, object]]:
    return [
        (p.name, p.kind)
        for p in inspect.signature(function).parameters.values()
        if p.name != "self"
    ]


def test_protocol_has_a_forward_for_every_backward() -> None:
    pairs = [name for name in NAMES if name.endswith("_backward")]
    assert len(pairs) == 14
    assert {name.replace("_backward", "_forward") for name in pairs} <= set(NAMES)
    assert len(NAMES) == 2 * len(pairs) + 3  # and adamw, global_norm, orthogonalize


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", NAMES)
def test_signatures_agree(backend: str, name: str) -> None:
    assert parameters(getattr(get_ops(backend), name)) == parameters(getattr(Ops, name))


@pytest.mark.parametrize("backend", BACKENDS)
def test_backend_knows_its_name(backend: str) -> None:
    assert get_ops(backend).name == backend
    assert get_ops(get_ops(backend)) is get_ops(backend)


def test_unknown_backend_is_refused() -> None:
    with pytest.raises(
        ValueError, match="'torch' is unknown, expected one of numpy, numba, numba-blas, numba-bf16"
    ):
        get_ops("torch")


def test_numpy_backend_does_not_import_numba() -> None:
    code = "import sys, minibert.ops as o; o.get_ops('numpy'); print('numba' in sys.modules)"
    result = run_python(code)
    assert result.stdout == "False\n", result.stderr
