from __future__ import annotations

TITLES: dict[str, str] = {}  # the gallery holds mistakes in gradients, and a cut has none
