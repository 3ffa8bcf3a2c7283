"""CUDA devices, through cupy: the only module that imports it."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

from numpy.typing import NDArray

from lcml.backend.base import Array, Backend, In, Out, Places, Program, Structure
from lcml.circuits.circuit import Circuit
from lcml.errors import MissingDependencyError, SettingsError

_CHUNK_EXAMPLES = 16384
_FREE_SHARE = 0.7
_WORKING_PART = 32


class CupyBackend(Backend):
    """The same code on a CUDA device, through cupy."""

    name = "cupy"
    chunk_examples = _CHUNK_EXAMPLES

    def __init__(self) -> None:
        self.xp = _cupy_array_api()
        if not cuda_is_available():
            raise SettingsError("backend cupy: no CUDA device answers; use --backend numpy")
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

    def map(self, function: Callable[[In], Out], items: Iterable[In]) -> Iterator[Out]:
        return map(function, items)

    def product_features(
        self, view: Places, program: Program, examples: Array, rows: Array, scale: int, out: Array
    ) -> None:
        from lcml.backend.kernels import cuda_products

        cuda_products.product_features(self.xp, view, program, examples, rows, scale, out)

    def structure(self, circuit: Circuit) -> Structure:
        from lcml.backend.kernels import cuda

        packed = cuda.pack(circuit.or_start, circuit.elem_prime, circuit.elem_sub, circuit.n_variables)
        return *map(self.xp.asarray, packed), circuit.is_tautology

    def flows(self, structure: Structure, examples: Array) -> tuple[Array, int]:
        from lcml.backend.kernels import cuda

        x = self.xp.ascontiguousarray(examples.T)
        scratch = self.xp.empty(cuda.scratch_shape(structure, x), dtype=x.dtype)
        out = self.xp.empty((2 * len(x) + len(structure[1]), x.shape[1]), dtype=x.dtype)
        return out, _contradiction(structure, cuda.flows_into(self.xp, structure, x, scratch, out))

    def weighted_flows(self, structure: Structure, examples: Array, weights: Array) -> tuple[Array, int]:
        from lcml.backend.kernels import cuda

        x = self.xp.ascontiguousarray(examples.T)
        scratch = self.xp.empty(cuda.scratch_shape(structure, x), dtype=x.dtype)
        weights = self.xp.ascontiguousarray(weights.T.astype(x.dtype))
        out = self.xp.empty((weights.shape[1], x.shape[1]), dtype=x.dtype)
        return out, _contradiction(structure, cuda.logits_into(self.xp, structure, x, weights, scratch, out))

    def single_threaded_blas(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def memory_budget(self) -> int:
        free, _total = self.xp.cuda.runtime.memGetInfo()
        return int(_FREE_SHARE * (free + self.xp.get_default_memory_pool().free_bytes()))


def _contradiction(structure: Structure, total: Array) -> int:
    """The first example with Pr(root) = 0, or -1; does not wait for the device where there can be none."""
    is_tautology = structure[-1]
    if is_tautology or not bool((total == 0).any()):
        return -1
    return int((total == 0).argmax())


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
