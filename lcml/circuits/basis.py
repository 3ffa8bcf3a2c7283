"""Which features carry weights: all of them, or a basis of them.

The elements of an or gate sum to its flow, and a gate's or literal's flow is the sum of the elements it is a child of.
So one element of every or gate, and every literal, is a sum of others: n_elements - n_or_gates features are independent
and say, with the bias, all that all of them say. Weights of the others can be pushed to the elements above.
"""

from functools import reduce
from operator import matmul

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray, IntArray, frozen
from lcml.circuits.circuit import Circuit


def dependent_elements(circuit: Circuit, before: NDArray[np.bool_] | None = None) -> IntArray:
    """(n_or_gates,) the element of every or gate that goes without a weight.

    The first one that went without it `before` (n_elements,), so that a grown circuit keeps most weights as they were;
    else the last one: in the initial circuit that where both variables of a pair are 0, the densest in images.
    """
    last = circuit.or_start[1:] - 1
    if before is None or not circuit.n_or_gates:
        return frozen(last)
    places = np.where(before, np.arange(circuit.n_elements), circuit.n_elements)
    first = np.minimum.reduceat(places, circuit.or_start[:-1])
    return frozen(np.where(first < circuit.n_elements, first, last))


class BasisMap:
    """From weights of all elements, with `literals` behind those of all literals, to weights of independent elements
    that make the same function, and its adjoint.

    dropped (n_or_gates,): the element of every or gate that is none of the basis. What an or gate adds for every
    example that reaches it is pushed to the elements above it. With p (n_nodes,) what is pushed from every node,

        p[literal] = its weight,   p[gate] = weight[dropped] + p[its prime] + p[its sub]
        weight'[e] = weight[e] + p[prime of e] + p[sub of e] - p[gate of e],   the bias gains p[root]

    p = (I - N)^-1 of the weights that are dropped, for a nilpotent N; the inverse is (I + N)(I + N^2)(I + N^4)...
    Arrays are (..., n) with the weights last. The circuit has an or gate.
    """

    def __init__(self, circuit: Circuit, dropped: IntArray, literals: bool) -> None:
        from scipy.sparse import csr_array, eye_array

        n_literals, n_nodes = circuit.n_literals, circuit.n_nodes
        self._hidden = 0 if literals else n_literals
        self.n_weights = n_literals + circuit.n_elements - self._hidden
        is_basis = np.ones(circuit.n_elements, dtype=bool)
        is_basis[dropped] = False
        elements = np.flatnonzero(is_basis)
        self._pushed = np.concatenate([np.arange(n_literals), n_literals + dropped])
        self._basis = n_literals + elements

        children = np.stack([circuit.elem_prime, circuit.elem_sub])
        gates = np.tile(np.arange(n_literals, n_nodes), 2)
        below = csr_array((np.ones(len(gates)), (gates, children[:, dropped].ravel())), shape=(n_nodes, n_nodes))
        columns = np.concatenate([*children[:, elements], n_literals + circuit.elem_or[elements], [n_nodes - 1]])
        rows = np.append(np.tile(np.arange(len(elements)), 3), len(elements))
        signs = np.repeat([1.0, -1.0, 1.0], [2 * len(elements), len(elements), 1])
        factors = [csr_array((signs, (rows, columns)), shape=(len(elements) + 1, n_nodes))]
        while below.nnz:
            factors.append(eye_array(n_nodes, format="csr") + below)
            below = below @ below
        paths = np.ones(n_nodes)
        for factor in reversed(factors):
            paths = abs(factor) @ paths
        if paths.sum() <= _MOST_PATHS:
            factors = [reduce(matmul, factors)]
        self._factors, self._adjoints = factors[::-1], [factor.T.tocsr() for factor in factors]

    def to_basis(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights (..., n_independent) of the independent elements, and what the bias gains (...,)."""
        flows = self._columns(weights)
        if self._hidden:
            flows = np.concatenate([np.zeros((self._hidden, flows.shape[1])), flows])
        pushed = flows[self._pushed]
        for factor in self._factors:
            pushed = factor @ pushed
        result = flows[self._basis] + pushed[:-1]
        return result.T.reshape(*weights.shape[:-1], -1), pushed[-1].reshape(weights.shape[:-1])

    def adjoint(self, sums: FloatArray, total: FloatArray) -> FloatArray:
        """Sums (..., n_weights) over the flows of all literals and elements.

        sums (..., n_independent): over those of the independent elements; total (...,): over the root's flow of 1.
        """
        basis = self._columns(sums)
        pushed = np.concatenate([basis, total.reshape(1, -1)])
        for factor in self._adjoints:
            pushed = factor @ pushed
        flows = np.empty((len(self._pushed) + len(basis), basis.shape[1]))
        flows[self._pushed], flows[self._basis] = pushed, basis
        return flows[self._hidden :].T.reshape(*sums.shape[:-1], -1)

    @staticmethod
    def _columns(rows: FloatArray) -> FloatArray:
        return rows.reshape(-1, rows.shape[-1]).T


_MOST_PATHS = 1 << 18
"""Factors are multiplied out where their product has no more entries: it is applied faster than they one by one."""
