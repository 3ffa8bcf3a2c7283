"""The profiles: which graph computes the logits.

* portable: (row, example) layout, operators of ai.onnx without control flow: for every runtime
* throughput: the same on tiles of examples, by Scan: fastest on many examples, in little memory
* latency: (example, row) layout, with ai.onnx.ml.ArrayFeatureExtractor: fastest on a handful of examples
* auto: latency or throughput, chosen by the batch size when it runs
* flows: the passes over the circuits themselves, on tiles: for every circuit

Parts of a model that slide a window have one layout, (row, example * position), in all profiles.
"""

from collections.abc import Sequence
from functools import partial, reduce
from typing import Literal, TypeAlias, get_args

import numpy as np
from onnx import TensorProto, helper

from lcml.circuits.views import IdentityView
from lcml.errors import SettingsError
from lcml.model.model import LogisticCircuit
from lcml_export.compiled import CompiledModel, PooledPart
from lcml_export.encoding import InputType, encode
from lcml_export.graph import Graph, onnx_type
from lcml_export.program import Program
from lcml_export.rows import logits_by_examples, logits_by_rows
from lcml_export.tiles import tiled
from lcml_export.windows import literal_rows, pooled_logits, tile_of_passes, tile_of_program

Profile: TypeAlias = Literal["auto", "throughput", "latency", "portable", "flows"]

LATENCY_BATCH = 16
"""`auto` runs the latency graph on at most this many examples; measured on a circuit of 14,818 elements."""


def check_profile(profile: str) -> None:
    """Raise SettingsError for an unknown profile."""
    if profile not in get_args(Profile):
        raise SettingsError(f"unknown export profile {profile!r}: expected one of {', '.join(get_args(Profile))}")


def logits(graph: Graph, model: LogisticCircuit, compiled: CompiledModel, profile: str, input_type: InputType) -> str:
    """The value `logits` (n_examples, n_sets) from the input `features`."""
    weighted = graph.constant(compiled.bias, np.float32)
    if compiled.whole is not None:
        weighted = graph.op("Add", _from_program(graph, model, compiled.whole, profile, input_type), weighted)
    if compiled.pooled:
        weighted = graph.op("Add", _pooled(graph, model, compiled.pooled, profile, input_type), weighted)
    return graph.op("Identity", weighted, output="logits")


def _from_program(graph: Graph, model: LogisticCircuit, program: Program, profile: str, input_type: InputType) -> str:
    """(n_examples, n_sets) what the parts that see the whole example add to the logits."""
    encoder = model.encoder
    view = IdentityView(encoder.n_outputs)

    def by_rows(inner: Graph, inputs: Sequence[str]) -> str:
        literals = literal_rows(inner, view, encode(inner, encoder, inputs[0], input_type))
        return inner.op("Transpose", logits_by_rows(inner, program, literals), perm=[1, 0])

    if profile == "auto":
        return _chosen_by_batch(graph, model, program, input_type)
    if profile == "throughput":
        return tiled(graph, by_rows, [("features", onnx_type(input_type))], len(model.bias))
    if profile == "portable":
        return by_rows(graph, ["features"])
    positive = encode(graph, encoder, "features", input_type)
    literals = graph.op("Concat", positive, graph.op("Sub", graph.constant(1, np.float32), positive), axis=1)
    return logits_by_examples(graph, program, literals)


def _pooled(
    graph: Graph, model: LogisticCircuit, parts: Sequence[PooledPart], profile: str, input_type: InputType
) -> str:
    """(n_examples, n_sets) what `parts` add to the logits: part by part, on the largest tiles that suit all."""
    portable = profile == "portable"

    def by_parts(inner: Graph, inputs: Sequence[str]) -> str:
        encoded = encode(inner, model.encoder, inputs[0], input_type)
        added = [pooled_logits(inner, part, encoded, portable=portable) for part in parts]
        return reduce(partial(inner.op, "Add"), added)

    if portable:
        return by_parts(graph, ["features"])
    tiles = [
        tile_of_passes(each.part.view, each.part.circuit)
        if each.program is None
        else tile_of_program(each.part.view, each.program)
        for each in parts
    ]
    return tiled(graph, by_parts, [("features", onnx_type(input_type))], len(model.bias), min(tiles))


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
