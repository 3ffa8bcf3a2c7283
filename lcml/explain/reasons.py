"""Sufficient reasons: inputs whose values alone keep the decision, whatever the others are.

A set of inputs is a sufficient reason where every example that agrees with the one at hand in them gets its class
(Darwiche & Hirth, On the Reasons Behind Decisions, ECAI 2020: a prime implicant where no input can be spared). With a
probability p it is enough that a share p does of the rows of some data, the inputs of the set held.

Inputs are spared one after another, those that matter least first, several at once as long as that works. What is left
cannot lose an input: each was tried while no fewer others were held.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lcml.errors import DataError, SettingsError
from lcml.explain.domains import codes_of
from lcml.explain.names import shown_names
from lcml.explain.search import WORK, Search
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoding import short_number
from lcml.inputs.phrases import value_in_words
from lcml.model.intervals import Interval, wilson
from lcml.model.model import LogisticCircuit

LEAST_ROWS = 2
"""Half of the rows choose, the other half measures what was chosen."""


@dataclass(frozen=True)
class SufficientReason:
    """The inputs that are enough for a label. inputs: their numbers, and in words with their values; n_inputs: of all.

    minimal: whether it was proved that none can be spared, by an example that gets another class without it; of a
    probability, whether none could be spared on the rows that chose. share: None for all values of the others, else how
    many of n_rows other rows, none of which chose, keep the class.
    """

    label: int | str
    inputs: tuple[int, ...]
    words: tuple[str, ...]
    n_inputs: int
    minimal: bool
    share: Interval | None = None
    n_rows: int = 0


def sufficient_reason(
    model: LogisticCircuit,
    example: Any,
    *,
    probability: float = 1.0,
    background: Any = None,
    names: Sequence[str] | None = None,
    work: int = WORK,
) -> SufficientReason:
    """A smallest set of inputs that keeps the class of a raw example (d,), or a `Table` of one row; none of it can go.

    Inputs are the raw features: a table's columns, or pixels. probability: 1 for every value that the others may have
    (`lcml.explain.domains`), proved by bounds and a search that looks at `work` nodes of circuits per question: where
    that leaves it open, the input stays, and the reason is not called minimal. Less than 1: for that share of the rows
    of `background`, raw examples in any order, with 95% confidence (Wilson's interval); half of them choose, the others
    measure. Raises SettingsError for another probability, DataError without enough rows, and as
    `LogisticCircuit.logits`.
    """
    if not 0 < probability <= 1:
        raise SettingsError(f"probability: expected more than 0 and at most 1, found {probability}")
    search = Search(model, example, work=work)
    if probability < 1:
        return _probable(search, probability, background, names)
    left_open = False

    def keeps(free: NDArray[np.bool_], n_new: int) -> bool:
        nonlocal left_open
        kept = search.decide(free).kept
        left_open |= kept is None and n_new == 1
        return bool(kept)

    held = _spared(search.order, keeps)
    return _reason(search, held, names, not left_open)


def _probable(search: Search, probability: float, background: Any, names: Sequence[str] | None) -> SufficientReason:
    if background is None or len(background) < LEAST_ROWS:
        n_rows = 0 if background is None else len(background)
        raise DataError(f"a probability is measured on other rows; expected at least {LEAST_ROWS}, found {n_rows}")
    rows = codes_of(search.model.encoder, background)

    def kept(rows: NDArray[np.float64], free: NDArray[np.bool_]) -> int:
        mixed = np.where(free, rows, search.domain.own)
        return int(search.keeps(mixed).sum())

    choosing, others = rows[::2], rows[1::2]

    def keeps(free: NDArray[np.bool_], n_new: int) -> bool:
        return wilson(kept(choosing, free), len(choosing)).low >= probability

    held = _spared(search.order, keeps)
    share = wilson(kept(others, ~held), len(others))
    return _reason(search, held, names, True, share, len(others))


def _spared(order: NDArray[np.intp], keeps: Callable[[NDArray[np.bool_], int], bool]) -> NDArray[np.bool_]:
    """(d,) the inputs that are left when as many as can be are spared in this order: runs of twice as many as long as
    that works, of half as many where not. keeps: of the inputs that are free, and how many of them are new."""
    free, first, step = np.zeros(len(order), bool), 0, 1
    while first < len(order):
        run = order[first : first + step]
        trial = free.copy()
        trial[run] = True
        if keeps(trial, len(run)):
            free, first, step = trial, first + len(run), 2 * step
        elif len(run) == 1:
            first += 1
        else:
            step = len(run) // 2
    return ~free


def _reason(
    search: Search,
    held: NDArray[np.bool_],
    names: Sequence[str] | None,
    minimal: bool,
    share: Interval | None = None,
    n_rows: int = 0,
) -> SufficientReason:
    model, inputs = search.model, np.flatnonzero(held).tolist()
    words = values_in_words(model, search.domain.own, inputs, names)
    label = model.classes[search.code]
    return SufficientReason(label, tuple(inputs), tuple(words), len(held), minimal, share, n_rows)


def values_in_words(
    model: LogisticCircuit, codes: NDArray[np.float64], inputs: Sequence[int], names: Sequence[str] | None = None
) -> list[str]:
    """'age is 37' of some inputs of codes (d,)."""
    names, encoder = shown_names(model) if names is None else names, model.encoder
    if len(names) != encoder.n_features:
        raise DataError(f"names: expected one per feature, {encoder.n_features}, found {len(names)}")
    if isinstance(encoder, ColumnsEncoder):
        return [value_in_words(encoder.columns[j], names[j], float(codes[j])) for j in inputs]
    return [f"{names[j]} is {short_number(float(codes[j]))}" for j in inputs]
