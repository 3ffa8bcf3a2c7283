"""Which features carry weights: all of them, or a basis of them.

The elements of an or gate sum to its flow, and a gate's or literal's flow is the sum of the elements it is a child of.
So one element of every or gate, and every literal, is a sum of others: n_elements - n_or_gates features are independent
and say, with the bias, all that all of them say. Weights of the others can be pushed to the elements above.
"""

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


def push_weights(
    circuit: Circuit, element_weights: FloatArray, literal_weights: FloatArray | None, dropped: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Element weights (..., n_elements), exactly 0 at `dropped`, and what the bias gains (...,), of the same function.

    literal_weights (..., 2 n_variables), if any, are pushed too; dropped (n_or_gates,): the element of every or gate
    whose weight is pushed to the elements above the gate.
    """
    n_literals, elem_or = circuit.n_literals, circuit.elem_or
    pushed = np.zeros((*element_weights.shape[:-1], circuit.n_nodes))
    if literal_weights is not None:
        pushed[..., :n_literals] = literal_weights
    result = np.empty_like(element_weights)
    for first, stop in circuit.levels():
        span = slice(circuit.or_start[first], circuit.or_start[stop])
        prime, sub = circuit.elem_prime[span], circuit.elem_sub[span]
        weight = element_weights[..., span] + pushed.take(prime, -1) + pushed.take(sub, -1)
        up = weight.take(dropped[first:stop] - span.start, -1)
        pushed[..., n_literals + first : n_literals + stop] = up
        np.subtract(weight, up.take(elem_or[span] - first, -1), out=result[..., span])
    return result, pushed[..., -1] if circuit.n_or_gates else pushed[..., 1]


class Lift:
    """Between weights of all literals and elements and weights of independent elements, and back for gradients.

    Learning fits, and penalises, a weight for every literal (where `literals`) and element, which generalises better,
    while only the independent features are computed and kept. `lower` is linear and keeps the function; `raise_` is its
    adjoint: it turns sums over independent features into sums over all. Arrays are (..., n) with the weights last.
    """

    def __init__(self, circuit: Circuit, dropped: IntArray, literals: bool) -> None:
        from scipy.sparse import csr_array

        self._circuit, self._dropped = circuit, dropped
        self.n_weights = circuit.n_elements + (circuit.n_literals if literals else 0)
        self._first = circuit.n_literals if literals else 0
        self._independent = np.delete(np.arange(circuit.n_elements), dropped)
        element = np.tile(np.arange(circuit.n_elements), 2)
        child = np.concatenate([circuit.elem_prime, circuit.elem_sub])
        ones = np.ones(len(child))
        self._leads_to = csr_array((ones, (child, element)), shape=(circuit.n_nodes, circuit.n_elements))
        self._levels = []
        for first, stop in reversed(list(circuit.levels())):
            nodes = slice(circuit.n_literals + first, circuit.n_literals + stop)
            offsets = circuit.or_start[first : stop + 1]
            self._levels.append((slice(first, stop), self._leads_to[nodes], offsets))
        self._to_literals = self._leads_to[: circuit.n_literals]

    def lower(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights (..., n_independent) of the independent elements, and what the bias gains (...,)."""
        literals = weights[..., : self._first] if self._first else None
        elements, gain = push_weights(self._circuit, weights[..., self._first :], literals, self._dropped)
        return elements.take(self._independent, -1), gain

    def raise_(self, sums: FloatArray, total: FloatArray) -> FloatArray:
        """Sums (..., n_weights) over the flows of all literals and elements.

        sums (..., n_independent): over those of the independent elements; total (...,): over the root's flow of 1.
        """
        lead = sums.shape[:-1]
        flow = np.zeros((self._circuit.n_elements, int(np.prod(lead))))
        flow[self._independent] = sums.reshape(-1, sums.shape[-1]).T
        for gates, leads_to, offsets in self._levels:
            of_gate = leads_to @ flow
            if gates.stop == self._circuit.n_or_gates:
                of_gate[-1] = total.ravel()
            inside = np.add.reduceat(flow[offsets[0] : offsets[-1]], offsets[:-1] - offsets[0], axis=0)
            flow[self._dropped[gates]] = of_gate - inside
        parts = [self._to_literals @ flow, flow] if self._first else [flow]
        return np.concatenate(parts, axis=0).T.reshape(*lead, -1)
