"""Features under one condition, and what these are about: columns of a table, or pixels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lcml.arrays import FloatArray
from lcml.circuits.views import SelectedView, WindowView
from lcml.explain.conditions import Cases, CircuitCases, feature_cases
from lcml.explain.names import part_words
from lcml.model.model import LogisticCircuit


@dataclass(frozen=True)
class Group:
    """Features under one condition in one cell of a part: their numbers among all features."""

    part: int
    cell: int
    of_circuit: CircuitCases
    cases: Cases
    features: list[int]


def feature_groups(model: LogisticCircuit) -> list[Group]:
    """All features, those under one condition together, in the order of their parts and cells."""
    groups, first = [], 0
    for number, part in enumerate(model.parts):
        found = feature_cases(part.circuit)
        in_cell: dict[Cases, list[int]] = {}
        for feature, flow in enumerate(part.flows.tolist()):
            in_cell.setdefault(found.of_feature[flow], []).append(feature)
        for cell in range(part.view.n_cells):
            groups += [Group(number, cell, found, of, [first + i for i in same]) for of, same in in_cell.items()]
            first += len(part.flows)
    return groups


def group_columns(model: LogisticCircuit, group: Group) -> tuple[int, ...]:
    """The columns, or raw features, that a condition on the whole example is about, ascending."""
    view, encoder = model.parts[group.part].view, model.encoder
    n = view.n_variables
    literals = np.array(sorted(group.of_circuit.mentioned(group.cases)), np.intp)
    inputs = np.array(view.inputs, np.intp)[literals % n] if isinstance(view, SelectedView) else literals % n
    found = np.searchsorted(encoder.blocks, inputs[inputs < encoder.n_outputs], side="right") - 1
    return tuple(np.unique(found).tolist())


def group_in_words(model: LogisticCircuit, group: Group, names: Sequence[str] | None) -> str:
    """The condition and where it is told, see `lcml.explain.contributions.feature_conditions`."""
    text = group.of_circuit.in_words(group.cases, part_words(model, group.part, names))
    return text + place_in_words(model, group.part, group.cell)


def place_in_words(model: LogisticCircuit, part: int, cell: int) -> str:
    """Which cell and part a condition is about; nothing where the model has but one, or the parts are of a table."""
    view = model.parts[part].view
    of_part = f"part {part}" if len(model.parts) > 1 and not model.encoder.names else ""
    if isinstance(view, WindowView) and view.n_cells > 1:
        row, column = divmod(cell, view.grid[1])
        return f" in cell ({row}, {column})" + (of_part and f" of {of_part}")
    return of_part and f" in {of_part}"


def summed(weights: FloatArray, groups: Sequence[Group]) -> FloatArray:
    """(n_groups,) the sum of the weights (n_features,) of every group."""
    if not groups:
        return np.zeros(0)
    starts = np.cumsum([0, *(len(group.features) for group in groups[:-1])])
    return np.add.reduceat(weights[[feature for group in groups for feature in group.features]], starts)
