"""Pruning: a model with fewer conditions, those that matter least dropped, and the others' weights fitted again.

A condition is a weighted flow of a part; it has a feature in every cell of the part's view. What the loss of a feature,
for all classes, costs is told by the second order of the loss at the weights, the bias free to make up for the mean
(LeCun et al., Optimal Brain Damage, 1990):

    cost_j = 1/2 sum over weight sets of w_j^2 (sum_i h_i x_ij^2 - (sum_i h_i x_ij)^2 / sum_i h_i)

with the curvature h of the loss; that of a condition is the sum over its cells. After every step the convex fit of what
is left goes on from the weights that stay.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import Array, Backend, FeaturePrecision
from lcml.circuits.parts import Part, needed
from lcml.learning.objective import Objective
from lcml.learning.parameters import Parameters
from lcml.learning.solver import SolverSettings, minimise, never
from lcml.learning.state import EncodedSet
from lcml.model.metrics import Quality
from lcml.model.model import LogisticCircuit
from lcml.model.threshold import ThresholdMetric
from lcml.passes.feature_store import Chunk, FeatureStore, Known

KEPT = 0.8
"""The share of the conditions, or features, that a step keeps."""

NEAR = 1.0
"""The penalty of a table's weights, on their distance from what was learned: they had another prior, which a plain
penalty would undo (docs/benchmarks.md)."""

SETTINGS = SolverSettings(60)

BRIEF = SolverSettings(15)
"""Of steps that lead to others alone: what the next one drops is told well enough (docs/benchmarks.md)."""


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
    n_iterations: int


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
    every: bool = True,
    should_stop: Callable[[], bool] = never,
) -> Iterator[PrunedStep]:
    """Models of ever fewer conditions, the first with all and the last within the limit: at most so many conditions
    or, where that is given, parameters: then a condition may stay in some cells and go from others. They are fitted to
    `train`, examples encoded by the model's encoder, unless `every` briefly before the last; features without weights
    stay so."""
    n_examples, sets = len(train.labels) + len(valid.labels), (train, valid)
    stores = [_store(model, examples, backend, len(examples.labels) / n_examples) for examples in sets]
    while True:
        objective, to_choose = (_objective(store, model, of) for store, of in zip(stores, sets, strict=True))
        units, most = conditions_of(model), most_conditions
        if most_parameters is not None:
            units, most = list(np.flatnonzero(model.carried)[:, None]), most_parameters // len(model.bias) - 1
        is_last = len(units) <= max(most, 1)
        settings = SETTINGS if every or is_last else BRIEF
        model, n_iterations = _fitted(model, objective, penalty, settings, should_stop)
        model = _with_threshold(model, to_choose)
        fits, found = (each.quality(_parameters(model), model.threshold) for each in (objective, to_choose))
        yield PrunedStep(model, len(conditions_of(model)), fits, found, n_iterations)
        if is_last:
            return
        cost = costs(model, objective)
        order = np.argsort([-cost[features].sum() for features in units], kind="stable")
        kept = np.concatenate([units[unit] for unit in order[: max(most, int(KEPT * len(units)), 1)]])
        which = np.flatnonzero(np.isin(np.flatnonzero(model.carried), kept))
        model = _with_features(model, kept)
        for store in stores:
            store.keep(model.by_cell.parts, which)


def refitted(
    model: LogisticCircuit,
    examples: EncodedSet,
    penalty: Penalty,
    backend: Backend,
    should_stop: Callable[[], bool] = never,
) -> tuple[LogisticCircuit, Quality]:
    """The model fitted to other examples, and how good it is on these."""
    objective = objective_of(model, examples, backend)
    model, _ = _fitted(model, objective, penalty, SETTINGS, should_stop)
    return model, objective.quality(_parameters(model), model.threshold)


def costs(model: LogisticCircuit, objective: Objective) -> FloatArray:
    """(n_features,) how much the mean loss grows without each, to second order; 0 for those without weights."""
    weights, bias = objective.on_device(_parameters(model))
    xp, terms = objective.features.backend.xp, objective.terms

    def sums(known: Known, chunk: Chunk) -> tuple[Array, ...]:
        curvature = terms.curvature(chunk.weighted_sum(weights) + bias, known)
        return curvature @ (chunk.values() ** 2).T, chunk.correlation(curvature), xp.sum(curvature, axis=1)

    squares, means, total = (objective.features.backend.to_host(part) for part in objective.features.sum(sums))
    spread = squares - means**2 / np.maximum(total, np.finfo(np.float64).tiny)[:, None]
    spread = np.maximum(spread[:, objective.features.row_of], 0)
    by_feature = np.zeros(model.weights.shape[1])
    by_feature[model.carried] = 0.5 * np.sum(_parameters(model).weights ** 2 * spread, axis=0)
    return by_feature


def with_conditions(model: LogisticCircuit, kept: NDArray[np.bool_]) -> LogisticCircuit:
    """The model with weights for some of its conditions (n_conditions,) alone; parts without any go, but the first."""
    of_part = np.split(kept, np.cumsum([len(part.flows) for part in model.parts])[:-1])
    parts = []
    for part, own in zip(model.parts, of_part, strict=True):
        weighted = np.zeros_like(part.weighted)
        weighted[part.flows[own]] = True
        parts.append(Part(part.view, part.circuit, weighted))
    features = [of for of, own in zip(conditions_of(model), kept, strict=True) if own]
    columns = np.sort(np.concatenate([np.zeros(0, np.intp), *features]))
    weights, carries = model.weights[:, columns], model.carried[columns]
    return replace(model, parts=needed(parts), weights=weights, carries=carries)


def _with_features(model: LogisticCircuit, kept: NDArray[np.intp]) -> LogisticCircuit:
    """The model with the weights of these features alone."""
    weights = np.zeros_like(model.weights)
    weights[:, kept] = model.weights[:, kept]
    carries = np.isin(np.arange(weights.shape[1]), kept)
    conditions = np.array([carries[features].any() for features in conditions_of(model)])
    return with_conditions(replace(model, weights=weights, carries=carries), conditions)


def objective_of(model: LogisticCircuit, examples: EncodedSet, backend: Backend) -> Objective:
    """The mean loss of examples, without penalty, for a weight per feature that carries one."""
    return _objective(_store(model, examples, backend, 1), model, examples)


def _store(model: LogisticCircuit, examples: EncodedSet, backend: Backend, share: float) -> FeatureStore:
    """The features that carry weights, of the examples. share: of the memory that features may take."""
    learned_with = model.facts("settings").get("precision")
    precision: FeaturePrecision = "fixed8" if learned_with == "fixed8" else "fixed16"
    megabytes = model.facts("settings").get("memory_budget")
    budget = int(share * (backend.memory_budget() if megabytes is None else megabytes * 2**20))
    return FeatureStore(model.by_cell.parts, examples.values, backend, precision=precision, budget=budget)


def _objective(store: FeatureStore, model: LogisticCircuit, examples: EncodedSet) -> Objective:
    return Objective(store, examples.labels, len(model.classes), link=model.link, example_weights=examples.weights)


def _with_threshold(model: LogisticCircuit, to_choose: Objective) -> LogisticCircuit:
    """The model with its threshold chosen anew by these examples, where training chose one by a metric."""
    chosen_by = model.facts("settings").get("threshold")
    metric: ThresholdMetric | None = next((one for one in get_args(ThresholdMetric) if one == chosen_by), None)
    if metric is None or len(model.classes) != 2:
        return model
    return replace(model, threshold=to_choose.threshold(_parameters(model), metric))


def _parameters(model: LogisticCircuit) -> Parameters:
    return Parameters(model.weights[:, model.carried], model.bias)


def _fitted(
    model: LogisticCircuit,
    objective: Objective,
    penalty: Penalty,
    settings: SolverSettings,
    should_stop: Callable[[], bool],
) -> tuple[LogisticCircuit, int]:
    """The model at the minimum, and how many steps led there."""
    start = _parameters(model)
    if not start.weights.size:
        return model, 0
    penalised = objective.with_l2(penalty.l2, start.weights if penalty.near else 0.0)
    solution = minimise(penalised, start, settings, should_stop)
    weights = np.zeros_like(model.weights)
    weights[:, model.carried] = solution.parameters.weights
    return replace(model, weights=weights, bias=solution.parameters.bias), solution.n_iterations
