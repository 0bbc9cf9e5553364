"""What a mistake is, how it is planted in the running program, and whether the suite notices."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from minibert.gradcheck import GradCheckError
from minibert.ops import Ops, get_ops
from tests.gradients import SUITE

NUMPY = get_ops("numpy")
TOPICS = (
    "linear", "softmax", "cross_entropy", "layernorm", "add_norm", "dropout", "activations",
    "embedding", "attention", "heads", "encoder_layer", "tied weights", "optimisation",
)  # fmt: skip


@dataclass(frozen=True)
class Mistake:
    name: str
    why: str  # one line: what is wrong about it
    topic: str  # one of TOPICS
    check: str  # the entry of the suite that looks most directly
    wrong: Mapping[str, Callable[..., Any]]  # place → what is put there
    weak: str = ""  # the entry that the weaker tests weaken, where it is not ``check``

    @property
    def where(self) -> str:
        """The functions it belongs to: "softmax_backward", "Pooler.backward"."""
        return ", ".join(place.split(":")[-1] for place in self.wrong)


@contextmanager
def planted(mistake: Mistake) -> Iterator[Ops]:
    """Give a backend with the mistake in it; on leaving, all is right again.

    A place is the name of an operation, which is replaced in the backend that is given, or
    "module:Class.method" or "module:function", which is replaced in minibert itself.
    """
    table = {name: getattr(NUMPY, name) for name in dir(NUMPY) if not name.startswith("_")}
    replaced: list[tuple[Any, str, Any]] = []
    try:
        for place, function in mistake.wrong.items():
            if ":" not in place:
                assert place in table, f"{place} is no operation"
                table[place] = function
                continue
            module, path = place.split(":")
            owner, *names = import_module(module), *path.split(".")
            for name in names[:-1]:
                owner = getattr(owner, name)
            replaced.append((owner, names[-1], getattr(owner, names[-1])))
            setattr(owner, names[-1], function)
        ops: Any = SimpleNamespace(**table)
        yield ops
    finally:
        for owner, name, right in reversed(replaced):
            setattr(owner, name, right)


def rejection(mistake: Mistake) -> tuple[str, GradCheckError] | None:
    """Return the check that rejects the mistake, the likeliest tried first, and its error."""
    first = SUITE[mistake.check]
    with planted(mistake) as ops:
        for check in (first, *(other for other in SUITE.values() if other is not first)):
            try:
                check(ops)
            except GradCheckError as error:
                return check.name, error
    return None
