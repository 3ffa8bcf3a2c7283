"""Decision trees as one circuit: side by side, each over variables of its own that read what its inner nodes test.

The variables of a tree are its inner nodes in the order of a walk, the true branch first, and one more, which reads
nothing (0): below it a right-linear vtree. Where a node is not asked on the way, both its literals lead on to the same
gate, so that the gate of every subtree is true of all worlds, and the wire to a leaf, the last literal asked and what
follows, has as its flow the probability of the leaf: the product of the literals on its way. Trees are joined by gates
of one element. Only leaves carry weights, and not the last of a tree, since a tree's leaves sum to 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import frozen
from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import Circuit
from lcml.circuits.parts import Part
from lcml.circuits.views import SelectedView
from lcml.errors import CircuitError


@dataclass(frozen=True)
class Tree:
    """A decision tree: the input that is asked, and a tree or the number of a leaf for where it is true and false."""

    test: int
    true: "Tree | int"
    false: "Tree | int"

    def tests(self) -> list[int]:
        """The inputs asked, in the order of the walk."""
        below = [test for child in (self.true, self.false) if isinstance(child, Tree) for test in child.tests()]
        return [self.test, *below]

    def leaves(self) -> list[int]:
        """The numbers of the leaves, in the order of the walk."""
        of_children = (child.leaves() if isinstance(child, Tree) else [child] for child in (self.true, self.false))
        return [leaf for leaves in of_children for leaf in leaves]


def tree_part(trees: Sequence[Tree], n_inputs: int) -> tuple[Part, NDArray[np.intp]]:
    """The part that all trees make together, and the leaf that each of its features stands for, counted through all
    trees; the leaf of the highest number of every tree is that without a feature.

    n_inputs: encoded inputs of an example. Raises CircuitError without a tree.
    """
    if not trees:
        raise CircuitError("a part of trees needs one at least")
    tests = [[*tree.tests(), n_inputs] for tree in trees]
    sizes = [len(asked) for asked in tests]  # of variables, and of leaves
    firsts = np.cumsum([0, *sizes]).tolist()
    builder = _Builder(sizes)
    roots = [
        builder.tree(tree, first, size - 1, first) for tree, first, size in zip(trees, firsts, sizes, strict=False)
    ]
    circuit, flow_of_leaf = builder.build(roots)
    lasts = {stop - 1 for stop in firsts[1:]}
    kept = {flow: leaf for leaf, flow in flow_of_leaf.items() if leaf not in lasts}
    weighted = np.zeros(circuit.n_literals + circuit.n_elements, bool)
    weighted[list(kept)] = True
    view = SelectedView(n_inputs, tuple(test for asked in tests for test in asked))
    return Part(view, circuit, weighted), np.array([kept[flow] for flow in sorted(kept)], np.intp)


class _Builder:
    """Collects the gates of trees over blocks of variables."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.vtree = vtrees.side_by_side(sizes)
        self._n, left = self.vtree.n_variables, self.vtree.left
        self._above = {int(left[node]): int(node) for node in np.flatnonzero(left >= 0)}
        self._elements: list[list[tuple[int, int]]] = []
        self._node: list[int] = []
        self.leaf_wires: dict[int, tuple[int, int]] = {}

    def tree(self, tree: Tree, first: int, n_tests: int, leaf: int) -> int:
        """The gate of a tree whose variables are first to first + n_tests, the last of which reads nothing; its leaves
        are counted from `leaf` on."""
        last = first + n_tests
        known: dict[tuple[int, int], int] = {}

        def gate(variable: int, place: int, subtree: Tree | int) -> int:
            """Over `variable` and those behind it, for a subtree that asks the variable `place`."""
            key = (variable, place if isinstance(subtree, Tree) else -1)
            if key not in known:
                asked = isinstance(subtree, Tree) and place == variable
                ways = [(subtree, place)] * 2  # what follows where the literal is true, and the variable asked there
                if asked and isinstance(subtree, Tree):
                    n_below = len(subtree.true.tests()) if isinstance(subtree.true, Tree) else 0
                    ways = [(subtree.true, place + 1), (subtree.false, place + 1 + n_below)]
                elements: list[tuple[int, int]] = []
                wires = []
                for literal, (below, at) in zip((variable, variable + self._n), ways, strict=True):
                    if asked and not isinstance(below, Tree):
                        wires.append((leaf + below, len(elements)))
                    if variable + 1 == last:
                        elements += [(literal, last + self._n), (literal, last)]
                    else:
                        elements.append((literal, gate(variable + 1, at, below)))
                known[key] = self._add(self._above[int(self.vtree.leaf_of_variable[variable])], elements)
                self.leaf_wires |= {number: (known[key], element) for number, element in wires}
            return known[key]

        return gate(first, first, tree)

    def _add(self, node: int, elements: list[tuple[int, int]]) -> int:
        self._elements.append(elements)
        self._node.append(node)
        return 2 * self._n + len(self._node) - 1

    def build(self, roots: Sequence[int]) -> tuple[Circuit, dict[int, int]]:
        """The circuit, and the number among the flows of every leaf."""
        gate_at = dict(zip((self._node[root - 2 * self._n] for root in roots), roots, strict=True))
        for node in reversed(self.vtree.top_down):
            left, right = int(self.vtree.left[node]), int(self.vtree.right[node])
            if left in gate_at and right in gate_at:
                gate_at[node] = self._add(node, [(gate_at[left], gate_at[right])])
        order = np.argsort(self.vtree.height[self._node], kind="stable")
        new_id = np.arange(2 * self._n + len(order))
        new_id[2 * self._n + order] = 2 * self._n + np.arange(len(order))
        pairs = new_id[np.array([pair for gate in order.tolist() for pair in self._elements[gate]])]
        start = np.cumsum([0, *(len(self._elements[gate]) for gate in order.tolist())])
        nodes = np.array(self._node)[order]
        circuit = Circuit(self.vtree, *map(frozen, (nodes, start, *pairs.T)), check=False)
        wires = {leaf: (new_id[gate] - 2 * self._n, element) for leaf, (gate, element) in self.leaf_wires.items()}
        return circuit, {leaf: int(2 * self._n + start[gate] + element) for leaf, (gate, element) in wires.items()}
