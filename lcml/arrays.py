"""Arrays that the structure of models is made of: their types, and how they are made read-only."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int32]
FloatArray = NDArray[np.float64]


def frozen(values: Any) -> IntArray:
    """A read-only int32 copy of `values`."""
    array = np.array(values, dtype=np.int32)
    array.setflags(write=False)
    return array
