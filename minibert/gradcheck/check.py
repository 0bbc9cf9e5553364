"""The checks: of named arrays, of a pair of functions, of a layer, of a model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from minibert.arrays import Array
from minibert.gradcheck.differences import evaluate
from minibert.gradcheck.measure import Plan, check_tensor, search_tensor
from minibert.gradcheck.report import GradCheckError, TensorError, failure, worst_of
from minibert.keys import Key
from minibert.params import ParamStore

LAYER_LIMIT = 1e-9
MODEL_LIMIT = 1e-8


def check_gradients(
    loss: Callable[[], float],
    tensors: Mapping[str, tuple[Array, Array]],
    *,
    limit: float = LAYER_LIMIT,
    absolute: Collection[str] = (),
    step: float | None = None,
    max_elements: int = 64,
    directions: int = 12,
    key: Key | None = None,
) -> list[TensorError]:
    """Compare gradients with differences of the loss, and return a verdict on every tensor.

    Args:
        loss: computes the forward pass anew from the arrays in ``tensors``, and always the same
            number from the same values: dropout needs a fixed key.
        tensors: name → (value, gradient), float64 and of one shape.  The loss must read this very
            value array: it is moved in place, and put back bit for bit whatever happens.
        limit: the largest |analytic - numeric| allowed, as a share of the tensor's largest
            |gradient|.
        absolute: names of tensors whose true gradient is 0 (the bias of attention's keys), where
            there is nothing to be relative to: both numbers must stay below ``limit`` themselves.
        step: how far to move, as a share of the tensor's root mean square.  By default each tensor
            finds its own, and kinks are told from mistakes (see ``differences.settle``).
        max_elements: a tensor of up to this many elements is checked one by one.
        directions: a larger one is moved as a whole along this many random directions, and its 8
            largest gradients and 8 random elements are checked one by one.
        key: decides the directions; ``Key(0)`` if not given.

    Raises:
        GradCheckError: a gradient is wrong, NaN or infinite, or the loss is not deterministic.
        KinkError: all that failed did so where the loss has no derivative.
        TypeError: something is not float64.
        ValueError: shapes differ, an array is read-only, or there is nothing to check.

    Directions have entries ±1 with random signs.  Let one element be wrong by e.  The errors of
    all elements add with those signs, and whatever the others add up to, for at least one of that
    element's two signs the sum is at least e in size.  So each direction shows an error of at
    least e with probability ½ or more, and 12 directions miss it once in 4096 times at most: the
    limit means the same for large tensors as for small ones.
    """
    check_tensors(tensors, absolute)
    key = key or Key(0)
    gradients = {name: gradient.copy() for name, (_, gradient) in tensors.items()}
    start = evaluate(loss, "at the given point")
    again = evaluate(loss, "at the given point")
    if start != again:
        raise GradCheckError(
            f"the loss is not deterministic: {start!r}, then {again!r} at the same point.  Pass a "
            "fixed key for dropout, and let forward change nothing"
        )
    plan = Plan(loss, limit, step, max_elements, directions)
    results = [
        check_tensor(plan, name, value, gradients[name], name in absolute, key.child(name))
        for name, (value, _) in tensors.items()
    ]
    end = evaluate(loss, "at the given point")
    if start != end:
        raise GradCheckError(
            f"the loss is not deterministic: {start!r} before the check and {end!r} after it, "
            "though every value was put back.  Does forward keep or change something?",
            results,
        )
    if worst := worst_of(results):
        value, _ = tensors[worst.name]
        found = search_tensor(plan, worst, value, gradients[worst.name], key.child(worst.name))
        raise failure([found if result is worst else result for result in results], found)
    return results


def check_tensors(
    tensors: Mapping[str, tuple[Array, Array]], absolute: Collection[str] = ()
) -> None:
    """Raise unless there are tensors, all of them float64 with a finite gradient of their shape."""
    if not tensors:
        raise ValueError("there is nothing to check: tensors is empty")
    if unknown := set(absolute) - set(tensors):
        raise ValueError(f"absolute names {sorted(unknown)}, expected names of tensors")
    for name, (value, gradient) in tensors.items():
        for what, array in ((name, value), (f"the gradient of {name}", gradient)):
            if array.dtype != np.float64:
                raise TypeError(
                    f"{what} is {array.dtype}, expected float64: rounding in float32 is divided "
                    "by the step, and spoils the second digit of a slope even where backward is "
                    "right.  Build the layer or model with dtype=np.float64"
                )
            if bad := np.argwhere(~np.isfinite(array)).tolist():
                raise GradCheckError(f"{what} is {array[tuple(bad[0])]} at {bad[0]}")
        if gradient.shape != value.shape:
            raise ValueError(
                f"the gradient of {name} has shape {gradient.shape}, but {name} has {value.shape}"
            )
        if not value.flags.writeable:
            raise ValueError(f"{name} is read-only, and has to be moved: pass a copy")


def check_pair(
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    inputs: Mapping[str, Array],
    *,
    key: Key | None = None,
    **options: Any,
) -> list[TensorError]:
    """Check ``backward(dy, *inputs)`` against ``forward(*inputs)``, with a random dy.

    Args:
        forward: the values of ``inputs``, in order → y, an array or a number.
        backward: dy and the values of ``inputs`` → one gradient for each input, in order (a single
            one need not be in a tuple).
        inputs: name → float64 array; copied, so the caller's are never moved.
        key: decides dy and the directions; ``Key(0)`` if not given.
        options: those of ``check_gradients``.

    dy is drawn from a normal distribution.  All ones, as a sum as loss would give, makes the true
    gradient of softmax and LayerNorm 0, and a wrong formula passes.
    """
    key = key or Key(0)
    values = {name: np.array(value) for name, value in inputs.items()}
    y = forward(*values.values())
    dy = key.child("upstream").generator().standard_normal(np.shape(y))
    gradients = backward(dy if np.ndim(y) else float(dy), *values.values())
    return check_gradients(
        lambda: float(np.sum(dy * forward(*values.values()))),
        named(values, gradients),
        key=key,
        **options,
    )


class Layer(Protocol):
    """What ``check_layer`` needs: forward returns a cache, backward takes it."""

    @property
    def forward(self) -> Callable[..., tuple[Array, Any]]: ...

    @property
    def backward(self) -> Callable[[Array, Any], Any]: ...


def check_layer(
    layer: Layer,
    store: ParamStore,
    inputs: Mapping[str, Any],
    *,
    key: Key | None = None,
    **options: Any,
) -> list[TensorError]:
    """Check a layer's gradient of every floating input and of every parameter in ``store``.

    ``layer.forward(**inputs)`` returns y and a cache; ``layer.backward(dy, cache)`` returns the
    gradient of each floating array in ``inputs``, in order.  Other inputs (keys, masks, ids) are
    handed on.  Inputs are copied; the store's gradients are overwritten, its values kept.  The
    options are those of ``check_gradients``.
    """
    key = key or Key(0)
    inputs = {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in inputs.items()
    }
    y, cache = layer.forward(**inputs)
    dy = key.child("upstream").generator().standard_normal(y.shape)
    store.zero_grad()
    gradients = layer.backward(dy, cache)
    return check_gradients(
        lambda: float(np.sum(dy * layer.forward(**inputs)[0])),
        named(floating(inputs), gradients) | parameters_of(store),
        key=key,
        **options,
    )


class Model(Protocol):
    """What ``check_model`` needs of a model; ``forward`` returns an output with a ``loss``."""

    params: ParamStore

    def forward(self, batch: Any, key: Key | None) -> tuple[Any, Any]: ...

    def backward(self, cache: Any) -> None: ...


def check_model(
    model: Model,
    batch: Any,
    key: Key | None,
    *,
    limit: float = MODEL_LIMIT,
    absolute: Collection[str] | None = None,
    **options: Any,
) -> list[TensorError]:
    """Check every parameter of a whole model, on one batch, with the dropout that ``key`` draws.

    ``absolute`` names the parameters whose true gradient is 0; by default the biases of
    attention's keys, which add the same to all scores of a query, so that softmax takes no notice.
    The options are those of ``check_gradients``.  The parameters' gradients are overwritten.
    """
    model.params.zero_grad()
    _, cache = model.forward(batch, key)
    model.backward(cache)
    tensors = parameters_of(model.params)
    if absolute is None:
        absolute = [name for name in tensors if name.endswith("self.key.bias")]
    return check_gradients(
        lambda: model.forward(batch, key)[0].loss,
        tensors,
        limit=limit,
        absolute=absolute,
        key=key,
        **options,
    )


def floating(inputs: Mapping[str, Any]) -> dict[str, Array]:
    """Return the inputs that have a gradient: not keys, masks or ids."""
    return {
        name: value
        for name, value in inputs.items()
        if isinstance(value, np.ndarray) and value.dtype.kind == "f"
    }


def named(values: Mapping[str, Array], gradients: Any) -> dict[str, tuple[Array, Array]]:
    """Pair inputs with the gradients that a backward returned for them, in order."""
    several: Iterable[Any] = (
        gradients
        if isinstance(gradients, (tuple, list))
        else ()
        if gradients is None
        else (gradients,)
    )
    found = [np.asarray(gradient) for gradient in several]
    if len(found) != len(values):
        raise ValueError(
            f"backward returned {len(found)} gradients for {len(values)} inputs: "
            f"{', '.join(values)}"
        )
    return {name: (values[name], found[i]) for i, name in enumerate(values)}


def parameters_of(store: ParamStore) -> dict[str, tuple[Array, Array]]:
    return {parameter.name: (parameter.value, parameter.grad) for parameter in store}
