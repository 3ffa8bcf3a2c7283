"""A program as ONNX nodes, in two layouts: (row, example), fast on many examples, and (example, row), fast on one."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from lcml.arrays import FloatArray
from lcml_export.graph import Graph
from lcml_export.program import Program

BLOCK_ROWS = 1200
"""Rows of a block, each of a tile of examples: two blocks and their product are about a megabyte, a level 2 cache."""

GROUPS = 3
"""Into so many sums that do not wait for each other the long ones of a single example are cut."""

LONG_SUM, MOST_SETS = 3000, 10
"""Least features and most weight sets of such sums; with more sets their products wait for each other as it is."""


def logits_by_rows(graph: Graph, program: Program, literals: str) -> str:
    """(n_sets, n_examples) logits without bias from literals (2 n_variables, n_examples).

    Rows are multiplied with their weights at once, while they are in the cache.
    """
    logits, first = "", 0
    for n_rows, features in feature_blocks(graph, program, literals, BLOCK_ROWS):
        weights = graph.weights(program.weights[:, first : first + n_rows])
        part = graph.op("MatMul", weights, features)
        logits = graph.op("Add", logits, part) if logits else part
        first += n_rows
    return logits


def feature_blocks(graph: Graph, program: Program, literals: str, block_rows: int) -> Iterator[tuple[int, str]]:
    """The program's features (n_rows, ...) in order, in blocks: n_rows, then the rows.

    literals: (2 n_variables, ...). Rows that no other row needs come in blocks of at most `block_rows`.
    """
    table = _table_rows(graph, program, literals)
    for first in range(0, len(program.table_features), block_rows):
        rows = program.table_features[first : first + block_rows]
        yield len(rows), graph.take(table, rows)
    before = table
    for layer, n_used in zip(program.chain, program.n_used, strict=True):
        source, n_blocks = before, -(-(len(layer) - n_used) // block_rows)
        bounds = [0] * bool(n_used) + np.linspace(n_used, len(layer), n_blocks + 1).astype(int).tolist()
        for first, stop in pairwise(bounds):
            left = graph.take(source, layer.left[first:stop])
            products = graph.op("Mul", left, graph.take(table, layer.right[first:stop]))
            before = products if first == 0 else before
            yield stop - first, products


def _table_rows(graph: Graph, program: Program, literals: str) -> str:
    """The table, concatenated once: layers read the literals and the layers before them where they are."""
    pieces, bounds = [literals], [0, 2 * program.n_variables]
    for layer in program.table:
        ends = np.searchsorted(layer.right, bounds)
        parts = []
        for source, first, start, stop in zip(pieces, bounds, ends, ends[1:], strict=False):
            if stop > start:
                left = graph.take(pieces[-1], layer.left[start:stop] - bounds[-2])
                parts.append(graph.op("Mul", left, graph.take(source, layer.right[start:stop] - first)))
        pieces.append(graph.concat(parts))
        bounds.append(bounds[-1] + len(layer))
    return graph.concat(pieces)


def logits_by_examples(graph: Graph, program: Program, literals: str) -> str:
    """(n_examples, n_sets) logits without bias from literals (n_examples, 2 n_variables)."""
    table = literals
    for layer in program.table:
        products = graph.op("Mul", graph.columns(table, layer.left), graph.columns(table, layer.right))
        table = graph.concat([table, products], axis=1)
    weights = program.weights.T
    groups = GROUPS if len(weights) >= LONG_SUM and weights.shape[1] <= MOST_SETS else 1
    added = -len(weights) % groups
    table_features = np.append(np.zeros(added, np.int64), program.table_features)
    columns = table
    features = [graph.columns(table, table_features)] if len(table_features) else []
    for layer in program.chain:
        left, right = graph.columns(columns, layer.left), graph.columns(table, layer.right)
        columns = graph.op("Mul", left, right)
        features.append(columns)
    return _weighted_sum(graph, graph.concat(features, axis=1), np.pad(weights, ((added, 0), (0, 0))), groups)


def _weighted_sum(graph: Graph, features: str, weights: FloatArray, groups: int) -> str:
    """(n_examples, n_sets) of features (n_examples, n) and weights (n, n_sets), n a multiple of `groups`.

    With one example every sum adds in one register, each addition waiting for the one before. So the features of each
    group become a row, and are multiplied with the weights of all groups beside each other; of what comes out, the sums
    of rows with their own weights are added up.
    """
    if groups == 1:
        return graph.op("MatMul", features, graph.weights(weights, axis=1))
    n_sets = weights.shape[1]
    beside = weights.reshape(groups, -1, n_sets).swapaxes(0, 1).reshape(-1, groups * n_sets)
    rows = graph.op("Reshape", features, graph.constant([-1, len(beside)]))
    products = graph.op("MatMul", rows, graph.weights(beside, axis=1))
    own = np.kron(np.eye(groups).reshape(-1, 1), np.eye(n_sets))
    of_example = graph.op("Reshape", products, graph.constant([-1, len(own)]))
    return graph.op("MatMul", of_example, graph.constant(own, np.float32))
