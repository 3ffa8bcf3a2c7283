"""A circuit compiled for one backend: the index arrays of the up pass and of the pull-style down pass.

Down pass: every or gate pulls from the wires that lead to it, instead of elements pushing to their children, so that no
two writes meet. A wire to a node is named by the parent gate and the sibling at its other end.
"""

from dataclasses import dataclass

import numpy as np

from lcml.backend import Array, Backend
from lcml.backend.base import Structure
from lcml.circuits.circuit import Circuit


@dataclass(frozen=True, eq=False)
class Level:
    """The or gates first..stop-1 of one vtree height and their elements.

    prime, sub (n_elements of the level,): node ids; offsets (n_gates + 1,): element ranges, from 0.
    wire_parent, wire_sibling (n_wires,): parent or gate and sibling node of every wire to one of the gates, grouped by
    gate; wire_offsets (n_gates + 1,). None at the root, to which no wire leads.
    """

    first: int
    stop: int
    prime: Array
    sub: Array
    offsets: Array
    wire_parent: Array | None
    wire_sibling: Array | None
    wire_offsets: Array | None


@dataclass(frozen=True, eq=False)
class FlowPlan:
    """The compiled circuit. structure: as the backend's fused passes take it; levels: bottom-up.

    literal_parent, literal_sibling, literal_offsets: the wires to literals, as in Level, grouped by used literal;
    literal_segment (2 n_variables,): the group of every literal, that behind the last for a literal without wires.
    """

    circuit: Circuit
    backend: Backend
    structure: Structure
    levels: tuple[Level, ...]
    elem_or: Array
    elem_prime: Array
    elem_sub: Array
    literal_parent: Array
    literal_sibling: Array
    literal_offsets: Array
    literal_segment: Array


def compile_plan(circuit: Circuit, backend: Backend) -> FlowPlan:
    """Compile `circuit` for `backend`."""

    def device(values: np.ndarray) -> Array:
        return backend.asarray(np.ascontiguousarray(values), dtype=np.int64)

    child = np.concatenate([circuit.elem_prime, circuit.elem_sub])
    sibling = np.concatenate([circuit.elem_sub, circuit.elem_prime])
    parent = np.concatenate([circuit.elem_or, circuit.elem_or])
    order = np.argsort(child, kind="stable")
    sibling, parent = sibling[order], parent[order]
    wire_start = np.searchsorted(child[order], np.arange(circuit.n_nodes + 1))

    levels = []
    for first, stop in circuit.levels():
        span = slice(circuit.or_start[first], circuit.or_start[stop])
        elements = circuit.elem_prime[span], circuit.elem_sub[span], circuit.or_start[first : stop + 1] - span.start
        bounds = wire_start[circuit.n_literals + first : circuit.n_literals + stop + 1]
        to_gates = slice(bounds[0], bounds[-1])
        wires = parent[to_gates], sibling[to_gates], bounds - bounds[0]
        of_wires = map(device, wires) if len(wires[0]) else (None, None, None)
        levels.append(Level(first, stop, *map(device, elements), *of_wires))
    literal_bounds = wire_start[: circuit.n_literals + 1]
    used = np.flatnonzero(np.diff(literal_bounds))
    segment = np.full(circuit.n_literals, len(used))
    segment[used] = np.arange(len(used))
    elements = circuit.elem_or, circuit.elem_prime, circuit.elem_sub
    n_wires = literal_bounds[-1]
    literals = parent[:n_wires], sibling[:n_wires], np.append(literal_bounds[used], n_wires), segment
    arrays = map(device, (*elements, *literals))
    return FlowPlan(circuit, backend, backend.structure(circuit), tuple(levels), *arrays)
