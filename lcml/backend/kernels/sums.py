"""Products of kept features with the few rows that a fit has, weights or signals, compiled by numba.

A matrix product of a library wants all features as floats and is made for more rows: here four rows of features are
widened at a time and meet two rows of weights or signals in registers, in three quarters of the time.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lcml.backend.kernels.compiled import compiled

_ROWS = 4  # of features, as many as are named below
_IN_ANY_ORDER = {"reassoc", "contract", "nsz"}  # infinity stays what it is: a step may be too long


@compiled(fastmath=_IN_ANY_ORDER)
def weighted_sum(weights: NDArray[Any], features: NDArray[Any], scale: float) -> NDArray[Any]:
    """(n_sets, n_examples) weights (n_sets, n_rows) @ features (n_rows, n_examples) * scale."""
    n_sets, n_rows = weights.shape
    n_examples, kind = features.shape[1], weights.dtype
    w = np.zeros((n_sets + 1, n_rows + _ROWS), kind)
    w[:n_sets, :n_rows] = weights * kind.type(scale)
    out = np.zeros((n_sets + 1, n_examples), kind)
    x = np.zeros((_ROWS, n_examples), kind)
    for row in range(0, n_rows, _ROWS):
        _widen(features, row, x)
        for k in range(0, n_sets, 2):
            a0, a1, a2, a3 = w[k, row], w[k, row + 1], w[k, row + 2], w[k, row + 3]
            b0, b1, b2, b3 = w[k + 1, row], w[k + 1, row + 1], w[k + 1, row + 2], w[k + 1, row + 3]
            for i in range(n_examples):
                x0, x1, x2, x3 = x[0, i], x[1, i], x[2, i], x[3, i]
                out[k, i] += a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
                out[k + 1, i] += b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
    return out[:n_sets]


@compiled(fastmath=_IN_ANY_ORDER)
def correlation(signal: NDArray[Any], features: NDArray[Any], scale: float) -> NDArray[Any]:
    """(n_sets, n_rows) signal (n_sets, n_examples) @ features (n_rows, n_examples).T * scale."""
    n_sets, n_examples = signal.shape
    n_rows, kind = features.shape[0], signal.dtype
    s = np.zeros((n_sets + 1, n_examples), kind)
    s[:n_sets] = signal * kind.type(scale)
    out = np.empty((n_sets + 1, n_rows + _ROWS), kind)
    x = np.zeros((_ROWS, n_examples), kind)
    zero = kind.type(0)
    for row in range(0, n_rows, _ROWS):
        _widen(features, row, x)
        for k in range(0, n_sets, 2):
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zero
            for i in range(n_examples):
                x0, x1, x2, x3, a, b = x[0, i], x[1, i], x[2, i], x[3, i], s[k, i], s[k + 1, i]
                a0, a1, a2, a3 = a0 + a * x0, a1 + a * x1, a2 + a * x2, a3 + a * x3
                b0, b1, b2, b3 = b0 + b * x0, b1 + b * x1, b2 + b * x2, b3 + b * x3
            out[k, row], out[k, row + 1], out[k, row + 2], out[k, row + 3] = a0, a1, a2, a3
            out[k + 1, row], out[k + 1, row + 1], out[k + 1, row + 2], out[k + 1, row + 3] = b0, b1, b2, b3
    return out[:n_sets, :n_rows]


@njit(nogil=True, inline="always")
def _widen(features: NDArray[Any], first: int, out: NDArray[Any]) -> None:
    """Rows from `first` as floats; those behind the last are left as they are, and count for nothing."""
    for row in range(min(_ROWS, len(features) - first)):
        for i in range(features.shape[1]):
            out[row, i] = features[first + row, i]
