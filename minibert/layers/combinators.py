"""Layers made of layers: one run several times in a row, and one computed again in backward.

Both work because a layer keeps nothing on itself.  All that backward needs is in the cache, so one
layer can have several calls open at once, or be called once more at any time.

Sources: Lan et al., ALBERT (2019), section 3.1, cross-layer parameter sharing; Chen et al.,
Training Deep Nets with Sublinear Memory Cost (2016).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from minibert.arrays import Array
from minibert.keys import Key


class Layer(Protocol):
    """What can be repeated: an ``EncoderLayer``, or either class of this file around one."""

    def forward(
        self, x: Array, mask: Array | None, key: Key | None, places: Array | None = None
    ) -> tuple[Array, Any]: ...

    def backward(self, dy: Array, cache: Any) -> Array: ...


class Repeat:
    """One layer, run ``times`` times in a row: y = f(f(… f(x))), with one set of parameters.

    A weight w that is used at every step reaches the loss along each of them.  With x₀ = x,
    x_n = f(x_{n-1}, w) and dx_N = dy:

        dx_{n-1} = dx_n ∂f/∂x      at x_{n-1}
        dw = Σ_n dx_n ∂f/∂w        at x_{n-1}

    The first line is the layer's backward, called from the last step to the first with that step's
    own cache.  The sum takes no code at all: each call adds to the gradient that is there.

    Every step has its own child of the key, or all would drop the same elements.
    """

    def __init__(self, layer: Layer, times: int) -> None:
        if times < 1:
            raise ValueError(f"times is {times}, expected at least 1")
        self.layer, self.times = layer, times

    def forward(
        self,
        x: Array,  # (B, T, C)
        mask: Array | None,  # the same for every step
        key: Key | None,
        places: Array | None = None,  # (B, R): rows that the last step computes; all, if not given
    ) -> tuple[Array, tuple[Any, ...]]:  # y (B, T, C) or (B, R, C), a cache for each step
        caches: list[Any] = []
        for step in range(self.times):
            step_key = key.child("repeat", step) if key else None
            step_places = places if step == self.times - 1 else None
            x, cache = self.layer.forward(x, mask, step_key, step_places)
            caches.append(cache)
        return x, tuple(caches)

    def backward(self, dy: Array, cache: tuple[Any, ...]) -> Array:  # like y → dx (B, T, C)
        for step_cache in reversed(cache):
            dy = self.layer.backward(dy, step_cache)
        return dy


class CheckpointCache(NamedTuple):
    inputs: tuple[Any, ...]  # of forward, by place
    named: dict[str, Any]  # and by name


class Checkpoint:
    """Any layer, of which backward keeps the inputs alone and computes the rest again.

    A layer's cache holds some ten arrays of its input's size; this one holds the input.  The price
    is a second forward, about a third more time for a step.  Dropout masks come from the key,
    which is one of the inputs, so the second forward is the first one bit for bit, and so is the
    gradient.  The parameters and inputs must still be what they were.
    """

    def __init__(self, layer: Any) -> None:
        self.layer = layer

    def forward(self, *inputs: Any, **named: Any) -> tuple[Array, CheckpointCache]:
        y, _ = self.layer.forward(*inputs, **named)
        return y, CheckpointCache(inputs, named)

    def backward(self, dy: Array, cache: CheckpointCache) -> Any:  # what the layer's returns
        _, recomputed = self.layer.forward(*cache.inputs, **cache.named)
        return self.layer.backward(dy, recomputed)
