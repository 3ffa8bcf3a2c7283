"""Explanations that travel with the model: the output `contributions` and the sidecar that says what they are."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from lcml.channels import ChannelEncoder
from lcml.explain import conditions
from lcml.model import LogisticCircuit
from lcml.parts import Part
from lcml.views import IdentityView, WindowView
from lcml_export.encoding import InputType, encode
from lcml_export.graph import Graph, onnx_type
from lcml_export.tiles import TILE, tiled
from lcml_export.windows import pass_features, tile_of_passes

BIAS = "bias"

SWITCH = "explain"
"""A scalar bool input, true by default: an initializer that a caller may override."""


def contributions(graph: Graph, model: LogisticCircuit, codes: str, input_type: InputType, *, portable: bool) -> None:
    """The output `contributions` (n_examples, n_features + 1): feature times weight, of the predicted class's weights.

    codes: the class numbers (n_examples,). The bias stands last, so that a row sums to the predicted class's logit;
    with one weight set for two classes, to the one logit there is. Unless `portable`, who sets the input SWITCH
    to false gets no rows, and the speed of a model without explanations.
    """
    weights = np.concatenate([model.weights, model.bias[:, None]], axis=1)
    parts = [part for part in model.parts if part.n_features]

    def rows(inner: Graph, inputs: Sequence[str]) -> str:
        encoded = encode(inner, model.encoder, inputs[0], input_type)
        by_cell = []
        for part in parts:
            features = pass_features(inner, part.circuit, part.view, part.flows, encoded, portable=portable)
            by_example = inner.op("Transpose", features, perm=[1, 2, 0])
            by_cell.append(inner.op("Reshape", by_example, inner.constant([-1, part.n_features])))
        ones = inner.op("Expand", inner.constant(1, np.float32), inner.op("Shape", inputs[1]))
        joined = inner.op("Concat", *by_cell, ones, axis=1)
        sets = inner.constant(weights, np.float32)
        if len(model.bias) == 1:
            return inner.op("Mul", joined, sets)
        flat = inner.op("Reshape", inputs[1], inner.constant([-1]))
        return inner.op("Mul", joined, inner.op("Gather", sets, flat, axis=0))

    column = graph.op("Unsqueeze", codes, graph.constant([1]))
    inputs = [("features", onnx_type(input_type)), (column, TensorProto.INT64)]
    if portable:
        graph.op("Identity", rows(graph, ["features", column]), output="contributions")
        return
    width = weights.shape[1]
    tile = min((tile_of_passes(part.view, part.circuit) for part in parts), default=TILE)
    explained, plain = graph.body("explain"), graph.body("plain")
    wanted = explained.op("Identity", tiled(explained, rows, inputs, width, tile))
    nothing = plain.op("Expand", plain.constant(0, np.float32), plain.constant([0, width]))
    branches = [
        body.as_body([], [helper.make_tensor_value_info(value, TensorProto.FLOAT, [None, width])])
        for body, value in ((explained, wanted), (plain, nothing))
    ]
    graph.op("If", SWITCH, then_branch=branches[0], else_branch=branches[1], output="contributions")


def sidecar(model: LogisticCircuit, feature_names: Sequence[str]) -> dict[str, Any]:
    """What the service reads beside the model: {"conditions": one text per contribution, ...}."""
    return {
        "conditions": [*feature_conditions(model, feature_names), BIAS],
        "classes": list(model.classes),
        "sums_to": "the logit of the predicted class" if len(model.bias) > 1 else "the logit of the second class",
    }


def feature_conditions(model: LogisticCircuit, feature_names: Sequence[str]) -> Iterator[str]:
    """What every feature stands for, in the order of `model.weights`: "a and not b" of a model of one circuit over the
    whole example, else with part and cell, "part 1, cell (0, 2): q[0,1] and not q[1,1]", rows before columns."""
    for number, part in enumerate(model.parts):
        texts = conditions(part.circuit, _variable_names(model, part, feature_names))
        for cell in range(part.view.n_cells):
            place = "" if model.is_flat else f"part {number}: "
            if isinstance(part.view, WindowView):
                place = "part {}, cell ({}, {}): ".format(number, *divmod(cell, part.view.grid[1]))
            yield from (place + texts[flow] for flow in part.flows.tolist())


def _variable_names(model: LogisticCircuit, part: Part, feature_names: Sequence[str]) -> list[str]:
    """Names of what a part's circuit reads: of features, or of pixels by channel, row and column, in a window its own.

    Channels without a name, those of a plain encoder, are "input", or "input 0", "input 1" and so on.
    """
    encoder, view = model.encoder, part.view
    if isinstance(encoder, ChannelEncoder):
        n_images, shape = encoder.image_shape[0], encoder.output_shape[1:]
        prefixes = [""] if n_images == 1 else [f"image {image} " for image in range(n_images)]
        channels = [prefix + name for prefix in prefixes for name in encoder.channels]
    elif isinstance(view, IdentityView):
        return list(feature_names)
    else:
        n_channels = view.image_shape[0]
        channels = ["input"] if n_channels == 1 else [f"input {channel}" for channel in range(n_channels)]
    if isinstance(view, WindowView):
        channels, shape = [channels[channel] for channel in view.chosen_channels], view.window
    return [f"{name}[{row},{column}]" for name in channels for row in range(shape[0]) for column in range(shape[1])]
