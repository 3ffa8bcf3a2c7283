"""The CPU: numpy, and numpy with kernels compiled by numba."""

import math
import os
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.backend.base import Array, Backend, Places, Program, Structure
from lcml.backend.machine import available_memory
from lcml.backend.memory import own_pages
from lcml.backend.threads import map_in_order, single_threaded_blas
from lcml.errors import MissingDependencyError, SettingsError

_CHUNK_EXAMPLES = 512
_FREE_SHARE = 0.6


class NumpyBackend(Backend):
    """The reference: numpy on the CPU."""

    name = "numpy"
    xp = np
    device = "cpu"
    chunk_examples = _CHUNK_EXAMPLES
    map = staticmethod(map_in_order)
    single_threaded_blas = staticmethod(single_threaded_blas)

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def asarray(self, values: Any, dtype: Any = None) -> Array:
        return np.asarray(values, dtype=dtype)

    def to_host(self, values: Array) -> NDArray[Any]:
        return np.asarray(values)

    def reserve(self, shape: tuple[int, ...], dtype: Any) -> Array:
        return own_pages(shape, dtype)

    def widen(self, values: Array, scale: float) -> Array:
        return np.multiply(values, np.float32(scale), out=self._scratch(values.shape), casting="unsafe")

    def _scratch(self, shape: tuple[int, ...]) -> NDArray[np.float32]:
        """An array that this thread uses again and again."""
        size = math.prod(shape)
        buffer: NDArray[np.float32] | None = getattr(self._of_thread, "buffer", None)
        if buffer is None or buffer.size < size:
            buffer = self._of_thread.buffer = np.empty(size, dtype=np.float32)
        return buffer[:size].reshape(shape)

    def segment_sum(self, rows: Array, offsets: Array) -> Array:
        return np.add.reduceat(rows, offsets[:-1], axis=0) if len(offsets) > 1 else rows[:0]

    def memory_budget(self) -> int:
        return int(_FREE_SHARE * available_memory())


class NumbaBackend(NumpyBackend):
    """numpy, with kernels compiled by numba where they are faster. Compiled code is kept for the next process."""

    name = "numba"

    def __init__(self) -> None:
        super().__init__()
        if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
            raise SettingsError("backend numba: its compiler is switched off; unset NUMBA_DISABLE_JIT")
        try:
            from lcml.backend.kernels import passes, products, questions, sums
        except ImportError as error:
            raise MissingDependencyError("numba", "fast", "the numba backend") from error
        self._products, self._passes, self._sums = products, passes, sums
        self.best_questions, self.bin_sums = questions.best_questions, questions.bin_sums

    def weighted_sum(self, weights: Array, rows: Array, scale: float) -> Array:
        return self._sums.weighted_sum(np.ascontiguousarray(weights), np.ascontiguousarray(rows), scale)

    def correlation(self, signal: Array, rows: Array, scale: float) -> Array:
        return self._sums.correlation(np.ascontiguousarray(signal), np.ascontiguousarray(rows), scale)

    def product_features(
        self, view: Places, program: Program, examples: Array, rows: Array, scale: int, out: Array
    ) -> None:
        self._products.product_features(np.ascontiguousarray(examples), *view, *program, rows, float(scale), out)

    def flows(self, structure: Structure, examples: Array) -> tuple[Array, int]:
        n_flows = 2 * examples.shape[1] + len(structure[1])
        out = self._passes.aligned_empty((n_flows, len(examples)), examples.dtype)
        return out, self._passes.flows_into(examples, *structure, out)

    def weighted_flows(self, structure: Structure, examples: Array, weights: Array) -> tuple[Array, int]:
        out = np.empty((len(examples), len(weights)), examples.dtype)
        weights = np.ascontiguousarray(weights, dtype=examples.dtype)
        contradiction = self._passes.logits_into(examples, *structure, weights, out)
        return out.T, contradiction
