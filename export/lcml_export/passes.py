"""The flows of any circuit as ONNX nodes: up for probabilities, down for derivatives, level by level.

The division-free form of `lcml.passes.flows`, with one division by Pr(root) at the end where that can be below 1. Every
level gathers, multiplies and sums up segments: by ScatterElements where the graph's operators allow, else in rounds
of pairs, by Gather and Add alone, which every runtime does right and in one order.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from lcml.circuits.circuit import Circuit
from lcml_export.graph import Graph, IndexArray, onnx_type


def flow_rows(graph: Graph, circuit: Circuit, literals: str, kind: Any = np.float32) -> str:
    """(2 n_variables + n_elements, n_examples) flows of all literals and elements.

    literals: (2 n_variables, n_examples) of type `kind`, which is also the type of the result.
    """
    if circuit.n_or_gates == 0:
        return literals
    probability, place = _up(graph, circuit, literals)
    derivative, or_place = _down(graph, circuit, probability, place, kind)
    elements = graph.take(derivative, or_place[circuit.elem_or])
    for child in (circuit.elem_prime, circuit.elem_sub):
        elements = graph.op("Mul", elements, graph.take(probability, place[child]))
    if circuit.is_tautology:
        return graph.concat([literals, elements])
    flows = graph.concat([_literal_flows(graph, circuit, elements), elements])
    return graph.op("Div", flows, graph.take(probability, place[-1:]))


def segment_sum(graph: Graph, rows: str, counts: NDArray[Any]) -> tuple[str, IndexArray]:
    """Sums of consecutive segments of `rows`, counts[i] > 0 rows each, in some order; and the row of each segment."""
    if not graph.operators.scatter:
        return _sums_of_pairs(graph, rows, counts)
    segment = np.repeat(np.arange(len(counts)), counts)[:, None]
    first = graph.take(rows, [0])
    zeros = graph.op("Expand", graph.op("Sub", first, first), graph.constant([len(counts), 1]))
    of_every_column = graph.op("Expand", graph.constant(segment), graph.op("Shape", rows))
    return graph.op("ScatterElements", zeros, of_every_column, rows, axis=0, reduction="add"), np.arange(len(counts))


def _sums_of_pairs(graph: Graph, rows: str, counts: NDArray[Any]) -> tuple[str, IndexArray]:
    """Every round adds up neighbours in a segment, until one row of each is left."""
    ends = np.cumsum(counts)
    members = [list(range(end - count, end)) for end, count in zip(ends.tolist(), counts.tolist(), strict=True)]
    while any(len(numbers) > 1 for numbers in members):
        pairs = [pair for numbers in members for pair in zip(numbers[::2], numbers[1::2], strict=False)]
        singles = [numbers[-1] for numbers in members if len(numbers) % 2]
        left, right = (graph.take(rows, side) for side in zip(*pairs, strict=True))
        added = graph.op("Add", left, right)
        rows = graph.concat([added, graph.take(rows, singles)]) if singles else added
        next_pair, next_single = iter(range(len(pairs))), iter(range(len(pairs), len(pairs) + len(singles)))
        members = [
            [next(next_pair) for _ in range(len(numbers) // 2)] + [next(next_single) for _ in range(len(numbers) % 2)]
            for numbers in members
        ]
    return rows, np.array([numbers[0] for numbers in members], dtype=np.int64)


def _up(graph: Graph, circuit: Circuit, literals: str) -> tuple[str, IndexArray]:
    """Pr of every node, and the row of every node."""
    table, n_rows = literals, circuit.n_literals
    place = np.arange(circuit.n_nodes)
    for first, stop in circuit.levels():
        span = slice(int(circuit.or_start[first]), int(circuit.or_start[stop]))
        prime, sub = (graph.take(table, place[side[span]]) for side in (circuit.elem_prime, circuit.elem_sub))
        sums, row_of = segment_sum(graph, graph.op("Mul", prime, sub), np.diff(circuit.or_start[first : stop + 1]))
        place[circuit.n_literals + first : circuit.n_literals + stop] = n_rows + row_of
        table = graph.concat([table, sums])
        n_rows += stop - first
    return table, place


def _down(graph: Graph, circuit: Circuit, probability: str, place: IndexArray, kind: Any) -> tuple[str, IndexArray]:
    """dPr(root)/dPr(g) of every or gate g, and the row of every or gate."""
    child = np.concatenate([circuit.elem_prime, circuit.elem_sub])
    sibling = np.concatenate([circuit.elem_sub, circuit.elem_prime])
    parent = np.concatenate([circuit.elem_or, circuit.elem_or])
    order = np.argsort(child, kind="stable")
    bounds = np.searchsorted(child[order], circuit.n_literals + np.arange(circuit.n_or_gates + 1))
    root_shape = graph.op("Shape", graph.take(probability, place[-1:]))
    one = helper.make_tensor("one", onnx_type(kind), [1], [1])
    table, n_rows = graph.op("ConstantOfShape", root_shape, value=one), 1
    or_place = np.zeros(circuit.n_or_gates, dtype=np.int64)
    for first, stop in list(circuit.levels())[-2::-1]:
        wires = order[bounds[first] : bounds[stop]]
        from_parents = graph.take(table, or_place[parent[wires]])
        rows = graph.op("Mul", from_parents, graph.take(probability, place[sibling[wires]]))
        sums, row_of = segment_sum(graph, rows, np.diff(bounds[first : stop + 1]))
        or_place[first:stop] = n_rows + row_of
        table = graph.concat([table, sums])
        n_rows += stop - first
    return table, or_place


def _literal_flows(graph: Graph, circuit: Circuit, elements: str) -> str:
    """(2 n_variables, n_examples): every literal's flow is the sum of the elements it is a child of; 0 without one."""
    child = np.concatenate([circuit.elem_prime, circuit.elem_sub])
    element = np.tile(np.arange(circuit.n_elements), 2)
    order = np.argsort(child, kind="stable")
    counts = np.bincount(child, minlength=circuit.n_nodes)[: circuit.n_literals]
    used = np.flatnonzero(counts)
    rows = graph.take(elements, element[order[: counts.sum()]])
    sums, row_of = segment_sum(graph, rows, counts[used])
    first = graph.take(elements, [0])
    place = np.full(circuit.n_literals, len(used))
    place[used] = row_of
    return graph.take(graph.concat([sums, graph.op("Sub", first, first)]), place)
