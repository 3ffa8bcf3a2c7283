"""The profiles: what computes the logits, and of which operators.

* throughput: the program in the layout (row, example), on tiles of examples: fastest on many examples, in little memory
* latency: the program in the layout (example, row): fastest on a handful of examples
* auto: latency or throughput, chosen by the batch size when it runs
* portable: the layout (row, example), the plain operators of ai.onnx alone: for every runtime
* flows: the passes over the circuits themselves, on tiles: for every circuit
* scatter: the same passes by gather, multiply and scatter

Parts of a model that slide a window have one layout, (row, example * position), in all profiles.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lcml.circuits.views import IdentityView
from lcml.errors import SettingsError
from lcml.model.model import LogisticCircuit
from lcml_export.compiled import CompiledModel, PooledPart
from lcml_export.encoding import encode
from lcml_export.graph import Graph, Operators, onnx_type
from lcml_export.input_types import InputType
from lcml_export.layouts import logits_by_examples, logits_by_rows
from lcml_export.program import Program
from lcml_export.tiles import tiled
from lcml_export.windows import literal_rows, pooled_logits, tile_of_part

LATENCY_BATCH = 16
"""`auto` runs the latency graph on at most this many examples; measured on a circuit of 14,818 elements."""

Layout = Callable[[Graph, LogisticCircuit, Program, InputType], str]
"""Adds nodes for (n_examples, n_sets), what a program makes of the input `features`; returns the value's name."""


def by_rows(graph: Graph, model: LogisticCircuit, program: Program, input_type: InputType) -> str:
    view = IdentityView(model.encoder.n_outputs)

    def body(inner: Graph, inputs: Sequence[str]) -> str:
        literals = literal_rows(inner, view, encode(inner, model, inputs[0], input_type))
        return inner.op("Transpose", logits_by_rows(inner, program, literals), perm=[1, 0])

    return tiled(graph, body, [("features", onnx_type(input_type))], len(model.bias))


def by_examples(graph: Graph, model: LogisticCircuit, program: Program, input_type: InputType) -> str:
    positive = encode(graph, model, "features", input_type)
    negative = graph.op("Sub", graph.constant(1, np.float32), positive)
    return logits_by_examples(graph, program, graph.concat([positive, negative], axis=1))


def by_batch_size(graph: Graph, model: LogisticCircuit, program: Program, input_type: InputType) -> str:
    most = graph.constant(LATENCY_BATCH * model.encoder.n_features)
    few = graph.op("LessOrEqual", graph.op("Size", "features"), most)
    branches = []
    for prefix, layout in (("latency", by_examples), ("throughput", by_rows)):
        branch = graph.body(prefix)
        branches.append(branch.as_body([], layout(branch, model, program, input_type), len(model.bias)))
    return graph.op("If", few, then_branch=branches[0], else_branch=branches[1])


@dataclass(frozen=True)
class Profile:
    """layout: of the program of all parts that see the whole example; passes: whether all parts go through the passes
    over their circuits instead, which is right for every circuit."""

    name: str
    layout: Layout = by_rows
    operators: Operators = field(default_factory=Operators)
    passes: bool = False


_ALL = (
    Profile("auto", by_batch_size),
    Profile("throughput", by_rows),
    Profile("latency", by_examples),
    Profile("portable", by_rows, Operators(control_flow=False, ml=False)),
    Profile("flows", passes=True, operators=Operators(ml=False)),
    Profile("scatter", passes=True, operators=Operators(ml=False, scatter=True)),
)
PROFILES = {profile.name: profile for profile in _ALL}


def profile_named(name: str) -> Profile:
    """The profile; SettingsError where there is none of that name."""
    if name not in PROFILES:
        raise SettingsError(f"unknown export profile {name!r}: expected one of {', '.join(PROFILES)}")
    return PROFILES[name]


def logits(graph: Graph, model: LogisticCircuit, compiled: CompiledModel, layout: Layout, input_type: InputType) -> str:
    """The value `logits` (n_examples, n_sets) from the input `features`."""
    weighted = graph.constant(compiled.bias, np.float32)
    if compiled.whole is not None:
        weighted = graph.op("Add", layout(graph, model, compiled.whole, input_type), weighted)
    if compiled.pooled:
        weighted = graph.op("Add", _pooled(graph, model, compiled.pooled, input_type), weighted)
    return graph.op("Identity", weighted, output="logits")


def _pooled(graph: Graph, model: LogisticCircuit, parts: Sequence[PooledPart], input_type: InputType) -> str:
    """(n_examples, n_sets) what `parts` add to the logits: part by part, on the largest tiles that suit all."""

    def body(inner: Graph, inputs: Sequence[str]) -> str:
        encoded = encode(inner, model, inputs[0], input_type)
        return pooled_logits(inner, parts, encoded)

    tile = min(tile_of_part(part) for part in parts)
    return tiled(graph, body, [("features", onnx_type(input_type))], len(model.bias), tile)
