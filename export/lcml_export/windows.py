"""What a circuit reads through a view, and its flows pooled over the positions of every cell, as ONNX nodes.

Rows of a program are (row, place, cell * example), a place being the first, second, ... position of every cell:
products of rows run along contiguous memory, a place of all cells is one block of it, and pooling is a sum of blocks.
Rows of the passes, and of programs under cells that overlap, are (row, example * position), with each position once,
and pooling is a product with the matrix that averages over cells.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from lcml.circuits.circuit import Circuit
from lcml.circuits.views import IdentityView, View, WindowView
from lcml_export.compiled import PooledPart
from lcml_export.graph import ML_DOMAIN, Graph, onnx_type
from lcml_export.layouts import feature_blocks
from lcml_export.passes import flow_rows
from lcml_export.program import Program
from lcml_export.tiles import TILE

TABLE_BYTES = 1 << 20
"""The rows of a tile that many others read, literals and shared products, should fit a level 2 cache."""

BLOCK_BYTES = 300_000
"""Size of a block of rows: two blocks and their product fit a level 2 cache as well."""


def literal_rows(graph: Graph, view: View, encoded: str, kind: Any = np.float32) -> str:
    """(2 n_variables, n_examples * n_positions) q above 1 - q, of type `kind`, of encoded (n_examples, n_inputs)."""
    if kind is not np.float32:
        encoded = graph.op("Cast", encoded, to=onnx_type(kind))
    if isinstance(view, IdentityView):
        positive = graph.op("Transpose", encoded, perm=[1, 0])
    else:
        if np.any(view.index == view.n_inputs):
            first = graph.take(encoded, [0], axis=1)
            encoded = graph.concat([encoded, graph.op("Sub", first, first)], axis=1)  # the input 0 of all padding
        read = _read_windows(graph, view, encoded)
        positive = graph.op("Reshape", read, graph.constant([view.n_variables, -1]))
    return graph.concat([positive, graph.op("Sub", graph.constant(1, kind), positive)])


def _read_windows(graph: Graph, view: View, inputs: str) -> str:
    """(n_variables, n_examples, n_positions) what every variable reads of inputs (n_examples, n_inputs)."""
    index = view.index.T.astype(np.int64)
    if not graph.operators.ml:
        read = graph.take(graph.op("Transpose", inputs, perm=[1, 0]), index)
        return graph.op("Transpose", read, perm=[0, 2, 1])
    read = graph.op("ArrayFeatureExtractor", inputs, graph.constant(index.ravel()), domain=ML_DOMAIN)
    by_variable = graph.op("Reshape", read, graph.constant([-1, *index.shape]))
    return graph.op("Transpose", by_variable, perm=[1, 0, 2])


def pooled_logits(graph: Graph, parts: Sequence[PooledPart], encoded: str) -> str:
    """(n_examples, n_sets) what `parts` add to the logits, of encoded (n_examples, n_inputs)."""
    by_place = any(part.program is not None and not _overlaps(part.part.view) for part in parts)
    inputs = graph.op("Transpose", encoded, perm=[1, 0]) if by_place else ""
    added = [_pooled_logits(graph, part, encoded, inputs) for part in parts]
    return graph.op("Transpose", reduce(partial(graph.op, "Add"), added), perm=[1, 0])


def _pooled_logits(graph: Graph, part: PooledPart, encoded: str, inputs: str) -> str:
    """(n_sets, n_examples) what `part` adds; inputs: `encoded` transposed, which programs read by place."""
    n_sets, n_cells, n_rows = part.weights.shape
    if part.program is None:
        pooled = pass_features(graph, part.part.circuit, part.part.view, part.flows, encoded)
        pooled = graph.op("Transpose", pooled, perm=[0, 2, 1])
    else:
        pooled = _program_features(graph, part.part.view, part.program, encoded, inputs)
    features = graph.op("Reshape", pooled, graph.constant([n_rows * n_cells, -1]))
    weights = part.weights.transpose(0, 2, 1).reshape(n_sets, n_rows * n_cells)
    return graph.op("MatMul", graph.weights(weights), features)


def pass_features(graph: Graph, circuit: Circuit, view: View, flows: NDArray[np.integer], encoded: str) -> str:
    """(n_flows, n_examples, n_cells) float32, the features of `flows` by the passes over the circuit.

    In double where Pr(root) can be below 1: a product of many probabilities would underflow.
    """
    kind: type = np.float32 if circuit.is_tautology else np.float64
    rows = flow_rows(graph, circuit, literal_rows(graph, _once(view), encoded, kind), kind)
    if len(flows) < circuit.n_literals + circuit.n_elements:
        rows = graph.take(rows, flows)
    pooled = _pool(graph, view, rows, len(flows), kind)
    if view.root:
        pooled = graph.op("Sqrt", pooled)
    return pooled if kind is np.float32 else graph.op("Cast", pooled, to=onnx_type(np.float32))


def tile_of_part(part: PooledPart) -> int:
    """Examples whose rows, of the program of `part` or of the passes, have TABLE_BYTES."""
    view, program = part.part.view, part.program
    return tile_of_passes(view, part.part.circuit) if program is None else _tile_of_program(view, program)


def tile_of_passes(view: View, circuit: Circuit) -> int:
    """Examples whose probabilities, derivatives and flows have TABLE_BYTES; TILE where there is one position."""
    return TILE if isinstance(view, IdentityView) else _tile(view, 2 * (circuit.n_literals + circuit.n_elements))


def _tile_of_program(view: View, program: Program) -> int:
    return _tile(view, 2 * program.n_variables + sum(len(layer) for layer in program.table))


def _tile(view: View, n_rows: int) -> int:
    return min(TILE, max(1, TABLE_BYTES // (4 * n_rows * _once(view).n_positions)))


def _program_features(graph: Graph, view: View, program: Program, encoded: str, inputs: str) -> str:
    """(n_rows, n_cells, n_examples) features of `program`, or roots of its sums; inputs: `encoded` transposed."""
    once = _once(view)
    sizes = np.diff(once.cell_start)
    columns = 4 * sizes.max() * len(sizes) * _tile_of_program(view, program)
    literals = literal_rows(graph, once, encoded) if _overlaps(view) else _literals_by_place(graph, view, inputs)
    blocks = feature_blocks(graph, program, literals, max(1, BLOCK_BYTES // columns))
    if _overlaps(view):
        pooled = graph.concat([_pool(graph, view, rows, n_rows) for n_rows, rows in blocks])
        by_cell = graph.op("Transpose", pooled, perm=[0, 2, 1])
    else:
        mean = graph.constant(np.full((1, sizes.max()), 1 / sizes.max()), np.float32)
        pooled = graph.concat([graph.op("MatMul", mean, rows) for _, rows in blocks])
        by_cell = graph.op("Reshape", pooled, graph.constant([program.weights.shape[1], view.n_cells, -1]))
        if np.any(sizes != sizes.max()):
            by_cell = graph.op("Mul", by_cell, graph.constant(sizes.max() / sizes[:, None], np.float32))
    return _roots(graph, view, program, by_cell) if view.root else by_cell


def _overlaps(view: View) -> TypeGuard[WindowView]:
    return isinstance(view, WindowView) and any(view.overlap)


def _once(view: View) -> View:
    """The view, or where its cells overlap one of a single cell, which has every position once."""
    return replace(view, grid=(1, 1), overlap=(0, 0)) if _overlaps(view) else view


def _literals_by_place(graph: Graph, view: View, inputs: str) -> str:
    """(2 n_variables, n_places, n_cells * n_examples) q above 1 - q of what every variable reads in the first, second,
    ... position of every cell; where a cell has fewer positions than others, all literals, and so all products, are 0.

    What all cells read in one place of theirs is a block, and variables share blocks: the pixel left of the second
    place is that in the first.
    """
    sizes = np.diff(view.cell_start)
    used, number = np.unique(view.index, return_inverse=True)
    used = used[used < view.n_inputs].astype(np.int64)
    outside, beyond = len(used), len(used) + 1
    place = np.arange(sizes.max())[:, None]
    position = np.minimum(place, sizes - 1) + view.cell_start[:-1]
    read = number.reshape(view.index.shape)[position]  # (n_places, n_cells, n_variables)
    read = np.where((place >= sizes)[..., None], beyond, read).transpose(2, 0, 1)
    blocks, place_of = np.unique(read.reshape(-1, view.n_cells), axis=0, return_inverse=True)
    if np.array_equal(used, np.arange(used[0], used[-1] + 1)):  # a channel, or all of them
        bounds = [graph.constant([bound]) for bound in (used[0], used[-1] + 1, 0)]
        rows = graph.op("Slice", inputs, *bounds)
    else:
        rows = graph.take(inputs, used)
    if blocks.max() >= outside:
        first = graph.take(inputs, [0])
        rows = graph.concat([rows, graph.op("Sub", first, first)])
    read_once = graph.take(rows, np.minimum(blocks, outside))  # (n_blocks, n_cells, n_examples)
    is_there = graph.constant((blocks != beyond)[..., None], np.float32)
    flat = graph.constant([len(blocks), -1])
    both = [graph.op("Reshape", each, flat) for each in (read_once, graph.op("Sub", is_there, read_once))]
    places = place_of.reshape(read.shape[:2])
    return graph.take(graph.concat(both), np.concatenate([places, len(blocks) + places]))


def _pool(graph: Graph, view: View, rows: str, n_rows: int, kind: Any = np.float32) -> str:
    """(n_rows, n_examples, n_cells) means over cells of rows (n_rows, n_examples * n_positions), each position once."""
    once = _once(view)
    by_position = graph.op("Reshape", rows, graph.constant([n_rows, -1, once.n_positions]))
    if view.n_cells == view.n_positions:
        return by_position
    number = np.arange(view.n_positions)
    if _overlaps(view):  # there it is row by row
        row, column = ((view.position_origin + view.padding) // view.stride).T
        number = row * view.position_grid[1] + column
    shares = np.zeros((once.n_positions, view.n_cells))
    shares[number, np.repeat(np.arange(view.n_cells), np.diff(view.cell_start))] = view.position_share
    return graph.op("MatMul", by_position, graph.constant(shares, kind))


def _roots(graph: Graph, view: View, program: Program, pooled: str) -> str:
    """Square roots of the program's sums. A flow is a sum of products that exclude each other, so every weight is 1.

    Most are of one feature. The others are filled up with zeros to 2, 4, 8, ... and added up together: few of many
    features belong to each, a matrix would hold zeros.
    """
    weights, bias, n_features = program.weights, program.bias, program.weights.shape[1]
    counts = np.count_nonzero(weights, axis=1)
    sizes = 1 << np.ceil(np.log2(np.maximum(counts, 1))).astype(int)
    features = graph.op("Reshape", pooled, graph.constant([n_features, -1]))
    if np.any(counts < sizes):
        first = graph.take(features, [0])
        features = graph.concat([features, graph.op("Sub", first, first)])
    order, parts = [], []
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size)
        columns = np.full((len(rows), size), n_features)
        for of_row, row in zip(columns, rows, strict=True):
            of_row[: counts[row]] = np.flatnonzero(weights[row])
        added = graph.take(features, columns)
        if size > 1:
            added = graph.op("MatMul", graph.constant(np.ones((1, size)), np.float32), added)
        parts.append(graph.op("Reshape", added, graph.constant([len(rows), view.n_cells, -1])))
        order.append(rows)
    sums = graph.concat(parts)
    number = np.argsort(np.concatenate(order))
    if np.any(number != np.arange(len(number))):
        sums = graph.take(sums, number)
    if np.any(bias):
        sums = graph.op("Add", sums, graph.constant(bias[:, None, None], np.float32))
    return graph.op("Sqrt", sums)
