"""The learning rate over a run: a straight line up, then a straight line down.

Source: Devlin et al., BERT (2019), A.2.  Its numbers are a peak of 1e-4 after 10,000 of 1,000,000
steps; small models on small batches take more, 1e-3 and above.
"""

from __future__ import annotations


def warmup_linear(
    progress: float,  # share of the run that is done, 0 to 1
    warmup: float,  # share of the run after which the peak is reached, 0 to 1
) -> float:  # factor of the peak learning rate, 0 to 1
    """Return progress / warmup on the way up, (1 - progress) / (1 - warmup) on the way down.

    Progress 0 and 1 give 0; the loop asks for update t of n at t / (n + 1), so that neither the
    first update nor the last is wasted on a rate of 0.
    """
    if progress < warmup:
        return max(progress, 0.0) / warmup
    if warmup >= 1:
        return 1.0
    return max(1 - progress, 0.0) / (1 - warmup)
