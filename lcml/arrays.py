"""Arrays that the structure of models is made of: their types, and how they are made read-only."""

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float64]


def frozen(values: Any, dtype: Any = np.int32) -> NDArray[Any]:
    """A read-only copy of `values`."""
    array = np.array(values, dtype)
    array.setflags(write=False)
    return array


def even_cuts(n: int, n_runs: int) -> list[int]:
    """Where each run of n things begins, and n, as `numpy.array_split` cuts: the first n % n_runs are longer by one."""
    size, longer = divmod(n, n_runs)
    return [run * size + min(run, longer) for run in range(n_runs + 1)]


def weighted_runs(n: int, n_runs: int, overlap: int) -> list[dict[int, int]]:
    """Of every run of n things, cut by `even_cuts`, those that count in it and how often: thing y as often as there are
    things y - overlap, ..., y + overlap in the run, those beyond either end being the outermost."""
    numbers = np.arange(n)
    near = np.clip(numbers[:, None] + np.arange(-overlap, overlap + 1), 0, n - 1)
    counts = [((first <= near) & (near < stop)).sum(axis=1) for first, stop in pairwise(even_cuts(n, n_runs))]
    return [{int(place): int(count[place]) for place in np.flatnonzero(count)} for count in counts]
