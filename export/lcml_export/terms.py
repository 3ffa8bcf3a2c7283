"""Flows as polynomials: the symbolic half of the compiler.

A term is a product of literals, a set of literal ids (X_v = v, not X_v = n_variables + v); a polynomial maps terms to
integer coefficients. In a circuit whose or gates are products of literals and whose root is 1 (`Circuit.is_product`)
the flow of or gate g is a polynomial P_g, and that of its element e is P_g times the literals e decides and g does not.
Three rules keep polynomials short, with m a term and x a literal:

    m x + m not-x = m        m - m x = m not-x        flows of all or gates of one vtree node sum to 1
"""

from collections import defaultdict

from lcml.circuits.circuit import Circuit
from lcml.errors import CircuitError

Term = frozenset[int]
Polynomial = dict[Term, int]

ONE: Term = frozenset()

MAX_TERMS_PER_ELEMENT = 8
"""A circuit whose flows need more terms than this per element, on average, is refused: a pass over gates is shorter."""


def decided_literals(circuit: Circuit) -> list[Term]:
    """Per element, the literals it implies and its or gate does not."""
    implied, n_literals = circuit.implied, circuit.n_literals
    wires = zip(circuit.elem_prime.tolist(), circuit.elem_sub.tolist(), circuit.elem_or.tolist(), strict=True)
    return [(implied[prime] | implied[sub]) - implied[n_literals + gate] for prime, sub, gate in wires]


def gate_flows(circuit: Circuit, decided: list[Term], complements: bool = True) -> list[Polynomial]:
    """P_g of every or gate, from the root down; without the third rule, `complements`, no coefficient is negative.

    Raises CircuitError where they get too long (MAX_TERMS_PER_ELEMENT).
    """
    gates_at: dict[int, list[int]] = defaultdict(list)
    for gate, node in enumerate(circuit.or_vtree.tolist()):
        gates_at[node].append(gate)
    parents = circuit.leads_to[circuit.n_literals :]
    elem_or = circuit.elem_or.tolist()
    flows: list[Polynomial] = [{ONE: 1} for _ in range(circuit.n_or_gates)]
    budget = MAX_TERMS_PER_ELEMENT * circuit.n_elements
    for node in circuit.vtree.top_down:
        gates = gates_at[node]
        for gate in gates if node != circuit.vtree.root else ():
            total: Polynomial = defaultdict(int)
            for element in parents[gate]:
                for term, coefficient in times(flows[elem_or[element]], decided[element], circuit.n_variables).items():
                    total[term] += coefficient
            flows[gate] = simplify(total, circuit.n_variables)
        if complements:
            _replace_by_complements(gates, flows, circuit.n_variables)
        budget -= sum(len(flows[gate]) for gate in gates)
        if budget < 0:
            raise CircuitError(
                f"the flows of this circuit need more than {MAX_TERMS_PER_ELEMENT} products of literals per element; "
                "export it with the profile 'flows'"
            )
    return flows


def times(polynomial: Polynomial, literals: Term, n_variables: int) -> Polynomial:
    """`polynomial` where all `literals` hold: x x = x and x not-x = 0, as for the probabilities of events."""
    excluded = {_negated(literal, n_variables) for literal in literals}
    product: Polynomial = defaultdict(int)
    for term, coefficient in polynomial.items():
        if not term & excluded:
            product[term | literals] += coefficient
    return {term: coefficient for term, coefficient in product.items() if coefficient}


def simplify(polynomial: Polynomial, n_variables: int) -> Polynomial:
    """An equal polynomial that the first two rules shorten no more, merging greedily."""
    terms = {term: coefficient for term, coefficient in polynomial.items() if coefficient}
    pending = list(terms)
    while pending:
        term = pending.pop()
        for literal in term if term in terms else ():
            rest = term - {literal}
            opposite = rest | {_negated(literal, n_variables)}
            if terms.get(opposite) == terms[term]:
                partner, merged, sign = opposite, rest, 1
            elif terms.get(rest) == -terms[term]:
                partner, merged, sign = rest, opposite, -1
            else:
                continue
            coefficient = sign * terms.pop(term) + terms.get(merged, 0)
            del terms[partner]
            terms.pop(merged, None)
            if coefficient:
                terms[merged] = coefficient
                pending.append(merged)
            break
    return terms


def _replace_by_complements(gates: list[int], flows: list[Polynomial], n_variables: int) -> None:
    """Write long flows as what the other gates of the vtree node leave over, where that is shorter.

    With t the literals common to all terms of a flow: flow = t - sum over the other gates of t times their flow.
    """
    for gate in sorted(gates, key=lambda gate: len(flows[gate])):
        if len(flows[gate]) < 3:
            continue
        common = frozenset.intersection(*flows[gate])
        rest: Polynomial = defaultdict(int, {common: 1})
        for other in gates:
            for term, coefficient in times(flows[other], common, n_variables).items() if other != gate else ():
                rest[term] -= coefficient
        shorter = simplify(rest, n_variables)
        if len(shorter) < len(flows[gate]):
            flows[gate] = shorter


def _negated(literal: int, n_variables: int) -> int:
    return (literal + n_variables) % (2 * n_variables)
