"""The channel encoder as ONNX nodes: the numbers of `ChannelEncoder.encode`."""

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from lcml.inputs.channels import CHANNELS, ChannelEncoder
from lcml.inputs.encoders import BooleanEncoder, PlainEncoder, ScaleEncoder
from lcml.inputs.patches import PatchSpec, fit_patches
from lcml_export.encoding import encode_plainly
from lcml_export.graph import Graph, Operators, onnx_type
from lcml_export.input_types import InputType


def encoding_graph(encoder: ChannelEncoder, input_type: InputType, opset: int) -> onnx.ModelProto:
    graph = Graph(Operators())
    output = encode_plainly(graph, encoder, "features", input_type)
    features = helper.make_tensor_value_info("features", onnx_type(input_type), ["batch", encoder.n_features])
    encoded = helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, ["batch", encoder.n_outputs])
    main = helper.make_graph(graph.nodes, "encoding", [features], [encoded], graph.initializers)
    model = helper.make_model(main, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


BASES: list[PlainEncoder] = [
    ScaleEncoder(np.zeros(105), np.full(105, 255.0)),
    ScaleEncoder(np.full(105, -0.1), np.linspace(0, 200, 105)),
    BooleanEncoder(np.linspace(1, 250, 105)),
]


@pytest.mark.parametrize("shape", [(1, 15, 7), (3, 5, 7), (1, 1, 105), (105, 1, 1)])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("input_type", ["float32", "uint8", "float64"])
def test_the_graph_encodes_as_the_encoder(shape: Any, base: PlainEncoder, input_type: InputType) -> None:
    encoder = ChannelEncoder(base, shape, tuple(CHANNELS)[::-1])
    model = encoding_graph(encoder, input_type, 16)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).integers(0, 256, (17, 105)).astype(input_type)
    expected = encoder.encode(x)
    for n_examples in (0, 1, 17):
        (found,) = session.run(None, {"features": x[:n_examples]})
        assert found.shape == (n_examples, encoder.n_outputs)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected[:n_examples], rtol=0, atol=1e-6)


@pytest.mark.parametrize("names", [("grey", "root-x+"), ("root-y-", "root-grey")])
def test_blocks_are_averaged_as_by_the_encoder(names: tuple[str, ...]) -> None:
    encoder = ChannelEncoder(ScaleEncoder(np.zeros(108), np.full(108, 255.0)), (2, 9, 6), names, pool=3)
    model = encoding_graph(encoder, "uint8", 16)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(0).integers(0, 256, (5, 108)).astype(np.uint8)
    (found,) = session.run(None, {"features": x})
    np.testing.assert_allclose(found, encoder.encode(x), rtol=0, atol=1e-6)


def test_a_graph_of_roots_alone_selects_nothing() -> None:
    encoder = ChannelEncoder(BASES[0], (1, 15, 7), ("root-x+", "root-grey"))
    model = encoding_graph(encoder, "uint8", 18)
    assert "Where" not in [node.op_type for node in model.graph.node]
    x = np.random.default_rng(0).integers(0, 256, (3, 105)).astype(np.uint8)
    (found,) = ReferenceEvaluator(model).run(None, {"features": x})
    np.testing.assert_allclose(found, encoder.encode(x), rtol=0, atol=1e-6)


def test_the_reference_evaluator_agrees() -> None:
    encoder = ChannelEncoder(BASES[0], (3, 5, 7), ("contrast+", "root-e-", "grey"))
    x = np.random.default_rng(0).integers(0, 256, (2, 105)).astype(np.float32)
    (found,) = ReferenceEvaluator(encoding_graph(encoder, "float32", 18)).run(None, {"features": x})
    np.testing.assert_allclose(found, encoder.encode(x), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("n_images", "pool"), [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("input_type", ["float32", "uint8"])
def test_patches_are_encoded_as_by_the_encoder(n_images: int, pool: int, input_type: InputType) -> None:
    """Of two sizes and strides, on images of which one is even: its windows have no variance."""
    x = np.random.default_rng(2).integers(0, 256, (9, n_images, 10, 8)).astype(np.uint8)
    x[3] = 90
    q = (x / 255).astype(np.float32)
    specs = PatchSpec(6, (3, 3), grid=(2, 2)), PatchSpec(3, (4, 5), (2, 1), (2, 1), (1, 0))
    patches = tuple(fit_patches(spec, q, 0) for spec in specs)
    size = n_images * 80
    base = ScaleEncoder(np.zeros(size), np.full(size, 255.0))
    encoder = ChannelEncoder(base, (n_images, 10, 8), ("grey", "root-x+"), pool, patches)
    given = x.reshape(9, -1).astype(input_type)
    model, expected = encoding_graph(encoder, input_type, 18), encoder.encode(given)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for evaluator in (session, ReferenceEvaluator(model)):
        (found,) = evaluator.run(None, {"features": given})
        np.testing.assert_allclose(found, expected, rtol=0, atol=3e-3)  # roots, next to 0, of what is rounded
        np.testing.assert_allclose(found**2, expected**2, rtol=0, atol=2e-6)
    assert 0.1 < expected[:, encoder.of_patches.start : encoder.of_patches.stop].mean() < 0.9
