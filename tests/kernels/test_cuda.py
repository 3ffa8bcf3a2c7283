"""The CUDA passes: their source as C++ on the host, and through cupy where a device answers."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest
from numpy.typing import NDArray

from lcml.backend import CupyBackend, cuda_is_available
from lcml.circuit import Circuit
from lcml.kernels import cuda

from ..worlds import examples
from .circuits import CIRCUITS, reference, xor_circuit

COMPILER = next((found for name in ("g++", "clang++", "c++") if (found := shutil.which(name))), None)
SHIM = """
#define __device__
#define __global__
#define __restrict__
struct Dim { unsigned x; };
static thread_local Dim gridDim, blockDim, blockIdx, threadIdx;
"""
LOOP = """
extern "C" void run(unsigned blocks, unsigned threads, const Real* x, Index n_examples, int n, int n_gates,
                    const int* or_start, const int* primes, const int* subs, int is_tautology, Real* up, Real* down,
                    const Real* weights, Real* out, Real* total) {
    gridDim.x = blocks; blockDim.x = threads;
    for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
        for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x)
            lcml_pass(x, n_examples, n, n_gates, or_start, primes, subs, is_tautology, up, down, weights, out, total);
}
"""


class HostCupy:
    """What `lcml.kernels.cuda` uses of cupy, on numpy arrays and a C++ compiler."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._n_modules = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def RawModule(self, code: str, options: tuple[str, ...]) -> "HostCupy":  # noqa: N802
        assert COMPILER is not None
        self._n_modules += 1
        source, library = (self._directory / f"{self._n_modules}.{end}" for end in ("cpp", "so"))
        source.write_text(SHIM + code + LOOP)
        arguments = ["-O1", "-Wall", "-Werror", "-Wno-unknown-pragmas", "-shared", "-fPIC", *options]
        subprocess.run([COMPILER, *arguments, "-o", str(library), str(source)], check=True)
        self._library = ctypes.CDLL(str(library))
        return self

    def get_function(self, name: str) -> Callable[..., None]:
        assert name == "lcml_pass"
        run = self._library.run

        def call(grid: tuple[int], block: tuple[int], values: tuple[Any, ...]) -> None:
            kinds = {"int64": ctypes.c_longlong, "int32": ctypes.c_int}
            run(
                ctypes.c_uint(grid[0]),
                ctypes.c_uint(block[0]),
                *(
                    ctypes.c_void_p(value.ctypes.data)
                    if isinstance(value, np.ndarray)
                    else kinds[value.dtype.name](value)
                    for value in values
                ),
            )

        return call


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            "host", marks=pytest.mark.skipif(COMPILER is None, reason="no C++ compiler (g++, clang++ or c++) is found")
        ),
        pytest.param(
            "cupy",
            marks=[
                pytest.mark.gpu,
                pytest.mark.skipif(not cuda_is_available(), reason="no CUDA device answers"),
            ],
        ),
    ],
)
def xp(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    if request.param == "host":
        return HostCupy(tmp_path_factory.mktemp("cuda"))
    import cupy

    return cupy


def device(xp: Any, values: NDArray[Any]) -> Any:
    return np.ascontiguousarray(values) if isinstance(xp, HostCupy) else xp.ascontiguousarray(xp.asarray(values))


def host(xp: Any, values: Any) -> NDArray[Any]:
    return np.asarray(values if isinstance(xp, HostCupy) else xp.asnumpy(values))


def structure(xp: Any, circuit: Circuit) -> cuda.Structure:
    packed = cuda.pack(circuit.or_start, circuit.elem_prime, circuit.elem_sub, circuit.n_variables)
    or_start, primes, subs = (device(xp, values) for values in packed)
    return or_start, primes, subs, circuit.is_tautology


def garbage(xp: Any, rows: int, columns: int, dtype: str) -> Any:
    return device(xp, np.full((rows, columns), np.nan, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n_examples", "n_threads"), [(0, 64), (1, 64), (150, 64), (150, 192)])
@pytest.mark.parametrize("name", CIRCUITS)
def test_flows(xp: Any, name: str, n_examples: int, n_threads: int, dtype: str) -> None:
    circuit = CIRCUITS[name]
    q = examples(circuit.n_variables, n_examples, seed=3).astype(dtype) * np.asarray(0.98, dtype)
    q += np.asarray(0.01, dtype)
    compiled = structure(xp, circuit)
    scratch = garbage(xp, cuda.scratch_shape(compiled, q.T)[0], n_threads, dtype)
    out = garbage(xp, circuit.n_literals + circuit.n_elements, n_examples, dtype)
    total = cuda.flows_into(xp, compiled, device(xp, q.T), scratch, out)
    tolerance = 2e-6 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(host(xp, out), reference(circuit, q), atol=tolerance)
    if circuit.is_tautology:
        np.testing.assert_allclose(host(xp, total), np.ones(n_examples), atol=tolerance)


@pytest.mark.parametrize("n_sets", [1, 7])
@pytest.mark.parametrize("name", CIRCUITS)
def test_logits(xp: Any, name: str, n_sets: int) -> None:
    circuit = CIRCUITS[name]
    q = examples(circuit.n_variables, 70, seed=4) * 0.98 + 0.01
    weights = np.random.default_rng(n_sets).normal(size=(n_sets, circuit.n_literals + circuit.n_elements))
    compiled = structure(xp, circuit)
    scratch = garbage(xp, *cuda.scratch_shape(compiled, q.T), "float64")
    out = garbage(xp, n_sets, 70, "float64")
    cuda.logits_into(xp, compiled, device(xp, q.T), device(xp, weights.T), scratch, out)
    np.testing.assert_allclose(host(xp, out), weights @ reference(circuit, q), atol=1e-10)


def test_a_contradiction_is_nan(xp: Any) -> None:
    circuit = xor_circuit()
    q = np.random.default_rng(1).random((9, circuit.n_variables)) * 0.9 + 0.05
    q[4, 2] = 0
    compiled = structure(xp, circuit)
    scratch = garbage(xp, *cuda.scratch_shape(compiled, q.T), "float64")
    out = garbage(xp, circuit.n_literals + circuit.n_elements, 9, "float64")
    total = host(xp, cuda.flows_into(xp, compiled, device(xp, q.T), scratch, out))
    np.testing.assert_allclose(host(xp, out), reference(circuit, q), atol=1e-12)
    np.testing.assert_allclose(total, (q[:, 0] * (1 - q[:, 1]) + (1 - q[:, 0]) * q[:, 1]) * q[:, 2] * q[:, 3])
    assert np.flatnonzero(total == 0).tolist() == [4]


def test_threads() -> None:
    structure = np.zeros(101, np.int32), np.zeros(1), np.zeros(1), True  # 100 gates, 3 variables: 206 rows
    assert cuda.scratch_shape(structure, np.zeros((3, 0), np.float32)) == (206, 64)
    assert cuda.scratch_shape(structure, np.zeros((3, 65), np.float32)) == (206, 128)
    assert cuda.scratch_shape(structure, np.zeros((3, 999), np.float32), most_bytes=206 * 4 * 200) == (206, 192)


@pytest.mark.parametrize("name", CIRCUITS)
def test_backend(xp: Any, name: str) -> None:
    """The methods of CupyBackend; on the host with what stands for cupy."""
    backend: Any = object.__new__(CupyBackend) if isinstance(xp, HostCupy) else CupyBackend()
    backend.xp, backend._packed = xp, WeakKeyDictionary()
    circuit = CIRCUITS[name]
    q = examples(circuit.n_variables, 20, seed=5) * 0.98 + 0.01
    expected = reference(circuit, q)
    weights = np.random.default_rng(0).normal(size=(2, len(expected)))
    flows, contradiction = backend.flows(circuit, device(xp, q))
    sums, _ = backend.weighted_flows(circuit, device(xp, q), device(xp, weights))
    assert contradiction == -1
    np.testing.assert_allclose(host(xp, flows), expected, atol=1e-12)
    np.testing.assert_allclose(host(xp, sums), weights @ expected, atol=1e-10)
    if name == "xor":
        q[[3, 7], 2] = 0
        assert backend.flows(circuit, device(xp, q))[1] == 3
        assert backend.weighted_flows(circuit, device(xp, q), device(xp, weights))[1] == 3
