"""Operations: the forward and backward pairs of the layers, behind one interface per backend.

A backend is a module that has every name of the ``Ops`` protocol below:

    numpy   the readable reference, the pairs written in ``minibert.layers``
    numba   compiled kernels for the processor, the default
    cupy    the same on a GPU (to come)

and two that differ from numba only in how they multiply matrices: ``numba-blas`` by NumPy's BLAS,
``numba-bf16`` in bfloat16 with sums in float32.

A layer is handed its backend in the constructor and calls nothing else, so which kernels run is
decided in one place, and two models in one program may use different ones.
"""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from minibert.arrays import Array

BACKENDS = {
    "numpy": "minibert.ops.reference",
    "numba": "minibert.ops.cpu",
    "numba-blas": "minibert.ops.cpu_blas",
    "numba-bf16": "minibert.ops.cpu_bf16",
}


class Ops(Protocol):
    """What every backend exports.  The equations stand with the reference, in ``layers/``.

    Floating arrays are float32 or float64, never mixed; ids and labels int32.  ``rate`` is a
    dropout rate, 0 for none, and ``seed`` the 64 bits of a ``Key`` that decide what is dropped.
    Nothing passed in is changed, except where ``adamw`` says so.
    """

    name: str

    def linear_forward(self, x: Array, weight: Array, bias: Array) -> Array: ...

    def linear_backward(self, dy: Array, x: Array, weight: Array) -> tuple[Array, Array, Array]: ...

    def feedforward_forward(
        self,
        x: Array,
        weight1: Array,
        bias1: Array,
        weight2: Array,
        bias2: Array,
        hidden_act: str,
    ) -> tuple[Array, Array, Array]: ...

    def feedforward_backward(
        self,
        dy: Array,
        x: Array,
        wide: Array,
        bent: Array,
        weight1: Array,
        weight2: Array,
        hidden_act: str,
    ) -> tuple[Array, Array, Array, Array, Array]: ...

    def embedding_forward(
        self,
        input_ids: Array,
        token_type_ids: Array,
        word: Array,
        position: Array,
        token_type: Array,
    ) -> Array: ...

    def embedding_backward(
        self, dy: Array, input_ids: Array, token_type_ids: Array, rows: tuple[int, int, int]
    ) -> tuple[Array, Array, Array]: ...

    def layernorm_forward(
        self, x: Array, weight: Array, bias: Array, eps: float
    ) -> tuple[Array, Array, Array]: ...

    def layernorm_backward(
        self, dy: Array, x_hat: Array, rstd: Array, weight: Array
    ) -> tuple[Array, Array, Array]: ...

    def add_norm_forward(
        self,
        x: Array,
        residual: Array,
        weight: Array,
        bias: Array,
        eps: float,
        rate: float,
        seed: int,
    ) -> tuple[Array, Array, Array]: ...

    def add_norm_backward(
        self, dy: Array, x_hat: Array, rstd: Array, weight: Array, rate: float, seed: int
    ) -> tuple[Array, Array, Array, Array]: ...

    def dropout_forward(self, x: Array, rate: float, seed: int) -> Array: ...

    def dropout_backward(self, dy: Array, rate: float, seed: int) -> Array: ...

    def gelu_forward(self, x: Array) -> Array: ...

    def gelu_backward(self, dy: Array, x: Array) -> Array: ...

    def gelu_tanh_forward(self, x: Array) -> Array: ...

    def gelu_tanh_backward(self, dy: Array, x: Array) -> Array: ...

    def relu_forward(self, x: Array) -> Array: ...

    def relu_backward(self, dy: Array, x: Array) -> Array: ...

    def tanh_forward(self, x: Array) -> Array: ...

    def tanh_backward(self, dy: Array, y: Array) -> Array: ...

    def softmax_forward(self, x: Array) -> Array: ...

    def softmax_backward(self, dy: Array, y: Array) -> Array: ...

    def attention_forward(
        self,
        q: Array,
        k: Array,
        v: Array,
        mask: Array | None,
        heads: int,
        rate: float,
        seed: int,
    ) -> tuple[Array, Array]: ...

    def attention_backward(
        self,
        dcontext: Array,
        q: Array,
        k: Array,
        v: Array,
        mask: Array | None,
        lse: Array,
        heads: int,
        rate: float,
        seed: int,
    ) -> tuple[Array, Array, Array]: ...

    def cross_entropy_forward(self, logits: Array, labels: Array) -> tuple[float, Array]: ...

    def cross_entropy_backward(self, dloss: float, probs: Array, labels: Array) -> Array: ...

    def vocab_cross_entropy_forward(
        self, x: Array, table: Array, bias: Array, labels: Array
    ) -> tuple[float, int, Array]: ...

    def vocab_cross_entropy_backward(
        self, dloss: float, dlogits: Array, x: Array, table: Array
    ) -> tuple[Array, Array, Array]: ...

    def orthogonalize(self, matrices: Array, iterations: int) -> Array: ...

    def global_norm(self, grad: Array) -> float: ...

    def adamw(
        self,
        value: Array,
        grad: Array,
        moment1: Array,
        moment2: Array,
        *,
        lr: float,
        beta1: float,
        beta2: float,
        eps: float,
        decay: float,
        decayed: int,
        correction1: float,
        correction2: float,
        grad_scale: float,
    ) -> None: ...


def get_ops(name: str | Ops = "numba") -> Ops:
    """Return a backend by name; a backend itself is handed back as it is."""
    if not isinstance(name, str):
        return name
    if name not in BACKENDS:
        raise ValueError(f"backend {name!r} is unknown, expected one of {', '.join(BACKENDS)}")
    return cast(Ops, import_module(BACKENDS[name]))
