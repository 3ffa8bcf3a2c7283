"""Whether and how examples are divided into folds, each of which chooses what the others train."""

import numpy as np
from numpy.typing import NDArray

MOST_FOR_FOLDS = 30_000
"""Examples, times weight sets, up to which folds choose; more tell enough when a part of them is set aside."""


def chosen_by_folds(n_examples: int, n_classes: int) -> bool:
    """Whether folds choose for so many examples, rather than a part set aside."""
    return n_examples * (1 if n_classes == 2 else n_classes) <= MOST_FOR_FOLDS


def divided(labels: NDArray[np.int64], n_folds: int, seed: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Rows that train and rows that choose, fold by fold, with every class in proportion."""
    rng = np.random.default_rng(seed)
    fold = np.empty(len(labels), np.intp)
    first = 0
    for code in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == code))
        fold[rows] = (first + np.arange(len(rows))) % n_folds
        first += len(rows)
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]
