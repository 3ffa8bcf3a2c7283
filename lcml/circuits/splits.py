"""Splits: the one operation that grows a circuit.

Split(element, variable) replaces an element by two of the same or gate, one conditioned on X_v, one on not X_v. Nodes
on the way to v are copied; their siblings are copied down to `depth` levels and shared below. Since exactly one of X_v
and not X_v holds, the function does not change while both halves inherit the element's weights.
Source: Liang & Van den Broeck, AAAI 2019, section 4.1 and Fig. 3.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import IntArray, frozen
from lcml.circuits.circuit import Circuit
from lcml.errors import CircuitError

MAX_DEPTH = 64
"""A deeper copy would be a copy of everything: vtrees of use are not that high."""


@dataclass(frozen=True)
class Split:
    """Split element `element` of a circuit on variable `variable`; part: which circuit, where a model has several."""

    element: int
    variable: int
    part: int = 0


@dataclass(frozen=True, eq=False)
class SplitResult:
    """A grown circuit and where its elements come from.

    origin (n_elements,): for each new element the old element whose weights it inherits;
    unchanged (n_elements,): whether its flow is that of its origin for every example.
    """

    circuit: Circuit
    origin: IntArray
    unchanged: NDArray[np.bool_]


def apply_splits(circuit: Circuit, splits: Iterable[Split], depth: int = 0) -> SplitResult:
    """The circuit with every split applied, from the lowest or gate to the highest.

    `splits` names elements of `circuit`, each at most once. Raises CircuitError for an unknown element or variable, an
    element named twice, a variable outside the element's scope or already decided there, or a negative depth.
    """
    ordered = sorted(splits, key=lambda split: split.element)
    if not 0 <= depth <= MAX_DEPTH:
        raise CircuitError(f"split depth: expected 0 to {MAX_DEPTH}, found {depth}")
    for split, following in pairwise(ordered):
        if split.element == following.element:
            raise CircuitError(f"element {split.element} is split twice in one round; keep one of the splits")
    editor = _Editor(circuit, depth)
    for split in ordered:
        _check_split(circuit, split)
        editor.split(split)
    return editor.finish()


class SplitCosts:
    """How many elements a circuit gains by single splits; cheaper than splitting."""

    def __init__(self, circuit: Circuit, depth: int = 0) -> None:
        self._editor = _Editor(circuit, depth)
        wires = np.concatenate([circuit.elem_prime, circuit.elem_sub])
        self._n_wires = np.bincount(wires, minlength=circuit.n_nodes).tolist()
        self._n_literals = circuit.n_literals

    def added(self, split: Split) -> int:
        """Elements after the split less elements before."""
        editor, n_gates = self._editor, len(self._editor.gates)
        _, element, halves = editor.halves(split)
        fresh = [half for new in editor.gates[n_gates:] for half in new.elements] + halves
        lost: dict[int, int] = {}
        for half in fresh:
            for node in (half.prime, half.sub):
                lost[node] = lost.get(node, 0) - 1
        added, doomed = len(fresh), [element]
        while doomed:
            gone = doomed.pop()
            added -= 1
            for node in (gone.prime, gone.sub):
                lost[node] = lost.get(node, 0) + 1
                if node >= self._n_literals and lost[node] == self._n_wires[node]:
                    doomed += editor.gates[node - self._n_literals].elements
        del editor.gates[n_gates:]
        return added


def _check_split(circuit: Circuit, split: Split) -> None:
    if not 0 <= split.element < circuit.n_elements:
        raise CircuitError(f"split: element {split.element} does not exist; the circuit has {circuit.n_elements}")
    if not 0 <= split.variable < circuit.n_variables:
        raise CircuitError(f"split: variable X{split.variable} does not exist; the circuit has {circuit.n_variables}")
    gate = circuit.elem_or[split.element]
    if split.variable not in circuit.vtree.scope(circuit.or_vtree[gate]):
        raise CircuitError(f"split: variable X{split.variable} is not in the scope of element {split.element}")
    decided = circuit.implied[circuit.elem_prime[split.element]] | circuit.implied[circuit.elem_sub[split.element]]
    if split.variable in decided or split.variable + circuit.n_variables in decided:
        raise CircuitError(f"split: variable X{split.variable} is already decided at element {split.element}")


@dataclass(slots=True, eq=False)
class _Element:
    prime: int
    sub: int
    origin: int
    unchanged: bool


@dataclass(slots=True, eq=False)
class _Gate:
    vtree: int
    elements: list[_Element]


class _Editor:
    """A circuit under change: gates by node id, old ids kept, new gates appended."""

    def __init__(self, circuit: Circuit, depth: int) -> None:
        self._circuit, self._depth = circuit, depth
        self._n_variables, self._n_literals, self._implied = circuit.n_variables, circuit.n_literals, circuit.implied
        vtree = circuit.vtree
        self._left, self._right = vtree.left.tolist(), vtree.right.tolist()
        self._range, self._position = vtree.scope_range.tolist(), np.argsort(vtree.leaf_order).tolist()
        wires = zip(circuit.elem_prime.tolist(), circuit.elem_sub.tolist(), strict=True)
        elements = [_Element(prime, sub, e, True) for e, (prime, sub) in enumerate(wires)]
        start = circuit.or_start.tolist()
        self.touched: list[_Gate] = []
        nodes = circuit.or_vtree.tolist()
        self.gates = [_Gate(node, elements[start[g] : start[g + 1]]) for g, node in enumerate(nodes)]

    def split(self, split: Split) -> None:
        gate, element, halves = self.halves(split)
        for source in self.touched:
            for touched in source.elements:
                touched.unchanged = False
        self.touched.clear()  # what comes to a gate later is new, and marked so
        index = gate.elements.index(element)
        gate.elements[index : index + 1] = halves

    def halves(self, split: Split) -> tuple[_Gate, _Element, list[_Element]]:
        """The gate and element to split, and the two elements to stand in its place; their new gates are added."""
        gate = self.gates[self._circuit.elem_or[split.element]]
        element = next(element for element in gate.elements if element.origin == split.element)
        literals = (split.variable, split.variable + self._n_variables)
        both = [_Copies(self, literal, self._depth).condition_element(gate.vtree, element) for literal in literals]
        return gate, element, [half for half in both if half is not None]

    def implied_by(self, node: int) -> frozenset[int]:
        """What the circuit knew of `node`; a split adds nothing to that, and a new gate is conditioned already."""
        return self._implied[node] if node < len(self._implied) else frozenset()

    def finish(self) -> SplitResult:
        """Drop what the root no longer reaches, renumber by height, and freeze."""
        height = self._circuit.vtree.height
        reached, stack = set(), [self._circuit.n_or_gates - 1] if self._circuit.n_or_gates else []
        while stack:
            gate = stack.pop()
            if gate not in reached:
                reached.add(gate)
                children = (node for e in self.gates[gate].elements for node in (e.prime, e.sub))
                stack += [node - self._n_literals for node in children if node >= self._n_literals]
        order = sorted(reached, key=lambda gate: (height[self.gates[gate].vtree], gate))
        number = np.arange(self._n_literals + len(self.gates), dtype=np.int32)
        number[self._n_literals + np.array(order, dtype=np.int64)] = self._n_literals + np.arange(len(order))
        gates = [self.gates[gate] for gate in order]
        elements = [element for gate in gates for element in gate.elements]
        start = frozen(np.cumsum([0] + [len(gate.elements) for gate in gates]))
        or_vtree = frozen([gate.vtree for gate in gates])
        prime, sub = number[[e.prime for e in elements]], number[[e.sub for e in elements]]
        circuit = Circuit(self._circuit.vtree, or_vtree, start, prime, sub, check=False)
        unchanged = np.array([element.unchanged for element in elements], dtype=bool)
        return SplitResult(circuit, frozen([element.origin for element in elements]), unchanged)


_OPEN = -1  # no node: the literal is not decided there


class _Copies:
    """The copies that one half of one split needs: shared within the half, not between the halves."""

    def __init__(self, editor: _Editor, literal: int, depth: int) -> None:
        self._editor, self._depth, self._literal = editor, depth, literal
        n_variables = editor._n_variables
        self._opposite = (literal + n_variables) % editor._n_literals
        self._place = editor._position[literal % n_variables]
        self._conditioned: dict[int, int | None] = {}
        self._copied: dict[tuple[int, int], int] = {}

    def condition_element(self, vtree: int, element: _Element) -> _Element | None:
        """A fresh element true where `element` and the literal are, or None where that is nowhere."""
        in_prime = self._is_left(vtree)
        conditioned = self._condition(element.prime if in_prime else element.sub)
        return None if conditioned is None else self._half(element, conditioned, in_prime)

    def _half(self, element: _Element, conditioned: int, in_prime: bool) -> _Element:
        """`element` with the child that mentions the variable conditioned and the other one copied."""
        sibling = self._copy(element.sub if in_prime else element.prime, self._depth)
        prime, sub = (conditioned, sibling) if in_prime else (sibling, conditioned)
        return _Element(prime, sub, element.origin, False)

    def _is_left(self, vtree: int) -> bool:
        first, stop = self._editor._range[self._editor._left[vtree]]
        return bool(first <= self._place < stop)

    def _condition(self, node: int) -> int | None:
        """The node true where `node` and the literal are, or None: level by level down to the variable, then up."""
        levels = [{node}]
        while levels[-1]:
            gates = [self._gate(n) for n in levels[-1] if self._decided(n) is _OPEN]
            levels.append({e.prime if self._is_left(g.vtree) else e.sub for g in gates for e in g.elements})
        for level in reversed(levels):
            for member in sorted(level):
                if member not in self._conditioned:
                    decided = self._decided(member)
                    self._conditioned[member] = self._build(member) if decided is _OPEN else decided
        return self._conditioned[node]

    def _decided(self, node: int) -> int | None:
        """The node itself where it implies the literal, None where it implies the opposite, else _OPEN."""
        implied = self._editor.implied_by(node)
        return node if self._literal in implied else None if self._opposite in implied else _OPEN

    def _build(self, node: int) -> int | None:
        gate = self._gate(node)
        in_prime = self._is_left(gate.vtree)
        children = [(e, self._conditioned[e.prime if in_prime else e.sub]) for e in gate.elements]
        return self._add(gate, [self._half(e, child, in_prime) for e, child in children if child is not None])

    def _gate(self, node: int) -> _Gate:
        return self._editor.gates[node - self._editor._n_literals]

    def _copy(self, node: int, depth: int) -> int:
        if depth == 0 or node < self._editor._n_literals:
            return node
        if (node, depth) not in self._copied:
            gate, copy, below = self._gate(node), self._copy, depth - 1
            elements = [_Element(copy(e.prime, below), copy(e.sub, below), e.origin, False) for e in gate.elements]
            added = self._add(gate, elements)
            assert added is not None
            self._copied[node, depth] = added
        return self._copied[node, depth]

    def _add(self, source: _Gate, elements: list[_Element]) -> int | None:
        """A new gate; the source loses what flows through the copy, so its own flows are no longer what they were."""
        if not elements:
            return None
        self._editor.touched.append(source)
        self._editor.gates.append(_Gate(source.vtree, elements))
        return self._editor._n_literals + len(self._editor.gates) - 1
