"""The CPU: numpy, and numpy with kernels compiled by numba."""

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lcml.backend.base import Array, Backend, CircuitArrays, ProgramArrays, ViewArrays, program_arrays
from lcml.errors import MissingDependencyError

_In = TypeVar("_In")
_Out = TypeVar("_Out")

_CHUNK_EXAMPLES = 512
_FREE_SHARE = 0.6


class NumpyBackend(Backend):
    """The reference: numpy on the CPU."""

    name = "numpy"
    xp = np
    device = "cpu"
    chunk_examples = _CHUNK_EXAMPLES

    def __init__(self) -> None:
        from threadpoolctl import ThreadpoolController

        self._blas = ThreadpoolController()
        self._local = threading.local()
        self._n_threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def asarray(self, values: Any, dtype: Any = None) -> Array:
        return np.asarray(values, dtype=dtype)

    def to_host(self, values: Array) -> NDArray[Any]:
        return np.asarray(values)

    def widen(self, values: Array, scale: float) -> Array:
        return np.multiply(values, np.float32(scale), out=self._scratch(values.shape), casting="unsafe")

    def _scratch(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """An array that this thread uses again and again."""
        size = math.prod(shape)
        buffer: NDArray[np.float32] | None = getattr(self._local, "buffer", None)
        if buffer is None or buffer.size < size:
            buffer = self._local.buffer = np.empty(size, dtype=np.float32)
        return buffer[:size].reshape(shape)

    def segment_sum(self, rows: Array, offsets: Array) -> Array:
        return np.add.reduceat(rows, offsets[:-1], axis=0) if len(offsets) > 1 else rows[:0]

    def map(self, function: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
        with self._blas.limit(limits=1, user_api="blas"), ThreadPoolExecutor(self._n_threads) as pool:
            yield from pool.map(function, items)

    def single_threaded_blas(self) -> AbstractContextManager[Any]:
        from threadpoolctl import ThreadpoolController

        self._blas = ThreadpoolController()  # again: scipy, which has a BLAS of its own, may have come since
        limited: AbstractContextManager[Any] = self._blas.limit(limits=1, user_api="blas")
        return limited

    def memory_budget(self) -> int:
        return int(_FREE_SHARE * _available_host_memory())


class NumbaBackend(NumpyBackend):
    """numpy, with kernels compiled by numba where they are faster. Compiled code is kept for the next process."""

    name = "numba"

    def __init__(self) -> None:
        super().__init__()
        try:
            from lcml.backend.kernels import passes, products
        except ImportError as error:
            raise MissingDependencyError("numba", "fast", "the numba backend") from error
        self._products, self._passes = products, passes

    def widen(self, values: Array, scale: float) -> Array:
        out = self._scratch(values.shape)
        self._products.widen(values, scale, out)
        return out

    def product_features(
        self, view: ViewArrays, program: ProgramArrays, examples: Array, rows: Array, levels: int, out: Array
    ) -> None:
        self._products.product_features(
            np.ascontiguousarray(examples),
            view.index,
            view.cell_start,
            *program_arrays(program),
            np.asarray(rows, dtype=np.int32),
            view.root,
            float(levels),
            out,
        )

    def flows(self, circuit: CircuitArrays, examples: Array) -> tuple[Array, int]:
        out = self._passes.aligned_empty((circuit.n_literals + circuit.n_elements, len(examples)), examples.dtype)
        return out, self._passes.flows_into(examples, *_structure(circuit), out)

    def weighted_flows(self, circuit: CircuitArrays, examples: Array, weights: Array) -> tuple[Array, int]:
        out = np.empty((len(examples), len(weights)), examples.dtype)
        weights = np.ascontiguousarray(weights, dtype=examples.dtype)
        contradiction = self._passes.logits_into(examples, *_structure(circuit), weights, out)
        return out.T, contradiction


def _structure(circuit: CircuitArrays) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], bool]:
    return circuit.or_start, circuit.elem_prime, circuit.elem_sub, circuit.is_tautology


def _available_host_memory() -> int:
    try:
        with open("/proc/meminfo") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 4 * 1024**3
