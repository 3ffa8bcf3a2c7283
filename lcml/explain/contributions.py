"""Explanations: in words, when a feature flows, and how much each feature adds to a logit.

The features of a circuit are the flows of its literals and elements. For a Boolean example that the circuit admits, a
flow is 0 or 1: a feature is a condition on the variables, kept here as a set of cases of which at most one applies,
each case a set of literals that all hold. For an example of probabilities the flow is the probability of the condition.
Under a view of windows a feature is the flow averaged over the windows of a cell, its square root where the view says
so; the condition is one on the pixels of a window.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from lcml.arrays import FloatArray
from lcml.backend import get_backend
from lcml.circuits.circuit import Circuit
from lcml.circuits.views import WindowView
from lcml.explain.names import variable_names
from lcml.model.head import predicted_codes, probabilities
from lcml.model.model import LogisticCircuit
from lcml.passes.feature_map import FeatureMap

Case: TypeAlias = frozenset[int]
Cases: TypeAlias = frozenset[Case]
"""Literals by their ids; 2 n_variables + g says "or gate g holds", 2 n_variables + n_or_gates + g "g is reached"."""

ALWAYS: Cases = frozenset((frozenset(),))

MAX_CASES = 16
"""A gate with more cases than this is named in conditions instead of spelt out: nobody reads more."""


@dataclass(frozen=True)
class Contribution:
    """What all features under one condition add to the logit: contribution = flow * weight.

    flow: of a part with windows, the feature: the mean over the cell's windows, or its square root.
    """

    condition: str
    flow: float
    weight: float
    contribution: float


@dataclass(frozen=True)
class Explanation:
    """Why an example got its label: logit = bias + the contributions shown + rest, those of the predicted class.

    With one weight set for two classes, the first class has the logit of the second with the other sign.
    probabilities: by class, in the model's order.
    """

    label: int | str
    probabilities: tuple[float, ...]
    logit: float
    bias: float
    contributions: tuple[Contribution, ...]
    rest: float


def condition(circuit: Circuit, element: int, names: Sequence[str]) -> str:
    """When element `element` flows, in words: 'a and not b', 'a and (b or (not b and c))', 'always'.

    names: one per variable, "a" for X_a being true. Boolean examples that the circuit admits have flow 1 where this
    holds and 0 where not.
    """
    return in_words(circuit, feature_cases(circuit)[circuit.n_literals + element], names)


def conditions(circuit: Circuit, names: Sequence[str]) -> tuple[str, ...]:
    """The condition of every feature in words: 2 n_variables literals, then the elements."""
    return tuple(in_words(circuit, cases, names) for cases in feature_cases(circuit))


def feature_conditions(model: LogisticCircuit, names: Sequence[str]) -> Iterator[str]:
    """What every feature stands for, in words, in the order of `model.weights`. names: one per raw feature.

    Of a model of one circuit over the whole example the condition; else also where: "grey[2,3] and not grey[2,4] in
    cell (1, 2) of part 0", rows before columns, all counted from 0, those of a pixel from the window's corner.
    """
    for number, part in enumerate(model.parts):
        texts = conditions(part.circuit, variable_names(model.encoder, part.view, names))
        for cell in range(part.view.n_cells):
            yield from (texts[flow] + place_in_words(model, number, cell) for flow in part.flows.tolist())


def place_in_words(model: LogisticCircuit, part: int, cell: int) -> str:
    """Which cell and part a condition is about; nothing where the model has but one."""
    view = model.parts[part].view
    of_part = f"part {part}" if len(model.parts) > 1 else ""
    if isinstance(view, WindowView) and view.n_cells > 1:
        row, column = divmod(cell, view.grid[1])
        return f" in cell ({row}, {column})" + (of_part and f" of {of_part}")
    return of_part and f" in {of_part}"


def contributions(model: LogisticCircuit, x: ArrayLike) -> FloatArray:
    """feature * weight of raw examples (n_examples, d), for the features of all parts, in the order of `model.weights`.

    Shape (n_examples, n_sets, n_features); summed over the features, with the bias, they are the logits. Raises as
    `LogisticCircuit.logits`.
    """
    return feature_values(model, x)[:, None, :] * model.weights


def feature_values(model: LogisticCircuit, x: ArrayLike) -> FloatArray:
    """(n_examples, n_features) every feature, in float64: flows, pooled where the part's view has windows."""
    encoded = model.encoder.encode(np.asarray(x)).astype(np.float64)
    backend = get_backend("numpy")
    maps = (FeatureMap(part.view, part.circuit, part.flows, backend) for part in model.parts if part.n_features)
    return np.concatenate([np.zeros((len(encoded), 0)), *(one.values(encoded).T for one in maps)], axis=1)


def explain(model: LogisticCircuit, example: ArrayLike, names: Sequence[str], top: int) -> Explanation:
    """Why the raw example (d,) gets its label: the `top` contributions of largest magnitude, none of exactly 0."""
    values = feature_values(model, np.asarray(example)[None, :])[0]
    logits = (model.weights @ values + model.bias)[None, :]
    code = int(predicted_codes(logits)[0])
    weights, bias = class_weights(model, code)
    groups = _groups(model)
    value_of = values[[group.features[0] for group in groups]] if groups else np.zeros(0)
    weight_of = _sums(weights, groups)
    parts = value_of * weight_of
    order = [i for i in np.argsort(-np.abs(parts), kind="stable")[:top].tolist() if parts[i] != 0]
    words = _Words(model, names)
    shown = tuple(
        Contribution(words.of(groups[i]), float(value_of[i]), float(weight_of[i]), float(parts[i])) for i in order
    )
    logit = float(weights @ values + bias)
    return Explanation(
        label=model.classes[code],
        probabilities=tuple(probabilities(logits, model.link)[0].tolist()),
        logit=logit,
        bias=bias,
        contributions=shown,
        rest=logit - bias - sum(part.contribution for part in shown),
    )


def top_conditions(model: LogisticCircuit, names: Sequence[str], top: int) -> dict[int | str, list[tuple[str, float]]]:
    """Per class, the `top` conditions of largest weight in magnitude, with these weights.

    A weight is what the condition adds to the logit where it holds (in a cell: in every window). Features that always
    hold are left out: they are bias. With one weight set for two classes only the second is there.
    """
    groups = [group for group in _groups(model) if group.cases != ALWAYS]
    words = _Words(model, names)
    found = {}
    for code in range(len(model.classes)) if len(model.bias) > 1 else (1,):
        weights = _sums(class_weights(model, code)[0], groups)
        order = np.argsort(-np.abs(weights), kind="stable")[:top].tolist()
        found[model.classes[code]] = [(words.of(groups[i]), float(weights[i])) for i in order if weights[i] != 0]
    return found


def class_weights(model: LogisticCircuit, code: int) -> tuple[FloatArray, float]:
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
    cases: Cases
    features: list[int]


def _groups(model: LogisticCircuit) -> list[_Group]:
    groups, first = [], 0
    for number, part in enumerate(model.parts):
        flows = part.flows.tolist()
        cases = feature_cases(part.circuit)
        in_cell = group_by_condition(cases[flow] for flow in flows)
        for cell in range(part.view.n_cells):
            groups += [
                _Group(number, cell, kind, [first + member for member in members]) for kind, members in in_cell.items()
            ]
            first += len(flows)
    return groups


class _Words:
    """Groups in words; names of variables are made once."""

    def __init__(self, model: LogisticCircuit, names: Sequence[str]) -> None:
        self._model = model
        self._names = [variable_names(model.encoder, part.view, names) for part in model.parts]

    def of(self, group: _Group) -> str:
        circuit, names = self._model.parts[group.part].circuit, self._names[group.part]
        return in_words(circuit, group.cases, names) + place_in_words(self._model, group.part, group.cell)


def group_by_condition(features: Iterable[Cases]) -> dict[Cases, list[int]]:
    """The features under each condition, in the order of their first one."""
    groups: dict[Cases, list[int]] = {}
    for feature, cases in enumerate(features):
        groups.setdefault(cases, []).append(feature)
    return groups


def feature_cases(circuit: Circuit, max_cases: int = MAX_CASES) -> list[Cases]:
    """When every feature flows: the 2 n_variables literals, then the elements.

    An element flows where its gate is reached and its prime and sub hold. Or gates are reached through the elements
    they are a child of, the root always; their cases are merged (m and x, m and not x: m). A gate with more than
    `max_cases` stands for its cases, beside what they have in common.
    """
    n_literals = circuit.n_literals
    holds = _holding_cases(circuit, max_cases)
    reached: list[set[Case]] = [set() for _ in range(circuit.n_or_gates)]
    features: list[Cases] = [frozenset((frozenset((literal,)),)) for literal in range(n_literals)]
    of_element: list[Cases] = [ALWAYS] * circuit.n_elements
    if reached:
        reached[-1].add(frozenset())
    for gate in reversed(range(circuit.n_or_gates)):
        cases = _merged(reached[gate], circuit, n_literals + circuit.n_or_gates + gate, max_cases)
        for element, (prime, sub) in enumerate(circuit.elements_of(gate), start=int(circuit.or_start[gate])):
            of_element[element] = _both(circuit, _both(circuit, cases, holds[prime]), holds[sub])
            for child in (prime, sub):
                if child >= n_literals:
                    reached[child - n_literals] |= of_element[element]
    return features + of_element


def in_words(circuit: Circuit, cases: Cases, names: Sequence[str]) -> str:
    """`cases` in words: what they have in common, then the alternatives, which may overlap there."""
    if not cases:
        return "never"
    common = frozenset.intersection(*cases)
    parts = [_name(circuit, literal, names) for literal in _by_variable(circuit, common)]
    if len(cases) > 1:
        rests = _shortened(circuit, [_by_variable(circuit, case - common) for case in cases])
        texts = [" and ".join(_name(circuit, literal, names) for literal in rest) for rest in rests]
        choice = " or ".join(f"({text})" if len(rest) > 1 else text for rest, text in zip(rests, texts, strict=True))
        if all(rests):
            parts.append(f"({choice})" if parts else choice)
    return " and ".join(parts) or "always"


def _shortened(circuit: Circuit, cases: list[list[int]]) -> list[list[int]]:
    """The same alternatives in fewer words: a literal goes where another case covers its negation."""
    cases = sorted(cases, key=lambda case: (len(case), case))
    for i in range(len(cases)):
        others = [set(case) for j, case in enumerate(cases) if j != i]
        for literal in list(cases[i]):
            rest = [kept for kept in cases[i] if kept != literal]
            if any(other <= {*rest, _negated(circuit, literal)} for other in others):
                cases[i] = rest
    return sorted(cases, key=lambda case: (len(case), case))


def _holding_cases(circuit: Circuit, max_cases: int) -> list[Cases]:
    """Per node, when it is true."""
    if circuit.is_product:
        return [frozenset((literals,)) for literals in circuit.implied]
    holds: list[Cases] = [frozenset((frozenset((literal,)),)) for literal in range(circuit.n_literals)]
    for gate in range(circuit.n_or_gates):
        cases = {case for prime, sub in circuit.elements_of(gate) for case in _both(circuit, holds[prime], holds[sub])}
        holds.append(_merged(cases, circuit, circuit.n_literals + gate, max_cases))
    return holds


def _both(circuit: Circuit, first: Iterable[Case], second: Iterable[Case]) -> Cases:
    """The cases in which both hold; those that contradict themselves fall away."""
    both = {a | b for a, b in product(first, second)}
    return frozenset(case for case in both if not any(_negated(circuit, literal) in case for literal in case))


def _merged(cases: set[Case], circuit: Circuit, name: int, max_cases: int) -> Cases:
    """Fewer cases for the same condition; more than `max_cases` become one, with `name` in it."""
    cases, pending = set(cases), list(cases)
    while pending:
        case = pending.pop()
        for literal in case if case in cases else ():
            rest = case - {literal}
            opposite = rest | {_negated(circuit, literal)}
            if opposite != rest and opposite in cases:
                cases -= {case, opposite}
                cases.add(rest)
                pending.append(rest)
                break
    if len(cases) > max_cases:
        return frozenset((frozenset.intersection(*cases) | {name},))
    return frozenset(cases)


def _negated(circuit: Circuit, literal: int) -> int:
    """The opposite literal; -1, which is no literal, for an or gate's name."""
    return (literal + circuit.n_variables) % circuit.n_literals if literal < circuit.n_literals else -1


def _by_variable(circuit: Circuit, case: Case) -> list[int]:
    return sorted(
        case, key=lambda i: (i >= circuit.n_literals, i % circuit.n_variables if i < circuit.n_literals else i)
    )


def _name(circuit: Circuit, literal: int, names: Sequence[str]) -> str:
    if literal < circuit.n_literals:
        return ("" if literal < circuit.n_variables else "not ") + names[literal % circuit.n_variables]
    reached, gate = divmod(literal - circuit.n_literals, circuit.n_or_gates)
    return f"or gate {gate} {'is reached' if reached else 'holds'}"


def _sums(weights: FloatArray, groups: Sequence[_Group]) -> FloatArray:
    return np.array([weights[group.features].sum() for group in groups])
