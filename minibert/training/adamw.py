"""AdamW: the optimizer, with its two moments over the whole flat buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minibert.params import ParamStore

if TYPE_CHECKING:
    from minibert.ops import Ops


class AdamW:
    """Adam with decoupled weight decay.

    ``bias_correction=False`` is BERTAdam, the optimizer of google-research/bert, whose first
    steps are up to 3.16 times as large (0.1 / √0.001).  The equations stand with
    ``minibert.ops.update.adamw``.
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
    ) -> None:
        self.params, self.ops = params, ops
        self.beta1, self.beta2, self.eps = beta1, beta2, eps
        self.weight_decay, self.bias_correction = weight_decay, bias_correction
        self.moment1, self.moment2 = params.new_buffer(), params.new_buffer()
        self.updates = 0

    def update(self, learning_rate: float, grad_scale: float = 1.0) -> None:
        """Move all parameters one step against ``params.grad`` times ``grad_scale``.

        Frozen ones, and their moments, are left out: the buffers are updated in the stretches
        between them.  With nothing frozen that is one stretch, the whole.
        """
        self.update_stretches(self.params.trainable_runs(), learning_rate, grad_scale)

    def update_stretches(
        self, stretches: list[tuple[int, int]], learning_rate: float, grad_scale: float
    ) -> None:
        """Move parts of the buffers one step."""
        self.updates += 1
        correct, params = self.bias_correction, self.params
        for start, stop in stretches:
            run = slice(start, stop)
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
                decayed=min(max(params.decayed - start, 0), stop - start),
                correction1=1 - self.beta1**self.updates if correct else 1.0,
                correction2=1 - self.beta2**self.updates if correct else 1.0,
                grad_scale=grad_scale,
            )
