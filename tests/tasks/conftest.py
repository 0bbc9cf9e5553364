"""A pretrained folder to begin with."""

from __future__ import annotations

from pathlib import Path

import pytest

from .common import pretrained


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretrained(tmp_path_factory.mktemp("bert"))
