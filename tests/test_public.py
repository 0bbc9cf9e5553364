"""The public names: all there, and imported only when used."""

import minibert
from tests.common import run_python


def test_every_public_name_resolves() -> None:
    for name in minibert.__all__:
        assert getattr(minibert, name) is not None
    assert set(dir(minibert)) == set(minibert.__all__)


def test_import_alone_loads_no_numpy() -> None:
    code = "import sys, minibert; print('numpy' in sys.modules, minibert.PRESETS['tiny'])"
    result = run_python(code)
    assert result.stdout == "False (2, 128, 2)\n", result.stderr
