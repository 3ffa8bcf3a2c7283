"""A table as ONNX nodes: one input per column to the codes of `lcml.inputs.columns`, and codes to probabilities."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lcml.inputs.column import Column
from lcml.inputs.columns import ColumnsEncoder
from lcml_export.graph import ML_DOMAIN, Graph, onnx_type


def codes(
    graph: Graph, encoder: ColumnsEncoder, types: Sequence[str], kind: Any, output: str, *, keeps_gaps: bool = False
) -> None:
    """The value `output` (n_examples, n_columns) of type `kind`: the codes of every column, NaN for a gap, of a
    category where training had some or `keeps_gaps`.

    types: of the inputs, each (n_examples, 1) and named as its column: float32, float64, or text, where "" is a gap.
    """
    parts, order = [], []
    for given in dict.fromkeys(types):
        own = [j for j, dtype in enumerate(types) if dtype == given]
        columns = [encoder.columns[j] for j in own]
        names = [_place(graph, c, c.gaps or keeps_gaps) if given == "text" else c.name for c in columns]
        joined = graph.concat(names, axis=1)
        same = ("float32" if given == "text" else given) == np.dtype(kind).name
        parts.append(joined if same else graph.op("Cast", joined, to=onnx_type(kind)))
        order += own
    joined = graph.concat(parts, axis=1)
    graph.op("Identity", joined if len(parts) == 1 else graph.columns(joined, np.argsort(order)), output=output)


def _place(graph: Graph, column: Column, gaps: bool) -> str:
    """(n_examples, 1) float32 places of texts: NaN for a gap, as many as there are categories for an unknown one."""
    n, gap = len(column.categories), {"": np.nan} if gaps else {}
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


class _Variable(NamedTuple):
    """A variable `output` of a column; low: its category's place, its step, or its lower knot, high: the upper one."""

    output: int
    column: int
    low: float = 0.0
    high: float = 0.0


def encode_columns(graph: Graph, encoder: ColumnsEncoder, features: str, input_type: str) -> str:
    """Probabilities float32 (n_examples, n_outputs) of codes (n_examples, n_columns), as `ColumnsEncoder`."""
    columns, by_form = encoder.columns, _variables(encoder)
    instead = [column.filled for column in columns]
    bounds = np.array(instead + [bound for own in by_form.values() for variable in own for bound in variable[2:]])
    with np.errstate(over="ignore"):
        single = input_type == "float32" and np.array_equal(bounds, bounds.astype(np.float32))
    kind: Any = np.float32 if single else np.float64
    if input_type != kind.__name__:
        features = graph.op("Cast", features, to=onnx_type(kind))
    is_gap = graph.op("IsNaN", features)
    filled = graph.op("Where", is_gap, graph.constant(instead, kind), features)
    known = filled  # NaN for a gap where training had some
    if any(column.gaps and len(column.steps) for column in columns):
        keeps = graph.constant([column.gaps for column in columns])
        known = graph.op("Where", graph.op("And", is_gap, keeps), features, filled)
    blocks, order = [], []
    for form, own in by_form.items():
        _, index, low, high = zip(*own, strict=True)
        order += [variable.output for variable in own]
        if form == "gap":
            values = graph.columns(graph.op("Cast", is_gap, to=onnx_type(np.float32)), index)
        elif form == "between":
            above = graph.op("Sub", graph.columns(filled, index), graph.constant(low, kind))
            shares = graph.op("Div", above, graph.constant(np.subtract(high, low), kind))
            values = graph.op("Clip", shares, graph.constant(0, kind), graph.constant(1, kind))
        elif form == "category":
            values = graph.op("Equal", graph.columns(filled, index), graph.constant(low, kind))
        elif form == "step":  # Less is false of NaN, so a gap is below
            x, before = graph.columns(known, index), np.nextafter(np.array(low, kind), kind(-np.inf))
            values = graph.op("Less", graph.constant(before), x)
        else:  # Not and Less, as for thresholds: a gap is above
            values = graph.op("Not", graph.op("Less", graph.columns(known, index), graph.constant(low, kind)))
        is_float32 = form == "gap" or (form == "between" and single)
        blocks.append(values if is_float32 else graph.op("Cast", values, to=onnx_type(np.float32)))
    encoded = graph.concat(blocks, axis=1)
    if np.any(np.diff(order) < 0):
        encoded = graph.columns(encoded, np.argsort(order))
    return encoded


def _variables(encoder: ColumnsEncoder) -> dict[str, list[_Variable]]:
    """By form, where there are any: of a gap, between knots, of a category, of a step that has a gap below or above."""
    found: dict[str, list[_Variable]] = {"gap": [], "between": [], "category": [], "step": [], "step or gap": []}
    for j, (column, first) in enumerate(zip(encoder.columns, encoder.blocks.tolist(), strict=False)):
        if column.gaps:
            found["gap"].append(_Variable(first, j))
        values = range(first + column.gaps, first + column.gaps + column.n_values)
        if column.kind == "category":
            found["category"] += [_Variable(v, j, place) for place, v in enumerate(values, column.spared)]
        else:
            knots = column.knots.tolist()
            found["between"] += [_Variable(v, j, *ends) for v, ends in zip(values, pairwise(knots), strict=True)]
        for v, (step, above) in enumerate(zip(column.steps.tolist(), column.gap_above, strict=True), values.stop):
            found["step or gap" if above else "step"].append(_Variable(v, j, step))
    return {form: own for form, own in found.items() if own}
