"""What several literals of one column say together, as people put it: an interval, or a set of categories."""

from collections.abc import Sequence, Set

import numpy as np

from lcml.arrays import FloatArray
from lcml.inputs.column import Column, shown, shown_text

OTHERS = "another"
"""How the rare categories are called together, and those that training never met."""

_SHOWN = 6
_NEVER = "never"


def phrase(column: Column, name: str, true: Set[int], false: Set[int]) -> str:
    """What it says of the column, called `name`, that some of its variables are true and others false.

    Variables are numbered within the column. A number is compared with the middle between two knots, where its
    variable is 1/2, or with a step; where all values are whole numbers, or dates without a time, with the next whole
    one. Files may be too old to say that there are others: there knots are whole and steps whole or halves.
    """
    first, last = int(column.gaps), column.gaps + column.n_values
    above = dict(enumerate(column.gap_above.tolist(), start=last))
    may_miss = column.gaps and 0 not in false and all(above.get(v, v < first) for v in true)
    may_miss = may_miss and not any(above.get(v, False) for v in false)
    if first and 0 in true:
        return f"{name} is missing" if may_miss else _NEVER
    values, others = {v - first for v in true if v >= first}, {v - first for v in false if v >= first}
    if not values | others:
        return f"{name} is not missing"
    if column.kind == "category":
        return _of_categories(column, name, values, others, may_miss)
    bounds = np.concatenate([column.knots[:-1] / 2 + column.knots[1:] / 2, column.steps])
    told = _of_ranks if column.kind == "ordinal" else _of_numbers
    said = told(column, name, bounds, sorted(values), sorted(others))
    if may_miss:
        return f"{name} is missing" if said == _NEVER else f"{said} (or missing)"
    return said


def value_in_words(column: Column, name: str, code: float) -> str:
    """That the column, called `name`, has the value of this code."""
    if np.isnan(code):
        return f"{name} is missing"
    if not column.is_text:
        return f"{name} is {shown(column.kind, np.array([code]))[0]}"
    known = dict(enumerate(column.categories))
    return f"{name} is {shown_text(known[int(code)]) if code in known else OTHERS}"


def _of_categories(column: Column, name: str, values: Set[int], others: Set[int], may_miss: bool) -> str:
    named = [*map(shown_text, column.categories), *([OTHERS] if column.shared else [])]
    if values:
        return f"{name} is {named[min(values) + column.spared]}" if len(values) == 1 else _NEVER
    out = [named[v + column.spared] for v in sorted(others)]
    left = [text for text in named if text not in out] + ["missing"] * may_miss
    out += ["missing"] * (column.gaps and not may_miss)
    if not left:
        return f"{name} is unknown"
    if len(left) <= len(out):
        return f"{name} is " + (left[0] if len(left) == 1 else f"one of {_listed(left)}")
    return f"{name} is " + (f"not {out[0]}" if len(out) == 1 else f"none of {_listed(out)}")


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _of_ranks(column: Column, name: str, bounds: FloatArray, true: Sequence[int], false: Sequence[int]) -> str:
    least = max(np.ceil(bounds[true]).astype(int), default=0)
    most = min(np.ceil(bounds[false]).astype(int) - 1, default=len(column.categories) - 1)
    if least > most:
        return _NEVER
    low, high = shown_text(column.categories[least]), shown_text(column.categories[most])
    if least == most:
        return f"{name} is {low}"
    if not least:
        return f"{name} <= {high}"
    return f"{name} >= {low}" if most == len(column.categories) - 1 else f"{low} <= {name} <= {high}"


def _of_numbers(column: Column, name: str, bounds: FloatArray, true: Sequence[int], false: Sequence[int]) -> str:
    is_whole = not (column.fractions or any((of % 1).any() for of in (column.knots, 2 * column.steps)))
    bounds = np.ceil(bounds) if is_whole else bounds
    text = dict(zip(np.unique(bounds).tolist(), shown(column.kind, np.unique(bounds)), strict=True))
    low, high = max(bounds[true].tolist(), default=-np.inf), min(bounds[false].tolist(), default=np.inf)
    if low >= high:
        return _NEVER
    if is_whole and high - low == 1:
        return f"{name} is {text[low]}"
    if not true:
        return f"{name} < {text[high]}"
    return f"{name} >= {text[low]}" if not false else f"{text[low]} <= {name} < {text[high]}"
