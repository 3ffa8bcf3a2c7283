"""What several literals of one column say together, as people put it: an interval, or a set of categories."""

from collections.abc import Sequence, Set

import numpy as np

from lcml.inputs.column import Column, shown, shown_text

OTHERS = "another"
"""How the rare categories are called together, and those that training never met."""

_SHOWN = 6
_NEVER = "never"


def phrase(column: Column, name: str, true: Set[int], false: Set[int]) -> str:
    """What it says of the column, called `name`, that some of its variables are true and others false.

    Variables are numbered within the column. A number is compared with the middle between two knots, where its
    variable is 1/2, and of knots that are whole numbers, or dates without a time, with the next whole one.
    """
    first = int(column.gaps)
    may_miss = column.gaps and 0 not in false
    values, others = {v - first for v in true if v >= first}, {v - first for v in false if v >= first}
    if first and 0 in true:
        return f"{name} is missing" if not values else _NEVER
    if not values | others:
        return f"{name} is not missing"
    if column.kind == "category":
        return _of_categories(column, name, values, others, may_miss)
    low, high = max(values, default=-1) + 1, min(others, default=column.n_values)
    if low > high:
        return _NEVER
    told = _of_ranks if column.kind == "ordinal" else _between
    return told(column, name, low, high) + " (or missing)" * (may_miss and not low)


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


def _of_ranks(column: Column, name: str, low: int, high: int) -> str:
    """Of the ranks low..high of an ordinal."""
    least, most = shown_text(column.categories[low]), shown_text(column.categories[high])
    if low == high:
        return f"{name} is {least}"
    if not low:
        return f"{name} <= {most}"
    return f"{name} >= {least}" if high == column.n_values else f"{least} <= {name} <= {most}"


def _between(column: Column, name: str, low: int, high: int) -> str:
    """Of a number that is nearer to knots low..high than to others."""
    edges = (column.knots[:-1] + column.knots[1:]) / 2
    if is_whole := np.array_equal(column.knots, np.round(column.knots)):
        edges = np.ceil(edges)
    texts = shown(column.kind, edges)
    if not low:
        return f"{name} < {texts[high]}"
    if high == column.n_values:
        return f"{name} >= {texts[low - 1]}"
    if is_whole and edges[high] - edges[low - 1] == 1:
        return f"{name} is {texts[low - 1]}"
    return f"{texts[low - 1]} <= {name} < {texts[high]}"
