"""What stands for cupy where no CUDA device answers: numpy arrays, and kernels compiled as C++ for the host."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lcml.backend import CupyBackend, cuda_is_available
from lcml.backend.cuda import _CupyArrayApi

COMPILER = next((found for name in ("g++", "clang++", "c++") if (found := shutil.which(name))), None)

BEFORE = """
#include <cmath>
#include <utility>
#define __device__
#define __global__
#define __restrict__
struct Dim { unsigned x, y; };
static thread_local Dim gridDim, blockDim, blockIdx, threadIdx;
using std::sqrt;
"""
AFTER = """
template <class... A, std::size_t... I>
static void call(void (*kernel)(A...), void** values, std::index_sequence<I...>) { kernel(*(A*)values[I]...); }
template <class... A>
static void call(void (*kernel)(A...), void** values) { call(kernel, values, std::index_sequence_for<A...>()); }
extern "C" void run(unsigned columns, unsigned rows, unsigned threads, void** values) {
    gridDim.x = columns; gridDim.y = rows; blockDim.x = threads;
    for (blockIdx.y = 0; blockIdx.y < rows; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < columns; ++blockIdx.x)
            for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) call(KERNEL, values);
}
"""
KINDS = {"int64": ctypes.c_longlong, "int32": ctypes.c_int}


class HostCupy:
    """What the backend and its kernels use of cupy 13."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._n_modules = 0

    def __getattr__(self, name: str) -> Any:
        if name in ("astype", "concat", "permute_dims"):
            raise AttributeError(f"module 'cupy' has no attribute {name!r}")
        return getattr(np, name)

    def asarray(self, values: Any, dtype: Any = None) -> NDArray[Any]:
        return np.asarray(values, dtype=dtype)

    def asnumpy(self, values: NDArray[Any]) -> NDArray[Any]:
        return values.copy()

    def RawModule(self, code: str, options: tuple[str, ...]) -> "Module":  # noqa: N802
        self._n_modules += 1
        return Module(self._directory / f"{self._n_modules}.cpp", code, options)


class Module:
    """A source whose kernels are compiled when asked for."""

    def __init__(self, source: Path, code: str, options: tuple[str, ...]) -> None:
        self._source, self._options = source, options
        source.write_text(BEFORE + code + AFTER)

    def get_function(self, name: str) -> Callable[..., None]:
        assert COMPILER is not None
        library = self._source.with_suffix(".so")
        flags = ["-O1", "-std=c++17", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-shared", "-fPIC"]
        arguments = [*flags, *self._options, f"-DKERNEL={name}", "-o", str(library), str(self._source)]
        subprocess.run([COMPILER, *arguments], check=True)
        run = ctypes.CDLL(str(library)).run

        def call(grid: tuple[int, ...], block: tuple[int], values: tuple[Any, ...]) -> None:
            columns, rows = (*grid, 1)[:2]
            plain = [
                ctypes.c_void_p(value.ctypes.data) if value.ndim else KINDS[value.dtype.name](value) for value in values
            ]
            run(columns, rows, block[0], (ctypes.c_void_p * len(plain))(*(ctypes.addressof(value) for value in plain)))

        return call


def host_backend(directory: Path) -> Any:
    """CupyBackend on a HostCupy."""
    backend: Any = object.__new__(CupyBackend)
    backend.xp, backend.device = _CupyArrayApi(HostCupy(directory)), "host"
    backend._widen = lambda values, scale: values.astype(np.float32) * np.float32(scale)
    return backend


def both_backends(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """For a fixture with the parameters `HOST_AND_CARD`: CupyBackend on the host or on a card."""
    return host_backend(tmp_path_factory.mktemp("cuda")) if request.param == "host" else CupyBackend()


HOST_AND_CARD = [
    pytest.param(
        "host", marks=pytest.mark.skipif(COMPILER is None, reason="no C++ compiler (g++, clang++ or c++) is found")
    ),
    pytest.param(
        "cupy",
        marks=[pytest.mark.gpu, pytest.mark.skipif(not cuda_is_available(), reason="no CUDA device answers")],
    ),
]
