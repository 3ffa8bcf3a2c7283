"""Contributions: how much every feature of a model adds to a logit, and in words what each is about.

Under a view of windows a feature is the flow averaged over the windows of a cell, its square root where the view says
so; its condition is one on the pixels of a window.

An example is explained against a baseline: the logit of the average of some examples, which is the bias and the weights
times their average features. What all examples share (a large bias, a condition that nearly always holds) is in it and
explains none of them. Without examples to average, all averages are 0 and the baseline is the bias.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from lcml.arrays import FloatArray
from lcml.backend import Backend, get_backend
from lcml.data.raw import listed
from lcml.errors import DataError
from lcml.explain.conditions import ALWAYS, conditions
from lcml.explain.groups import Group, feature_groups, group_columns, group_in_words, place_in_words, summed
from lcml.explain.names import part_words, shown_names
from lcml.explain.pixels import place_of
from lcml.explain.records import Contribution, Explanation
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.table import Table
from lcml.model.model import LogisticCircuit
from lcml.passes.feature_map import FeatureMap

TOP = 10
"""So many contributions or conditions are shown unless told otherwise."""


def feature_conditions(model: LogisticCircuit, names: Sequence[str] | None = None) -> Iterator[str]:
    """What every feature stands for, in words, in the order of `model.weights`.

    names: one per raw feature; by default those it was trained on, else x0, x1 and so on.

    Of a model of one circuit over the whole example the condition; else also where: "grey[2,3] and not grey[2,4] in
    cell (1, 2) of part 0", rows before columns, all counted from 0, those of a pixel from the window's corner.
    """
    for number, part in enumerate(model.parts):
        texts = conditions(part.circuit, part_words(model, number, names))
        for cell in range(part.view.n_cells):
            yield from (texts[flow] + place_in_words(model, number, cell) for flow in part.flows.tolist())


def contributions(model: LogisticCircuit, x: Any) -> FloatArray:
    """feature * weight of raw examples (n_examples, d), for the features of all parts, in the order of `model.weights`.

    Shape (n_examples, n_sets, n_features); summed over the features, with the bias, they are the logits. Raises as
    `LogisticCircuit.logits`.
    """
    return feature_values(model, x)[:, None, :] * model.weights


def feature_values(model: LogisticCircuit, x: Any, backend: Backend | None = None) -> FloatArray:
    """(n_examples, n_features) every feature: flows, pooled where the part's view has windows, of examples
    that lack inputs as the model's policy expects them. In float64 by numpy, or in single precision by `backend`."""
    encoded, device = model.encode(x), backend or get_backend("numpy")
    examples = device.asarray(encoded.astype(np.float64) if backend is None else encoded)
    values = [np.zeros((len(encoded), 0))]
    for part in model.parts:
        if part.n_features:
            values.append(device.to_host(FeatureMap(part.view, part.circuit, part.flows, device).values(examples)).T)
    found: FloatArray = np.concatenate(values, axis=1)
    if model.missing is None:
        return found
    return model.missing.with_expected(found, model.encoder.encode(x, gaps=True), lambda f: f[:, model.parts[0].flows])


def average_features(model: LogisticCircuit, x: Any, backend: Backend | None = None) -> FloatArray:
    """(n_features,) the mean of every feature over raw examples (n_examples, d), whose features are held at once.

    They are computed in single precision, by numpy unless `backend` is faster. Raises as `LogisticCircuit.logits`.
    """
    return np.asarray(feature_values(model, x, backend or get_backend("numpy")).mean(axis=0))


def explain(
    model: LogisticCircuit,
    example: Any,
    names: Sequence[str] | None = None,
    top: int = TOP,
    average: FloatArray | None = None,
    against: int | str | None = None,
    *,
    groups: Sequence[Group] | None = None,
    backend: Backend | None = None,
) -> Explanation:
    """Why a raw example gets its label: the `top` contributions of largest magnitude, none of exactly 0.

    example: (d,), or a `Table` of one row, whose features about one column alone are told together, with the value that
    it has there: flow and average are then what the column adds, and the weight is 1. names: as `feature_conditions`
    takes them. average: the `average_features` of the examples that this one is held against, none by default. against:
    why the label and not this class, see `Explanation`; DataError where it is the label, or no class. groups: the
    `feature_groups` of the model, where many are explained. By numpy in float64, or in single precision by `backend`.
    Raises as `LogisticCircuit.logits`.
    """
    one = example if isinstance(example, Table) else [example]
    encoded = model.encode(one).astype(np.float64)
    values = feature_values(model, one, backend)[0].astype(np.float64)
    usual = np.zeros_like(values) if average is None else average
    logits = (model.weights @ values + model.bias)[None, :]
    code = int(model.codes(logits)[0])
    weights, bias = _weights_against(model, code, against)
    of_column, others = _by_column(model, feature_groups(model) if groups is None else groups)
    first = [group.features[0] for group in others]
    flow, usually, weight = values[first], usual[first], summed(weights, others)
    if of_column:
        own = np.array([[weights[f] @ values[f], weights[f] @ usual[f], 1.0] for f in of_column.values()])
        flow, usually, weight = np.concatenate([[flow, usually, weight], own.T], axis=1)
        told = cast(ColumnsEncoder, model.encoder).in_words(one, shown_names(model) if names is None else names)
    added = (flow - usually) * weight

    def line(i: int) -> Contribution:
        figures = float(flow[i]), float(weight[i]), float(added[i]), float(usually[i])
        if i >= len(others):
            return Contribution(told[list(of_column)[i - len(others)]], *figures)
        return Contribution(group_in_words(model, others[i], names), *figures, place_of(model, others[i], encoded[0]))

    shown = tuple(map(line, _largest(added, top)))
    logit, probabilities = float(weights @ values + bias), tuple(model.head.probabilities(logits)[0].tolist())
    baseline = float(weights @ usual + bias)
    rest = logit - baseline - sum(part.contribution for part in shown)
    return Explanation(model.classes[code], probabilities, logit, bias, baseline, shown, rest, against)


def _by_column(model: LogisticCircuit, groups: Sequence[Group]) -> tuple[dict[int, list[int]], Sequence[Group]]:
    """Of a table the features about every column alone, by the column; and the groups of other features."""
    if not isinstance(model.encoder, ColumnsEncoder):
        return {}, groups
    of_column: dict[int, list[int]] = {}
    others = []
    for group in groups:
        columns = group_columns(model, group)
        if len(columns) == 1:
            of_column.setdefault(columns[0], []).extend(group.features)
        else:
            others.append(group)
    return of_column, others


def top_conditions(
    model: LogisticCircuit, names: Sequence[str] | None = None, top: int = TOP
) -> dict[int | str, list[tuple[str, float]]]:
    """Per class, the `top` conditions of largest weight in magnitude, with these weights.

    A weight is what the condition adds to the logit where it holds (in a cell: in every window). Features that always
    hold are left out: they are bias. With one weight set for two classes only the second is there.
    """
    groups = [group for group in feature_groups(model) if group.cases != ALWAYS]
    found = {}
    for code in range(len(model.classes)) if len(model.bias) > 1 else (1,):
        weights = summed(class_weights(model, code)[0], groups)
        shown = [(group_in_words(model, groups[i], names), float(weights[i])) for i in _largest(weights, top)]
        found[model.classes[code]] = shown
    return found


def class_weights(model: LogisticCircuit, code: int) -> tuple[FloatArray, float]:
    """Weights (n_features,) and bias of the logit of class number `code`; see `Explanation`."""
    if len(model.bias) == 1:
        sign = 1.0 if code == 1 else -1.0
        return sign * model.weights[0], sign * float(model.bias[0])
    return model.weights[code], float(model.bias[code])


def _weights_against(model: LogisticCircuit, code: int, against: int | str | None) -> tuple[FloatArray, float]:
    """Those of the class, or of its difference to the class that it is held against."""
    weights, bias = class_weights(model, code)
    if against is None:
        return weights, bias
    if against not in model.classes or against == model.classes[code]:
        what = "what is predicted" if against in model.classes else "no class"
        raise DataError(f"{against!r} is {what}; hold the example against another of {listed(model.classes)}")
    if len(model.bias) == 1:  # the difference of a class and its only other is its logit
        return weights, bias
    others, of_other = class_weights(model, model.classes.index(against))
    return weights - others, bias - of_other


def _largest(values: FloatArray, top: int) -> list[int]:
    """Where the `top` values of largest magnitude are, none of exactly 0."""
    return [i for i in np.argsort(-np.abs(values), kind="stable")[:top].tolist() if values[i] != 0]
