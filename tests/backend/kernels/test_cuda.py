"""The CUDA passes: their source as C++ on the host, and through cupy where a device answers."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lcml.backend.kernels import cuda
from lcml.circuits.circuit import Circuit
from lcml.passes.plan import compile_plan

from ...worlds import examples
from .circuits import CIRCUITS, reference, xor_circuit
from .host import HOST_AND_CARD, both_backends


@pytest.fixture(scope="module", params=HOST_AND_CARD)
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return both_backends(request, tmp_path_factory)


@pytest.fixture
def xp(backend: Any) -> Any:
    return backend.xp


def device(xp: Any, values: NDArray[Any]) -> Any:
    return xp.ascontiguousarray(xp.asarray(values))


def host(xp: Any, values: Any) -> NDArray[Any]:
    return np.asarray(xp.asnumpy(values))


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
def test_backend(xp: Any, backend: Any, name: str) -> None:
    """The methods of CupyBackend; on the host with what stands for cupy."""
    circuit = CIRCUITS[name]
    q = examples(circuit.n_variables, 20, seed=5) * 0.98 + 0.01
    expected = reference(circuit, q)
    weights = np.random.default_rng(0).normal(size=(2, len(expected)))
    compiled = compile_plan(circuit, backend).structure
    flows, contradiction = backend.flows(compiled, device(xp, q))
    sums, _ = backend.weighted_flows(compiled, device(xp, q), device(xp, weights))
    assert contradiction == -1
    np.testing.assert_allclose(host(xp, flows), expected, atol=1e-12)
    np.testing.assert_allclose(host(xp, sums), weights @ expected, atol=1e-10)
    if name == "xor":
        q[[3, 7], 2] = 0
        assert backend.flows(compiled, device(xp, q))[1] == 3
        assert backend.weighted_flows(compiled, device(xp, q), device(xp, weights))[1] == 3
