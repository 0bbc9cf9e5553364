"""Muon: hidden matrices move by orthogonal steps, everything else as with AdamW.

The gradient of a weight matrix is mostly a few strong directions: it is nearly of low rank, and so
is Adam's step, which keeps rare directions waiting.  Muon keeps the directions of the momentum and
makes them all equally strong: of M = U Σ Vᵀ it takes U Vᵀ, the orthogonal matrix nearest to M.

Sources: Jordan et al., Muon: An optimizer for hidden layers in neural networks (2024); the size of
a step and the decay: Liu et al., Muon is Scalable for LLM Training (2025), section 2.2.
"""

from __future__ import annotations

import math

import numpy as np

from minibert.arrays import Array
from minibert.params import Parameter
from minibert.training.adamw import AdamW

MOMENTUM = 0.95
ITERATIONS = 5
STEP_SIZE = 0.6
"""Root mean square of a matrix's step, in learning rates.

0.2 would be the size of AdamW's.  On the embedded corpus 0.6 learned fastest of 0.2, 0.4, 0.6 and
1.2, and 5 iterations, though they take longer, faster than 2 or 3.
"""


class Muon(AdamW):
    """Orthogonal steps for the matrices between hidden layers, AdamW for the rest.

    The rest are embeddings, which get a gradient in few rows, matrices to a task's classes, biases
    and LayerNorm.  ``moment1`` holds the momentum of the matrices; their ``moment2`` stays 0.
    """

    def update(self, learning_rate: float, grad_scale: float = 1.0) -> None:
        """Move all parameters one step against ``params.grad`` times ``grad_scale``."""
        self.updates += 1
        self.update_where(lambda p: not p.spec.hidden, learning_rate, grad_scale)
        for matrices in self.matrices_by_shape().values():
            self.update_matrices(matrices, learning_rate, grad_scale)

    def matrices_by_shape(self) -> dict[tuple[int, ...], list[tuple[Parameter, Array]]]:
        """Return hidden matrices that are trained, each with its momentum (M, N)."""
        found: dict[tuple[int, ...], list[tuple[Parameter, Array]]] = {}
        for start, stop, parameter in self.params.layout:
            if parameter.spec.hidden and not parameter.frozen:
                momentum = self.moment1[start:stop].reshape(parameter.shape)
                found.setdefault(parameter.shape, []).append((parameter, momentum))
        return found

    def update_matrices(
        self,
        matrices: list[tuple[Parameter, Array]],  # of one shape, (M, N)
        learning_rate: float,
        grad_scale: float,
    ) -> None:
        """Move matrices along their orthogonalised momentum, one step ahead of it (Nesterov).

            m ← μ m + (1 - μ) g
            θ ← θ - lr (s √max(M, N) · orthogonalised(μ m + (1 - μ) g) + decay · θ)

        An orthogonal matrix of M rows and N columns has unit vectors in its shorter direction, so
        its root mean square is 1 / √max(M, N); the factor makes that s for every shape.
        """
        dtype = self.params.dtype.type
        pushes = np.stack([parameter.grad for parameter, _ in matrices])
        pushes *= dtype((1 - MOMENTUM) * grad_scale)
        for push, (_, momentum) in zip(pushes, matrices, strict=True):
            momentum *= dtype(MOMENTUM)
            momentum += push
            push += dtype(MOMENTUM) * momentum
        steps = self.ops.orthogonalize(pushes, ITERATIONS)
        size = STEP_SIZE * math.sqrt(max(pushes.shape[1:]))
        for step, (parameter, _) in zip(steps, matrices, strict=True):
            rate, value = learning_rate * self.factors[parameter.name], parameter.value
            value *= dtype(1 - rate * self.weight_decay)
            step *= dtype(rate * size)
            value -= step
