"""The encoder as ONNX nodes: raw features to probabilities, as the modules of `lcml.inputs` compute them."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.inputs.channels import CHANNELS, RADIUS, ChannelEncoder
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoders import BooleanEncoder, ScaleEncoder
from lcml.inputs.encoding import Encoder
from lcml.inputs.patches import THRESHOLD, VARIANCE, Patches
from lcml.model.model import LogisticCircuit
from lcml_export.columns import encode_columns
from lcml_export.graph import Graph, onnx_type
from lcml_export.input_types import InputType

_UINT8_MAX = 255


def encode(graph: Graph, model: LogisticCircuit, features: str, input_type: InputType) -> str:
    """Probabilities float32 (n_examples, n_outputs) of raw `features` (n_examples, n_features), means for what is
    missing where the model's policy says so."""
    encoded = encode_plainly(graph, model.encoder, features, input_type)
    if model.missing is None or input_type == "uint8":
        return encoded
    columns = model.encoder.columns if isinstance(model.encoder, ColumnsEncoder) else ()
    had_gaps = np.array([column.gaps for column in columns]) if columns else np.zeros(model.encoder.n_features, bool)
    is_gap = graph.op("IsNaN", features)
    if had_gaps.any():
        is_gap = graph.op("And", is_gap, graph.constant(~had_gaps))
    sizes = np.diff(model.encoder.blocks)
    if np.any(sizes != 1):
        is_gap = graph.take(is_gap, np.repeat(np.arange(len(sizes)), sizes), axis=1)
    return graph.op("Where", is_gap, graph.constant(model.missing.means, np.float32), encoded)


def encode_plainly(graph: Graph, encoder: Encoder, features: str, input_type: InputType) -> str:
    """Probabilities as the encoder makes them, of features without a gap that training had not."""
    return _NODES[encoder.kind](graph, encoder, features, input_type)


def _channels(graph: Graph, encoder: ChannelEncoder, features: str, input_type: InputType) -> str:
    """Each channel is a stencil and an offset, cut off at 0 and 1, averaged over blocks, or the root of that: one
    convolution, the same on every raw image."""
    n_images = encoder.image_shape[0]
    stencils = [CHANNELS[name] for name in encoder.channels] * n_images
    kernels = graph.constant([[stencil.kernel] for stencil in stencils], np.float32)
    offsets = graph.constant([stencil.offset for stencil in stencils], np.float32)
    encoded = encode_plainly(graph, encoder.base, features, input_type)
    grey = images = graph.op("Reshape", encoded, graph.constant([0, *encoder.image_shape], np.int64))  # 0: as before
    for axis in (2, 3):  # what is beyond an edge is as the edge; runtimes that do not know Pad know Concat
        first, last = (graph.take(images, [edge] * RADIUS, axis) for edge in (0, encoder.image_shape[axis - 1] - 1))
        images = graph.concat([first, images, last], axis)
    responses = graph.op("Conv", images, kernels, offsets, group=n_images)
    zero, one = (graph.constant(bound, np.float32) for bound in (0, 1))
    channels = graph.op("Clip", responses, zero, one)
    if encoder.pool > 1:
        block = [encoder.pool, encoder.pool]
        channels = graph.op("AveragePool", channels, kernel_shape=block, strides=block)
    roots = np.array([stencil.root for stencil in stencils])
    if roots.all():
        channels = graph.op("Sqrt", channels)
    elif roots.any():
        which = graph.constant(roots[:, None, None], np.bool_)
        channels = graph.op("Where", which, graph.op("Sqrt", channels), channels)
    if not encoder.patches:
        return graph.op("Reshape", channels, graph.constant([-1, encoder.n_outputs]))
    flat = graph.op("Reshape", channels, graph.constant([-1, encoder.of_patches.start]))
    root = graph.op("Sqrt", grey)
    found = graph.concat([flat, *(_patches(graph, patches, grey, root) for patches in encoder.patches)], axis=1)
    n_zeros = encoder.n_outputs - encoder.of_patches.stop
    if n_zeros:
        zeros = graph.op("Mul", graph.take(flat, [0] * n_zeros, axis=1), graph.constant(0, np.float32))
        found = graph.concat([found, zeros], axis=1)
    return found


def _patches(graph: Graph, patches: Patches, grey: str, root: str) -> str:
    """(n, n_outputs) of `lcml.inputs.patches`: the means of roots and of grey levels, their squares, over every window
    tell its variance; the filters, whose sums are 0, need no mean taken off."""
    strides, n_filters, n_cells = [*patches.spec.stride], patches.spec.count, len(patches.shares)
    n_images, evened = patches.filters.shape[1], [root, grey]
    if n_images > 1:
        share = graph.constant(np.full((1, n_images, 1, 1), 1 / n_images), np.float32)
        evened = [graph.op("Conv", each, share) for each in evened]
    size = [*patches.spec.size]
    mean, square = (graph.op("AveragePool", each, kernel_shape=size, strides=strides) for each in evened)
    variance = graph.op("Sub", square, graph.op("Mul", mean, mean))
    zero, one = (graph.constant(bound, np.float32) for bound in (0, 1))
    spread = graph.op("Sqrt", graph.op("Add", graph.op("Max", variance, zero), graph.constant(VARIANCE, np.float32)))
    products = graph.op("Div", graph.op("Conv", root, graph.constant(patches.filters), strides=strides), spread)
    signed = []
    for sign in (1, -1):
        bound = graph.constant((patches.offsets + sign * np.float32(THRESHOLD))[:, None, None], np.float32)
        above = graph.op("Sub", *(products, bound)[::sign])
        shown = graph.op("Clip", above, zero, one)
        by_place = graph.op("Reshape", shown, graph.constant([-1, n_filters, patches.shares.shape[1]]))
        of_cells = graph.op("MatMul", by_place, graph.constant(patches.shares.T, np.float32))
        signed.append(graph.op("Reshape", of_cells, graph.constant([-1, n_filters * n_cells, 1])))
    return graph.op("Reshape", graph.op("Sqrt", graph.concat(signed, axis=2)), graph.constant([-1, patches.n_outputs]))


def _boolean(graph: Graph, encoder: BooleanEncoder, features: str, input_type: InputType) -> str:
    """q = 1 where x >= threshold; a float32 x is compared with the smallest float32 that is not below the threshold."""
    threshold: NDArray[Any] = encoder.threshold
    if input_type != "float64":
        with np.errstate(over="ignore"):
            nearest = threshold.astype(np.float32)
            threshold = np.where(nearest < threshold, np.nextafter(nearest, np.float32(np.inf)), nearest)
    if input_type == "uint8":
        features = graph.op("Cast", features, to=onnx_type(np.float32))
    # Not and Less, which more runtimes know than GreaterOrEqual.
    below = graph.op("Less", features, graph.constant(_shared(threshold)))
    return graph.op("Cast", graph.op("Not", below), to=onnx_type(np.float32))


def _scaled(graph: Graph, encoder: ScaleEncoder, features: str, input_type: InputType) -> str:
    """q = (clip(x, low, high) - low) / (high - low), in double where float32 cannot hold the bounds."""
    low, high = encoder.low, encoder.high
    span = np.where(high > low, high - low, 1.0)
    single = input_type != "float64" and _is_float32(low) and _is_float32(high)
    kind: Any = np.float32 if single else np.float64
    if input_type != kind.__name__:
        features = graph.op("Cast", features, to=onnx_type(kind))
    if input_type != "uint8" or np.any(low > 0) or np.any(high < _UINT8_MAX):
        features = _clipped(graph, features, _shared(low), _shared(high), kind)
    if np.any(low != 0):
        features = graph.op("Sub", features, graph.constant(_shared(low), kind))
    if np.any(span != 1):
        features = graph.op("Div", features, graph.constant(_shared(span), kind))
    return features if single else graph.op("Cast", features, to=onnx_type(np.float32))


_NODES: Mapping[str, Callable[[Graph, Any, str, InputType], str]] = {
    ScaleEncoder.kind: _scaled,
    BooleanEncoder.kind: _boolean,
    ChannelEncoder.kind: _channels,
    ColumnsEncoder.kind: encode_columns,
}
"""By the encoder's kind."""


def _clipped(graph: Graph, features: str, low: NDArray[Any], high: NDArray[Any], kind: Any) -> str:
    if low.ndim == high.ndim == 0:
        return graph.op("Clip", features, graph.constant(low, kind), graph.constant(high, kind))
    return graph.op("Min", graph.op("Max", features, graph.constant(low, kind)), graph.constant(high, kind))


def _shared(values: NDArray[Any]) -> NDArray[Any]:
    """One number where all columns have the same."""
    return values[0] if np.all(values == values[0]) else values


def _is_float32(values: NDArray[np.float64]) -> bool:
    with np.errstate(over="ignore"):
        return bool(np.all(values == values.astype(np.float32)))
