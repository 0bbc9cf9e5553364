"""AdamW: the optimizer, with its two moments over the whole flat buffer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from minibert.params import Parameter, ParamStore

if TYPE_CHECKING:
    from minibert.ops import Ops


class AdamW:
    """Adam with decoupled weight decay.

    ``bias_correction=False`` is BERTAdam, the optimizer of google-research/bert, whose first step
    is 3.16 times as long (0.1 / √0.001).  Under a gradient that stays the same the twelfth is 6.57
    times as long, and hundreds follow that are too long.  The equations stand with
    ``minibert.ops.update.adamw``.

    ``rate_factor`` says by what a parameter's learning rate is multiplied (None: by 1); it is
    asked once.
    """

    def __init__(
        self,
        params: ParamStore,
        ops: Ops,
        *,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        bias_correction: bool = True,
        rate_factor: Callable[[Parameter], float] | None = None,
    ) -> None:
        self.params, self.ops = params, ops
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.weight_decay, self.bias_correction = weight_decay, bias_correction
        self.moment1, self.moment2 = params.new_buffer(), params.new_buffer()
        self.updates = 0
        self.factors = {p.name: rate_factor(p) if rate_factor else 1.0 for p in params}

    def update(self, learning_rate: float, grad_scale: float = 1.0) -> None:
        """Move all parameters one step against ``params.grad`` times ``grad_scale``.

        Frozen ones, and their moments, are left out: the buffers are updated in the stretches
        between them, and between those with other learning rates.  With nothing frozen and one
        rate for all that is one stretch, the whole.
        """
        self.updates += 1
        self.update_where(lambda parameter: True, learning_rate, grad_scale)

    def update_where(
        self, which: Callable[[Parameter], bool], learning_rate: float, grad_scale: float
    ) -> None:
        """Move some parameters one step, the one that ``updates`` counts."""
        for factor in dict.fromkeys(self.factors.values()):
            for start, stop in self.params.trainable_runs(
                lambda p, f=factor: which(p) and self.factors[p.name] == f
            ):
                self.move(slice(start, stop), learning_rate * factor, grad_scale)

    def move(self, run: slice, learning_rate: float, grad_scale: float) -> None:
        """Move one stretch of the buffers."""
        correct, params = self.bias_correction, self.params
        self.ops.adamw(
            params.value[run],
            params.grad[run],
            self.moment1[run],
            self.moment2[run],
            lr=learning_rate,
            beta1=self.beta1,
            beta2=self.beta2,
            eps=self.eps,
            decay=self.weight_decay,
            decayed=min(max(params.decayed - run.start, 0), run.stop - run.start),
            correction1=1 - self.beta1**self.updates if correct else 1.0,
            correction2=1 - self.beta2**self.updates if correct else 1.0,
            grad_scale=grad_scale,
        )
