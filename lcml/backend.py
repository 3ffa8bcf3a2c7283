"""Where arrays live: one switch between numpy and numba (CPU) and cupy (CUDA).

Code on the way of a mini-batch takes a `Backend` and uses `backend.xp` for everything the two libraries share. What
they do not share, and what must be fast, is a method here, with one implementation per backend.
"""

import math
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from lcml.errors import MissingDependencyError, SettingsError

if TYPE_CHECKING:
    from lcml.circuit import Circuit
    from lcml.products import ProductProgram
    from lcml.views import View

Array = Any
"""An array of the backend in use: numpy.ndarray or cupy.ndarray."""

_In = TypeVar("_In")
_Out = TypeVar("_Out")

BackendName = Literal["auto", "numpy", "numba", "cupy"]
Precision = Literal["float32", "float64"]
FeaturePrecision = Literal["fixed16", "float32", "float64"]

_CPU_CHUNK, _GPU_CHUNK = 512, 16384
_HOST_SHARE, _DEVICE_SHARE = 0.6, 0.7
_WORKING_PART = 32


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

    def copy(self, values: Array) -> Array:
        """`values` once more, in rows one after the other."""
        return self.xp.asarray(values, copy=True, order="C")

    def put(self, out: Array, rows: NDArray[np.integer], values: Array) -> None:
        """out[rows] = values."""
        out[self.asarray(rows)] = values

    def widen(self, values: Array, scale: float) -> Array:
        """values * scale as float32; the result may be overwritten by the next call of the same thread."""
        return self.xp.astype(values, self.xp.float32) * scale

    product_features: Callable[..., None] | None = None
    """A fused kernel, or None: (view, program, examples, rows, levels, out), see lcml.kernels.products."""

    flows: Callable[["Circuit", Array], tuple[Array, int]] | None = None
    """A fused kernel, or None: (circuit, examples) to flows (2 n_variables + n_elements, n_examples), NaN where
    Pr(root) = 0, and the first such example or -1."""

    weighted_flows: Callable[["Circuit", Array, Array], tuple[Array, int]] | None = None
    """A fused kernel, or None: (circuit, examples, weights) to weights @ flows without the flows, and as `flows`."""

    @abstractmethod
    def to_host(self, values: Array) -> NDArray[Any]:
        """`values` as a numpy array."""

    @abstractmethod
    def segment_sum(self, rows: Array, offsets: Array) -> Array:
        """Sum consecutive rows: out[s] = rows[offsets[s]] + ... + rows[offsets[s+1] - 1].

        rows (n_rows, width); offsets (n_segments + 1,) strictly increasing from 0 to n_rows: no segment is empty.
        """

    @abstractmethod
    def map(self, function: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
        """function(item) of every item, in order; on the CPU several at a time."""

    @abstractmethod
    def single_threaded_blas(self) -> AbstractContextManager[Any]:
        """A context in which matrix products on the host use one thread: what `map` runs side by side stays side by
        side."""

    @abstractmethod
    def memory_budget(self) -> int:
        """Bytes that cached features may take when the user states no budget."""


class NumpyBackend(Backend):
    """The reference: numpy on the CPU."""

    name = "numpy"
    xp = np
    device = "cpu"
    chunk_examples = _CPU_CHUNK

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
        return int(_HOST_SHARE * _available_host_memory())


class NumbaBackend(NumpyBackend):
    """numpy, with kernels compiled by numba where they are faster. Compiled code is kept for the next process."""

    name = "numba"

    def __init__(self) -> None:
        super().__init__()
        try:
            from lcml.kernels import passes, products
        except ImportError as error:
            raise MissingDependencyError("numba", "fast", "the numba backend") from error
        self._products, self._passes = products, passes

    def widen(self, values: Array, scale: float) -> Array:
        out = self._scratch(values.shape)
        self._products.widen(values, scale, out)
        return out

    def product_features(
        self, view: "View", program: "ProductProgram", examples: Array, rows: Array, levels: int, out: Array
    ) -> None:
        self._products.product_features(
            np.ascontiguousarray(examples),
            view.index,
            view.cell_start,
            program.wire_start,
            program.wires,
            program.slot_start,
            program.factor_start,
            program.factors,
            program.wanted,
            np.asarray(rows, dtype=np.int32),
            view.root,
            float(levels),
            out,
        )

    def flows(self, circuit: "Circuit", examples: Array) -> tuple[Array, int]:
        out = self._passes.aligned_empty((circuit.n_literals + circuit.n_elements, len(examples)), examples.dtype)
        return out, self._passes.flows_into(examples, *_structure(circuit), out)

    def weighted_flows(self, circuit: "Circuit", examples: Array, weights: Array) -> tuple[Array, int]:
        out = np.empty((len(examples), len(weights)), examples.dtype)
        weights = np.ascontiguousarray(weights, dtype=examples.dtype)
        contradiction = self._passes.logits_into(examples, *_structure(circuit), weights, out)
        return out.T, contradiction


class CupyBackend(Backend):
    """The same code on a CUDA device, through cupy."""

    name = "cupy"
    chunk_examples = _GPU_CHUNK

    def __init__(self) -> None:
        self.xp = _cupy_array_api()
        self._packed: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        self.working_bytes = self.xp.cuda.runtime.memGetInfo()[1] // _WORKING_PART
        properties = self.xp.cuda.runtime.getDeviceProperties(self.xp.cuda.runtime.getDevice())
        self.device = properties["name"].decode()
        self._segment_sum = self.xp.ElementwiseKernel(
            "raw T rows, raw int32 offsets, int64 width",
            "T total",
            """
            const long long segment = i / width, column = i % width;
            T sum = 0;
            for (long long row = offsets[segment]; row < offsets[segment + 1]; ++row) sum += rows[row * width + column];
            total = sum;
            """,
            "lcml_segment_sum",
        )
        self._widen = self.xp.ElementwiseKernel(
            "T value, float32 scale", "float32 wide", "wide = value * scale", "lcml_widen"
        )

    def asarray(self, values: Any, dtype: Any = None) -> Array:
        return self.xp.asarray(values, dtype=dtype)

    def copy(self, values: Array) -> Array:
        return self.xp.array(values, copy=True, order="C")

    def widen(self, values: Array, scale: float) -> Array:
        return self._widen(values, scale)

    def to_host(self, values: Array) -> NDArray[Any]:
        host: NDArray[Any] = self.xp.asnumpy(values)
        return host

    def segment_sum(self, rows: Array, offsets: Array) -> Array:
        width = rows.shape[1]
        total = self.xp.empty((len(offsets) - 1, width), dtype=rows.dtype)
        if total.size:
            self._segment_sum(self.xp.ascontiguousarray(rows), offsets.astype("int32"), width, total)
        return total

    def map(self, function: Callable[[_In], _Out], items: Iterable[_In]) -> Iterator[_Out]:
        return map(function, items)

    def product_features(
        self, view: "View", program: "ProductProgram", examples: Array, rows: Array, levels: int, out: Array
    ) -> None:
        from lcml.kernels import cuda_products

        of_view = self._on_device(view, view.index, view.cell_start)
        of_program = self._on_device(program, *(getattr(program, field.name) for field in fields(program)))
        rows = self.xp.asarray(rows, dtype=np.int32)
        cuda_products.product_features(self.xp, of_view, of_program, examples, rows, view.root, levels, out)

    def _on_device(self, owner: object, *arrays: NDArray[Any]) -> Any:
        """The owner's arrays, which are brought to the device once."""
        if owner not in self._packed:
            self._packed[owner] = tuple(self.xp.asarray(values) for values in arrays)
        return self._packed[owner]

    def flows(self, circuit: "Circuit", examples: Array) -> tuple[Array, int]:
        from lcml.kernels import cuda

        structure, x = self._structure(circuit), self.xp.ascontiguousarray(examples.T)
        scratch = self.xp.empty(cuda.scratch_shape(structure, x), dtype=x.dtype)
        out = self.xp.empty((circuit.n_literals + circuit.n_elements, x.shape[1]), dtype=x.dtype)
        return out, self._contradiction(circuit, cuda.flows_into(self.xp, structure, x, scratch, out))

    def weighted_flows(self, circuit: "Circuit", examples: Array, weights: Array) -> tuple[Array, int]:
        from lcml.kernels import cuda

        structure, x = self._structure(circuit), self.xp.ascontiguousarray(examples.T)
        scratch = self.xp.empty(cuda.scratch_shape(structure, x), dtype=x.dtype)
        weights = self.xp.ascontiguousarray(weights.T.astype(x.dtype))
        out = self.xp.empty((weights.shape[1], x.shape[1]), dtype=x.dtype)
        return out, self._contradiction(circuit, cuda.logits_into(self.xp, structure, x, weights, scratch, out))

    def _structure(self, circuit: "Circuit") -> tuple[Array, Array, Array, bool]:
        """The circuit on the device, as the kernels want it."""
        from lcml.kernels import cuda

        if circuit not in self._packed:
            packed = cuda.pack(circuit.or_start, circuit.elem_prime, circuit.elem_sub, circuit.n_variables)
            self._packed[circuit] = *map(self.xp.asarray, packed), circuit.is_tautology
        found: tuple[Array, Array, Array, bool] = self._packed[circuit]
        return found

    def _contradiction(self, circuit: "Circuit", total: Array) -> int:
        """The first example with Pr(root) = 0, or -1; does not wait for the device where there can be none."""
        if circuit.is_tautology or not bool((total == 0).any()):
            return -1
        return int((total == 0).argmax())

    def single_threaded_blas(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def memory_budget(self) -> int:
        free, _total = self.xp.cuda.runtime.memGetInfo()
        return int(_DEVICE_SHARE * (free + self.xp.get_default_memory_pool().free_bytes()))


def get_backend(name: BackendName = "auto") -> Backend:
    """The backend called `name`; `auto` is cupy where a CUDA device answers, else numba where installed, else numpy.

    Raises SettingsError for an unknown name or cupy without a device, MissingDependencyError for one not installed.
    """
    if name == "auto":
        if cuda_is_available():
            return CupyBackend()
        try:
            return NumbaBackend()
        except MissingDependencyError as error:
            _notice_once(f"using the slower numpy backend: {error}")
            return NumpyBackend()
    if name == "numpy":
        return NumpyBackend()
    if name == "numba":
        return NumbaBackend()
    if name == "cupy":
        if not cuda_is_available():
            _import_cupy()
            raise SettingsError("backend cupy: no CUDA device answers; use --backend numpy")
        return CupyBackend()
    raise SettingsError(f"unknown backend {name!r}: expected auto, numpy, numba or cupy")


def _structure(circuit: "Circuit") -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], bool]:
    return circuit.or_start, circuit.elem_prime, circuit.elem_sub, circuit.is_tautology


@cache
def _notice_once(text: str) -> None:
    print(f"lcml: {text}", file=sys.stderr)


def evaluation_precision(kept: FeaturePrecision) -> Precision:
    """What is computed with where features are kept so."""
    return "float64" if kept == "float64" else "float32"


def cuda_is_available() -> bool:
    """Whether cupy is installed and a CUDA device answers (an import that succeeds proves neither)."""
    try:
        return bool(_import_cupy().cuda.is_available())
    except MissingDependencyError:
        return False


def _import_cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise MissingDependencyError("cupy", "cuda12", "the cupy backend") from error
    return cupy


class _CupyArrayApi:
    """cupy with the names of the array API that its version 13 lacks."""

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy
        self.concat, self.permute_dims = cupy.concatenate, cupy.transpose

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cupy, name)

    def astype(self, values: Array, dtype: Any) -> Array:
        return values.astype(dtype)


@cache
def _cupy_array_api() -> _CupyArrayApi:
    return _CupyArrayApi(_import_cupy())


def _available_host_memory() -> int:
    try:
        with open("/proc/meminfo") as lines:
            fields = dict(line.split(":", 1) for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 4 * 1024**3
