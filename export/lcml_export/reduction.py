"""The exact reduction: logits as a short weighted sum of terms."""

import dataclasses
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lcml.basis import push_weights
from lcml.circuit import Circuit
from lcml.errors import CircuitError
from lcml.model import LogisticCircuit
from lcml_export.terms import Polynomial, Term, decided_literals, gate_flows, times


@dataclass(frozen=True, eq=False)
class TermSum:
    """logits = bias + sum over t of weights[:, t] * the product of the literals in terms[t].

    terms: distinct, none empty; weights (n_sets, n_terms); bias (n_sets,).
    """

    n_variables: int
    terms: list[Term]
    weights: NDArray[np.float64]
    bias: NDArray[np.float64]


def reduce_model(model: LogisticCircuit) -> TermSum:
    """`model` as a sum of terms. Raises CircuitError where an or gate's probability is no product of literals."""
    circuit = model.circuit
    if not circuit.is_product:
        raise CircuitError(
            "an or gate's probability in this circuit is not a product of literals, or Pr(root) is not always 1; "
            "export it with the profile 'flows'"
        )
    if circuit.n_or_gates == 0:
        positive, negative = model.flat_weights.T
        return TermSum(1, [frozenset((0,))], (positive - negative)[:, None], model.bias + negative)
    decided = decided_literals(circuit)
    contexts = gate_flows(circuit, decided)
    flows = [times(contexts[g], decided[e], circuit.n_variables) for e, g in enumerate(circuit.elem_or.tolist())]
    dropped = _choose_dropped(circuit, contexts, flows, decided)
    element_weights, gain = push_weights(circuit, model.element_weights, model.literal_weights, dropped)
    bias = model.bias + gain
    kept = np.ones(circuit.n_elements, dtype=bool)
    kept[dropped] = False
    column_of: dict[Term, int] = {}
    rows, columns, coefficients = [], [], []
    for element in np.flatnonzero(kept).tolist():
        for term, coefficient in flows[element].items():
            rows.append(element)
            columns.append(column_of.setdefault(term, len(column_of)))
            coefficients.append(coefficient)
    weights = np.zeros((len(bias), len(column_of)))
    np.add.at(weights.T, columns, element_weights[:, rows].T * np.array(coefficients, dtype=float)[:, None])
    return _without_zeros(TermSum(circuit.n_variables, list(column_of), weights, bias))


def _without_zeros(term_sum: TermSum) -> TermSum:
    """The sum without terms of no weight; one stays at least, so that no tensor is empty."""
    weighted = np.flatnonzero(np.any(term_sum.weights != 0, axis=0)).tolist()
    if not weighted:
        return dataclasses.replace(term_sum, terms=[frozenset((0,))], weights=np.zeros((len(term_sum.bias), 1)))
    terms = [term_sum.terms[index] for index in weighted]
    return dataclasses.replace(term_sum, terms=terms, weights=term_sum.weights[:, weighted])


def _choose_dropped(
    circuit: Circuit, contexts: list[Polynomial], flows: list[Polynomial], decided: list[Term]
) -> NDArray[np.int32]:
    """(n_or_gates,) per gate, the element whose terms cost most: terms that nothing else needs, then long ones.

    contexts, flows: the polynomials of the or gates and of the elements.
    """
    elements = [range(first, stop) for first, stop in zip(circuit.or_start, circuit.or_start[1:], strict=False)]
    splitting = [gate for gate, members in enumerate(elements) if len(members) > 1]
    needed = {term for gate in splitting for term in contexts[gate]}
    uses = Counter(term for gate in splitting for element in elements[gate] for term in flows[element])
    dropped = np.array([members[0] for members in elements], dtype=np.int32)

    def cost(element: int) -> tuple[int, int, int]:
        lonely = [term for term in flows[element] if uses[term] == 1]
        return sum(term not in needed for term in lonely), len(lonely), len(decided[element])

    for gate in sorted(splitting, key=lambda gate: -len(contexts[gate])):
        dropped[gate] = max(elements[gate], key=cost)
        uses.subtract(flows[dropped[gate]].keys())
    return dropped
