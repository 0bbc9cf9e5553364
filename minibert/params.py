"""Parameters: one flat buffer for all of them, and named views into it.

Layers declare what they need while a model is built; then ``ParamStore.allocate`` lays everything
out in one contiguous buffer, with another of the same layout for the gradients.  So zeroing,
clipping, the optimizer, saving and an all-reduce are each one call on one array.

    value  [ decayed weights …………………………………… | biases and LayerNorm … ]
    grad   [ the same layout ………………………………………………………………………… ]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple

import numpy as np

from minibert.arrays import Array, aligned_zeros
from minibert.keys import Key

Init = Literal["normal", "sinusoidal", "zeros", "ones"]


class Spec(NamedTuple):
    """What a layer asks for."""

    name: str
    shape: tuple[int, ...]
    init: Init
    decay: bool
    hidden: bool = False  # a matrix whose output goes on to other layers


class Parameter:
    """A named view into the store: ``value`` to read, ``grad`` to which gradients are added.

    While it is ``frozen`` it takes no gradient and no update (see ``ParamStore.freeze``).
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.frozen = False
        self._value: Array | None = None
        self._grad: Array | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def value(self) -> Array:
        if self._value is None:
            raise RuntimeError(f"{self.name} has no memory yet: call allocate() on its store")
        return self._value

    @property
    def grad(self) -> Array:
        if self._grad is None:
            raise RuntimeError(f"{self.name} has no memory yet: call allocate() on its store")
        return self._grad

    def bind(self, value: Array, grad: Array) -> None:
        """Give the parameter its memory; called by the store."""
        self._value, self._grad = value, grad

    def accumulate(self, dvalue: Array) -> None:
        """Add a gradient; the only way in.  A frozen parameter checks it and lets it go.

        Raises ValueError on another shape, which NumPy would broadcast, and TypeError on another
        dtype, which NumPy would convert.
        """
        if dvalue.shape != self.shape:
            raise ValueError(f"gradient of {self.name} has shape {dvalue.shape}, not {self.shape}")
        if dvalue.dtype != self.grad.dtype:
            raise TypeError(f"gradient of {self.name} is {dvalue.dtype}, not {self.grad.dtype}")
        if not self.frozen:
            np.add(self.grad, dvalue, out=self.grad)


class Scope:
    """A prefix for names: ``scope.child("attention").declare("weight", …)``."""

    def __init__(self, store: ParamStore, prefix: str = "") -> None:
        self.store, self.prefix = store, prefix

    def child(self, *parts: str | int) -> Scope:
        return Scope(self.store, self.prefix + "".join(f"{part}." for part in parts))

    def parameters(self) -> list[Parameter]:
        """Return what has been declared under this prefix so far."""
        return [parameter for parameter in self.store if parameter.name.startswith(self.prefix)]

    def declare(
        self,
        name: str,
        shape: tuple[int, ...],
        *,
        init: Init,
        decay: bool = True,
        hidden: bool = False,
    ) -> Parameter:
        return self.store.declare(Spec(self.prefix + name, shape, init, decay, hidden))


class ParamStore:
    """All parameters of a model, by name, in the order of their declaration.

    ``value`` and ``grad`` are flat and share one layout: the ``decayed`` leading elements hold
    the parameters that weight decay applies to.  A weight that is used twice (the token embedding
    and the MLM decoder) is declared once and handed to both users.
    """

    def __init__(self, dtype: Any = np.float32) -> None:
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise ValueError(f"parameters are float32 or float64, not {self.dtype}")
        self.parameters: dict[str, Parameter] = {}
        self.decayed = 0
        self.value = np.empty(0, self.dtype)
        self.grad = np.empty(0, self.dtype)
        self.layout: list[tuple[int, int, Parameter]] = []  # (start, stop) in the buffers, in order

    def scope(self, *parts: str | int) -> Scope:
        return Scope(self).child(*parts)

    def declare(self, spec: Spec) -> Parameter:
        if self.value.size:
            raise RuntimeError(f"{spec.name} is declared after allocate()")
        if spec.name in self.parameters:
            raise ValueError(f"{spec.name} is declared twice: hand the first one on instead")
        if not all(size >= 1 for size in spec.shape):
            raise ValueError(f"{spec.name} has shape {spec.shape}: every size must be at least 1")
        parameter = self.parameters[spec.name] = Parameter(spec)
        return parameter

    def allocate(self) -> None:
        """Lay out all declared parameters, decayed ones first, with every value and gradient 0."""
        ordered = sorted(self.parameters.values(), key=lambda p: not p.spec.decay)  # stable
        sizes = [int(np.prod(p.shape)) for p in ordered]
        self.decayed = sum(n for n, p in zip(sizes, ordered, strict=True) if p.spec.decay)
        self.value, self.grad = self.new_buffer(sum(sizes)), self.new_buffer(sum(sizes))
        start = 0
        for size, parameter in zip(sizes, ordered, strict=True):
            stop = start + size
            parameter.bind(
                self.value[start:stop].reshape(parameter.shape),
                self.grad[start:stop].reshape(parameter.shape),
            )
            self.layout.append((start, stop, parameter))
            start = stop

    def new_buffer(self, size: int | None = None) -> Array:
        """Return zeros of the store's layout: for a moment of the optimizer, say."""
        return aligned_zeros(self.value.size if size is None else size, self.dtype)

    def initialize(self, key: Key, std: float = 0.02) -> None:
        """Draw all weights anew: normal with ``std``, cut off at two of them; biases 0; gains 1.

        Every parameter draws from its own key, so its values do not depend on which others exist.
        Learned positions start as sinusoids of the same size: neighbours are then alike from the
        first step, and attention to them need not be discovered place by place.
        Source: google-research/bert, create_initializer; positions: Vaswani et al. (2017), 3.5.
        """
        for parameter in self:
            match parameter.spec.init:
                case "normal":
                    generator = key.child(parameter.name).generator()
                    parameter.value[...] = truncated_normal(generator, parameter.shape, std)
                case "sinusoidal":
                    parameter.value[...] = sinusoids(*parameter.shape) * (std * np.sqrt(2))
                case "zeros":
                    parameter.value[...] = 0
                case "ones":
                    parameter.value[...] = 1

    def zero_grad(self) -> None:
        self.grad[:] = 0

    def freeze(self, which: Callable[[str], bool] | Iterable[str]) -> None:
        """Keep some parameters as they are, until ``unfreeze``.

        Their gradient is 0, now and after every backward, so the norm that is clipped does not
        count it; and the optimizer passes over them, value and moments, weight decay included.

        Args:
            which: names, or a function from a name to whether it is meant:
                ``freeze(lambda name: name.startswith("bert.embeddings."))``.

        Raises ValueError for a name that is unknown, and where nothing is meant.
        """
        for parameter in self.chosen(which):
            parameter.frozen = True
            parameter.grad[...] = 0

    def unfreeze(self, which: Callable[[str], bool] | Iterable[str] = lambda name: True) -> None:
        """Let parameters be trained again, all of them if not told which (as in ``freeze``)."""
        for parameter in self.chosen(which):
            parameter.frozen = False

    def chosen(self, which: Callable[[str], bool] | Iterable[str]) -> list[Parameter]:
        """Return the parameters that are named, or that the function picks."""
        if callable(which):
            names = [name for name in self.parameters if which(name)]
        else:
            names = [which] if isinstance(which, str) else list(which)
        for name in names:
            if name not in self.parameters:
                near = get_close_matches(name, self.parameters, n=1, cutoff=0)
                raise ValueError(
                    f"there is no parameter {name!r}: did you mean {near[0]!r}?  "
                    "list(store.parameters) has all names, and a function may pick several"
                )
        if not names:
            raise ValueError(
                "no parameter is meant: give names out of list(store.parameters), or a function "
                "that is true for some of them"
            )
        return [self.parameters[name] for name in names]

    def trainable_runs(
        self, which: Callable[[Parameter], bool] = lambda parameter: True
    ) -> list[tuple[int, int]]:
        """Return (start, stop) of each stretch of the buffers without a frozen parameter.

        Or, if told which parameters are meant, without any other.
        """
        runs: list[tuple[int, int]] = []
        for start, stop, parameter in self.layout:
            if parameter.frozen or not which(parameter):
                continue
            if runs and runs[-1][1] == start:
                start = runs.pop()[0]
            runs.append((start, stop))
        return runs

    def __getitem__(self, name: str) -> Parameter:
        return self.parameters[name]

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self.parameters.values())

    def __len__(self) -> int:
        """The number of tensors; ``value.size`` is the number of single parameters."""
        return len(self.parameters)


def truncated_normal(
    generator: np.random.Generator, shape: tuple[int, ...], std: float
) -> Array:  # float64
    """Draw from a normal distribution, again where a draw lies beyond two standard deviations."""
    x = generator.standard_normal(shape)
    while (far := np.abs(x) > 2).any():
        x[far] = generator.standard_normal(int(far.sum()))
    return x * std


def sinusoids(rows: int, width: int) -> Array:  # (rows, width), float64
    """Return sin and cos of t / 10000^(2i/width) for place t, in columns 2i and 2i + 1.

    Source: Vaswani et al., Attention Is All You Need (2017), section 3.5.
    """
    column = np.arange(width)
    angle = np.arange(rows)[:, None] / 10000 ** (2 * (column // 2) / width)
    return np.where(column % 2 == 0, np.sin(angle), np.cos(angle))
