"""Histograms on a CPU, compiled by numba."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.backend.kernels.compiled import compiled


@compiled(fastmath=True)
def histogram(
    bins: NDArray[np.uint8], node: NDArray[np.int32], statistics: NDArray[np.float64], out: NDArray[Any]
) -> None:
    """Add statistics[i] to out[j, node[i], bins[j, i]] for every row i and column j.

    bins (n_columns, n_rows); node (n_rows,); statistics (n_rows, n_statistics); out (n_columns, n_nodes, n_bins,
    n_statistics). A column at a time: its sums stay in the cache.
    """
    n_columns, n_rows = bins.shape
    n_statistics = statistics.shape[1]
    for j in range(n_columns):
        if n_statistics == 3:
            for i in range(n_rows):
                a, b = node[i], bins[j, i]
                out[j, a, b, 0] += statistics[i, 0]
                out[j, a, b, 1] += statistics[i, 1]
                out[j, a, b, 2] += statistics[i, 2]
        else:
            for i in range(n_rows):
                a, b = node[i], bins[j, i]
                for m in range(n_statistics):
                    out[j, a, b, m] += statistics[i, m]
