"""The profiles: which graph computes the logits.

* portable: (row, example) layout, operators of ai.onnx without control flow: for every runtime
* throughput: the same on tiles of examples, by Scan: fastest on many examples, in little memory
* latency: (example, row) layout, with ai.onnx.ml.ArrayFeatureExtractor: fastest on a handful of examples
* auto: latency or throughput, chosen by the batch size when it runs
* flows: the passes over the circuit itself, on tiles: for every circuit
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
from onnx import TensorProto, helper

from lcml.errors import SettingsError
from lcml.model import LogisticCircuit
from lcml_export.encoding import InputType, encode
from lcml_export.graph import Graph, onnx_type
from lcml_export.passes import flow_rows
from lcml_export.program import Program
from lcml_export.rows import logits_by_examples, logits_by_rows
from lcml_export.tiles import tiled

Profile: TypeAlias = Literal["auto", "throughput", "latency", "portable", "flows"]

LATENCY_BATCH = 16
"""`auto` runs the latency graph on at most this many examples; measured on a circuit of 14,818 elements."""


def check_profile(profile: str) -> None:
    """Raise SettingsError for an unknown profile."""
    if profile not in get_args(Profile):
        raise SettingsError(f"unknown export profile {profile!r}: expected one of {', '.join(get_args(Profile))}")


def logits(graph: Graph, model: LogisticCircuit, program: Program | None, profile: str, input_type: InputType) -> str:
    """The value `logits` (n_examples, n_sets) from the input `features`; `program` for every profile but flows."""
    if program is None:
        weighted = _flows(graph, model, input_type)
    else:
        weighted = _from_program(graph, model, program, profile, input_type)
    bias = model.bias if program is None else program.bias
    return graph.op("Add", weighted, graph.constant(bias, np.float32), output="logits")


def literal_rows(
    graph: Graph, model: LogisticCircuit, features: str, input_type: InputType, kind: type = np.float32
) -> str:
    """(2 n_variables, n_examples) q above 1 - q, of type `kind`."""
    encoded = encode(graph, model.encoder, features, input_type)
    if kind is not np.float32:
        encoded = graph.op("Cast", encoded, to=onnx_type(kind))
    positive = graph.op("Transpose", encoded, perm=[1, 0])
    return graph.op("Concat", positive, graph.op("Sub", graph.constant(1, kind), positive), axis=0)


def model_flows(graph: Graph, model: LogisticCircuit, features: str, input_type: InputType) -> tuple[type, str]:
    """Flows (2 n_variables + n_elements, n_examples) of all literals and elements, after their type.

    In double where Pr(root) can be below 1: a product of many probabilities would underflow.
    """
    kind: type = np.float32 if model.circuit.is_tautology else np.float64
    return kind, flow_rows(graph, model.circuit, literal_rows(graph, model, features, input_type, kind), kind)


def _from_program(graph: Graph, model: LogisticCircuit, program: Program, profile: str, input_type: InputType) -> str:
    def by_rows(inner: Graph, inputs: Sequence[str]) -> str:
        literals = literal_rows(inner, model, inputs[0], input_type)
        return inner.op("Transpose", logits_by_rows(inner, program, literals), perm=[1, 0])

    if profile == "auto":
        return _chosen_by_batch(graph, model, program, input_type)
    if profile == "throughput":
        return tiled(graph, by_rows, [("features", onnx_type(input_type))], len(model.bias))
    if profile == "portable":
        return by_rows(graph, ["features"])
    positive = encode(graph, model.encoder, "features", input_type)
    literals = graph.op("Concat", positive, graph.op("Sub", graph.constant(1, np.float32), positive), axis=1)
    return logits_by_examples(graph, program, literals)


def _flows(graph: Graph, model: LogisticCircuit, input_type: InputType) -> str:
    def tile(inner: Graph, inputs: Sequence[str]) -> str:
        kind, flows = model_flows(inner, model, inputs[0], input_type)
        rows = inner.op("MatMul", inner.constant(model.flat_weights, kind), flows)
        return inner.op("Cast", inner.op("Transpose", rows, perm=[1, 0]), to=TensorProto.FLOAT)

    return tiled(graph, tile, [("features", onnx_type(input_type))], len(model.bias))


def _chosen_by_batch(graph: Graph, model: LogisticCircuit, program: Program, input_type: InputType) -> str:
    n_examples = graph.op("Gather", graph.op("Shape", "features"), graph.constant(0), axis=0)
    few = graph.op("LessOrEqual", n_examples, graph.constant(LATENCY_BATCH))
    branches = []
    for profile in ("latency", "throughput"):
        branch = graph.body(profile)
        result = _from_program(branch, model, program, profile, input_type)
        value = helper.make_tensor_value_info(result, TensorProto.FLOAT, [None, len(model.bias)])
        branches.append(branch.as_body([], [value]))
    return graph.op("If", few, then_branch=branches[0], else_branch=branches[1])
