"""Explanations that travel with the model: the output `contributions` and the sidecar that says what they are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from lcml.explain import conditions
from lcml.model import LogisticCircuit
from lcml_export.encoding import InputType
from lcml_export.graph import Graph, onnx_type
from lcml_export.profiles import model_flows
from lcml_export.tiles import tiled

BIAS = "bias"

SWITCH = "explain"
"""A scalar bool input, true by default: an initializer that a caller may override."""


def first_feature(model: LogisticCircuit) -> int:
    """Literals without weights contribute nothing and are left out: where the contributions begin among the flows."""
    return model.circuit.n_literals if model.literal_weights is None and model.circuit.n_or_gates else 0


def contributions(graph: Graph, model: LogisticCircuit, codes: str, input_type: InputType, *, portable: bool) -> None:
    """The output `contributions` (n_examples, n_contributions): flow times weight, of the predicted class's weights.

    codes: the class numbers (n_examples,). The bias stands last, so that a row sums to the predicted class's logit;
    with one weight set for two classes, to the one logit there is. Unless `portable`, who sets the input SWITCH
    to false gets no rows, and the speed of a model without explanations.
    """
    first = first_feature(model)
    weights = np.concatenate([model.flat_weights[:, first:], model.bias[:, None]], axis=1)

    def rows(inner: Graph, inputs: Sequence[str]) -> str:
        _, flows = model_flows(inner, model, inputs[0], input_type)
        if first:
            wanted = np.arange(first, model.flat_weights.shape[1])
            flows = inner.op("Gather", flows, inner.constant(wanted), axis=0)
        by_example = inner.op("Cast", inner.op("Transpose", flows, perm=[1, 0]), to=TensorProto.FLOAT)
        shape = inner.op("Shape", inputs[1])
        ones = inner.op("Expand", inner.constant(1, np.float32), shape)
        features = inner.op("Concat", by_example, ones, axis=1)
        sets = inner.constant(weights, np.float32)
        if len(model.bias) == 1:
            return inner.op("Mul", features, sets)
        flat = inner.op("Reshape", inputs[1], inner.constant([-1]))
        return inner.op("Mul", features, inner.op("Gather", sets, flat, axis=0))

    column = graph.op("Unsqueeze", codes, graph.constant([1]))
    inputs = [("features", onnx_type(input_type)), (column, TensorProto.INT64)]
    if portable:
        graph.op("Identity", rows(graph, ["features", column]), output="contributions")
        return
    width = weights.shape[1]
    explained, plain = graph.body("explain"), graph.body("plain")
    wanted = explained.op("Identity", tiled(explained, rows, inputs, width))
    nothing = plain.op("Expand", plain.constant(0, np.float32), plain.constant([0, width]))
    branches = [
        body.as_body([], [helper.make_tensor_value_info(value, TensorProto.FLOAT, [None, width])])
        for body, value in ((explained, wanted), (plain, nothing))
    ]
    graph.op("If", SWITCH, then_branch=branches[0], else_branch=branches[1], output="contributions")


def sidecar(model: LogisticCircuit, feature_names: Sequence[str]) -> dict[str, Any]:
    """What the service reads beside the model: {"conditions": one text per contribution, ...}."""
    return {
        "conditions": [*conditions(model.circuit, feature_names)[first_feature(model) :], BIAS],
        "classes": list(model.classes),
        "sums_to": "the logit of the predicted class" if len(model.bias) > 1 else "the logit of the second class",
    }
