"""What every backend offers."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from lcml.circuits.circuit import Circuit

Array = Any
"""An array of the backend in use: numpy.ndarray or cupy.ndarray."""

In = TypeVar("In")
Out = TypeVar("Out")

BackendName = Literal["auto", "numpy", "numba", "cupy"]
Precision = Literal["float32", "float64"]
FeaturePrecision = Literal["fixed8", "fixed16", "float32", "float64"]


def evaluation_precision(precision: FeaturePrecision) -> Precision:
    """What is computed with where features are kept so."""
    return "float64" if precision == "float64" else "float32"


Structure = tuple[Any, ...]
"""A circuit as the fused passes of a backend take it, see `Backend.structure`."""

Places = tuple[Array, Array, Array, bool]
"""index, cell_start, position_weight and root of a view, see `lcml.circuits.views`."""

Program = tuple[Array, ...]
"""The arrays of a `lcml.passes.products.ProductProgram`."""


class Backend(ABC):
    """An array library and the device it computes on."""

    name: str
    xp: Any
    device: str
    chunk_examples: int
    """Examples per chunk: small enough for a chunk's rows to stay in a CPU's cache, large enough to fill a GPU."""

    working_bytes: int = 1 << 27
    """Scoring computes flows at all positions of so many bytes at a time."""

    @abstractmethod
    def asarray(self, values: Any, dtype: Any = None) -> Array:
        """`values` on this backend's device."""

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array on this backend's device whose values are not set."""
        return self.xp.empty(shape, dtype=dtype)

    def reserve(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """Zeros on this backend's device, to be kept for long; what is not written to takes no memory on the CPU."""
        array = self.empty(shape, dtype)
        array[...] = 0
        return array

    def copy(self, values: Array) -> Array:
        """`values` once more, in rows one after the other."""
        return self.xp.asarray(values, copy=True, order="C")

    def put(self, out: Array, rows: NDArray[np.integer], values: Array) -> None:
        """out[rows] = values."""
        out[self.asarray(rows)] = values

    def widen(self, values: Array, scale: float) -> Array:
        """values * scale as float32; the result may be overwritten by the next call of the same thread."""
        return self.xp.astype(values, self.xp.float32) * scale

    def floats(self, rows: Array, scale: float) -> Array:
        """Rows as they are kept, floats or, with another scale than 1, integers, as floats; see `widen`."""
        return rows if scale == 1 else self.widen(rows, scale)

    def weighted_sum(self, weights: Array, rows: Array, scale: float) -> Array:
        """(n_sets, n) weights (n_sets, n_rows) @ rows (n_rows, n) * scale, see `floats`."""
        return weights @ self.floats(rows, scale)

    def correlation(self, signal: Array, rows: Array, scale: float) -> Array:
        """(n_sets, n_rows) signal (n_sets, n) @ rows (n_rows, n).T * scale, see `floats`."""
        return (self.floats(rows, scale) @ self.copy(signal.T)).T  # the faster of the two orders

    product_features: Callable[[Places, Program, Array, Array, int, Array], None] | None = None
    """A fused kernel, or None: (view, program, examples, rows, scale, out), all arrays of the backend, see
    lcml.backend.kernels.products."""

    flows: Callable[[Structure, Array], tuple[Array, int]] | None = None
    """A fused kernel, or None: (structure, examples) to flows (2 n_variables + n_elements, n_examples), NaN where
    Pr(root) = 0, and the first such example or -1."""

    weighted_flows: Callable[[Structure, Array, Array], tuple[Array, int]] | None = None
    """A fused kernel, or None: (structure, examples, weights) to weights @ flows without the flows, and as `flows`."""

    best_questions: Callable[..., None] | None = None
    """A kernel for arrays on the host, or None, see lcml.backend.kernels.questions."""

    bin_sums: Callable[..., None] | None = None
    """As `best_questions`."""

    def structure(self, circuit: Circuit) -> Structure:
        """What `flows` and `weighted_flows` take of a circuit."""
        return circuit.or_start, circuit.elem_prime, circuit.elem_sub, circuit.is_tautology

    @abstractmethod
    def to_host(self, values: Array) -> NDArray[Any]:
        """`values` as a numpy array."""

    @abstractmethod
    def segment_sum(self, rows: Array, offsets: Array) -> Array:
        """Sum consecutive rows: out[s] = rows[offsets[s]] + ... + rows[offsets[s+1] - 1].

        rows (n_rows, width); offsets (n_segments + 1,) strictly increasing from 0 to n_rows: no segment is empty.
        """

    @abstractmethod
    def map(self, function: Callable[[In], Out], items: Iterable[In]) -> Iterator[Out]:
        """function(item) of every item, in order; on the CPU several at a time."""

    @abstractmethod
    def single_threaded_blas(self) -> AbstractContextManager[Any]:
        """A context in which matrix products on the host use one thread: what `map` runs side by side stays so."""

    @abstractmethod
    def memory_budget(self) -> int:
        """Bytes that cached features may take when the user states no budget."""
