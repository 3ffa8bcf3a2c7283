"""Sums by bin of a table's rows, and the best question by them, on a CPU, compiled by numba."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.backend.kernels.compiled import compiled

_MOST_BINS = 256  # that of lcml.learning.boosting


@compiled(fastmath=True)
def bin_sums(
    bins: NDArray[np.uint8],
    rows: NDArray[np.intp],
    node: NDArray[np.int32],
    statistics: NDArray[np.float64],
    sums: NDArray[np.float64],
) -> None:
    """Add to sums (n_columns, n_nodes, n_bins, n_statistics), see lcml.learning.boosting.bin_sums.

    A column at a time: the sums of its bins stay in the cache.
    """
    n_statistics = statistics.shape[1]
    for j in range(len(bins)):
        if n_statistics == 3:
            for i in rows:
                a, b = node[i], bins[j, i]
                sums[j, a, b, 0] += statistics[i, 0]
                sums[j, a, b, 1] += statistics[i, 1]
                sums[j, a, b, 2] += statistics[i, 2]
        else:
            for i in rows:
                a, b = node[i], bins[j, i]
                for m in range(n_statistics):
                    sums[j, a, b, m] += statistics[i, m]


@compiled(fastmath=True)
def best_questions(
    sums: NDArray[np.float64],
    n_bins: NDArray[np.int64],
    is_category: NDArray[np.bool_],
    l2: float,
    least: float,
    gain: NDArray[np.float64],
    place: NDArray[Any],
) -> None:
    """Fill gain and place (n_columns, n_nodes), see lcml.learning.boosting.best_questions."""
    n_columns, n_nodes, _, n_statistics = sums.shape
    n_sets = (n_statistics - 1) // 2
    total, no = np.empty(n_statistics), np.empty(n_statistics)
    for j in range(n_columns):
        last = n_bins[j] - 1  # that of gaps, or of categories what cannot be asked for
        for a in range(n_nodes):
            for m in range(n_statistics):
                total[m] = 0.0
                for b in range(n_bins[j]):
                    total[m] += sums[j, a, b, m]
            base = 0.0
            for k in range(n_sets):
                base += total[k] ** 2 / (total[n_sets + k] + l2)
            gain[j, a], place[j, a] = 0.0, 0
            for gap_below in range(2):
                if gap_below and (is_category[j] or sums[j, a, last, n_statistics - 1] == 0):
                    continue
                for m in range(n_statistics):
                    no[m] = sums[j, a, last, m] if gap_below else 0.0
                for b in range(last):
                    if sums[j, a, b, n_statistics - 1] == 0:
                        continue
                    for m in range(n_statistics):
                        no[m] = sums[j, a, b, m] + (0.0 if is_category[j] else no[m])
                    weight = no[n_statistics - 1]
                    if weight < least or total[n_statistics - 1] - weight < least:
                        continue
                    score = -base
                    for k in range(n_sets):
                        score += no[k] ** 2 / (no[n_sets + k] + l2)
                        score += (total[k] - no[k]) ** 2 / (total[n_sets + k] - no[n_sets + k] + l2)
                    if score > gain[j, a]:
                        gain[j, a], place[j, a] = score, gap_below * _MOST_BINS + b
