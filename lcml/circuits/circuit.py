"""The structure of a logistic circuit: or gates over elements, each a prime and a sub, normalised for a vtree.

Node ids, with n variables:

    0 .. n-1      the literals X_0 .. X_{n-1}
    n .. 2n-1     the literals not X_0 .. not X_{n-1}
    2n + g        or gate g; or gates stand bottom-up, the root is the last one

The elements of or gate g are elem_prime[or_start[g]:or_start[g+1]], likewise elem_sub. A circuit over one variable has
no or gate: its root is the constant true.
"""

from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from lcml.arrays import IntArray, frozen
from lcml.circuits.vtree import Vtree
from lcml.errors import CircuitError


@dataclass(frozen=True, eq=False)
class Circuit:
    """A smooth, structured-decomposable, deterministic circuit of literals, elements (AND) and or gates.

    vtree: the tree it is structured by; or_vtree (n_or_gates,): the vtree node of every or gate, by increasing height;
    or_start (n_or_gates + 1,): offsets of its elements; elem_prime, elem_sub (n_elements,): node ids.
    The constructor checks every structural property and raises CircuitError with the gate or element that breaks it;
    check: False for operations that keep every property (splits do).
    """

    vtree: Vtree
    or_vtree: IntArray
    or_start: IntArray
    elem_prime: IntArray
    elem_sub: IntArray

    check: InitVar[bool] = field(default=True, kw_only=True)

    def __post_init__(self, check: bool) -> None:
        for name in _ARRAYS:
            object.__setattr__(self, name, frozen(getattr(self, name)))
        if check:
            _check_arrays(self)
            _check_scopes(self)
            _check_determinism(self)

    @property
    def n_variables(self) -> int:
        return self.vtree.n_variables

    @property
    def n_literals(self) -> int:
        return 2 * self.vtree.n_variables

    @property
    def n_or_gates(self) -> int:
        return len(self.or_vtree)

    @property
    def n_elements(self) -> int:
        return len(self.elem_prime)

    @property
    def n_nodes(self) -> int:
        return self.n_literals + self.n_or_gates

    @cached_property
    def elem_or(self) -> IntArray:
        """(n_elements,) the or gate of every element."""
        return frozen(np.repeat(np.arange(self.n_or_gates), np.diff(self.or_start)))

    @cached_property
    def or_height(self) -> IntArray:
        """(n_or_gates,) the vtree height of every or gate; gates of one height form a level."""
        return frozen(self.vtree.height[self.or_vtree])

    @cached_property
    def node_vtree(self) -> IntArray:
        """(n_nodes,) the vtree node of every literal and or gate."""
        return frozen(np.concatenate([self.vtree.leaf_of_variable, self.vtree.leaf_of_variable, self.or_vtree]))

    @cached_property
    def implied(self) -> list[frozenset[int]]:
        """Per node, the literals that are true whenever the node is.

        A literal implies itself, an element what its prime or its sub implies, an or gate what all its elements imply.
        """
        implied = [frozenset((literal,)) for literal in range(self.n_literals)]
        for gate in range(self.n_or_gates):
            first, *others = (implied[p] | implied[s] for p, s in self.elements_of(gate))
            implied.append(first.intersection(*others))
        return implied

    @cached_property
    def leads_to(self) -> list[list[int]]:
        """Per node, the elements that it is a child of, in order."""
        elements: list[list[int]] = [[] for _ in range(self.n_nodes)]
        for element, children in enumerate(zip(self.elem_prime.tolist(), self.elem_sub.tolist(), strict=True)):
            for child in children:
                elements[child].append(element)
        return elements

    @cached_property
    def flow_class(self) -> IntArray:
        """(n_elements,) elements with equal numbers have the same flow for every example.

        A gate that one element leads to has that element's flow, one that all elements of a gate lead to has that
        gate's flow, and the only element of a gate has its gate's.
        """
        parents = self.leads_to
        sizes, elem_or = np.diff(self.or_start).tolist(), self.elem_or.tolist()
        of_element = list(range(self.n_elements))
        of_gate = [self.n_elements + gate for gate in range(self.n_or_gates)]
        for gate in reversed(range(self.n_or_gates)):
            above = parents[self.n_literals + gate]
            if len(above) == 1:
                of_gate[gate] = of_element[above[0]]
            elif above and len({elem_or[e] for e in above}) == 1 and len(above) == sizes[elem_or[above[0]]]:
                of_gate[gate] = of_gate[elem_or[above[0]]]
            if sizes[gate] == 1:
                of_element[self.or_start[gate]] = of_gate[gate]
        return frozen(of_element)

    @cached_property
    def is_tautology(self) -> bool:
        """Whether every example has Pr(root) = 1: then literal flows are the literals' probabilities."""
        return self.n_or_gates == 0 or self._model_counts[-1] == 1 << self.n_variables

    @cached_property
    def is_product(self) -> bool:
        """Whether every or gate's probability is the product of the literals it implies, and that of the root 1.

        So it is in every circuit grown by splits from the initial one. Exact: a gate that implies L literals of its
        scope of S variables is their product iff it has 2^(S - L) models.
        """
        sizes = np.diff(self.vtree.scope_range, axis=1)[self.node_vtree, 0].tolist()
        free = (1 << (size - len(literals)) for size, literals in zip(sizes, self.implied, strict=True))
        return self.is_tautology and all(count == full for count, full in zip(self._model_counts, free, strict=True))

    @cached_property
    def _model_counts(self) -> list[int]:
        """Per node, its models over the variables of its scope (exact integers)."""
        counts = [1] * self.n_literals
        for gate in range(self.n_or_gates):
            counts.append(sum(counts[p] * counts[s] for p, s in self.elements_of(gate)))
        return counts

    def elements_of(self, gate: int) -> Iterator[tuple[int, int]]:
        """The (prime, sub) pairs of or gate `gate`."""
        span = slice(self.or_start[gate], self.or_start[gate + 1])
        return zip(self.elem_prime[span].tolist(), self.elem_sub[span].tolist(), strict=True)

    def levels(self) -> list[tuple[int, int]]:
        """(first, stop) ranges of or gates of one vtree height, bottom-up."""
        return list(pairwise(np.flatnonzero(np.diff(self.or_height, prepend=-1, append=-1)).tolist()))

    def same_as(self, other: "Circuit") -> bool:
        """Whether both have the same vtree and the same arrays."""
        same = (np.array_equal(getattr(self, name), getattr(other, name)) for name in _ARRAYS)
        return self.vtree.same_as(other.vtree) and all(same)


_ARRAYS = ("or_vtree", "or_start", "elem_prime", "elem_sub")


def initial_circuit(vtree: Vtree) -> Circuit:
    """The structure learning starts from: one or gate per inner vtree node, true of every example.

    A child that is a leaf contributes both its literals, a child that is an inner node its or gate: a pair of variables
    makes four elements, a variable beside a block two, two blocks one. Source: Liang & Van den Broeck, AAAI 2019,
    appendix, Fig. 6.
    """
    n_variables = vtree.n_variables
    order = np.argsort(vtree.height, kind="stable")
    inner = order[vtree.left[order] >= 0]
    gate_of = np.full(vtree.n_nodes, -1, dtype=np.int32)
    gate_of[inner] = np.arange(len(inner))

    def choices(node: int) -> list[int]:
        if vtree.left[node] < 0:
            return [int(vtree.variable[node]), n_variables + int(vtree.variable[node])]
        return [2 * n_variables + int(gate_of[node])]

    elements = [[(p, s) for p in choices(vtree.left[node]) for s in choices(vtree.right[node])] for node in inner]
    start = np.cumsum([0] + [len(pairs) for pairs in elements])
    flat = np.array([pair for pairs in elements for pair in pairs], dtype=np.int32).reshape(-1, 2)
    return Circuit(vtree, *map(frozen, (inner, start, *flat.T)))


def name_of(circuit: Circuit, node: int) -> str:
    """How messages call a node: "X3", "not X3" or "or gate 12"."""
    if node < circuit.n_variables:
        return f"X{node}"
    if node < circuit.n_literals:
        return f"not X{node - circuit.n_variables}"
    return f"or gate {node - circuit.n_literals}"


def _check_arrays(circuit: Circuit) -> None:
    n_gates, n_elements = circuit.n_or_gates, circuit.n_elements
    if n_gates == 0 and circuit.n_variables > 1:
        raise CircuitError(f"circuit: expected at least one or gate over {circuit.n_variables} variables, found none")
    if circuit.or_start.shape != (n_gates + 1,) or circuit.elem_sub.shape != (n_elements,):
        raise CircuitError(
            f"circuit: expected {n_gates + 1} offsets and as many primes as subs, found "
            f"{len(circuit.or_start)} offsets, {n_elements} primes, {len(circuit.elem_sub)} subs"
        )
    if circuit.or_start[0] != 0 or circuit.or_start[-1] != n_elements or np.any(np.diff(circuit.or_start) < 1):
        raise CircuitError(f"circuit: offsets must rise from 0 to {n_elements}, with at least one element per or gate")
    nodes = circuit.or_vtree
    if (wrong := np.flatnonzero((nodes < 0) | (nodes >= circuit.vtree.n_nodes))).size:
        raise CircuitError(f"or gate {wrong[0]}: vtree node {nodes[wrong[0]]} does not exist")
    if (wrong := np.flatnonzero(circuit.vtree.left[nodes] < 0)).size:
        where = f"leaf {nodes[wrong[0]]} of the vtree"
        raise CircuitError(f"or gate {wrong[0]}: stands at {where}, expected an inner node")
    if np.any(np.diff(circuit.or_height) < 0):
        raise CircuitError("circuit: or gates must stand by increasing vtree height")
    if n_gates and circuit.or_vtree[-1] != circuit.vtree.root:
        raise CircuitError(f"circuit: the last or gate must stand at the vtree's root {circuit.vtree.root}")
    children = np.stack([circuit.elem_prime, circuit.elem_sub])
    bad = (children < 0) | (children >= circuit.n_literals + circuit.elem_or)
    if (wrong := np.flatnonzero(bad.any(axis=0))).size:
        element = wrong[0]
        raise CircuitError(
            f"element {element} of or gate {circuit.elem_or[element]}: its prime {children[0, element]} or sub "
            f"{children[1, element]} does not exist or does not stand before the gate"
        )
    used = np.zeros(circuit.n_nodes, dtype=bool)
    used[children.ravel()] = True
    if n_gates and (wrong := np.flatnonzero(~used[circuit.n_literals : -1])).size:
        raise CircuitError(f"or gate {wrong[0]}: no element uses it; drop it")


def _check_scopes(circuit: Circuit) -> None:
    """Decomposable, structured and smooth: the prime stands left below the gate's vtree node, the sub right."""
    vtree, gate_node = circuit.vtree, circuit.or_vtree[circuit.elem_or]
    prime, sub = circuit.node_vtree[circuit.elem_prime], circuit.node_vtree[circuit.elem_sub]
    wrong = np.flatnonzero((prime != vtree.left[gate_node]) | (sub != vtree.right[gate_node]))
    if not wrong.size:
        return
    e = int(wrong[0])
    names = [name_of(circuit, child[e]) for child in (circuit.elem_prime, circuit.elem_sub)]
    what = f"element {e} of or gate {circuit.elem_or[e]} ({', '.join(names)})"
    scopes = [set(vtree.scope(node).tolist()) for node in (prime[e], sub[e])]
    if shared := scopes[0] & scopes[1]:
        raise CircuitError(f"{what} is not decomposable: prime and sub share variable X{min(shared)}")
    sides = ("prime", scopes[0], vtree.left[gate_node[e]]), ("sub", scopes[1], vtree.right[gate_node[e]])
    for side, found, node in sides:
        expected = set(vtree.scope(node).tolist())
        if foreign := found - expected:
            where = f"its {side} mentions X{min(foreign)}, outside the scope of vtree node {node}"
            raise CircuitError(f"{what} is not structured: {where}")
        if missing := expected - found:
            raise CircuitError(f"{what} is not smooth: its {side} does not mention X{min(missing)}")
    raise CircuitError(f"{what} is not structured: its prime and sub belong to vtree nodes {prime[e]} and {sub[e]}")


def _check_determinism(circuit: Circuit) -> None:
    """No two elements of a gate can be true together.

    Exact: under one vtree, two nodes are true together iff they are the same or compatible literals, or some pair of
    their elements has primes true together and subs true together. Opposed implied literals decide most pairs at once.
    """
    implied = circuit.implied
    n, n_literals = circuit.n_variables, circuit.n_literals
    verdict: dict[tuple[int, int], bool] = {}

    def known(a: int, b: int) -> bool | None:
        """Whether nodes a and b can be true together, where that is known; None where it is not yet."""
        if a == b:
            return True
        key = (a, b) if a < b else (b, a)
        if key not in verdict:
            if any((literal + n) % n_literals in implied[b] for literal in implied[a]):
                verdict[key] = False
            elif a < n_literals or b < n_literals:
                verdict[key] = True
        return verdict.get(key)

    def pairs_below(a: int, b: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        for p, s in circuit.elements_of(a - n_literals):
            for q, t in circuit.elements_of(b - n_literals):
                yield (p, q), (s, t)

    def together(a: int, b: int) -> bool:
        open_pairs, stack = set(), [(a, b)]
        while stack:
            pair = stack.pop()
            if known(*pair) is None and pair not in open_pairs:
                open_pairs.add(pair)
                stack += [child for children in pairs_below(*pair) for child in children]
        for pair in sorted(open_pairs, key=min):  # gates stand bottom-up: what lies below is decided first
            verdict[min(pair), max(pair)] = any(known(*p) and known(*s) for p, s in pairs_below(*pair))
        return bool(known(a, b))

    for gate in range(circuit.n_or_gates):
        pairs = list(circuit.elements_of(gate))
        for j in range(1, len(pairs)):
            for i in range(j):
                (p, s), (q, t) = pairs[i], pairs[j]
                if together(p, q) and together(s, t):
                    raise CircuitError(
                        f"or gate {gate} is not deterministic: its elements {i} ({name_of(circuit, p)}, "
                        f"{name_of(circuit, s)}) and {j} ({name_of(circuit, q)}, {name_of(circuit, t)}) "
                        "can be true together"
                    )
