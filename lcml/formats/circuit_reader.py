"""The lines of a `.circuit` file as a checked circuit and its weights; every error names its line."""

from array import array
from pathlib import Path

import numpy as np

from lcml.arrays import FloatArray
from lcml.circuits.circuit import Circuit
from lcml.circuits.vtree import Vtree
from lcml.formats.gates import Gates
from lcml.formats.lines import TextFile, excerpt

HEADERS = (b"Logistic Circuit", b"Logisitic Circuit", b"Regression Circuit")
"""What the first line may read; the second is how the authors' program spells it."""


class CircuitReader:
    """Reads and checks one file, line by line; then `circuit`, `literal_weights`, `element_weights` and `bias` hold it.

    Nodes are numbered as in a Circuit, gates in the order of the file. Raises FormatError.
    """

    def __init__(self, path: str | Path, vtree: Vtree) -> None:
        self._text = TextFile(path)
        self._gates = Gates(self._text, vtree)
        self._n_variables = vtree.n_variables
        self._literal_weights: dict[int, array[float]] = {}
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
        if self._n_variables == 1 and len(self._literal_weights) < 2:
            text.fail("expected a line T and a line F of the one variable; one is missing")

    def _read_literal(self, kind: bytes, tokens: list[bytes]) -> None:
        node_id, leaf, variable = self._text.integers(tokens[:3], "node id, vtree node, variable")
        self._gates.check_leaf(leaf, variable)
        literal = variable - 1 + (0 if kind == b"T" else self._n_variables)
        if literal in self._literal_weights:
            self._text.fail(f"the literal {kind.decode()} of variable {variable} stands in the file twice")
        self._gates.define(node_id, literal)
        self._literal_weights[literal] = array("d", self._weights(tokens[3:]))

    def _read_gate(self, line: bytes) -> None:
        head, *elements = line.split(b"(")
        node_id, node, size = self._text.integers(head.split()[1:], "node id, vtree node, number of elements")
        self._gates.check_size(node_id, node, size, len(elements))
        for i, element in enumerate(elements):
            body, end, rest = element.partition(b")")
            if not end or rest.strip():
                what = f"or gate {node_id}, element {i}"
                self._text.fail(f"{what}: expected '(PRIME SUB WEIGHTS)', found {excerpt(body)}")
            tokens = body.split()
            prime_id, sub_id = self._text.integers(tokens[:2], "prime id, sub id")
            self._gates.element(*self._gates.children(node_id, i, node, prime_id, sub_id))
            self._element_weights.extend(self._weights(tokens[2:]))
        self._gates.close(node_id, node)

    def _weights(self, tokens: list[bytes]) -> list[float]:
        if self._n_sets is None:
            self._n_sets = len(tokens)
        if len(tokens) != self._n_sets or not tokens:
            self._text.fail(f"expected {self._n_sets or 'at least one'} weight(s), as above, found {len(tokens)}")
        return self._text.numbers(tokens)

    def circuit(self) -> tuple[Circuit, FloatArray]:
        """The checked circuit, its gates ordered by vtree height, and its elements' weights (n_sets, n_elements)."""
        circuit, order = self._gates.circuit()
        return circuit, np.frombuffer(self._element_weights or b"").reshape(-1, len(self.bias))[order].T

    def literal_weights(self) -> FloatArray:
        """(n_sets, 2 n_variables) weights; call it after `circuit`, which bounds what the file can make it allocate."""
        zeros = array("d", [0.0] * len(self.bias))
        return np.array([self._literal_weights.get(literal, zeros) for literal in range(2 * self._n_variables)]).T
