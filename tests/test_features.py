"""Kept, grown and recomputed features are the same numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lcml import vtree as vtrees
from lcml.backend import NumpyBackend
from lcml.circuit import Circuit, initial_circuit
from lcml.errors import DataError
from lcml.features import FeatureStore
from lcml.flows import flows, literal_rows
from lcml.plan import compile_plan
from lcml.splits import apply_splits
from lcml.vtree import Vtree

from .worlds import examples, random_splits, random_vtrees

NUMPY = NumpyBackend()


def read(store: FeatureStore) -> np.ndarray:
    return np.concatenate(list(store.map(lambda _, values: values[store.rows])), axis=1)


def expected(circuit: Circuit, q: np.ndarray) -> np.ndarray:
    plan = compile_plan(circuit, NUMPY)
    return np.asarray(flows(plan, literal_rows(plan, q)))


@settings(deadline=None)
@given(random_vtrees(), st.integers(0, 2**16), st.integers(0, 2))
def test_grown_features_are_the_flows(vtree: Vtree, seed: int, depth: int) -> None:
    generator = np.random.default_rng(seed)
    circuit = initial_circuit(vtree)
    q = examples(circuit.n_variables, 7, seed)
    kept = FeatureStore(circuit, q, NUMPY, precision="float64")
    recomputed = FeatureStore(circuit, q, NUMPY, precision="float64", budget=0)
    for _ in range(4):
        result = apply_splits(circuit, random_splits(circuit, generator, 3), depth)
        kept.grow(result)
        recomputed.grow(result)
        circuit = result.circuit
        np.testing.assert_allclose(read(kept), expected(circuit, q), atol=1e-12)
        np.testing.assert_allclose(read(recomputed), expected(circuit, q), atol=1e-12)
    assert kept.is_kept
    assert not recomputed.is_kept


def test_features_leave_memory_when_they_outgrow_the_budget() -> None:
    circuit = initial_circuit(vtrees.balanced(4))
    q = examples(4, 3000, seed=0)
    n_rows = circuit.n_literals + circuit.n_elements
    store = FeatureStore(circuit, q, NUMPY, precision="float64", budget=n_rows * 3000 * 8)
    assert store.is_kept
    result = apply_splits(circuit, random_splits(circuit, np.random.default_rng(0), 5))
    store.grow(result)
    assert not store.is_kept
    np.testing.assert_allclose(read(store), expected(result.circuit, q), atol=1e-12)


def test_a_circuit_that_excludes_worlds_is_kept_too() -> None:
    vtree = vtrees.balanced(2)
    circuit = Circuit(vtree, np.array([2]), np.array([0, 2]), np.array([0, 2]), np.array([3, 1]))
    q = np.array([[0.5, 0.25], [0.9, 0.2]])
    store = FeatureStore(circuit, q, NUMPY, precision="float64")
    np.testing.assert_allclose(read(store), expected(circuit, q), atol=1e-12)


def test_sums_do_not_depend_on_what_is_kept() -> None:
    circuit = initial_circuit(vtrees.balanced(5))
    q = examples(5, 5000, seed=1).astype(np.float32)
    stores = [FeatureStore(circuit, q, NUMPY), FeatureStore(circuit, q, NUMPY, budget=0)]
    (kept,), (recomputed,) = [store.sum(lambda _, values: (values.sum(axis=1),)) for store in stores]
    np.testing.assert_array_equal(kept, recomputed)
    np.testing.assert_allclose(kept, expected(circuit, q.astype(float)).sum(axis=1), rtol=1e-6)


def test_some_chunks_and_their_share() -> None:
    circuit = initial_circuit(vtrees.balanced(2))
    size = NUMPY.chunk_examples
    store = FeatureStore(circuit, examples(2, 2 * size + 10, seed=0), NUMPY)
    assert store.n_chunks == 3
    assert list(store.map(lambda part, _: (part.start, part.stop), [2, 0])) == [
        (2 * size, 2 * size + 10),
        (0, size),
    ]
    assert store.share([2]) == 10 / (2 * size + 10)


def test_refuses_inputs_outside_the_unit_interval() -> None:
    with pytest.raises(DataError, match="row 0, variable 1"):
        FeatureStore(initial_circuit(vtrees.balanced(2)), np.array([[0.5, 2.0]]), NUMPY)
