"""A program as ONNX nodes, in two layouts: (row, example), fast on many examples, and (example, row), fast on one."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lcml_export.graph import ML_DOMAIN, Graph
from lcml_export.program import Program

Take = Callable[[Graph, str, Any], str]


def logits_by_rows(graph: Graph, program: Program, literals: str) -> str:
    """(n_sets, n_examples) logits without bias from literals (2 n_variables, n_examples).

    Every layer is multiplied with its weights at once, so that its rows are still in the cache.
    """

    def take(source: str, rows: Any) -> str:
        return graph.op("Gather", source, graph.constant(rows, np.int64), axis=0)

    table = literals
    for layer in program.table:
        products = graph.op("Mul", take(table, layer.left), take(table, layer.right))
        table = graph.op("Concat", table, products, axis=0)
    rows, blocks = table, program.weight_blocks
    parts = [(blocks[0], take(table, program.table_features))] if len(program.table_features) else []
    for layer, weights in zip(program.chain, blocks[1:], strict=True):
        rows = graph.op("Mul", take(rows, layer.left), take(table, layer.right))
        parts.append((weights, rows))
    logits = ""
    for weights, features in parts:
        part = graph.op("MatMul", graph.constant(weights, np.float32), features)
        logits = graph.op("Add", logits, part) if logits else part
    return logits


def logits_by_examples(graph: Graph, program: Program, literals: str, take: Take) -> str:
    """(n_examples, n_sets) logits without bias from literals (n_examples, 2 n_variables)."""
    table = literals
    for layer in program.table:
        products = graph.op("Mul", take(graph, table, layer.left), take(graph, table, layer.right))
        table = graph.op("Concat", table, products, axis=1)
    columns = table
    features = [take(graph, table, program.table_features)] if len(program.table_features) else []
    for layer in program.chain:
        columns = graph.op("Mul", take(graph, columns, layer.left), take(graph, table, layer.right))
        features.append(columns)
    joined = graph.op("Concat", *features, axis=1) if len(features) > 1 else features[0]
    return graph.op("MatMul", joined, graph.constant(program.weights.T, np.float32))


def take_portable(graph: Graph, source: str, columns: Any) -> str:
    return graph.op("Gather", source, graph.constant(columns, np.int64), axis=1)


def take_fast(graph: Graph, source: str, columns: Any) -> str:
    """Columns by ArrayFeatureExtractor: on few examples many times faster than Gather."""
    return graph.op("ArrayFeatureExtractor", source, graph.constant(columns, np.int64), domain=ML_DOMAIN)
