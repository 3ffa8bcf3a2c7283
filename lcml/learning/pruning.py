"""Pruning: a model with fewer conditions, those that matter least dropped, and the others' weights fitted again.

A condition is a weighted flow of a part, in all cells of its view and for all classes. What its loss costs is told by
the second order of the loss at the weights, the bias free to make up for the mean (LeCun et al., Optimal Brain Damage,
1990):

    cost_j = 1/2 sum over weight sets and cells of w^2 (sum_i h_i x_ij^2 - (sum_i h_i x_ij)^2 / sum_i h_i)

with the curvature h of the loss. After every step the convex fit of what is left goes on from the weights that stay.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import Array, Backend, FeaturePrecision
from lcml.circuits.parts import Part
from lcml.learning.objective import Objective
from lcml.learning.parameters import Parameters
from lcml.learning.solver import SolverSettings, minimise
from lcml.learning.state import EncodedSet
from lcml.model.metrics import Quality
from lcml.model.model import LogisticCircuit
from lcml.passes.feature_store import Chunk, FeatureStore, Known

KEPT = 0.8
"""The share of the conditions, or parameters, that a step keeps."""

NEAR = 1.0
"""The penalty of a table's weights, on their distance from what was learned: they had another prior, which a plain
penalty would undo (docs/benchmarks.md)."""

SETTINGS = SolverSettings(60)


@dataclass(frozen=True)
class Penalty:
    """l2 / 2 times the sum of squares of the weights, or, where `near`, of their distance from those before."""

    l2: float
    near: bool = False


@dataclass(frozen=True, eq=False)
class PrunedStep:
    """A model with so many conditions, fitted again; train, valid: how good it is on the rows that fit and choose."""

    model: LogisticCircuit
    n_conditions: int
    train: Quality
    valid: Quality


def conditions_of(model: LogisticCircuit) -> list[NDArray[np.intp]]:
    """By condition, its features: one per cell."""
    stops = np.cumsum([part.n_features for part in model.parts])
    of_parts = np.split(np.arange(stops[-1]), stops[:-1])
    shaped = (of.reshape(part.view.n_cells, -1) for part, of in zip(model.parts, of_parts, strict=True))
    return [features for by_cell in shaped for features in by_cell.T]


def prune(
    model: LogisticCircuit,
    train: EncodedSet,
    valid: EncodedSet,
    penalty: Penalty,
    backend: Backend,
    *,
    most_conditions: int = 1,
    most_parameters: int | None = None,
) -> Iterator[PrunedStep]:
    """Models of ever fewer conditions, the first with all and the last within the limit: at most so many conditions,
    or parameters where that is given. They are fitted to `train`, examples encoded by the model's encoder; flows
    without weights stay so."""
    n_sets = len(model.bias)
    while True:
        objective = objective_of(model, train, backend)
        model = _fitted(model, objective, penalty)
        found = objective_of(model, valid, backend).quality(_parameters(model), model.threshold)
        features = conditions_of(model)
        n = len(features)
        yield PrunedStep(model, n, objective.quality(_parameters(model), model.threshold), found)
        sizes, most = np.ones(n, np.int64), most_conditions
        if most_parameters is not None:
            sizes, most = n_sets * np.array([len(of) for of in features]), most_parameters - n_sets
        if sizes.sum() <= most or n <= 1:
            return
        order = np.argsort(-costs(model, objective), kind="stable")
        del objective  # and its features, before those of the next step
        kept = order[np.cumsum(sizes[order]) <= max(most, int(KEPT * sizes.sum()))]
        model = with_conditions(model, np.isin(np.arange(n), kept))


def refitted(model: LogisticCircuit, examples: EncodedSet, penalty: Penalty, backend: Backend) -> LogisticCircuit:
    """The model fitted to other examples."""
    return _fitted(model, objective_of(model, examples, backend), penalty)


def costs(model: LogisticCircuit, objective: Objective) -> FloatArray:
    """(n_conditions,) how much the mean loss grows without each, to second order."""
    weights, bias = objective.on_device(_parameters(model))
    xp, terms = objective.features.backend.xp, objective.terms

    def sums(known: Known, chunk: Chunk) -> tuple[Array, ...]:
        curvature = terms.curvature(chunk.weighted_sum(weights) + bias, known)
        return curvature @ (chunk.values() ** 2).T, chunk.correlation(curvature), xp.sum(curvature, axis=1)

    squares, means, total = (objective.features.backend.to_host(part) for part in objective.features.sum(sums))
    spread = squares - means**2 / np.maximum(total, np.finfo(np.float64).tiny)[:, None]
    by_feature = 0.5 * (model.weights**2 * np.maximum(spread[:, objective.features.row_of], 0)).sum(axis=0)
    return np.array([by_feature[features].sum() for features in conditions_of(model)])


def with_conditions(model: LogisticCircuit, kept: NDArray[np.bool_]) -> LogisticCircuit:
    """The model with weights for some of its conditions (n_conditions,) alone; parts without any go, but the first."""
    of_part = np.split(kept, np.cumsum([len(part.flows) for part in model.parts])[:-1])
    parts = []
    for part, own in zip(model.parts, of_part, strict=True):
        weighted = np.zeros_like(part.weighted)
        weighted[part.flows[own]] = True
        parts.append(Part(part.view, part.circuit, weighted))
    used = tuple(part for part in parts if part.n_features or not part.circuit.is_tautology)
    features = [of for of, own in zip(conditions_of(model), kept, strict=True) if own]
    columns = np.sort(np.concatenate([np.zeros(0, np.intp), *features]))
    return replace(model, parts=used or tuple(parts[:1]), weights=model.weights[:, columns])


def objective_of(model: LogisticCircuit, examples: EncodedSet, backend: Backend) -> Objective:
    """The mean loss of examples, without penalty, for a weight per feature."""
    learned_with = model.facts("settings").get("precision")
    precision: FeaturePrecision = "fixed8" if learned_with == "fixed8" else "fixed16"
    store = FeatureStore(model.parts, examples.values, backend, precision=precision)
    n_classes, weights = len(model.classes), examples.weights
    return Objective(store, examples.labels, n_classes, link=model.link, example_weights=weights)


def _parameters(model: LogisticCircuit) -> Parameters:
    return Parameters(model.weights, model.bias)


def _fitted(model: LogisticCircuit, objective: Objective, penalty: Penalty) -> LogisticCircuit:
    penalised = objective.with_l2(penalty.l2, model.weights if penalty.near else 0.0)
    found = minimise(penalised, _parameters(model), SETTINGS).parameters
    return replace(model, weights=found.weights, bias=found.bias)
