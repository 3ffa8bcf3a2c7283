"""The UCLA tools' text format of probabilistic circuits, `.psdd`; see docs/file-formats.md.

psdd N                                             number of nodes
L ID VTREE LITERAL                                 literal, negative where it is negated; variables count from 1
T ID VTREE VARIABLE [LOGPROB] LOGPROB              both literals of a variable, the positive one's last
D ID VTREE ELEMENTS PRIME SUB LOGPROB ...          or gate, after its children; the last line is the root
"""

from array import array
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lcml.circuits.vtree import Vtree
from lcml.files import atomic_writer
from lcml.formats.gates import Gates
from lcml.formats.lines import TextFile, excerpt
from lcml.model.distribution import SUM_TOLERANCE, ProbabilisticCircuit

_COMMENT = "c A PSDD: children stand before parents, variables count from 1, the last line is the root.\n"

_TEXT_TOLERANCE = 1e-3
"""By how much probabilities of a gate may miss a sum of 1 in a file, which may have few digits; they are rescaled."""

_ZERO = (b"-inf", b"-infinity")  # how programs spell the logarithm of 0


def read_psdd(path: str | Path, vtree: Vtree) -> ProbabilisticCircuit:
    """The distribution in a file over `vtree`; a node T becomes two literals, its probabilities part of their wires'.

    Raises FormatError, with the line, where the file holds no probabilistic circuit over this vtree.
    """
    return _Reader(path, vtree).distribution


class _Reader:
    """Reads and checks one file, line by line."""

    def __init__(self, path: str | Path, vtree: Vtree) -> None:
        self._text, self._vtree = TextFile(path), vtree
        self._gates = Gates(self._text, vtree)
        self._log_truths: list[tuple[float, float]] = []  # of every node T, the logs of both its probabilities
        self._log_parameters = array("d")
        self._root = b""  # what kind of line came last
        self._only = 0.0, 0.0  # the logs of both literals, where that node is over one variable
        lines = self._text.lines()
        kind, *tokens = next(lines, b"").split() or [b""]
        if kind != b"psdd":
            self._text.fail(f"expected a line 'psdd NODES', found {excerpt(kind)}")
        (n_nodes,) = self._text.integers(tokens, "number of nodes")
        n_read = 0
        for n_read, line in enumerate(lines, 1):
            if n_read > n_nodes:
                self._text.fail(f"expected {n_nodes} nodes, found more: the count is wrong")
            self._read(line)
        if n_read != n_nodes or not self._text.ends_whole:
            self._text.fail(f"expected {n_nodes} nodes, found {n_read}: the file is truncated or its count is wrong")
        self.distribution = self._finished()

    def _read(self, line: bytes) -> None:
        kind, *tokens = line.split()
        self._root = kind
        if kind == b"L":
            unsigned = [token.removeprefix(b"-") if place == 2 else token for place, token in enumerate(tokens)]
            node_id, leaf, variable = self._text.integers(unsigned, "node id, vtree node, literal")
            is_negated = tokens[2] != unsigned[2]
            self._gates.check_leaf(leaf, variable)
            self._only = (-np.inf, 0.0) if is_negated else (0.0, -np.inf)
            self._gates.define(node_id, variable - 1 + is_negated * self._vtree.n_variables)
        elif kind == b"T":
            node_id, leaf, variable = self._text.integers(tokens[:3], "node id, vtree node, variable")
            self._gates.check_leaf(leaf, variable)
            self._only = self._truth(tokens[3:])
            self._log_truths.append(self._only)
            self._gates.truths.append(variable - 1)
            self._gates.define(node_id, -len(self._log_truths))
        elif kind == b"D":
            self._read_gate(tokens)
        else:
            self._text.fail(f"expected a line 'L ...', 'T ...' or 'D ...', found {excerpt(line)}")

    def _read_gate(self, tokens: list[bytes]) -> None:
        node_id, node, size = self._text.integers(tokens[:3], "node id, vtree node, number of elements")
        elements = [tokens[i : i + 3] for i in range(3, len(tokens), 3)]
        self._gates.check_size(node_id, node, size, len(elements))
        first = len(self._log_parameters)
        for i, element in enumerate(elements):
            ids = self._text.integers(element[:2], "prime id, sub id")
            log_theta = self._log(element[2:])
            children = self._gates.children(node_id, i, node, *ids)
            for prime, log_prime in self._literals(children[0]):
                for sub, log_sub in self._literals(children[1]):
                    self._gates.element(prime, sub)
                    self._log_parameters.append(log_theta + log_prime + log_sub)
        log_parameters = np.array(self._log_parameters[first:])
        total = float(np.exp(log_parameters).sum())
        if not abs(total - 1) <= _TEXT_TOLERANCE:
            self._text.fail(f"or gate {node_id}: its probabilities sum to {total:.6g}, expected 1")
        if abs(total - 1) > SUM_TOLERANCE:
            self._log_parameters[first:] = array("d", (log_parameters - np.log(total)).tolist())
        self._gates.close(node_id, node)

    def _literals(self, node: int) -> list[tuple[int, float]]:
        """The node itself, or of a node T both literals, with the logs of what they count."""
        if node >= 0:
            return [(node, 0.0)]
        variable, logs = self._gates.truths[-1 - node], self._log_truths[-1 - node]
        return [(variable, logs[0]), (variable + self._vtree.n_variables, logs[1])]

    def _truth(self, tokens: list[bytes]) -> tuple[float, float]:
        """The logs of both probabilities of a node T, that of the positive literal first."""
        if len(tokens) != 2:
            log_p = self._log(tokens)
            with np.errstate(divide="ignore"):
                return log_p, float(np.log(-np.expm1(log_p)))
        negative, positive = (self._log([token]) for token in tokens)
        log_sum = float(np.logaddexp(negative, positive))
        if not abs(np.expm1(log_sum)) <= _TEXT_TOLERANCE:
            self._text.fail(f"both probabilities sum to {np.exp(log_sum):.6g}, expected 1")
        return positive - log_sum, negative - log_sum

    def _log(self, tokens: list[bytes]) -> float:
        """The logarithm of a probability, -inf for that of 0."""
        if len(tokens) != 1:
            self._text.fail(f"expected one log probability, found {len(tokens)}")
        log = -np.inf if tokens[0].lower() in _ZERO else self._text.numbers(tokens)[0]
        return log if log <= 0 else self._text.fail(f"expected the log of a probability, 0 or below, found {log}")

    def _finished(self) -> ProbabilisticCircuit:
        if not self._root or (self._vtree.n_variables > 1 and self._root != b"D"):
            self._text.fail("expected the last line to be the root, a line 'D ...' over all variables")
        circuit, order = self._gates.circuit()
        if not circuit.n_or_gates:
            return ProbabilisticCircuit(circuit, np.array(self._only))
        return ProbabilisticCircuit(circuit, np.frombuffer(self._log_parameters)[order])


def write_psdd(distribution: ProbabilisticCircuit, path: str | Path) -> None:
    """Write structure and parameters; numbers in the shortest form that reads back exactly.

    Raises OutputError where the file cannot be written.
    """
    with atomic_writer(path) as file:
        file.writelines(f"{line}\n".encode("ascii") for line in _lines(distribution))


def _lines(distribution: ProbabilisticCircuit) -> Iterator[str]:
    circuit, logs = distribution.circuit, distribution.log_parameters.tolist()
    n, leaves = circuit.n_variables, circuit.vtree.leaf_of_variable.tolist()
    if not circuit.n_or_gates:
        yield f"{_COMMENT}psdd 1\nT 0 {leaves[0]} 1 {logs[0]!r}"
        return
    used = sorted({*circuit.elem_prime.tolist(), *circuit.elem_sub.tolist()} & {*range(circuit.n_literals)})
    nodes = [*used, *range(circuit.n_literals, circuit.n_nodes)]
    ids = {node: i for i, node in enumerate(nodes)}  # some readers take ids for places in a list of N
    yield f"{_COMMENT}psdd {len(ids)}"
    for literal in used:
        variable = literal % n
        yield f"L {ids[literal]} {leaves[variable]} {'-' if literal >= n else ''}{variable + 1}"
    for gate, node in enumerate(circuit.or_vtree.tolist()):
        first, stop = circuit.or_start[gate : gate + 2].tolist()
        wires = zip(circuit.elements_of(gate), logs[first:stop], strict=True)
        elements = " ".join(f"{ids[prime]} {ids[sub]} {log!r}" for (prime, sub), log in wires)
        yield f"D {len(used) + gate} {node} {stop - first} {elements}"
