"""A backend on array_api_strict, whose arrays convert to numpy by request only: it finds what would fail on a GPU."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import array_api_strict
import numpy as np

from lcml.backend import Array, Backend

_In = TypeVar("_In")
_Out = TypeVar("_Out")


class StrictBackend(Backend):
    """Arrays of array_api_strict on a device of its own: mixing in a numpy array raises."""

    name = "numpy"
    xp = array_api_strict
    device = "device1"
    chunk_examples = 4

    def __init__(self) -> None:
        self._device = array_api_strict.Device("device1")

    def asarray(self, values: Any, dtype: Any = None) -> Array:
        host_dtype = None if dtype is None else np.dtype(getattr(dtype, "_np_dtype", dtype))
        host = np.array(self.to_host(values) if hasattr(values, "_array") else values, dtype=host_dtype)
        return array_api_strict.asarray(host, device=self._device)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        kind = getattr(array_api_strict, dtype.name) if isinstance(dtype, np.dtype) else dtype
        return array_api_strict.empty(shape, dtype=kind, device=self._device)

    def put(self, out: Array, rows: np.ndarray[Any, Any], values: Array) -> None:
        for index, row in enumerate(rows.tolist()):
            out[row, ...] = values[index, ...]

    def copy(self, values: Array) -> Array:
        return array_api_strict.asarray(values, copy=True)

    def to_host(self, values: Array) -> np.ndarray[Any, Any]:
        return np.asarray(array_api_strict.from_dlpack(values, device=array_api_strict.Device("CPU_DEVICE"))._array)

    def segment_sum(self, rows: Array, offsets: Array) -> Array:
        sums = np.add.reduceat(self.to_host(rows), self.to_host(offsets)[:-1], axis=0)
        return self.asarray(sums)

    def map(self, function: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
        return map(function, items)

    def single_threaded_blas(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def memory_budget(self) -> int:
        return 1 << 30
