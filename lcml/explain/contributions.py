"""Contributions: how much every feature of a model adds to a logit, and in words what each is about.

Under a view of windows a feature is the flow averaged over the windows of a cell, its square root where the view says
so; its condition is one on the pixels of a window.

An example is explained against a baseline: the logit of the average of some examples, which is the bias and the weights
times their average features. What all examples share (a large bias, a condition that nearly always holds) is in it and
explains none of them. Without examples to average, all averages are 0 and the baseline is the bias.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.backend import Backend, get_backend
from lcml.circuits.views import SelectedView, WindowView
from lcml.explain.conditions import ALWAYS, Cases, CircuitCases, conditions, feature_cases
from lcml.explain.names import part_words, shown_names
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.table import Table
from lcml.model.model import LogisticCircuit
from lcml.passes.feature_map import FeatureMap

TOP = 10
"""So many contributions or conditions are shown unless told otherwise."""


@dataclass(frozen=True)
class Contribution:
    """What all features under one condition add to the baseline: contribution = (flow - average) * weight.

    flow: of a part with windows, the feature: the mean over the cell's windows, or its square root. average: the
    feature of the average example, 0 where none was given.
    """

    condition: str
    flow: float
    weight: float
    contribution: float
    average: float = 0.0


@dataclass(frozen=True)
class Explanation:
    """Why an example got its label: logit = baseline + the contributions shown + rest, those of the predicted class.

    baseline: the logit of the average example, bias + weights . average features; the bias where none was given.
    With one weight set for two classes, the first class has the logit of the second with the other sign.
    probabilities: by class, in the model's order.
    """

    label: int | str
    probabilities: tuple[float, ...]
    logit: float
    bias: float
    baseline: float
    contributions: tuple[Contribution, ...]
    rest: float


def feature_conditions(model: LogisticCircuit, names: Sequence[str] | None = None) -> Iterator[str]:
    """What every feature stands for, in words, in the order of `model.weights`.

    names: one per raw feature; by default those it was trained on, else x0, x1 and so on.

    Of a model of one circuit over the whole example the condition; else also where: "grey[2,3] and not grey[2,4] in
    cell (1, 2) of part 0", rows before columns, all counted from 0, those of a pixel from the window's corner.
    """
    for number, part in enumerate(model.parts):
        texts = conditions(part.circuit, part_words(model, number, names))
        for cell in range(part.view.n_cells):
            yield from (texts[flow] + _place_in_words(model, number, cell) for flow in part.flows.tolist())


def _place_in_words(model: LogisticCircuit, part: int, cell: int) -> str:
    """Which cell and part a condition is about; nothing where the model has but one, or the parts are of a table."""
    view = model.parts[part].view
    of_part = f"part {part}" if len(model.parts) > 1 and not model.encoder.names else ""
    if isinstance(view, WindowView) and view.n_cells > 1:
        row, column = divmod(cell, view.grid[1])
        return f" in cell ({row}, {column})" + (of_part and f" of {of_part}")
    return of_part and f" in {of_part}"


def contributions(model: LogisticCircuit, x: Any) -> FloatArray:
    """feature * weight of raw examples (n_examples, d), for the features of all parts, in the order of `model.weights`.

    Shape (n_examples, n_sets, n_features); summed over the features, with the bias, they are the logits. Raises as
    `LogisticCircuit.logits`.
    """
    return feature_values(model, x)[:, None, :] * model.weights


def feature_values(model: LogisticCircuit, x: Any) -> FloatArray:
    """(n_examples, n_features) every feature, in float64: flows, pooled where the part's view has windows."""
    return _values(model, model.encoder.encode(x).astype(np.float64), get_backend("numpy"))


def average_features(model: LogisticCircuit, x: Any, backend: Backend | None = None) -> FloatArray:
    """(n_features,) the mean of every feature over raw examples (n_examples, d), whose features are held at once.

    They are computed in single precision, by numpy unless `backend` is faster. Raises as `LogisticCircuit.logits`.
    """
    average: FloatArray = _values(model, model.encoder.encode(x), backend or get_backend("numpy")).mean(axis=0)
    return average


def explain(
    model: LogisticCircuit,
    example: Any,
    names: Sequence[str] | None = None,
    top: int = TOP,
    average: FloatArray | None = None,
) -> Explanation:
    """Why a raw example gets its label: the `top` contributions of largest magnitude, none of exactly 0.

    example: (d,), or a `Table` of one row, whose features about one column alone are told together, with the value that
    it has there: flow and average are then what the column adds, and the weight is 1. names: as `feature_conditions`
    takes them. average: the `average_features` of the examples that this one is held against, none by default. Raises
    as `LogisticCircuit.logits`.
    """
    one = example if isinstance(example, Table) else [example]
    values = feature_values(model, one)[0]
    usual = np.zeros_like(values) if average is None else average
    logits = (model.weights @ values + model.bias)[None, :]
    code = int(model.codes(logits)[0])
    weights, bias = _class_weights(model, code)
    lines: list[tuple[float, float, float, Callable[[], str]]] = []  # flow, average, weight, and the words
    of_column: dict[int, list[int]] = {}
    for group in _groups(model):
        if (column := _column(model, group)) is not None:
            of_column.setdefault(column, []).extend(group.features)
            continue
        first, weight = group.features[0], weights[group.features].sum()
        lines.append((values[first], usual[first], weight, partial(_in_words, model, group, names)))
    if of_column:
        told = cast(ColumnsEncoder, model.encoder).in_words(one, shown_names(model) if names is None else names)
        for column, features in of_column.items():
            own = weights[features]
            adds, usually = float(own @ values[features]), float(own @ usual[features])
            lines.append((adds, usually, 1.0, partial(told.__getitem__, column)))
    added = np.array([(flow - of_average) * weight for flow, of_average, weight, _ in lines])
    shown = tuple(
        Contribution(words(), float(flow), float(weight), float(added[i]), float(of_average))
        for i, (flow, of_average, weight, words) in ((i, lines[i]) for i in _largest(added, top))
    )
    logit, probabilities = float(weights @ values + bias), tuple(model.head.probabilities(logits)[0].tolist())
    baseline = float(weights @ usual + bias)
    rest = logit - baseline - sum(part.contribution for part in shown)
    return Explanation(model.classes[code], probabilities, logit, bias, baseline, shown, rest)


def top_conditions(
    model: LogisticCircuit, names: Sequence[str] | None = None, top: int = TOP
) -> dict[int | str, list[tuple[str, float]]]:
    """Per class, the `top` conditions of largest weight in magnitude, with these weights.

    A weight is what the condition adds to the logit where it holds (in a cell: in every window). Features that always
    hold are left out: they are bias. With one weight set for two classes only the second is there.
    """
    groups = [group for group in _groups(model) if group.cases != ALWAYS]
    found = {}
    for code in range(len(model.classes)) if len(model.bias) > 1 else (1,):
        weights = _sums(_class_weights(model, code)[0], groups)
        shown = [(_in_words(model, groups[i], names), float(weights[i])) for i in _largest(weights, top)]
        found[model.classes[code]] = shown
    return found


def _values(model: LogisticCircuit, encoded: NDArray[np.floating], backend: Backend) -> FloatArray:
    """(n_examples, n_features) every feature of encoded examples, in their precision computed."""
    found, examples = [np.zeros((len(encoded), 0))], backend.asarray(encoded)
    for part in model.parts:
        if part.n_features:
            found.append(backend.to_host(FeatureMap(part.view, part.circuit, part.flows, backend).values(examples)).T)
    return np.concatenate(found, axis=1)


def _class_weights(model: LogisticCircuit, code: int) -> tuple[FloatArray, float]:
    """Weights (n_features,) and bias of the logit of class number `code`; see `Explanation`."""
    if len(model.bias) == 1:
        sign = 1.0 if code == 1 else -1.0
        return sign * model.weights[0], sign * float(model.bias[0])
    return model.weights[code], float(model.bias[code])


@dataclass(frozen=True)
class _Group:
    """Features under one condition in one cell of a part: their numbers among all features."""

    part: int
    cell: int
    of_circuit: CircuitCases
    cases: Cases
    features: list[int]


def _groups(model: LogisticCircuit) -> list[_Group]:
    groups, first = [], 0
    for number, part in enumerate(model.parts):
        found = feature_cases(part.circuit)
        in_cell: dict[Cases, list[int]] = {}
        for feature, flow in enumerate(part.flows.tolist()):
            in_cell.setdefault(found.of_feature[flow], []).append(feature)
        for cell in range(part.view.n_cells):
            groups += [_Group(number, cell, found, of, [first + i for i in same]) for of, same in in_cell.items()]
            first += len(part.flows)
    return groups


def _column(model: LogisticCircuit, group: _Group) -> int | None:
    """The column of a table that alone the group's features are about."""
    view, encoder = model.parts[group.part].view, model.encoder
    literals = np.array(sorted(frozenset[int]().union(*group.cases)), np.intp)
    n = view.n_variables
    if not isinstance(encoder, ColumnsEncoder) or not len(literals) or literals[-1] >= 2 * n:
        return None
    inputs = np.array(view.inputs)[literals % n] if isinstance(view, SelectedView) else literals % n
    found = np.unique(np.searchsorted(encoder.blocks, inputs[inputs < encoder.n_outputs], side="right") - 1)
    return int(found[0]) if len(found) == 1 else None


def _in_words(model: LogisticCircuit, group: _Group, names: Sequence[str] | None) -> str:
    text = group.of_circuit.in_words(group.cases, part_words(model, group.part, names))
    return text + _place_in_words(model, group.part, group.cell)


def _largest(values: FloatArray, top: int) -> list[int]:
    """Where the `top` values of largest magnitude are, none of exactly 0."""
    return [i for i in np.argsort(-np.abs(values), kind="stable")[:top].tolist() if values[i] != 0]


def _sums(weights: FloatArray, groups: Sequence[_Group]) -> FloatArray:
    return np.array([weights[group.features].sum() for group in groups])
