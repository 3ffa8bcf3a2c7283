"""Explanations that travel with the model: the output `contributions` and the sidecar that says what they are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from lcml.explain.contributions import feature_conditions
from lcml.model.model import LogisticCircuit
from lcml_export.encoding import encode
from lcml_export.graph import Graph, onnx_type
from lcml_export.input_types import InputType
from lcml_export.tiles import TILE, tiled
from lcml_export.windows import pass_features, tile_of_passes

BIAS = "bias"

SWITCH = "explain"
"""A scalar bool input, true by default: an initializer that a caller may override."""


def contributions(graph: Graph, model: LogisticCircuit, codes: str, input_type: InputType) -> None:
    """The output `contributions` (n_examples, n_features + 1): feature times weight, of the predicted class's weights.

    codes: the class numbers (n_examples,). The bias stands last, so that a row sums to the predicted class's logit;
    with one weight set for two classes, to the one logit there is. With control flow, who sets the input SWITCH to
    false gets no rows, and the speed of a model without explanations.
    """
    parts = [part for part in model.parts if part.n_features]

    def rows(inner: Graph, inputs: Sequence[str]) -> str:
        encoded = encode(inner, model, inputs[0], input_type)
        by_cell = []
        for part in parts:
            features = pass_features(inner, part.circuit, part.view, part.flows, encoded)
            by_example = inner.op("Transpose", features, perm=[1, 2, 0])
            by_cell.append(inner.op("Reshape", by_example, inner.constant([-1, part.n_features])))
        ones = inner.op("Expand", inner.constant(1, np.float32), inner.op("Shape", inputs[1]))
        joined = inner.concat([*by_cell, ones], axis=1)
        bias = inner.constant(model.bias[:, None], np.float32)
        sets = inner.concat([inner.weights(model.weights), bias], axis=1)
        if len(model.bias) == 1:
            return inner.op("Mul", joined, sets)
        flat = inner.op("Reshape", inputs[1], inner.constant([-1]))
        return inner.op("Mul", joined, inner.op("Gather", sets, flat, axis=0))

    column = graph.op("Unsqueeze", codes, graph.constant([1]))
    inputs = [("features", onnx_type(input_type)), (column, TensorProto.INT64)]
    if not graph.operators.control_flow:
        graph.op("Identity", rows(graph, ["features", column]), output="contributions")
        return
    width = model.weights.shape[1] + 1
    tile = min((tile_of_passes(part.view, part.circuit) for part in parts), default=TILE)
    explained, plain = graph.body("explain"), graph.body("plain")
    wanted = explained.op("Identity", tiled(explained, rows, inputs, width, tile))
    nothing = plain.op("Expand", plain.constant(0, np.float32), plain.constant([0, width]))
    branches = explained.as_body([], wanted, width), plain.as_body([], nothing, width)
    graph.op("If", SWITCH, then_branch=branches[0], else_branch=branches[1], output="contributions")


def sidecar(model: LogisticCircuit, feature_names: Sequence[str]) -> dict[str, Any]:
    """What the service reads beside the model: {"conditions": one text per contribution, ...}."""
    return {
        "conditions": [*feature_conditions(model, feature_names), BIAS],
        "classes": list(model.classes),
        "sums_to": "the logit of the predicted class" if len(model.bias) > 1 else "the logit of the second class",
    }
