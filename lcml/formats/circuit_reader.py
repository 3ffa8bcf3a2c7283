"""The lines of a `.circuit` file as a checked circuit and its weights; every error names its line."""

import re
from array import array
from pathlib import Path
from typing import NoReturn

import numpy as np

from lcml.arrays import FloatArray
from lcml.circuits.circuit import Circuit
from lcml.circuits.vtree import Vtree
from lcml.errors import CircuitError
from lcml.formats.lines import TextFile, excerpt

HEADERS = (b"Logistic Circuit", b"Logisitic Circuit", b"Regression Circuit")
"""What the first line may read; the second is how the authors' program spells it."""


class CircuitReader:
    """Reads and checks one file, line by line; then `circuit`, `literal_weights`, `element_weights` and `bias` hold it.

    Nodes are numbered as in a Circuit, gates in the order of the file. Raises FormatError.
    """

    def __init__(self, path: str | Path, vtree: Vtree) -> None:
        self._text, self._vtree = TextFile(path), vtree
        self._n_variables, self._n_literals = vtree.n_variables, 2 * vtree.n_variables
        self._left, self._right, self._variable = vtree.left.tolist(), vtree.right.tolist(), vtree.variable.tolist()
        self._node_of_id: dict[int, int] = {}
        self._literal_weights: dict[int, array[float]] = {}
        self._gates: list[tuple[int, int, int, int]] = []  # node id, line, vtree node, number of elements
        self._prime, self._sub = array("i"), array("i")
        self._n_sets: int | None = None
        self._element_weights = array("d")
        self.bias: list[float] = []
        self._read()

    def _read(self) -> None:
        text = self._text
        lines = text.lines()
        header = next(lines, b"")
        if b" ".join(header.split()) not in HEADERS:
            text.fail(f"expected the line 'Logistic Circuit', found {excerpt(header)}")
        for line in lines:
            kind = line.split(maxsplit=1)[0]
            if self.bias:
                text.fail(f"expected the bias to be the last line, found {excerpt(line)} after it")
            if kind in (b"T", b"F"):
                self._read_literal(kind, line.split()[1:])
            elif kind == b"D":
                self._read_gate(line)
            elif kind == b"B":
                self.bias = self._weights(line.split()[1:])
            else:
                text.fail(f"expected a line 'T ...', 'F ...', 'D ...' or 'B ...', found {excerpt(line)}")
        if not self.bias or not text.ends_whole:
            text.fail("expected a bias line 'B ...' with its line end, found the end of the file: it is truncated")
        if self._n_variables == 1 and len(self._literal_weights) < self._n_literals:
            text.fail("expected a line T and a line F of the one variable; one is missing")

    def _read_literal(self, kind: bytes, tokens: list[bytes]) -> None:
        node_id, leaf, variable = self._text.integers(tokens[:3], "node id, vtree node, variable")
        if variable < 1 or leaf >= len(self._variable) or self._variable[leaf] != variable - 1:
            self._text.fail(f"vtree node {leaf} is not the leaf of variable {variable}; is this the circuit's vtree?")
        literal = variable - 1 + (0 if kind == b"T" else self._n_variables)
        if literal in self._literal_weights:
            self._text.fail(f"the literal {kind.decode()} of variable {variable} stands in the file twice")
        self._define(node_id, literal)
        self._literal_weights[literal] = array("d", self._weights(tokens[3:]))

    def _read_gate(self, line: bytes) -> None:
        head, *elements = line.split(b"(")
        node_id, node, size = self._text.integers(head.split()[1:], "node id, vtree node, number of elements")
        if node >= len(self._left) or self._left[node] < 0:
            self._text.fail(f"or gate {node_id}: vtree node {node} is no inner node; is this the circuit's vtree?")
        if size != len(elements) or not elements:
            self._text.fail(f"or gate {node_id}: expected {size} and at least one element, found {len(elements)}")
        for i, element in enumerate(elements):
            body, end, rest = element.partition(b")")
            if not end or rest.strip():
                what = f"or gate {node_id}, element {i}"
                self._text.fail(f"{what}: expected '(PRIME SUB WEIGHTS)', found {excerpt(body)}")
            tokens = body.split()
            prime_id, sub_id = self._text.integers(tokens[:2], "prime id, sub id")
            self._prime.append(self._child(node_id, i, "prime", prime_id, self._left[node]))
            self._sub.append(self._child(node_id, i, "sub", sub_id, self._right[node]))
            self._element_weights.extend(self._weights(tokens[2:]))
        self._define(node_id, self._n_literals + len(self._gates))
        self._gates.append((node_id, self._text.line, node, size))

    def _child(self, gate_id: int, i: int, side: str, node_id: int, expected: int) -> int:
        """The node of a prime or sub, which must stand above this line and belong to vtree node `expected`."""
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
        if node >= self._n_literals:
            return self._gates[node - self._n_literals][2]
        return int(self._vtree.leaf_of_variable[node % self._n_variables])

    def _define(self, node_id: int, node: int) -> None:
        if node_id in self._node_of_id:
            self._text.fail(f"node id {node_id} is defined twice")
        self._node_of_id[node_id] = node

    def _weights(self, tokens: list[bytes]) -> list[float]:
        if self._n_sets is None:
            self._n_sets = len(tokens)
        if len(tokens) != self._n_sets or not tokens:
            self._text.fail(f"expected {self._n_sets or 'at least one'} weight(s), as above, found {len(tokens)}")
        return self._text.numbers(tokens)

    def circuit(self) -> tuple[Circuit, FloatArray]:
        """The checked circuit, its gates ordered by vtree height, and its elements' weights (n_sets, n_elements)."""
        gate_vtree, sizes = np.array(self._gates, np.int64).reshape(-1, 4)[:, 2:].T
        gates = np.argsort(self._vtree.height[gate_vtree], kind="stable")
        number = np.arange(self._n_literals + len(gates), dtype=np.int32)
        number[self._n_literals + gates] = self._n_literals + np.arange(len(gates))
        start = np.concatenate([[0], np.cumsum(sizes)])
        order = np.concatenate([np.arange(start[g], start[g + 1]) for g in gates] or [start[:0]])
        prime, sub = (number[np.frombuffer(side or b"", np.int32)][order] for side in (self._prime, self._sub))
        offsets = np.concatenate([[0], np.cumsum(sizes[gates])]).astype(np.int32)
        try:
            circuit = Circuit(self._vtree, gate_vtree[gates], offsets, prime, sub)
        except CircuitError as error:
            self._fail_at_gate(str(error), gates.tolist())
        return circuit, np.frombuffer(self._element_weights or b"").reshape(-1, len(self.bias))[order].T

    def _fail_at_gate(self, message: str, gates: list[int]) -> NoReturn:
        """Fail on the line of the gate that `message` names first, its ids and variables made those of the file."""
        named = re.search(r"or gate (\d+)", message)
        gate = gates[int(named[1])] if named else len(gates) - 1
        message = re.sub(r"or gate (\d+)", lambda match: f"or gate {self._gates[gates[int(match[1])]][0]}", message)
        message = re.sub(r"\bX(\d+)", lambda match: f"variable {int(match[1]) + 1}", message)
        self._text.fail(message, self._gates[gate][1] if gates else None)

    def literal_weights(self) -> FloatArray:
        """(n_sets, 2 n_variables) weights; call it after `circuit`, which bounds what the file can make it allocate."""
        zeros = array("d", [0.0] * len(self.bias))
        return np.array([self._literal_weights.get(literal, zeros) for literal in range(self._n_literals)]).T
