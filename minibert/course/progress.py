"""What a student has solved, and how many hints were taken: one file beside the lessons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from minibert.files import write_text

FILE = ".progress.json"


class Progress:
    """Solved exercises and hints taken, by the exercise's name."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        try:
            found: Any = json.loads(self.path.read_text(encoding="utf-8"))
            self.solved = set(map(str, found["solved"]))
            self.hints = {str(name): int(level) for name, level in found["hints"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self.solved, self.hints = set[str](), dict[str, int]()  # none yet, or not readable

    def record(self, name: str, passed: bool) -> None:
        """Remember how a check ended."""
        (self.solved.add if passed else self.solved.discard)(name)
        self.save()

    def next_hint(self, name: str, levels: int = 3) -> int:
        """Return the level of the next hint, 1 to ``levels``, and remember that it was taken."""
        level = self.hints[name] = min(self.hints.get(name, 0) + 1, levels)
        self.save()
        return level

    def save(self) -> None:
        if self.path.parent.is_dir():
            record = {"solved": sorted(self.solved), "hints": self.hints}
            write_text(self.path, json.dumps(record, indent=2) + "\n")
