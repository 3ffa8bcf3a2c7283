"""Circuits of every kind that the kernels must handle, with examples and the reference's flows."""

import numpy as np
from numpy.typing import NDArray

from lcml.backend import NumpyBackend
from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.passes.flows import flows, literal_rows, node_probabilities
from lcml.passes.plan import compile_plan

from ...worlds import grown


def xor_circuit() -> Circuit:
    """X0 xor X1, X2 and X3 true: Pr(root) = (q0 (1 - q1) + (1 - q0) q1) q2 q3; not X2 and not X3 lead nowhere."""
    vtree = vtrees.balanced(4)
    left, right = int(vtree.left[vtree.root]), int(vtree.right[vtree.root])
    return Circuit(
        vtree,
        np.array([left, right, vtree.root]),
        np.array([0, 2, 3, 4]),
        np.array([0, 4, 2, 8]),
        np.array([5, 1, 3, 9]),
    )


def even_circuit() -> Circuit:
    """Those worlds over 9 variables in which an even number of them is true."""
    n = 9
    vtree = vtrees.right_linear(n)
    gates: list[tuple[int, list[tuple[int, int]]]] = []
    node, chain = vtree.root, []
    while vtree.left[node] >= 0:
        chain.append(node)
        node = int(vtree.right[node])
    even, odd = n - 1 + n, n - 1  # of the last variable alone: not X, X
    for place in reversed(chain):
        variable = int(vtree.variable[vtree.left[place]])
        first = 2 * n + len(gates)
        gates.append((place, [(variable, odd), (variable + n, even)]))
        gates.append((place, [(variable, even), (variable + n, odd)]))
        even, odd = first, first + 1
    gates.pop()
    start = np.cumsum([0] + [len(elements) for _, elements in gates])
    flat = np.array([pair for _, elements in gates for pair in elements])
    return Circuit(vtree, np.array([place for place, _ in gates]), start, flat[:, 0], flat[:, 1])


CIRCUITS = {
    "one variable": initial_circuit(vtrees.balanced(1)),
    "two variables": initial_circuit(vtrees.balanced(2)),
    "grown": grown(vtrees.grid(4, 5), seed=4, rounds=8, per_round=9, depth=1),
    "shared": grown(vtrees.balanced(9), seed=1, rounds=6, per_round=9, depth=0),
    "xor": xor_circuit(),
    "even sum": even_circuit(),
}


def reference(circuit: Circuit, q: NDArray[np.float64]) -> NDArray[np.float64]:
    """(2 n_variables + n_elements, n_examples) flows by numpy in float64; NaN where Pr(root) = 0."""
    plan = compile_plan(circuit, NumpyBackend())
    literals = literal_rows(plan, q.astype(np.float64))
    possible = np.ones(len(q), bool) if circuit.n_or_gates == 0 else node_probabilities(plan, literals)[-1] > 0
    found = np.full((circuit.n_literals + circuit.n_elements, len(q)), np.nan)
    found[:, possible] = flows(plan, literals[:, possible])
    return found
