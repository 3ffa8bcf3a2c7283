"""Models for the export tests, and how to run what was exported."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import helper
from onnx.reference import ReferenceEvaluator

from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import Circuit
from lcml.circuits.parts import Part
from lcml.circuits.views import IdentityView, WindowView
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoders import BooleanEncoder, ScaleEncoder
from lcml.inputs.encoding import Encoder
from lcml.model.head import HEADS, Link
from lcml.model.model import LogisticCircuit
from lcml_export.program import Program
from tests.worlds import grown, random_circuits

PROFILES: list[Any] = ["auto", "throughput", "latency", "portable", "flows", "scatter"]
PASSES: list[Any] = ["flows", "scatter"]
"""The profiles that serve every circuit."""


def model_on(
    circuit: Circuit,
    classes: tuple[Any, ...] = (0, 1, 2),
    link: Link = "sigmoid",
    encoder: Encoder | None = None,
    *,
    literals: bool = True,
    seed: int = 0,
) -> LogisticCircuit:
    """A model with standard normal weights on `circuit`."""
    generator = np.random.default_rng(seed)
    n_sets, n = HEADS[link].n_sets(len(classes)), circuit.n_variables
    return LogisticCircuit.flat(
        circuit=circuit,
        encoder=encoder or ScaleEncoder(np.zeros(n), np.ones(n)),
        classes=classes,
        element_weights=generator.normal(size=(n_sets, circuit.n_elements)),
        literal_weights=generator.normal(size=(n_sets, circuit.n_literals)) if literals else None,
        bias=generator.normal(size=n_sets),
        link=link,
    )


@st.composite
def small_models(draw: st.DrawFn) -> LogisticCircuit:
    """Random circuits with either encoder, either link, integer or text classes, with and without literal weights."""
    circuit = draw(random_circuits(7))
    classes = draw(st.sampled_from([(0, 1), (0, 1, 2), ("no", "yes"), ("a", "b", "c", "d"), (7, -3), (5, 2, 9)]))
    generator = np.random.default_rng(draw(st.integers(0, 2**16)))
    low = generator.normal(size=circuit.n_variables).round(2)
    kinds: list[Encoder] = [
        ScaleEncoder(low, low + generator.random(circuit.n_variables).round(1)),
        ScaleEncoder(np.zeros(circuit.n_variables), np.full(circuit.n_variables, 255.0)),
        BooleanEncoder(low),
    ]
    link: Link = draw(st.sampled_from(["sigmoid", "softmax"]))
    encoder = draw(st.sampled_from(kinds))
    return model_on(circuit, classes, link, encoder, literals=draw(st.booleans()), seed=draw(st.integers(0, 99)))


def wide_circuit(n_variables: int = 40, seed: int = 3) -> Circuit:
    """A circuit with deep contexts, shared gates and flows that are sums of products."""
    return grown(vtrees.balanced(n_variables), seed, rounds=12, per_round=8, depth=1)


def xor_circuit() -> Circuit:
    """Over three variables, Pr(root) = 1: the gates X0 = X1 and X0 != X1 are no products of literals."""
    vtree = vtrees.Vtree(*np.array([[3, -1, -1, 1, -1], [4, -1, -1, 2, -1], [-1, 0, 1, -1, 2]], dtype=np.int32))
    return Circuit(
        vtree,
        or_vtree=np.array([3, 3, 0], dtype=np.int32),
        or_start=np.array([0, 2, 4, 8], dtype=np.int32),
        elem_prime=np.array([0, 3, 0, 3, 6, 6, 7, 7], dtype=np.int32),
        elem_sub=np.array([1, 4, 4, 1, 2, 5, 2, 5], dtype=np.int32),
    )


def thinned(circuit: Circuit, seed: int, most: int = 3) -> Circuit:
    """`circuit` without a few elements: Pr(root) is below 1, and some examples contradict it."""
    generator = np.random.default_rng(seed)
    kept = np.ones(circuit.n_elements, dtype=bool)
    uses = np.bincount(np.concatenate([circuit.elem_prime, circuit.elem_sub]), minlength=circuit.n_nodes)
    size = np.diff(circuit.or_start).copy()
    for element in generator.permutation(circuit.n_elements).tolist():
        children = [circuit.elem_prime[element], circuit.elem_sub[element]]
        free = all(child < circuit.n_literals or uses[child] > 1 for child in children)
        if free and size[circuit.elem_or[element]] > 1 and (~kept).sum() < most:
            kept[element] = False
            uses[children] -= 1
            size[circuit.elem_or[element]] -= 1
    start = np.concatenate([[0], np.cumsum(size)]).astype(np.int32)
    return Circuit(circuit.vtree, circuit.or_vtree, start, circuit.elem_prime[kept], circuit.elem_sub[kept])


def evaluate(program: Program, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """(n_examples, n_sets) logits of probabilities (n_examples, n_variables), by the definition of a program."""
    rows = np.concatenate([probabilities.T, 1 - probabilities.T])
    for layer in program.table:
        rows = np.concatenate([rows, rows[layer.left] * rows[layer.right]])
    features, before = [rows[program.table_features]], rows
    for layer in program.chain:
        before = before[layer.left] * rows[layer.right]
        features.append(before)
    return np.asarray((program.weights @ np.concatenate(features)).T + program.bias)


def run_onnxruntime(path: Path, features: NDArray[Any], **others: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Every output by name, of features in the type that the graph takes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    input_type = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(uint8)": "uint8"}[
        session.get_inputs()[0].type
    ]
    return dict(zip(names, session.run(names, {"features": features.astype(input_type)} | others), strict=True))


def run_reference(path: Path, features: NDArray[Any]) -> dict[str, NDArray[Any]]:
    model = onnx.load(path)
    input_type = helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type)
    outputs = ReferenceEvaluator(model).run(None, {"features": features.astype(input_type)})
    return dict(zip((output.name for output in model.graph.output), outputs, strict=True))


@st.composite
def window_views(draw: st.DrawFn, image_shape: tuple[int, int, int]) -> WindowView:
    """Small windows with and without padding, strides, grids, overlaps, roots, chosen channels; few variables."""
    runs = []
    for size in image_shape[1:]:
        window, stride = draw(st.integers(1, min(2, size))), draw(st.integers(1, 2))
        padding = draw(st.integers(0, window - 1))
        positions = (size + 2 * padding - window) // stride + 1
        runs.append((window, stride, padding, draw(st.integers(1, min(3, positions)))))
    window_size, strides, paddings, grid = zip(*runs, strict=True)
    order = draw(st.permutations(range(image_shape[0])))
    channels = draw(st.sampled_from([None, tuple(order[:1]), tuple(order[:2])]))
    view = WindowView(image_shape, window_size, strides, paddings, grid, draw(st.booleans()), channels)
    sizes = zip(view.position_grid, view.grid, strict=True)
    rows, columns = (draw(st.integers(0, min(2, n // cells if cells > 1 else 0))) for n, cells in sizes)
    return replace(view, overlap=(rows, columns))


@st.composite
def models_of_parts(draw: st.DrawFn) -> LogisticCircuit:
    """One to three parts, identity and window, with some weights missing, over images of several channels, over
    sequences, and over channels that an encoder makes."""
    image_shape = draw(st.sampled_from([(1, 4, 3), (3, 2, 3), (2, 1, 6), (1, 1, 7)]))
    n_features = int(np.prod(image_shape))
    base = ScaleEncoder(np.zeros(n_features), np.full(n_features, 2.0))
    encoder: Encoder = base
    if draw(st.booleans()):
        channels = draw(st.permutations(["grey", "x+", "root-d-", "t50", "contrast-"]))[: draw(st.integers(1, 3))]
        made = ChannelEncoder(base, image_shape, tuple(channels))
        encoder, image_shape = made, made.output_shape
    generator = np.random.default_rng(draw(st.integers(0, 2**16)))
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        view = draw(st.just(IdentityView(encoder.n_outputs)) | window_views(image_shape))
        vtree = vtrees.random(view.n_variables, int(generator.integers(99)))
        circuit = grown(vtree, int(generator.integers(99)), rounds=draw(st.integers(0, 3)))
        weighted = generator.random(circuit.n_literals + circuit.n_elements) < draw(st.sampled_from([0.0, 0.6, 1.0]))
        parts.append(Part(view, circuit, weighted))
    classes = draw(st.sampled_from([(0, 1), ("a", "b", "c"), (7, -3)]))
    link: Link = draw(st.sampled_from(["sigmoid", "softmax"]))
    return weighted_model(parts, encoder, classes, link, generator)


def weighted_model(
    parts: list[Part], encoder: Encoder, classes: tuple[Any, ...], link: Link, generator: np.random.Generator
) -> LogisticCircuit:
    """The model of `parts` with standard normal weights."""
    n_sets = HEADS[link].n_sets(len(classes))
    weights = generator.normal(size=(n_sets, sum(part.n_features for part in parts)))
    return LogisticCircuit(encoder, tuple(parts), classes, weights, generator.normal(size=n_sets), link)


def input_type_of(path: Path) -> int:
    """The ONNX element type of the input `features`."""
    kind: int = onnx.load(path).graph.input[0].type.tensor_type.elem_type
    return kind
