"""The nodes of a text file as they are read, bottom-up, and the checked circuit they make."""

import re
from array import array
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from lcml.circuits.circuit import Circuit
from lcml.circuits.vtree import Vtree
from lcml.errors import CircuitError
from lcml.formats.lines import TextFile


class Gates:
    """Nodes by their ids in the file, numbered as in a Circuit, or gates in the order of the file.

    truths: variables of nodes that are always true, which are numbered -1, -2, ... Raises FormatError.
    """

    def __init__(self, text: TextFile, vtree: Vtree) -> None:
        self._text, self._vtree = text, vtree
        self._n_variables, self.n_literals = vtree.n_variables, 2 * vtree.n_variables
        self._left, self._right, self._variable = vtree.left.tolist(), vtree.right.tolist(), vtree.variable.tolist()
        self._node_of_id: dict[int, int] = {}
        self._gates: list[tuple[int, int, int, int]] = []  # node id, line, vtree node, number of elements
        self._prime, self._sub = array("i"), array("i")
        self._stop = 0  # elements of the gates so far
        self.truths: list[int] = []

    def check_leaf(self, leaf: int, variable: int) -> None:
        """Fail unless the vtree node is the leaf of the variable, counted from 1."""
        if variable < 1 or leaf >= len(self._variable) or self._variable[leaf] != variable - 1:
            self._text.fail(f"vtree node {leaf} is not the leaf of variable {variable}; is this the circuit's vtree?")

    def check_size(self, node_id: int, node: int, size: int, found: int) -> None:
        """Fail unless the gate stands at an inner vtree node and has as many elements as it says, at least one."""
        if node >= len(self._left) or self._left[node] < 0:
            self._text.fail(f"or gate {node_id}: vtree node {node} is no inner node; is this the circuit's vtree?")
        if size != found or not found:
            self._text.fail(f"or gate {node_id}: expected {size} and at least one element, found {found}")

    def children(self, gate_id: int, i: int, node: int, prime_id: int, sub_id: int) -> tuple[int, int]:
        """The nodes of a prime and a sub, which must stand above this line and belong to the children of vtree node."""
        left, right = self._left[node], self._right[node]
        return self._child(gate_id, i, "prime", prime_id, left), self._child(gate_id, i, "sub", sub_id, right)

    def _child(self, gate_id: int, i: int, side: str, node_id: int, expected: int) -> int:
        what = f"or gate {gate_id}, element {i}: its {side} {node_id}"
        node = self._node_of_id.get(node_id)
        if node is None:
            self._text.fail(f"{what} is not defined above this line; children stand before parents")
        found = self._vtree_of(node)
        if found != expected:
            self._text.fail(
                f"{what} belongs to vtree node {found}, expected {expected}: the element is not decomposable or not "
                "smooth; is this the circuit's vtree?"
            )
        return node

    def _vtree_of(self, node: int) -> int:
        if node >= self.n_literals:
            return self._gates[node - self.n_literals][2]
        variable = self.truths[-1 - node] if node < 0 else node % self._n_variables
        return int(self._vtree.leaf_of_variable[variable])

    def define(self, node_id: int, node: int) -> None:
        """What a node id of the file stands for."""
        if node_id in self._node_of_id:
            self._text.fail(f"node id {node_id} is defined twice")
        self._node_of_id[node_id] = node

    def element(self, prime: int, sub: int) -> None:
        """One more element of the gate that `close` ends."""
        self._prime.append(prime)
        self._sub.append(sub)

    def close(self, node_id: int, node: int) -> None:
        """The gate of the elements since the one before."""
        self.define(node_id, self.n_literals + len(self._gates))
        self._gates.append((node_id, self._text.line, node, len(self._prime) - self._stop))
        self._stop = len(self._prime)

    def circuit(self) -> tuple[Circuit, NDArray[np.intp]]:
        """The checked circuit, its gates ordered by vtree height, and for every element its place in the file."""
        gate_vtree, sizes = np.array(self._gates, np.int64).reshape(-1, 4)[:, 2:].T
        gates = np.argsort(self._vtree.height[gate_vtree], kind="stable")
        number = np.arange(self.n_literals + len(gates), dtype=np.int32)
        number[self.n_literals + gates] = self.n_literals + np.arange(len(gates))
        start = np.concatenate([[0], np.cumsum(sizes)])
        order = np.concatenate([np.arange(start[g], start[g + 1]) for g in gates] or [start[:0]])
        prime, sub = (number[np.frombuffer(side or b"", np.int32)][order] for side in (self._prime, self._sub))
        offsets = np.concatenate([[0], np.cumsum(sizes[gates])]).astype(np.int32)
        try:
            return Circuit(self._vtree, gate_vtree[gates], offsets, prime, sub), order
        except CircuitError as error:
            self._fail_at_gate(str(error), gates.tolist())

    def _fail_at_gate(self, message: str, gates: list[int]) -> NoReturn:
        """Fail on the line of the gate that `message` names first, its ids and variables made those of the file."""
        named = re.search(r"or gate (\d+)", message)
        gate = gates[int(named[1])] if named else len(gates) - 1
        message = re.sub(r"or gate (\d+)", lambda match: f"or gate {self._gates[gates[int(match[1])]][0]}", message)
        message = re.sub(r"\bX(\d+)", lambda match: f"variable {int(match[1]) + 1}", message)
        self._text.fail(message, self._gates[gate][1] if gates else None)
