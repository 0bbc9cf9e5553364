from __future__ import annotations

TITLES: dict[str, str] = {}  # the gallery's step is a whole training_step, drawing of batches too
