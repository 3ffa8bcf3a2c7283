"""The text format of the authors' program, `.circuit`: one structure, K weight sets; see docs/file-formats.md.

Logistic Circuit
T ID VTREE VARIABLE w1 .. wK                       literal; variables count from 1
F ID VTREE VARIABLE w1 .. wK                       negated literal
D ID VTREE ELEMENTS (PRIME SUB w1 .. wK) (...)     or gate, after its children; the last one is the root
B b1 .. bK                                         bias, the last line
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lcml.arrays import FloatArray
from lcml.circuits.vtree import Vtree
from lcml.errors import SettingsError
from lcml.files import atomic_writer
from lcml.formats.circuit_reader import HEADERS, CircuitReader
from lcml.inputs.encoders import fit_encoder
from lcml.model.head import HEADS, Link
from lcml.model.model import LogisticCircuit

_COMMENT = """\
c Nodes stand bottom-up, children before parents; variables count from 1; the bias is the last line.
c T ID VTREE VARIABLE WEIGHTS                     literal
c F ID VTREE VARIABLE WEIGHTS                     negated literal
c D ID VTREE ELEMENTS (PRIME SUB WEIGHTS) (...)   or gate
c B WEIGHTS                                       bias
"""


def read_circuit(
    path: str | Path,
    vtree: Vtree,
    *,
    scale: float = 1.0,
    classes: tuple[int, ...] | tuple[str, ...] | None = None,
    link: Link | None = None,
) -> LogisticCircuit:
    """The model in a circuit file over `vtree`; its encoder divides raw features by `scale` and clips to [0, 1].

    classes: by default 0..K-1 for K weight sets, 0 and 1 for one set. link: by default the sigmoid, except for two
    sets, which are a softmax here (the same labels). A literal that the file leaves out is used by no element and has
    weight 0. Raises FormatError, with the line, where the file is no valid circuit over this vtree, SettingsError
    where scale or the number of classes does not fit.
    """
    encoder = fit_encoder("divide", np.empty((0, vtree.n_variables)), divisor=scale)
    reader = CircuitReader(path, vtree)
    n_sets = len(reader.bias)
    classes = classes or tuple(range(max(2, n_sets)))
    fitting: list[Link] = [name for name, head in HEADS.items() if head.n_sets(len(classes)) == n_sets]
    link = link or (fitting[0] if fitting else "sigmoid")
    if link not in fitting:
        taken = f"{len(classes)} classes with link {link} take {HEADS[link].n_sets(len(classes))}"
        raise SettingsError(f"{path} holds {n_sets} weight set(s); {taken}: give other classes")
    circuit, element_weights = reader.circuit()
    literal_weights, bias = reader.literal_weights(), np.array(reader.bias)
    return LogisticCircuit.flat(circuit, encoder, classes, element_weights, literal_weights, bias, link)


def write_circuit(model: LogisticCircuit, path: str | Path) -> None:
    """Write structure and weights of `model`; numbers in the shortest form that reads back exactly.

    The format has no place for encoder, classes, link, threshold and provenance, and literals without weights get
    weights 0. Raises OutputError where the file cannot be written.
    """
    with atomic_writer(path) as file:
        file.writelines(f"{line}\n".encode("ascii") for line in _lines(model))


def _lines(model: LogisticCircuit) -> Iterator[str]:
    circuit, n_variables = model.circuit, model.circuit.n_variables
    literal_weights = model.flat_weights[:, : circuit.n_literals].T
    element_weights = model.element_weights.T
    yield _COMMENT + HEADERS[0].decode()
    for literal, weights in enumerate(literal_weights):
        variable = literal % n_variables
        kind, leaf = "T" if literal < n_variables else "F", circuit.vtree.leaf_of_variable[variable]
        yield f"{kind} {literal} {leaf} {variable + 1} {_text(weights)}"
    for gate, node in enumerate(circuit.or_vtree):
        first, stop = circuit.or_start[gate : gate + 2]
        wires = zip(circuit.elements_of(gate), element_weights[first:stop], strict=True)
        elements = " ".join(f"({prime} {sub} {_text(weights)})" for (prime, sub), weights in wires)
        yield f"D {circuit.n_literals + gate} {node} {stop - first} {elements}"
    yield f"B {_text(model.bias)}"


def _text(weights: FloatArray) -> str:
    return " ".join(map(repr, weights.tolist()))
