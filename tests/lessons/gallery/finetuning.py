from __future__ import annotations

TITLES: dict[str, str] = {}  # the gallery has none of pooling, spans and scores
