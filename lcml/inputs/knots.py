"""How the encoder of a table is fitted: the kinds of its columns, their knots and their categories."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.errors import DataError, SettingsError
from lcml.inputs.columns import Column, ColumnKind, ColumnsEncoder, texts_of
from lcml.inputs.table import RawColumn, Table

N_INTERVALS = 8
"""Intervals between the knots of a number of many values."""

RARE = 5
"""A category of fewer training examples than this shares its variable with the other rare ones."""


def fit_columns(
    table: Table, kinds: Mapping[str, str] | None = None, weights: FloatArray | None = None
) -> tuple[ColumnsEncoder, tuple[str, ...]]:
    """The encoder for training examples, and what should be said of columns that are left out.

    kinds: by column, number, category, ordinal:a<b<c, date or ignore, where it is not what the table says: numbers and
    truth values, dates, text, of which a frame's ordered categories are ordinal. Left out are columns of one value and
    those whose texts all differ: they name rows. weights: how often each example counts. Raises SettingsError for kinds
    that are none, DataError where nothing is left.
    """
    asked = dict(kinds or {})
    if unknown := [name for name in asked if name not in table.names]:
        raise SettingsError(f"column {unknown[0]!r} is not there; the columns are {', '.join(table.names[:12])}")
    counts = np.ones(len(table)) if weights is None else weights
    columns, notes = [], []
    values = table.values[:]
    for j, raw in enumerate(table.columns):
        asked_kind = asked.get(raw.name)
        if asked_kind == "ignore":
            continue
        column, note = _fit(raw, values[:, j], counts, asked_kind)
        if column is None:
            notes.append(f"column {raw.name!r} {note}; it is left out")
        else:
            columns.append(column)
    if not columns:
        raise DataError("no column tells examples apart: " + ("; ".join(notes) or "there is none"))
    return ColumnsEncoder(tuple(columns)), tuple(notes)


def _fit(raw: RawColumn, values: NDArray[Any], counts: FloatArray, asked: str | None) -> tuple[Column | None, str]:
    """The column, or why there is none."""
    kind, _, order = (asked or {"text": "ordinal" if raw.ordered else "category"}.get(raw.kind, raw.kind)).partition(
        ":"
    )
    if kind not in get_args(ColumnKind) or (kind == "ordinal" and not order and not raw.ordered):
        raise SettingsError(
            f"column {raw.name!r}: found the kind {asked!r}; expected number, date, category, ordinal:a<b<c or ignore"
        )
    bare = Column(raw.name, kind, np.zeros(0))  # type: ignore[arg-type]  # checked above
    if kind == "ordinal":
        categories = tuple(order.split("<")) if order else raw.texts
        bare = replace(bare, categories=categories, knots=np.arange(len(categories), dtype=np.float64))
        codes = bare.codes(raw, values)
        codes = np.where(codes == len(categories), np.nan, codes)
    elif kind == "category":
        texts, place = texts_of(raw, values.astype(np.float64))
        present = np.bincount(place, counts, len(texts) + 1)[:-1]
        n_rows = np.bincount(place, minlength=len(texts) + 1)[:-1]
        if raw.kind == "text" and asked is None and len(texts) > 2 and n_rows.max() == 1:
            return None, "has another text in every row"
        by_count = sorted(np.flatnonzero(present).tolist(), key=lambda i: (-present[i], texts[i]))
        often = [i for i in by_count if present[i] >= RARE]
        rare = len(by_count) - len(often)
        kept = by_count if rare == 1 and len(by_count) == 2 else often
        bare = replace(bare, categories=tuple(texts[i] for i in kept), shared=len(kept) < len(by_count))
        codes = np.where(place == len(texts), np.nan, 0.0)
        if bare.n_values + bool(np.isnan(codes).any()) < 2 and not bare.spared:
            return None, "has one value, or rare ones only"
    else:
        codes = bare.codes(raw, values)
        bare = replace(bare, knots=_knots(codes, counts))
    gaps = bool(np.isnan(codes).any())
    if bare.kind != "category" and len(bare.knots) < 2 and (not gaps or np.isnan(codes).all()):
        return None, "has one value" if not gaps else "is empty"
    return replace(bare, gaps=gaps), ""


def _knots(values: FloatArray, counts: FloatArray) -> FloatArray:
    """All values where they are few, else `even_cuts` of them."""
    known = np.isfinite(values)
    if not known.any():
        return np.zeros(1)
    distinct, place = np.unique(values[known], return_inverse=True)
    return even_cuts(distinct, np.bincount(place, counts[known]).astype(np.float64), N_INTERVALS)


def even_cuts(values: FloatArray, counts: FloatArray, n_intervals: int) -> FloatArray:
    """All of the ascending `values` (n,) where they are few; else those that cut their `counts` into intervals as even
    as can be, where a value counts as one interval's share at most, so that frequent ones leave cuts to the others."""
    if len(values) <= n_intervals + 1:
        return values
    for _ in range(_TIMES_CAPPED):
        counts = np.minimum(counts, counts.sum() / n_intervals)
    middle = np.cumsum(counts) - counts / 2
    middle = (middle - middle[0]) / (middle[-1] - middle[0])
    wanted = np.linspace(0, 1, n_intervals + 1)
    behind = np.clip(np.searchsorted(middle, wanted), 1, len(values) - 1)
    nearer = wanted - middle[behind - 1] <= middle[behind] - wanted
    chosen: FloatArray = values[np.unique(behind - nearer)]
    return chosen


_TIMES_CAPPED = 3
"""Capping a frequent value lowers the sum, and so the cap."""
