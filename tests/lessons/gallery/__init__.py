"""What the lessons call the gallery's mistakes: one file for each file of exercises."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

TITLES: dict[str, str] = {}
"""The gallery's name → the diagnosis that the lesson has to give."""

for module in iter_modules(__path__):
    TITLES |= import_module(f"{__name__}.{module.name}").TITLES
