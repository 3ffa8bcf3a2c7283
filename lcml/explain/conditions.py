"""Conditions: when a feature of a circuit flows, as cases and in words.

The features of a circuit are the flows of its literals and elements. For a Boolean example that the circuit admits, a
flow is 0 or 1: a feature is a condition on the variables, kept here as a set of cases of which at most one applies,
each case a set of literals that all hold. For an example of probabilities the flow is the probability of the condition.

Cases can be as many as there are ways through the circuit. Where a gate has more than MAX_CASES, the gate stands for
them: they are counted in a pass and spelt out one by one, as far as they are wanted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from math import prod
from typing import NamedTuple, TypeAlias

from lcml.circuits.circuit import Circuit
from lcml.inputs.encoding import Words

Case: TypeAlias = frozenset[int]
Cases: TypeAlias = frozenset[Case]
"""Literals by their ids; 2 n_variables + g says "or gate g holds", 2 n_variables + n_or_gates + g "g is reached"."""

ALWAYS: Cases = frozenset((frozenset(),))

MAX_CASES = 16
"""A gate with more cases than this stands for them."""

SHOWN_CASES = 3
"""So many cases are told of a condition that has at least two more: nobody reads all."""

_COUNTED = 10**6  # beyond so many cases the words do not say how many more


class Measures(NamedTuple):
    """Of all cases that `Cases` stand for: how many, the literals common to all, and how many the longest has."""

    n_cases: int
    common: Case
    longest: int


@dataclass(frozen=True)
class CircuitCases:
    """When every feature of a circuit flows: the 2 n_variables literals, then the elements.

    of_gate: the cases of every gate that stands for them, by its id in `Cases`, after those of the gates in them.
    """

    n_variables: int
    of_feature: Sequence[Cases]
    of_gate: Mapping[int, Cases]

    def in_words(self, cases: Cases, words: Words, shown: int = SHOWN_CASES) -> str:
        """What all cases have in common, then the alternatives, which may overlap there; of more than shown + 1 the
        first, and how many more: 'a and (not b, or c and d, or e, and 12 more cases)'."""
        n_cases, common, _ = self.measures(cases)
        parts = words(common)
        if n_cases > 1:
            few = n_cases <= shown + 1
            rests = [case - common for case in islice(self.spelt(cases), max(shown + 1, MAX_CASES))]
            if len(rests) == n_cases:
                rests = self._shortened(rests)
            texts = [words(rest) for rest in rests[: n_cases if few else shown]]
            if few:
                choice = " or ".join(f"({' and '.join(text)})" if len(text) > 1 else text[0] for text in texts if text)
            else:
                more = n_cases - shown
                number = f"{more:,}" if more <= _COUNTED else f"over {_COUNTED:,}"
                choice = f"{', or '.join(map(' and '.join, texts))}, and {number} more cases"
            if all(texts):
                parts.append(f"({choice})" if parts else choice)
        return " and ".join(parts) or "always"

    def spelt(self, cases: Cases) -> Iterator[Case]:
        """The cases, one after another, with those of the gates in place of the gates."""
        pending = self._in_order(cases)
        while pending:
            case = pending.pop()
            gate = max(self._gates(case), default=None)
            if gate is None:
                yield case
            else:
                pending += [case - {gate} | of_gate for of_gate in self._in_order(self.of_gate[gate])]

    def measures(self, cases: Cases) -> Measures:
        """Of the cases that `spelt` gives; they mention no variable twice, so those of a case's gates go together."""
        return self._measures(cases, self._of_gate)

    def mentioned(self, cases: Cases) -> frozenset[int]:
        """The literals in the cases that `spelt` gives."""
        return self._mentioned(cases, self._of_gates)

    @cached_property
    def _of_gates(self) -> dict[int, frozenset[int]]:
        known: dict[int, frozenset[int]] = {}
        for gate, cases in self.of_gate.items():
            known[gate] = self._mentioned(cases, known)
        return known

    def _mentioned(self, cases: Cases, known: Mapping[int, frozenset[int]]) -> frozenset[int]:
        every = frozenset[int]().union(*cases)
        gates = frozenset(self._gates(every))
        return (every - gates).union(*(known[gate] for gate in gates))

    @cached_property
    def _of_gate(self) -> dict[int, Measures]:
        known: dict[int, Measures] = {}
        for gate, cases in self.of_gate.items():
            known[gate] = self._measures(cases, known)
        return known

    def _measures(self, cases: Cases, known: Mapping[int, Measures]) -> Measures:
        found = []
        for case in cases:
            gates = self._gates(case)
            of_gates = [known[gate] for gate in gates]
            longest = len(case) - len(gates) + sum(one.longest for one in of_gates)
            common = case.difference(gates).union(*(one.common for one in of_gates))
            found.append(Measures(prod(one.n_cases for one in of_gates), common, longest))
        n_cases, commons, lengths = zip(*found, strict=True)
        return Measures(sum(n_cases), frozenset.intersection(*commons), max(lengths))

    def _gates(self, case: Iterable[int]) -> list[int]:
        return [one for one in case if one >= 2 * self.n_variables]

    def _in_order(self, cases: Iterable[Case]) -> list[Case]:
        """The shortest last, to be taken first."""
        return sorted(cases, key=lambda case: (len(case), self._by_variable(case)), reverse=True)

    def _by_variable(self, case: Iterable[int]) -> list[int]:
        return sorted(case, key=lambda literal: literal % self.n_variables)

    def _shortened(self, cases: Iterable[Case]) -> list[Case]:
        """The same alternatives in fewer words: a literal goes where another case covers its negation."""
        short = self._in_order(cases)[::-1]
        for i, case in enumerate(short):
            for literal in self._by_variable(case):
                rest = short[i] - {literal}
                covered = rest | {_negated(self.n_variables, literal)}
                if any(other <= covered for j, other in enumerate(short) if j != i):
                    short[i] = rest
        return self._in_order(short)[::-1]


def conditions(circuit: Circuit, words: Words, shown: int = SHOWN_CASES) -> tuple[str, ...]:
    """When every feature flows, in words: 'a and not b', 'a and (b or (not b and c))', 'always'.

    The 2 n_variables literals, then the elements. words: what literals say, see `lcml.inputs.encoding.Words`. Boolean
    examples that the circuit admits have flow 1 where this holds and 0 where not. Of a condition of more than
    shown + 1 cases the first are told, and how many more there are.
    """
    cases = feature_cases(circuit)
    return tuple(cases.in_words(one, words, shown) for one in cases.of_feature)


def feature_cases(circuit: Circuit, max_cases: int = MAX_CASES) -> CircuitCases:
    """When every feature of the circuit flows; a gate with more than `max_cases`, at least 1, stands for them.

    An element flows where its gate is reached and its prime and sub hold. Or gates are reached through the elements
    they are a child of, where the other child holds, the root always; their cases are merged (m and x, m and not x: m).
    """
    n_literals, n_nodes = circuit.n_literals, circuit.n_nodes
    holds: list[Cases] = [frozenset((frozenset((literal,)),)) for literal in range(n_literals)]
    of_gate: dict[int, Cases] = {}

    def named(gate: int, cases: Cases) -> Cases:
        of_gate[gate] = cases
        return frozenset((frozenset((gate,)),))

    def merged(gate: int, cases: set[Case]) -> Cases:
        fewer = _merged(cases, circuit.n_variables)
        return fewer if len(fewer) <= max_cases else named(gate, fewer)

    def together(*factors: tuple[int, Cases]) -> Cases:
        """Where all hold; gates stand for their cases where there would be too many."""
        of_factor = dict(factors)
        while prod(map(len, of_factor.values())) > max_cases:
            most = max(of_factor, key=lambda node: len(of_factor[node]))
            of_factor[most] = named(most, of_factor[most])
        return frozenset(frozenset().union(*choice) for choice in product(*of_factor.values()))

    if circuit.is_product:
        holds = [frozenset((literals,)) for literals in circuit.implied]
    else:
        for gate in range(circuit.n_or_gates):
            pairs = (together((prime, holds[prime]), (sub, holds[sub])) for prime, sub in circuit.elements_of(gate))
            holds.append(merged(n_literals + gate, {case for cases in pairs for case in cases}))
    reached: list[set[Case]] = [set() for _ in range(circuit.n_or_gates)]
    of_element = [ALWAYS] * circuit.n_elements
    for gate in reversed(range(circuit.n_or_gates)):
        is_root = gate == circuit.n_or_gates - 1
        above = n_nodes + gate, ALWAYS if is_root else merged(n_nodes + gate, reached[gate])
        for element, pair in enumerate(circuit.elements_of(gate), start=int(circuit.or_start[gate])):
            prime, sub = ((node, holds[node]) for node in pair)
            of_element[element] = together(above, prime, sub)
            for (child, _), other in ((prime, sub), (sub, prime)):
                if child >= n_literals:
                    reached[child - n_literals] |= together(above, other)
    return CircuitCases(circuit.n_variables, holds[:n_literals] + of_element, of_gate)


def _merged(cases: set[Case], n_variables: int) -> Cases:
    """Fewer cases for the same condition."""
    cases, pending = set(cases), list(cases)
    while pending:
        case = pending.pop()
        for literal in case if case in cases else ():
            rest = case - {literal}
            opposite = rest | {_negated(n_variables, literal)}
            if opposite in cases:
                cases -= {case, opposite}
                cases.add(rest)
                pending.append(rest)
                break
    return frozenset(cases)


def _negated(n_variables: int, literal: int) -> int:
    """The opposite literal; -1, which is no literal, for a gate."""
    return (literal + n_variables) % (2 * n_variables) if literal < 2 * n_variables else -1
