"""The flows of any circuit as ONNX nodes of Gather, Mul and Add: up for probabilities, down for derivatives.

The division-free form of `lcml.passes.flows`, with one division by Pr(root) at the end where that can be below 1. The
elements of a gate are summed in rounds of pairs: unlike a scatter with addition, every runtime does that right and in
one order.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from lcml.circuits.circuit import Circuit
from lcml_export.graph import Graph, onnx_type

IntArray = NDArray[np.int64]


def flow_rows(graph: Graph, circuit: Circuit, literals: str, kind: Any = np.float32) -> str:
    """(2 n_variables + n_elements, n_examples) flows of all literals and elements.

    literals: (2 n_variables, n_examples) of type `kind`, which is also the type of the result.
    """
    if circuit.n_or_gates == 0:
        return literals
    probability, place = _up(graph, circuit, literals)
    derivative, or_place = _down(graph, circuit, probability, place, kind)
    elements = _take(graph, derivative, or_place[circuit.elem_or])
    for child in (circuit.elem_prime, circuit.elem_sub):
        elements = graph.op("Mul", elements, _take(graph, probability, place[child]))
    if circuit.is_tautology:
        return graph.op("Concat", literals, elements, axis=0)
    flows = graph.op("Concat", _literal_flows(graph, circuit, elements), elements, axis=0)
    return graph.op("Div", flows, _take(graph, probability, place[-1:]))


def segment_sum(graph: Graph, rows: str, counts: NDArray[Any]) -> tuple[str, IntArray]:
    """Sums of consecutive segments of `rows`, counts[i] > 0 rows each, in some order; and the row of each segment."""
    ends = np.cumsum(counts)
    members = [list(range(end - count, end)) for end, count in zip(ends.tolist(), counts.tolist(), strict=True)]
    while any(len(numbers) > 1 for numbers in members):
        pairs = [pair for numbers in members for pair in zip(numbers[::2], numbers[1::2], strict=False)]
        singles = [numbers[-1] for numbers in members if len(numbers) % 2]
        left, right = (_take(graph, rows, np.array(side)) for side in zip(*pairs, strict=True))
        parts = [graph.op("Add", left, right)] + ([_take(graph, rows, np.array(singles))] if singles else [])
        rows = graph.op("Concat", *parts, axis=0) if singles else parts[0]
        next_pair, next_single = iter(range(len(pairs))), iter(range(len(pairs), len(pairs) + len(singles)))
        members = [
            [next(next_pair) for _ in range(len(numbers) // 2)] + [next(next_single) for _ in range(len(numbers) % 2)]
            for numbers in members
        ]
    return rows, np.array([numbers[0] for numbers in members], dtype=np.int64)


def _up(graph: Graph, circuit: Circuit, literals: str) -> tuple[str, IntArray]:
    """Pr of every node, and the row of every node."""
    table, n_rows = literals, circuit.n_literals
    place = np.arange(circuit.n_nodes)
    for first, stop in circuit.levels():
        span = slice(int(circuit.or_start[first]), int(circuit.or_start[stop]))
        prime, sub = (_take(graph, table, place[side[span]]) for side in (circuit.elem_prime, circuit.elem_sub))
        sums, row_of = segment_sum(graph, graph.op("Mul", prime, sub), np.diff(circuit.or_start[first : stop + 1]))
        place[circuit.n_literals + first : circuit.n_literals + stop] = n_rows + row_of
        table = graph.op("Concat", table, sums, axis=0)
        n_rows += stop - first
    return table, place


def _down(graph: Graph, circuit: Circuit, probability: str, place: IntArray, kind: Any) -> tuple[str, IntArray]:
    """dPr(root)/dPr(g) of every or gate g, and the row of every or gate."""
    child = np.concatenate([circuit.elem_prime, circuit.elem_sub])
    sibling = np.concatenate([circuit.elem_sub, circuit.elem_prime])
    parent = np.concatenate([circuit.elem_or, circuit.elem_or])
    order = np.argsort(child, kind="stable")
    bounds = np.searchsorted(child[order], circuit.n_literals + np.arange(circuit.n_or_gates + 1))
    root_shape = graph.op("Shape", _take(graph, probability, place[-1:]))
    one = helper.make_tensor("one", onnx_type(kind), [1], [1])
    table, n_rows = graph.op("ConstantOfShape", root_shape, value=one), 1
    or_place = np.zeros(circuit.n_or_gates, dtype=np.int64)
    for first, stop in list(circuit.levels())[-2::-1]:
        wires = order[bounds[first] : bounds[stop]]
        from_parents = _take(graph, table, or_place[parent[wires]])
        rows = graph.op("Mul", from_parents, _take(graph, probability, place[sibling[wires]]))
        sums, row_of = segment_sum(graph, rows, np.diff(bounds[first : stop + 1]))
        or_place[first:stop] = n_rows + row_of
        table = graph.op("Concat", table, sums, axis=0)
        n_rows += stop - first
    return table, or_place


def _literal_flows(graph: Graph, circuit: Circuit, elements: str) -> str:
    """(2 n_variables, n_examples): every literal's flow is the sum of the elements it is a child of; 0 without one."""
    child = np.concatenate([circuit.elem_prime, circuit.elem_sub])
    element = np.tile(np.arange(circuit.n_elements), 2)
    order = np.argsort(child, kind="stable")
    counts = np.bincount(child, minlength=circuit.n_nodes)[: circuit.n_literals]
    used = np.flatnonzero(counts)
    rows = _take(graph, elements, element[order[: counts.sum()]])
    sums, row_of = segment_sum(graph, rows, counts[used])
    first = _take(graph, elements, np.array([0]))
    place = np.full(circuit.n_literals, len(used))
    place[used] = row_of
    return _take(graph, graph.op("Concat", sums, graph.op("Sub", first, first), axis=0), place)


def _take(graph: Graph, source: str, rows: NDArray[Any]) -> str:
    return graph.op("Gather", source, graph.constant(rows, np.int64), axis=0)
