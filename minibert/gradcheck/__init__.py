"""Gradient checks: is the backward pass the derivative of the forward pass?

Finite differences answer without knowing any formula: move one number a little, look how the loss
moves.  The check needs the forward pass alone, so a mistake in a derivation cannot hide in it.

    >>> import numpy as np
    >>> x = np.array([0.3, -1.2, 2.0])
    >>> [result] = check_gradients(lambda: float(np.sum(x**3)), {"x": (x, 3 * x**2)})
    >>> result.passed
    True
    >>> check_gradients(lambda: float(np.sum(x**3)), {"x": (x, 2 * x**2)})
    Traceback (most recent call last):
    ...
    minibert.gradcheck.report.GradCheckError: the gradient of x is wrong at [2]: ...

``check_pair`` checks a pair of functions, ``check_layer`` a layer with its parameters, and
``check_model`` a whole pretraining model.  ``numeric_gradient`` returns the differences themselves.
"""

from minibert.gradcheck.check import check_gradients, check_layer, check_model, check_pair
from minibert.gradcheck.differences import four_point, numeric_gradient
from minibert.gradcheck.report import GradCheckError, KinkError, TensorError, format_table

__all__ = [
    "GradCheckError",
    "KinkError",
    "TensorError",
    "check_gradients",
    "check_layer",
    "check_model",
    "check_pair",
    "format_table",
    "four_point",
    "numeric_gradient",
]
