"""Weights of a basis make the function of all weights, and sums over it give sums over all flows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lcml.circuits import basis
from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import Circuit, initial_circuit

from ..worlds import brute_flows, examples, random_circuits


def check(circuit: Circuit, literals: bool, seed: int) -> None:
    """On flows by brute force: the same logits, and the adjoint's sums."""
    dropped = basis.dependent_elements(circuit)
    kept = np.delete(np.arange(circuit.n_elements), dropped)
    q = examples(circuit.n_variables, 5, seed)
    elements = np.array([brute_flows(circuit, row) for row in q])
    flows = np.concatenate([q, 1 - q, elements], axis=1) if literals else elements
    found = basis.BasisMap(circuit, dropped, literals)
    assert found.n_weights == flows.shape[1]
    weights = np.random.default_rng(seed).normal(size=(2, 3, flows.shape[1]))
    of_basis, gain = found.to_basis(weights)
    np.testing.assert_allclose(of_basis @ elements[:, kept].T + gain[..., None], weights @ flows.T, atol=1e-12)
    signals = np.random.default_rng(seed).normal(size=(2, 3, 5))
    sums = found.adjoint(signals @ elements[:, kept], signals.sum(axis=-1))
    np.testing.assert_allclose(sums, signals @ flows, atol=1e-12)


@given(random_circuits(), st.booleans(), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_functions_and_sums_are_the_same(circuit: Circuit, literals: bool, seed: int) -> None:
    if circuit.n_or_gates:
        check(circuit, literals, seed)


@pytest.mark.parametrize("literals", [True, False])
def test_factors_one_by_one(literals: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(basis, "_MOST_PATHS", 0)
    check(initial_circuit(vtrees.right_linear(6)), literals, 0)


def test_a_deep_vtree_needs_no_matrix_of_its_square() -> None:
    circuit = initial_circuit(vtrees.right_linear(1500))
    found = basis.BasisMap(circuit, basis.dependent_elements(circuit), literals=True)
    assert sum(factor.nnz for factor in found._factors) < 100_000
    assert found.to_basis(np.ones((1, found.n_weights)))[1] == 1499 + 1500  # every dropped element, every not X_v
