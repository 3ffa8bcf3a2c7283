"""Arrays that the structure of models is made of: their types, and how they are made read-only."""

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
