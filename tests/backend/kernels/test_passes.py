"""The numba passes against the numpy reference in float64."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lcml.backend import NumbaBackend
from lcml.circuits.circuit import Circuit
from lcml.errors import ContradictionError
from lcml.formats import read_circuit, read_vtree
from lcml.inputs.encoders import ScaleEncoder
from lcml.model.model import LogisticCircuit

from ...worlds import examples, random_circuits
from .circuits import CIRCUITS, reference, xor_circuit

pytest.importorskip("numba", reason="numba is not installed (the extra fast)")

from lcml.backend.kernels.lanes import LANES
from lcml.backend.kernels.passes import aligned_empty, flows_into, logits_into

SIZES = (0, 1, 3, LANES - 1, LANES, LANES + 1, 3 * LANES - 2, 4 * LANES, 101)
TOLERANCE = {np.dtype("float32"): 2e-6, np.dtype("float64"): 1e-12}


def arrays(circuit: Circuit) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], bool]:
    return circuit.or_start, circuit.elem_prime, circuit.elem_sub, circuit.is_tautology


def all_flows(circuit: Circuit, q: NDArray[np.floating]) -> tuple[NDArray[np.floating], int]:
    out = aligned_empty((circuit.n_literals + circuit.n_elements, len(q)), q.dtype)
    found = flows_into(q, *arrays(circuit), out)
    return out, found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_examples", SIZES)
@pytest.mark.parametrize("name", CIRCUITS)
def test_flows(name: str, n_examples: int, dtype: str) -> None:
    circuit = CIRCUITS[name]
    q = examples(circuit.n_variables, n_examples, seed=n_examples) * 0.98 + 0.01
    found, contradiction = all_flows(circuit, q.astype(dtype))
    assert contradiction == -1
    np.testing.assert_allclose(found, reference(circuit, q.astype(dtype)), atol=TOLERANCE[np.dtype(dtype)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_sets", [1, 2, 4, 7, 10])
@pytest.mark.parametrize("n_examples", [0, 1, LANES + 5])
@pytest.mark.parametrize("name", CIRCUITS)
def test_logits(name: str, n_examples: int, n_sets: int, dtype: str) -> None:
    circuit = CIRCUITS[name]
    q = examples(circuit.n_variables, n_examples, seed=n_sets) * 0.98 + 0.01
    weights = np.random.default_rng(n_sets).normal(size=(n_sets, circuit.n_literals + circuit.n_elements))
    out = np.full((n_examples, n_sets), np.nan, dtype)
    assert logits_into(q.astype(dtype), *arrays(circuit), weights.astype(dtype), out) == -1
    expected = (weights @ reference(circuit, q)).T
    np.testing.assert_allclose(out, expected, atol=40 * TOLERANCE[np.dtype(dtype)])


@settings(deadline=None)
@given(random_circuits(), st.integers(0, 2**16), st.integers(0, 2 * LANES + 1))
def test_random_circuits(circuit: Circuit, seed: int, n_examples: int) -> None:
    q = examples(circuit.n_variables, n_examples, seed)
    expected = reference(circuit, q)
    np.testing.assert_allclose(all_flows(circuit, q)[0], expected, atol=1e-12)
    weights = np.random.default_rng(seed).normal(size=(3, len(expected)))
    out = np.empty((n_examples, 3))
    logits_into(q, *arrays(circuit), weights, out)
    np.testing.assert_allclose(out, (weights @ expected).T, atol=1e-10)


@pytest.mark.parametrize("place", [0, 5, LANES + 2, 2 * LANES + 6])
def test_a_contradiction_is_nan_and_told(place: int) -> None:
    circuit, n_examples = xor_circuit(), 2 * LANES + 7
    q = np.random.default_rng(1).random((n_examples, circuit.n_variables)) * 0.9 + 0.05
    q[[place, -1], 2] = 0
    found, first = all_flows(circuit, q)
    assert first == place
    np.testing.assert_allclose(found, reference(circuit, q), atol=1e-12)
    assert np.isnan(found[:, [place, -1]]).all()
    out = np.empty((n_examples, 2))
    assert logits_into(q, *arrays(circuit), np.ones((2, len(found))), out) == place
    np.testing.assert_allclose(out, np.stack([found.sum(axis=0)] * 2, axis=1), atol=1e-12)


def test_flows_by_hand() -> None:
    # Pr(root) = (.5 .75 + .5 .25) .1 .2 = .01; of it .75 through (X0, not X1); X2 and X3 are certain
    found, _ = all_flows(xor_circuit(), np.array([[0.5, 0.25, 0.1, 0.2]]))
    np.testing.assert_allclose(found[:, 0], [0.75, 0.25, 1, 1, 0.25, 0.75, 0, 0, 0.75, 0.25, 1, 1], atol=1e-12)


@pytest.mark.parametrize("order", ["C", "F", "rows"])
def test_any_layout(order: str) -> None:
    circuit = CIRCUITS["grown"]
    q = examples(circuit.n_variables, 45, seed=2)
    shown = np.repeat(q, 2, axis=0)[::2] if order == "rows" else np.asarray(q, order=order)  # type: ignore[call-overload]
    unaligned = np.empty((circuit.n_literals + circuit.n_elements, 45))
    flows_into(shown, *arrays(circuit), unaligned)
    np.testing.assert_allclose(unaligned, reference(circuit, q), atol=1e-12)


@pytest.mark.data
def test_the_authors_circuit(data_dir: Path) -> None:
    vtree = read_vtree(data_dir / "ucla" / "balanced.vtree")
    model = read_circuit(data_dir / "ucla" / "mnist.circuit", vtree, scale=255.0)
    q = examples(784, LANES + 3, seed=9)
    expected = reference(model.circuit, q)
    np.testing.assert_allclose(all_flows(model.circuit, q.astype(np.float32))[0], expected, atol=1e-5)
    np.testing.assert_allclose(all_flows(model.circuit, q)[0], expected, atol=1e-12)
    out = np.empty((len(q), 10))
    logits_into(q, *arrays(model.circuit), np.ascontiguousarray(model.flat_weights), out)
    np.testing.assert_allclose(out, (model.flat_weights @ expected).T, atol=1e-9)


def test_compiles_where_nothing_can_be_kept(tmp_path: Path) -> None:
    """numba is told to keep things in a directory that cannot be."""
    file = tmp_path / "file"
    file.touch()
    code = "from lcml.backend import NumbaBackend; NumbaBackend(); import lcml.backend.kernels.passes as passes; " + (
        "assert not hasattr(passes.flows_into._cache, '_impl')"
    )
    environment = {
        "NUMBA_CACHE_DIR": str(file / "below"),
        "PYTHONPATH": ":".join(sys.path),
        "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator",
    }
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


@pytest.mark.parametrize("name", CIRCUITS)
def test_models_predict_with_the_passes(name: str) -> None:
    circuit, generator = CIRCUITS[name], np.random.default_rng(3)
    n = circuit.n_variables
    elements = np.where(generator.random((3, circuit.n_elements)) < 0.5, 0, 1) * 0.3
    for literals in (None, generator.normal(size=(3, 2 * n))):
        encoder = ScaleEncoder(np.zeros(n), np.ones(n))
        model = LogisticCircuit.flat(circuit, encoder, (0, 1, 2), elements, literals, np.arange(3.0))
        q = generator.random((40, n)) * 0.9 + 0.05
        expected = (model.flat_weights @ reference(circuit, encoder.encode(q).astype(np.float64))).T + np.arange(3)
        np.testing.assert_allclose(model.logits(q, NumbaBackend(), "float64"), expected, atol=1e-10)
        np.testing.assert_allclose(model.logits(q, NumbaBackend()), expected, atol=1e-4)


def test_a_model_names_a_contradiction() -> None:
    circuit = xor_circuit()
    encoder, elements = ScaleEncoder(np.zeros(4), np.ones(4)), np.ones((1, circuit.n_elements))
    model = LogisticCircuit.flat(circuit, encoder, (0, 1), elements, None, np.zeros(1))
    q = np.full((3, 4), 0.5)
    q[1, 3] = 0
    with pytest.raises(ContradictionError, match="example 1 of the chunk"):
        model.logits(q, NumbaBackend())
