"""The gradient suite: every hand-written backward pass against finite differences.

Plain Python without a test framework, so that whoever doubts can run it alone, the mutation run
can call it hundreds of times, and the gallery can hand it wrong backwards:

    >>> from minibert.ops import get_ops
    >>> from tests.gradients import SUITE
    >>> SUITE["softmax"](get_ops("numpy"))  # raises GradCheckError if the backward is wrong

Sizes differ, so that a wrong axis shows; gains are not 1, biases not 0, upstream gradients random,
ids repeat, rows are padded, labels ignored and dropout is on.  What a gradient check cannot see,
such as a mistake that forward and backward share, is compared with numbers worked out by hand.
"""

from tests.gradients import operations, sequences  # noqa: F401, I001  (they fill SUITE, in order)
from tests.gradients import layers, models, rules, tasks  # noqa: F401
from tests.gradients.problems import HARD, SUITE, Check, Problem, Setting, checks_for

__all__ = ["HARD", "SUITE", "Check", "Problem", "Setting", "checks_for"]
