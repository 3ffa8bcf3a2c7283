"""Counterfactuals: the fewest inputs that, changed, give an example another class.

Fewest first: all sets of so many inputs are asked (`lcml.explain.search`) whether the class stays while they vary. Then
every changed input goes back as near to its own value as the other class allows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.errors import SettingsError
from lcml.explain.domains import Domain, codes_of
from lcml.explain.names import shown_names
from lcml.explain.reasons import values_in_words
from lcml.explain.search import WORK, Search, differ
from lcml.inputs.columns import ColumnsEncoder
from lcml.model.model import LogisticCircuit

MOST_SETS = 2000
"""Sets of inputs of one size that are asked; of larger sizes only what a descent finds is known."""

MOST_VALUES = 256
"""Values of a column of the background that are tried, spread evenly over their order."""


@dataclass(frozen=True)
class Counterfactual:
    """Changes that give another label. inputs: their numbers; before, after: in words; example: the raw one, changed,
    as codes (d,); fewest: whether it was proved that fewer changes, or others that many, do not suffice."""

    label: int | str
    other: int | str
    inputs: tuple[int, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    probability: float
    example: tuple[float, ...]
    fewest: bool


@dataclass(frozen=True)
class NoCounterfactual:
    """No change of the inputs that may change was found. proved: whether there is none."""

    label: int | str
    proved: bool


def counterfactual(
    model: LogisticCircuit,
    example: Any,
    *,
    fixed: Sequence[str] = (),
    background: Any = None,
    names: Sequence[str] | None = None,
    work: int = WORK,
) -> Counterfactual | NoCounterfactual:
    """The fewest changes of a raw example (d,), or a `Table` of one row, that give it another class.

    fixed: names of inputs that stay. Values come from the knots, steps and categories of the column, else from the
    ends of the input's range, and from `background`, raw examples: of these the nearest that, with the other changes,
    gives another class by the model's own prediction. Gaps and categories without a name are none. Raises
    SettingsError for unknown names, and as `LogisticCircuit.logits`.
    """
    known = list(shown_names(model) if names is None else names)
    if unknown := [name for name in fixed if name not in known]:
        some = ", ".join(known[:12]) + (", ..." if len(known) > 12 else "")
        raise SettingsError(f"fixed: there is no {unknown[0]!r}; the names are {some}")
    search = Search(model, example, known=True, work=work)
    may = np.array(
        [name not in fixed and len(values) > 1 for name, values in zip(known, search.domain.values, strict=True)]
    )
    label = model.classes[search.code]
    verdict = search.decide(may)
    if verdict.other is None:
        return NoCounterfactual(label, verdict.kept is True)
    codes, fewest = _fewest(search, may, _fewer(search, verdict.other))
    rows = None if background is None else codes_of(model.encoder, background)
    for j in _changes(search.domain, codes):
        codes = _nearest(search, codes, j, rows)
    inputs = _changes(search.domain, codes)
    before, after = (values_in_words(model, of, inputs, names) for of in (search.domain.own, codes))
    raw = search.domain.raw(codes[None])
    logits = model.logits(raw, precision="float64")
    other = int(model.codes(logits)[0])
    chance = float(model.head.probabilities(logits)[0, other])
    told = tuple(inputs), tuple(before), tuple(after)
    return Counterfactual(label, model.classes[other], *told, chance, tuple(codes.tolist()), fewest)


def _changes(domain: Domain, codes: FloatArray) -> list[int]:
    return [int(j) for j in np.flatnonzero(differ(codes, domain.own))]


def _fewer(search: Search, codes: FloatArray) -> FloatArray:
    """The codes with all changes undone, one after another, that are not needed for another class."""
    for j in search.order:
        undone = codes.copy()
        undone[j] = search.domain.own[j]
        if not search.keeps(undone[None])[0]:
            codes = undone
    return codes


def _fewest(search: Search, may: NDArray[np.bool_], found: FloatArray) -> tuple[FloatArray, bool]:
    """Codes of another class with the fewest changes, and whether all sets of fewer inputs were asked and answered."""
    most = len(_changes(search.domain, found))
    free = [j for j in search.order[::-1].tolist() if may[j]]
    fewest = True
    for size in range(1, most):
        sets = list(islice(combinations(free, size), MOST_SETS + 1))
        if len(sets) > MOST_SETS:
            return found, False
        for inputs in search.unproved(sets):
            verdict = search.decide(search.mask(inputs))
            if verdict.other is not None:
                return _fewer(search, verdict.other), fewest
            fewest &= verdict.kept is True
    return found, fewest


def _nearest(search: Search, codes: FloatArray, j: int, rows: FloatArray | None) -> FloatArray:
    """The codes with input j as near to its own value as another class allows."""
    domain, own = search.domain, search.domain.own[j]
    values = domain.values[j][1:]
    if rows is not None:
        seen = np.unique(rows[np.isfinite(rows[:, j]), j])
        values = np.append(values, seen[np.linspace(0, len(seen) - 1, min(len(seen), MOST_VALUES)).astype(int)])
    column = domain.encoder.columns[j] if isinstance(domain.encoder, ColumnsEncoder) else None
    if column is not None and column.kind == "category":
        return codes
    if column is not None and np.array_equal(column.knots, np.round(column.knots)):
        values = np.concatenate([np.floor(values), np.ceil(values)])
    values = np.append(np.unique(values), codes[j])
    tried = np.tile(codes, (len(values), 1))
    tried[:, j] = values
    other = values[~search.keeps(tried)]
    nearest = codes.copy()
    nearest[j] = other[np.abs(other - own).argmin()] if np.isfinite(own) else codes[j]
    return nearest
