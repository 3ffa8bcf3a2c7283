"""Conditions: when a feature of a circuit flows, as cases and in words.

The features of a circuit are the flows of its literals and elements. For a Boolean example that the circuit admits, a
flow is 0 or 1: a feature is a condition on the variables, kept here as a set of cases of which at most one applies,
each case a set of literals that all hold. For an example of probabilities the flow is the probability of the condition.
"""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import TypeAlias

from lcml.circuits.circuit import Circuit

Case: TypeAlias = frozenset[int]
Cases: TypeAlias = frozenset[Case]
"""Literals by their ids; 2 n_variables + g says "or gate g holds", 2 n_variables + n_or_gates + g "g is reached"."""

ALWAYS: Cases = frozenset((frozenset(),))

MAX_CASES = 16
"""A gate with more cases than this is named in conditions instead of spelt out: nobody reads more."""


def conditions(circuit: Circuit, names: Sequence[str]) -> tuple[str, ...]:
    """When every feature flows, in words: 'a and not b', 'a and (b or (not b and c))', 'always'.

    The 2 n_variables literals, then the elements. names: one per variable, "a" for X_a being true. Boolean examples
    that the circuit admits have flow 1 where this holds and 0 where not.
    """
    return tuple(in_words(circuit, cases, names) for cases in feature_cases(circuit))


def feature_cases(circuit: Circuit, max_cases: int = MAX_CASES) -> list[Cases]:
    """When every feature flows: the 2 n_variables literals, then the elements.

    An element flows where its gate is reached and its prime and sub hold. Or gates are reached through the elements
    they are a child of, the root always; their cases are merged (m and x, m and not x: m). A gate with more than
    `max_cases` stands for its cases, beside what they have in common.
    """
    n_literals = circuit.n_literals
    holds = _holding_cases(circuit, max_cases)
    reached: list[set[Case]] = [set() for _ in range(circuit.n_or_gates)]
    features: list[Cases] = [frozenset((frozenset((literal,)),)) for literal in range(n_literals)]
    of_element: list[Cases] = [ALWAYS] * circuit.n_elements
    if reached:
        reached[-1].add(frozenset())
    for gate in reversed(range(circuit.n_or_gates)):
        cases = _merged(reached[gate], circuit, n_literals + circuit.n_or_gates + gate, max_cases)
        for element, (prime, sub) in enumerate(circuit.elements_of(gate), start=int(circuit.or_start[gate])):
            of_element[element] = _both(circuit, _both(circuit, cases, holds[prime]), holds[sub])
            for child in (prime, sub):
                if child >= n_literals:
                    reached[child - n_literals] |= of_element[element]
    return features + of_element


def in_words(circuit: Circuit, cases: Cases, names: Sequence[str]) -> str:
    """`cases` in words: what they have in common, then the alternatives, which may overlap there."""
    if not cases:
        return "never"
    common = frozenset.intersection(*cases)
    parts = [_name(circuit, literal, names) for literal in _by_variable(circuit, common)]
    if len(cases) > 1:
        rests = _shortened(circuit, [_by_variable(circuit, case - common) for case in cases])
        texts = [" and ".join(_name(circuit, literal, names) for literal in rest) for rest in rests]
        choice = " or ".join(f"({text})" if len(rest) > 1 else text for rest, text in zip(rests, texts, strict=True))
        if all(rests):
            parts.append(f"({choice})" if parts else choice)
    return " and ".join(parts) or "always"


def _shortened(circuit: Circuit, cases: list[list[int]]) -> list[list[int]]:
    """The same alternatives in fewer words: a literal goes where another case covers its negation."""
    cases = sorted(cases, key=lambda case: (len(case), case))
    for i in range(len(cases)):
        others = [set(case) for j, case in enumerate(cases) if j != i]
        for literal in list(cases[i]):
            rest = [kept for kept in cases[i] if kept != literal]
            if any(other <= {*rest, _negated(circuit, literal)} for other in others):
                cases[i] = rest
    return sorted(cases, key=lambda case: (len(case), case))


def _holding_cases(circuit: Circuit, max_cases: int) -> list[Cases]:
    """Per node, when it is true."""
    if circuit.is_product:
        return [frozenset((literals,)) for literals in circuit.implied]
    holds: list[Cases] = [frozenset((frozenset((literal,)),)) for literal in range(circuit.n_literals)]
    for gate in range(circuit.n_or_gates):
        cases = {case for prime, sub in circuit.elements_of(gate) for case in _both(circuit, holds[prime], holds[sub])}
        holds.append(_merged(cases, circuit, circuit.n_literals + gate, max_cases))
    return holds


def _both(circuit: Circuit, first: Iterable[Case], second: Iterable[Case]) -> Cases:
    """The cases in which both hold; those that contradict themselves fall away."""
    both = {a | b for a, b in product(first, second)}
    return frozenset(case for case in both if not any(_negated(circuit, literal) in case for literal in case))


def _merged(cases: set[Case], circuit: Circuit, name: int, max_cases: int) -> Cases:
    """Fewer cases for the same condition; more than `max_cases` become one, with `name` in it."""
    cases, pending = set(cases), list(cases)
    while pending:
        case = pending.pop()
        for literal in case if case in cases else ():
            rest = case - {literal}
            opposite = rest | {_negated(circuit, literal)}
            if opposite != rest and opposite in cases:
                cases -= {case, opposite}
                cases.add(rest)
                pending.append(rest)
                break
    if len(cases) > max_cases:
        return frozenset((frozenset.intersection(*cases) | {name},))
    return frozenset(cases)


def _negated(circuit: Circuit, literal: int) -> int:
    """The opposite literal; -1, which is no literal, for an or gate's name."""
    return (literal + circuit.n_variables) % circuit.n_literals if literal < circuit.n_literals else -1


def _by_variable(circuit: Circuit, case: Case) -> list[int]:
    n, n_literals = circuit.n_variables, circuit.n_literals
    return sorted(case, key=lambda i: (i >= n_literals, i % n if i < n_literals else i))


def _name(circuit: Circuit, literal: int, names: Sequence[str]) -> str:
    if literal < circuit.n_literals:
        return ("" if literal < circuit.n_variables else "not ") + names[literal % circuit.n_variables]
    reached, gate = divmod(literal - circuit.n_literals, circuit.n_or_gates)
    return f"or gate {gate} {'is reached' if reached else 'holds'}"
