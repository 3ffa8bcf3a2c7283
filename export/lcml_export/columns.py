"""A table as ONNX nodes: one input per column to the codes of `lcml.inputs.columns`, and codes to probabilities."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lcml.inputs.columns import Column, ColumnsEncoder
from lcml_export.graph import ML_DOMAIN, Graph, onnx_type

_NO_CATEGORY = -1
"""What stands for a gap among the places of categories."""


def codes(graph: Graph, encoder: ColumnsEncoder, types: Sequence[str], kind: Any, output: str) -> None:
    """The value `output` (n_examples, n_columns) of type `kind`: the codes of every column, NaN for a gap.

    types: of the inputs, each (n_examples, 1) and named as its column: float32, float64, or text, where "" is a gap.
    """
    parts, order = [], []
    for given in dict.fromkeys(types):
        own = [j for j, dtype in enumerate(types) if dtype == given]
        columns = [encoder.columns[j] for j in own]
        names = [_place(graph, column) for column in columns] if given == "text" else [c.name for c in columns]
        joined = graph.concat(names, axis=1)
        same = ("float32" if given == "text" else given) == np.dtype(kind).name
        parts.append(joined if same else graph.op("Cast", joined, to=onnx_type(kind)))
        order += own
    joined = graph.concat(parts, axis=1)
    graph.op("Identity", joined if len(parts) == 1 else graph.columns(joined, np.argsort(order)), output=output)


def _place(graph: Graph, column: Column) -> str:
    """(n_examples, 1) float32 places of texts: NaN for a gap, as many as there are categories for an unknown one."""
    n, gap = len(column.categories), {"": np.nan} if column.gaps else {}
    unknown = np.nan if column.kind == "ordinal" else float(n)
    if graph.operators.ml:
        known = dict(zip(column.categories, map(float, range(n)), strict=True)) | gap or {"": unknown}
        keys: dict[str, Any] = {"keys_strings": list(known), "values_floats": list(known.values())}
        return graph.op("LabelEncoder", column.name, domain=ML_DOMAIN, **keys, default_float=unknown)
    texts = column.categories or ("",)
    found = graph.op("Cast", graph.op("Equal", column.name, graph.constant([texts])), to=onnx_type(np.float32))
    below = graph.op("MatMul", found, graph.constant([[i - n] for i in range(n)] or [[0]], np.float32))
    place = graph.op("Add", below, graph.constant(n, np.float32))
    if column.kind == "ordinal":
        is_gap = graph.op("Equal", place, graph.constant(n, np.float32))
    elif gap:
        is_gap = graph.op("Equal", column.name, graph.constant([[""]]))
    else:
        return place
    return graph.op("Where", is_gap, graph.constant(np.nan, np.float32), place)


def encode_columns(graph: Graph, encoder: ColumnsEncoder, features: str, input_type: str) -> str:
    """Probabilities float32 (n_examples, n_outputs) of codes (n_examples, n_columns), as `Column.encode` computes them;
    all are NaN where a gap is in a column that had none in training."""
    columns = encoder.columns
    numbers, categories, gaps = _variables(encoder)
    knots = np.concatenate([np.zeros(0), *(column.knots for column in columns)])
    kind: Any = (
        np.float32 if input_type == "float32" and np.array_equal(knots, knots.astype(np.float32)) else np.float64
    )
    if input_type != kind.__name__:
        features = graph.op("Cast", features, to=onnx_type(kind))
    missing, refused = "", np.array([not column.gaps and column.kind != "category" for column in columns])
    if gaps or refused.any():
        missing = graph.op("IsNaN", features)
        filled = [column.knots[0] if len(column.knots) else _NO_CATEGORY for column in columns]
        features = graph.op("Where", missing, graph.constant(filled, kind), features)
    blocks = []
    if gaps:
        blocks.append(graph.columns(graph.op("Cast", missing, to=onnx_type(np.float32)), [j for _, j in gaps]))
    if numbers:
        index, low, high = ([variable[i] for variable in numbers] for i in (1, 2, 3))
        above = graph.op("Sub", graph.columns(features, index), graph.constant(low, kind))
        shares = graph.op("Div", above, graph.constant(np.subtract(high, low), kind))
        clipped = graph.op("Clip", shares, graph.constant(0, kind), graph.constant(1, kind))
        blocks.append(clipped if kind is np.float32 else graph.op("Cast", clipped, to=onnx_type(np.float32)))
    if categories:
        own, places = ([variable[i] for variable in categories] for i in (1, 2))
        equal = graph.op("Equal", graph.columns(features, own), graph.constant(places, kind))
        blocks.append(graph.op("Cast", equal, to=onnx_type(np.float32)))
    order = np.argsort([variable[0] for variable in (*gaps, *numbers, *categories)])
    encoded = graph.concat(blocks, axis=1)
    if np.any(np.diff(order) < 0):
        encoded = graph.columns(encoded, order)
    if not refused.any():
        return encoded
    nothing = graph.constant(np.where(refused, np.nan, 0), np.float32)
    wrong = graph.op("Where", missing, nothing, graph.constant(0, np.float32))
    any_wrong = graph.op("MatMul", wrong, graph.constant(np.ones((len(columns), 1)), np.float32))
    return graph.op("Add", encoded, any_wrong)


def _variables(
    encoder: ColumnsEncoder,
) -> tuple[list[tuple[int, int, float, float]], list[tuple[int, int, int]], list[tuple[int, int]]]:
    """(variable, column, ...) of those between two knots, with the knots; of a category, with its place; of a gap."""
    numbers, categories, gaps = [], [], []
    for j, (column, first) in enumerate(zip(encoder.columns, encoder.blocks.tolist(), strict=False)):
        if column.gaps:
            gaps.append((first, j))
        own = range(first + column.gaps, first + column.n_outputs)
        if column.kind == "category":
            categories += [(variable, j, place) for place, variable in enumerate(own, column.spared)]
        else:
            knots = column.knots.tolist()
            numbers += [(v, j, low, high) for v, low, high in zip(own, knots[:-1], knots[1:], strict=True)]
    return numbers, categories, gaps
