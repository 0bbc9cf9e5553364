"""What a run measures: sums over rows, turned into means, and written as JSON lines."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minibert.files import write_text
from minibert.models.pretraining import PretrainingOutput


@dataclass
class Totals:
    """Sums over any number of batches, and their means."""

    masked_loss: float = 0.0
    masked_right: int = 0
    masked_count: int = 0
    next_loss: float = 0.0
    next_right: int = 0
    next_count: int = 0

    def add(self, output: PretrainingOutput) -> None:
        self.masked_loss += output.masked_loss
        self.masked_right += output.masked_right
        self.masked_count += output.masked_count
        self.next_loss += output.next_loss
        self.next_right += output.next_right
        self.next_count += output.next_count

    def means(self) -> dict[str, float]:
        """Return losses in nats and accuracies as shares; of next sentence if there were pairs."""
        masked = max(self.masked_count, 1)
        means = {
            "mlm_loss": self.masked_loss / masked,
            "mlm_accuracy": self.masked_right / masked,
        }
        if self.next_count:
            means["nsp_loss"] = self.next_loss / self.next_count
            means["nsp_accuracy"] = self.next_right / self.next_count
        return means


class MetricsFile:
    """``metrics.jsonl``: one JSON object a line, of type start, train or eval."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, record: dict[str, Any]) -> None:
        """Add one line, whole: it is written by a single call."""
        rounded = {
            name: float(f"{value:.6g}") if isinstance(value, float) else value
            for name, value in record.items()
        }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(rounded) + "\n")

    def rewind(self, step: int) -> None:
        """Drop what was written after ``step``, by a run that was killed before it saved."""
        if not self.path.exists():
            return
        kept: list[str] = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue  # cut short by the same kill
            if record.get("step", 0) <= step:
                kept.append(line + "\n")
        write_text(self.path, "".join(kept))
