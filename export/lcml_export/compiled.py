"""A model compiled: one program for all that sees the whole example, and one per part that slides a window."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.circuits.parts import Part
from lcml.circuits.views import SelectedView, WindowView
from lcml.errors import CircuitError
from lcml.model.model import LogisticCircuit
from lcml_export.factoring import factor
from lcml_export.program import Program
from lcml_export.reduction import flows_as_terms, merged, over_inputs, reduce_flows

factor_pooled = partial(factor, table_depth=1, min_shared=3, most_factors=None)
"""Rows of windows are long: a table of products of two literals fits the cache where one of more does not."""


@dataclass(frozen=True, eq=False)
class PooledPart:
    """A part whose features are pooled: weights (n_sets, n_cells, n_rows) times what `program` or the passes compute.

    With a program: where the view has roots, a row is the root of one of the program's sums; else it is one of its
    features. Without: the rows are `flows`, by the passes over the circuit.
    """

    part: Part
    flows: NDArray[np.int64]
    weights: FloatArray
    program: Program | None


@dataclass(frozen=True, eq=False)
class CompiledModel:
    """logits = bias + `whole` of the encoded inputs + the sum over `pooled`.

    whole: for all parts without windows together, None without one, and where all parts go through the passes.
    """

    whole: Program | None
    pooled: tuple[PooledPart, ...]
    bias: FloatArray

    @property
    def programs(self) -> list[Program]:
        programs = [self.whole, *(part.program for part in self.pooled)]
        return [program for program in programs if program is not None]


def compile_model(model: LogisticCircuit, passes: bool) -> CompiledModel:
    """The compiled form; with `passes`, all parts are computed by the passes over their circuits.

    Raises CircuitError where a circuit that sees the whole example needs the passes and may not have them; one under a
    window gets them.
    """
    parts = list(zip(model.parts, model.flow_weights, strict=True))
    if passes:
        return CompiledModel(None, tuple(_by_passes(*part) for part in parts), model.bias)
    whole = []
    for part, weights in parts:
        if isinstance(part.view, WindowView):
            continue
        terms = reduce_flows(part.circuit, weights[:, 0])
        if isinstance(part.view, SelectedView):
            terms = over_inputs(terms, part.view.inputs, part.view.n_inputs)
        whole.append(terms)
    program = factor(merged(whole)) if whole else None
    bias = model.bias if program is None else model.bias + program.bias
    pooled = [_compiled(*part) for part in parts if isinstance(part[0].view, WindowView)]
    return CompiledModel(program, tuple(part for part, _ in pooled), sum((gain for _, gain in pooled), start=bias))


def _compiled(part: Part, weights: FloatArray) -> tuple[PooledPart, FloatArray]:
    """A part with windows, and what the bias gains."""
    by_passes = _by_passes(part, weights)
    flows, (n_sets, n_cells, n_flows) = by_passes.flows, weights.shape
    try:
        if part.view.root:
            program = factor_pooled(flows_as_terms(part.circuit, flows))
            return PooledPart(part, flows, by_passes.weights, program), np.zeros(n_sets)
        program = factor_pooled(reduce_flows(part.circuit, weights.reshape(-1, n_flows)))
    except CircuitError:
        return by_passes, np.zeros(n_sets)
    by_cell = program.weights.reshape(n_sets, n_cells, -1)
    return PooledPart(part, flows, by_cell, program), program.bias.reshape(n_sets, n_cells).sum(axis=1)


def _by_passes(part: Part, weights: FloatArray) -> PooledPart:
    used = np.any(weights != 0, axis=(0, 1))
    flows = np.flatnonzero(used) if used.any() else np.array([0])  # one at least, so that no tensor is empty
    return PooledPart(part, flows, weights[..., flows], None)
