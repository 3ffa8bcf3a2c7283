"""Circuits: the initial structure, the checks, and what is derived from the structure."""

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.circuits.vtree import Vtree
from lcml.errors import CircuitError

from ..worlds import brute_flows, examples, random_circuits, random_vtrees, truth


def make(vtree: Vtree, gates: list[tuple[int, list[tuple[int, int]]]]) -> Circuit:
    """A circuit from (vtree node, elements) per gate."""
    flat = np.array([pair for _, elements in gates for pair in elements]).reshape(-1, 2)
    start = np.cumsum([0] + [len(elements) for _, elements in gates])
    return Circuit(vtree, np.array([node for node, _ in gates]), start, flat[:, 0], flat[:, 1])


def test_initial_structure_of_a_pair_has_four_elements() -> None:
    circuit = initial_circuit(vtrees.balanced(2))
    assert list(circuit.elements_of(0)) == [(0, 1), (0, 3), (2, 1), (2, 3)]


def test_initial_structure_of_three_variables() -> None:
    # vtree ((0 1) 2): a pair, then the pair beside a variable
    circuit = initial_circuit(vtrees.balanced(3))
    assert [list(circuit.elements_of(gate)) for gate in range(2)] == [
        [(0, 1), (0, 4), (3, 1), (3, 4)],
        [(6, 2), (6, 5)],
    ]


def test_initial_structure_of_mnist() -> None:
    # 392 pairs make 4 elements each, the 391 gates above them one each
    circuit = initial_circuit(vtrees.grid(28, 28))
    assert (circuit.n_or_gates, circuit.n_elements) == (783, 4 * 392 + 391)


def test_one_variable_has_no_gate() -> None:
    circuit = initial_circuit(vtrees.balanced(1))
    assert (circuit.n_or_gates, circuit.n_elements, circuit.is_tautology, circuit.is_product) == (0, 0, True, True)


@given(random_vtrees(most=9))
def test_initial_circuit_is_true_in_every_world(vtree: Vtree) -> None:
    circuit = initial_circuit(vtree)
    if circuit.n_or_gates:
        assert truth(circuit)[-1].all()
    assert circuit.is_tautology
    assert circuit.is_product


@settings(deadline=None)
@given(random_circuits())
def test_implied_literals_and_products_match_all_worlds(circuit: Circuit) -> None:
    true = truth(circuit)
    for node in range(circuit.n_nodes):
        implied = {literal for literal in range(circuit.n_literals) if true[literal][true[node]].all()}
        outside = {m for m in implied if m % circuit.n_variables not in circuit.vtree.scope(circuit.node_vtree[node])}
        assert circuit.implied[node] == implied - outside
    assert circuit.is_tautology
    assert circuit.is_product


@settings(deadline=None)
@given(random_circuits(most=6))
def test_equal_flow_class_means_equal_flow(circuit: Circuit) -> None:
    if not circuit.n_or_gates:
        return
    flow = np.array([brute_flows(circuit, q) for q in examples(circuit.n_variables, 2, seed=1)]).T
    for number in np.unique(circuit.flow_class):
        members: NDArray[np.float64] = flow[circuit.flow_class == number]
        np.testing.assert_allclose(members, np.broadcast_to(members[0], members.shape), atol=1e-12)


def test_flow_class_merges_a_chain() -> None:
    # 4 variables, balanced: the root's element and, for flow 1, no other; each pair gate keeps four of its own
    circuit = initial_circuit(vtrees.balanced(4))
    assert len(set(circuit.flow_class.tolist())) == 9


def test_a_circuit_may_exclude_worlds() -> None:
    # X0 xor X1: two of four worlds
    circuit = make(vtrees.balanced(2), [(2, [(0, 3), (2, 1)])])
    assert not circuit.is_tautology
    assert not circuit.is_product


def test_determinism_needs_no_implied_literal() -> None:
    # primes (X0 = X1) and (X0 != X1) over the pair, sub X2 or its negation: exclusive, though no literal is implied
    vtree = vtrees.balanced(3)
    pair, root = int(vtree.left[vtree.root]), vtree.root
    circuit = make(vtree, [(pair, [(0, 1), (3, 4)]), (pair, [(0, 4), (3, 1)]), (root, [(6, 2), (7, 5)])])
    assert truth(circuit)[-1].sum() == 4


TWO = vtrees.balanced(2)
THREE = vtrees.balanced(3)
PAIR = int(THREE.left[THREE.root])
FOUR = [(0, 1), (0, 4), (3, 1), (3, 4)]


@pytest.mark.parametrize(
    ("vtree", "gates", "message"),
    [
        (TWO, [], "at least one or gate over 2 variables"),
        (TWO, [(2, [(0, 1), (0, 1)])], r"or gate 0 is not deterministic: its elements 0 \(X0, X1\) and 1 \(X0, X1\)"),
        (
            TWO,
            [(2, [(0, 0)])],
            r"element 0 of or gate 0 \(X0, X0\) is not decomposable: prime and sub share variable X0",
        ),
        (TWO, [(2, [(1, 0)])], "is not structured: its prime mentions X1"),
        (TWO, [(2, [(0, 4)])], "does not stand before the gate"),
        (TWO, [(2, [(-1, 1)])], "does not exist"),
        (TWO, [(0, [(0, 1)])], "stands at leaf 0 of the vtree"),
        (TWO, [(7, [(0, 1)])], "vtree node 7 does not exist"),
        (THREE, [(THREE.root, [(0, 2)])], "is not smooth: its prime does not mention X1"),
        (THREE, [(PAIR, FOUR)], "last or gate must stand at the vtree's root"),
        (THREE, [(PAIR, FOUR), (PAIR, FOUR), (THREE.root, [(6, 2), (6, 5)])], "or gate 1: no element uses it"),
        (
            THREE,
            [(PAIR, [(0, 1), (3, 4)]), (PAIR, [(0, 1), (3, 1)]), (THREE.root, [(6, 2), (7, 2)])],
            "not deterministic",
        ),
    ],
)
def test_refuses_broken_structure(vtree: Vtree, gates: list[tuple[int, list[tuple[int, int]]]], message: str) -> None:
    with pytest.raises(CircuitError, match=message):
        make(vtree, gates)


def test_refuses_gates_out_of_order_and_empty_gates() -> None:
    with pytest.raises(CircuitError, match="increasing vtree height"):
        make(THREE, [(THREE.root, [(0, 2)]), (PAIR, FOUR)])
    with pytest.raises(CircuitError, match="at least one element per or gate"):
        Circuit(TWO, np.array([2]), np.array([0, 0]), np.array([]), np.array([]))
    with pytest.raises(CircuitError, match="as many primes as subs"):
        Circuit(TWO, np.array([2]), np.array([0, 1]), np.array([0]), np.array([1, 1]))


def test_arrays_are_read_only() -> None:
    circuit = initial_circuit(TWO)
    with pytest.raises(ValueError, match="read-only"):
        circuit.elem_prime[0] = 1
