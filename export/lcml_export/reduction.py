"""The exact reduction: weighted sums of flows as short weighted sums of terms."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lcml.circuits.basis import BasisMap
from lcml.circuits.circuit import Circuit
from lcml.errors import CircuitError
from lcml_export.terms import ONE, Polynomial, Term, decided_literals, gate_flows, times


@dataclass(frozen=True, eq=False)
class TermSum:
    """bias + sum over t of weights[:, t] * the product of the literals in terms[t].

    terms: distinct, none empty; weights (n_sets, n_terms); bias (n_sets,).
    """

    n_variables: int
    terms: list[Term]
    weights: NDArray[np.float64]
    bias: NDArray[np.float64]


def reduce_flows(circuit: Circuit, weights: NDArray[np.float64]) -> TermSum:
    """weights . flows for weights (n_sets, 2 n_variables + n_elements). Raises CircuitError as `_check`."""
    _check(circuit)
    if circuit.n_or_gates == 0:
        positive, negative = weights.T
        return TermSum(1, [frozenset((0,))], (positive - negative)[:, None], negative)
    decided = decided_literals(circuit)
    contexts = gate_flows(circuit, decided)
    flows = [times(contexts[g], decided[e], circuit.n_variables) for e, g in enumerate(circuit.elem_or.tolist())]
    dropped = _choose_dropped(circuit, contexts, flows, decided)
    element_weights, gain = BasisMap(circuit, dropped, literals=True).to_basis(weights)
    polynomials = [flows[element] for element in np.delete(np.arange(circuit.n_elements), dropped).tolist()]
    return _combined(circuit.n_variables, polynomials, element_weights, gain)


def flows_as_terms(circuit: Circuit, flows: NDArray[np.integer]) -> TermSum:
    """Each of `flows`, numbers of literals and elements, as a sum of its own: their "sets".

    No weight is negative, so that a flow near 0, of which a root is taken, is as exact as any other. Raises
    CircuitError as `_check`.
    """
    _check(circuit)
    decided = decided_literals(circuit)
    contexts = gate_flows(circuit, decided, complements=False)
    polynomials: list[Polynomial] = []
    for flow in flows.tolist():
        element = flow - circuit.n_literals
        if element < 0:
            polynomials.append({frozenset((flow,)): 1})
        else:
            polynomials.append(times(contexts[circuit.elem_or[element]], decided[element], circuit.n_variables))
    return _combined(circuit.n_variables, polynomials, np.eye(len(flows)), np.zeros(len(flows)))


def over_inputs(term_sum: TermSum, inputs: Sequence[int], n_inputs: int) -> TermSum:
    """The same sum over the encoded inputs that variables read: inputs[v] for variable v, n_inputs for nothing (0).

    Raises CircuitError where a term multiplies an input with itself: a term is a set.
    """
    n = term_sum.n_variables
    terms, columns = [], []
    for column, term in enumerate(term_sum.terms):
        read = [(inputs[literal % n], literal >= n) for literal in term]
        if (n_inputs, False) in read:
            continue
        literals = [input + n_inputs * negated for input, negated in read if input < n_inputs]
        if len(set(literals)) < len(literals):
            raise CircuitError("several variables of a term read one input")
        terms.append(frozenset(literals))
        columns.append(column)
    return _collected(n_inputs, terms, term_sum.weights[:, columns], term_sum.bias)


def merged(term_sums: Sequence[TermSum]) -> TermSum:
    """The sum of sums of terms over the same variables."""
    terms = [term for each in term_sums for term in each.terms]
    weights = np.concatenate([each.weights for each in term_sums], axis=1)
    bias = sum((each.bias for each in term_sums), start=np.zeros(len(weights)))
    return _collected(term_sums[0].n_variables, terms, weights, bias)


def _check(circuit: Circuit) -> None:
    """Raise CircuitError where an or gate's probability is no product of literals."""
    if not circuit.is_product:
        raise CircuitError(
            "an or gate's probability in this circuit is not a product of literals, or Pr(root) is not always 1; "
            "export it with the profile 'flows'"
        )


def _combined(
    n_variables: int, polynomials: list[Polynomial], weights: NDArray[np.float64], bias: NDArray[np.float64]
) -> TermSum:
    """bias (n_sets,) + weights (n_sets, n_polynomials) . polynomials."""
    terms = [term for polynomial in polynomials for term in polynomial]
    coefficients = [coefficient for polynomial in polynomials for coefficient in polynomial.values()]
    rows = [row for row, polynomial in enumerate(polynomials) for _ in polynomial]
    return _collected(n_variables, terms, weights[:, rows] * np.array(coefficients, dtype=float), bias)


def _collected(n_variables: int, terms: list[Term], weights: NDArray[np.float64], bias: NDArray[np.float64]) -> TermSum:
    """bias (n_sets,) + weights (n_sets, n_terms) . terms, equal terms together, the empty one in the bias, and none of
    no weight; one stays at least, so that no tensor is empty."""
    column_of: dict[Term, int] = {ONE: 0}
    columns = [column_of.setdefault(term, len(column_of)) for term in terms]
    collected = np.zeros((len(bias), len(column_of)))
    np.add.at(collected.T, columns, weights.T)
    weighted = 1 + np.flatnonzero(np.any(collected[:, 1:] != 0, axis=0))
    if not weighted.size:
        return TermSum(n_variables, [frozenset((0,))], np.zeros((len(bias), 1)), bias + collected[:, 0])
    distinct = list(column_of)
    kept = [distinct[column] for column in weighted.tolist()]
    return TermSum(n_variables, kept, collected[:, weighted], bias + collected[:, 0])


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
