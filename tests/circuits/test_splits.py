"""Splits keep the function and every structural property, and do to a circuit what the paper says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lcml.backend import NumpyBackend
from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.circuits.splits import Split, SplitCosts, apply_splits
from lcml.circuits.vtree import Vtree
from lcml.errors import CircuitError
from lcml.passes.flows import flows, literal_rows
from lcml.passes.plan import compile_plan

from ..worlds import brute_flows, examples, free_variables, random_splits, random_vtrees, truth


def element_flows(circuit: Circuit, q: np.ndarray) -> np.ndarray:
    plan = compile_plan(circuit, NumpyBackend())
    return np.asarray(flows(plan, literal_rows(plan, q))[circuit.n_literals :])


def revalidated(circuit: Circuit) -> Circuit:
    """Through the checking constructor: splits build their circuits without it."""
    return Circuit(circuit.vtree, circuit.or_vtree, circuit.or_start, circuit.elem_prime, circuit.elem_sub)


@settings(deadline=None)
@given(random_vtrees(), st.integers(0, 2**16), st.integers(0, 2), st.integers(1, 4))
def test_rounds_of_splits_keep_function_and_structure(vtree: Vtree, seed: int, depth: int, per_round: int) -> None:
    generator = np.random.default_rng(seed)
    circuit = initial_circuit(vtree)
    q = examples(circuit.n_variables, 6, seed)
    weights, flow = generator.normal(size=circuit.n_elements), element_flows(circuit, q)
    for _ in range(3):
        splits = random_splits(circuit, generator, per_round)
        result = apply_splits(circuit, splits, depth)
        grown_weights, grown_flow = weights[result.origin], element_flows(result.circuit, q)
        np.testing.assert_allclose(grown_weights @ grown_flow, weights @ flow, atol=1e-12)
        np.testing.assert_allclose(grown_flow[result.unchanged], flow[result.origin[result.unchanged]], atol=1e-12)
        if result.circuit.n_or_gates:
            assert truth(result.circuit)[-1].all()
        circuit, weights, flow = revalidated(result.circuit), grown_weights, grown_flow


@settings(deadline=None)
@given(random_vtrees(), st.integers(0, 2**16), st.integers(0, 2))
def test_halves_decide_the_variable_and_share_the_flow(vtree: Vtree, seed: int, depth: int) -> None:
    generator = np.random.default_rng(seed)
    circuit = initial_circuit(vtree)
    for split in random_splits(circuit, generator, 1):
        result = apply_splits(circuit, [split], depth)
        gate = result.circuit
        halves = [
            e
            for e in np.flatnonzero(result.origin == split.element)
            if gate.or_vtree[gate.elem_or[e]] == circuit.or_vtree[circuit.elem_or[split.element]]
        ]
        assert len(halves) == 2
        n = circuit.n_variables
        decided = [gate.implied[gate.elem_prime[e]] | gate.implied[gate.elem_sub[e]] for e in halves]
        assert split.variable in decided[0]
        assert split.variable + n not in decided[0]
        assert split.variable + n in decided[1]
        assert split.variable not in decided[1]
        q = examples(n, 5, seed)
        before = np.array([brute_flows(circuit, row) for row in q])[:, split.element]
        after = element_flows(gate, q)[halves]
        np.testing.assert_allclose(after[0], before * q[:, split.variable], atol=1e-12)
        np.testing.assert_allclose(after[1], before * (1 - q[:, split.variable]), atol=1e-12)


def test_figure_3_flows_before_and_after_a_split() -> None:
    # A = .4, B = .8: the flow of .8 through B divides into .48 (not A) and .32 (A). Here the element over the pair
    # (A, B) and C is split on B first, which leaves an element with flow .8, then that one on A.
    vtree = vtrees.balanced(3)
    circuit = initial_circuit(vtree)
    q = np.array([[0.4, 0.8, 1.0]])
    element = int(circuit.or_start[1])
    circuit = apply_splits(circuit, [Split(element, 1)]).circuit
    flow = element_flows(circuit, q)[:, 0]
    through_b = int(np.flatnonzero((circuit.elem_or == circuit.n_or_gates - 1) & np.isclose(flow, 0.8))[0])
    result = apply_splits(circuit, [Split(through_b, 0)])
    root = result.circuit.elem_or == result.circuit.n_or_gates - 1
    halves = element_flows(result.circuit, q)[root & (result.origin == through_b), 0]
    np.testing.assert_allclose(sorted(halves), [0.32, 0.48], atol=1e-12)


@pytest.mark.parametrize("depth", [0, 1, 2])
@pytest.mark.parametrize("vtree", [vtrees.balanced(3), vtrees.right_linear(4), vtrees.random(4, 1)])
def test_splits_to_exhaustion(vtree: Vtree, depth: int) -> None:
    circuit, generator = initial_circuit(vtree), np.random.default_rng(0)
    for _ in range(200):
        splits = random_splits(circuit, generator, 1000)
        if not splits:
            break
        circuit = apply_splits(circuit, splits, depth).circuit
    assert not any(free_variables(circuit, element) for element in range(circuit.n_elements))
    assert truth(revalidated(circuit))[-1].all()
    # every element of the root is now one world
    assert np.count_nonzero(circuit.elem_or == circuit.n_or_gates - 1) == 2**vtree.n_variables


@settings(deadline=None)
@given(random_vtrees(), st.integers(0, 2**16), st.integers(0, 2))
def test_costs_are_what_a_split_adds(vtree: Vtree, seed: int, depth: int) -> None:
    generator = np.random.default_rng(seed)
    circuit = initial_circuit(vtree)
    for _ in range(3):
        splits, costs = random_splits(circuit, generator, 4), SplitCosts(circuit, depth)
        for split in splits:
            assert costs.added(split) == apply_splits(circuit, [split], depth).circuit.n_elements - circuit.n_elements
        circuit = apply_splits(circuit, splits, depth).circuit


def test_depth_copies_siblings() -> None:
    # the root's element over two pairs, split on X0: depth 0 shares the pair (X2, X3), depth 1 copies it for each half
    circuit = initial_circuit(vtrees.balanced(4))
    root_element = circuit.n_elements - 1
    shared = apply_splits(circuit, [Split(root_element, 0)], 0).circuit
    copied = apply_splits(circuit, [Split(root_element, 0)], 1).circuit
    assert (shared.n_or_gates, copied.n_or_gates) == (4, 5)
    assert (shared.n_elements, copied.n_elements) == (2 + 2 + 2 + 4, 2 + 2 + 2 + 4 + 4)


@pytest.mark.parametrize(
    ("splits", "depth", "message"),
    [
        ([Split(99, 0)], 0, "element 99 does not exist"),
        ([Split(8, 7)], 0, "variable X7 does not exist"),
        ([Split(0, 2)], 0, "variable X2 is not in the scope of element 0"),
        ([Split(0, 0)], 0, "variable X0 is already decided at element 0"),
        ([Split(8, 0), Split(8, 1)], 0, "element 8 is split twice"),
        ([Split(8, 0)], -1, "expected 0 to 64"),
    ],
)
def test_refuses_bad_splits(splits: list[Split], depth: int, message: str) -> None:
    with pytest.raises(CircuitError, match=message):
        apply_splits(initial_circuit(vtrees.balanced(4)), splits, depth)


def test_a_vtree_as_deep_as_it_is_wide() -> None:
    circuit = initial_circuit(vtrees.right_linear(1500))
    root = int(circuit.or_start[-2])
    grown = revalidated(apply_splits(circuit, [Split(root, 1499)]).circuit)
    assert grown.n_elements == circuit.n_elements + SplitCosts(circuit).added(Split(root, 1499))
