"""How the encoder of a table is fitted: the kinds of its columns, their knots and their categories."""

from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from lcml.arrays import FloatArray
from lcml.errors import DataError, FormatError, SettingsError
from lcml.inputs.column import Column, ColumnKind, texts_of
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.rows import Matrix
from lcml.inputs.table import RawColumn, Table, is_number

N_INTERVALS = 8
"""Intervals between the knots of a number of many values."""

WIDE, WIDE_INTERVALS = 4096, 1
"""Intervals of a number in a table of more columns than this."""

RARE, RARE_SHARE = 5, 0.05
"""A category of fewer training examples than this, and of less than this share of them, shares its variable with the
other rare ones."""

MOST_CATEGORIES = 253
"""So many categories have a variable of their own, the most frequent ones: with what the others share, gaps, and what
has no variable, a byte tells them."""

MOSTLY_NUMBERS = 0.9
"""Of a text column of which more than this share are numbers the rest may be mistakes, and that is said."""

SAMPLED, SAMPLED_BYTES = 200_000, 1 << 28
"""Knots and categories are those of at most so many training examples, or bytes of them."""


def fit_columns(
    table: Table, kinds: Mapping[str, str] | None = None, weights: FloatArray | None = None
) -> tuple[ColumnsEncoder, tuple[str, ...]]:
    """The encoder for training examples, and what should be said of columns that are left out, or look like others.

    kinds: by column, number, category, ordinal:a<b<c, date or ignore, where it is not what the table says: numbers and
    truth values, dates, text, of which a frame's ordered categories are ordinal. Left out are columns of one value and
    those whose texts all differ: they name rows. weights: how often each example counts. Raises SettingsError for kinds
    that are none or that a column cannot be, DataError where nothing is left.
    """
    asked = dict(kinds or {})
    if unknown := [name for name in asked if name not in table.names]:
        raise SettingsError(f"column {unknown[0]!r} is not there; the columns are {', '.join(table.names[:12])}")
    values, counts = _sample(table.values, np.ones(len(table)) if weights is None else weights)
    n_intervals = N_INTERVALS if len(table.columns) <= WIDE else WIDE_INTERVALS
    columns, notes = [], []
    for j, raw in enumerate(table.columns):
        if (asked_kind := asked.get(raw.name)) == "ignore":
            continue
        column, note = _fit(raw, values[:, j].astype(np.float64), counts, asked_kind, n_intervals)
        if note:
            notes.append(f"column {raw.name!r} {note}")
        if column is not None:
            columns.append(column)
    if not columns:
        raise DataError("no column tells examples apart: " + ("; ".join(notes) or "there is none"))
    return ColumnsEncoder(tuple(columns)), tuple(notes)


def _sample(values: Matrix, counts: FloatArray) -> tuple[NDArray[Any], FloatArray]:
    """Rows in memory, all of few, and how often each counts."""
    most = max(1, min(SAMPLED, SAMPLED_BYTES // (8 * values.shape[1])))
    if len(values) <= most:
        return values[:], counts
    rows = np.sort(np.random.default_rng(0).choice(len(values), most, replace=False))
    return values[rows], counts[rows]


def _fit(
    raw: RawColumn, values: FloatArray, counts: FloatArray, asked: str | None, n_intervals: int
) -> tuple[Column | None, str]:
    """The column, None where it is left out, and what should be said of it."""
    looks = {"text": "ordinal" if raw.ordered else "category"}.get(raw.kind, raw.kind)
    kind, _, order = (asked or looks).partition(":")
    if (
        kind not in get_args(ColumnKind)
        or bool(order) > (kind == "ordinal")
        or (kind == "ordinal" and not (order or raw.ordered))
    ):
        raise SettingsError(
            f"column {raw.name!r}: found the kind {asked!r}; expected number, date, category, ordinal:a<b<c or ignore"
        )
    if kind == "category":
        return _category(raw, values, counts, guessed=asked is None)
    bare = Column(raw.name, kind, np.zeros(0))  # type: ignore[arg-type]  # checked above
    if kind == "ordinal":
        bare = replace(bare, categories=_ranked(raw, values, order))
    codes = bare.codes(raw, values)
    missing = np.isnan(codes)
    gaps = bool(missing.any())
    knots = _knots(codes, counts, n_intervals if kind != "ordinal" else len(bare.categories))
    if len(knots) + gaps < 2 or missing.all():
        return None, f"{'is empty' if missing.all() else 'has one value'}; it is left out"
    if kind == "ordinal":
        knots = np.arange(len(bare.categories), dtype=np.float64)
    fractions = bool((codes[np.isfinite(codes) & (counts > 0)] % 1).any())
    found = replace(bare, knots=knots, gaps=gaps, fractions=fractions)
    try:
        found.check()
    except FormatError as error:
        raise DataError(
            f"column {raw.name!r} cannot be cut between {knots[0]} and {knots[-1]}: their difference must be finite; "
            "rescale that column"
        ) from error
    return found, ""


def _ranked(raw: RawColumn, values: FloatArray, order: str) -> tuple[str, ...]:
    """The categories of an ordinal in their order."""
    if not order:
        return raw.texts
    ranked, texts = tuple(order.split("<")), texts_of(raw, values)[0]
    if strange := [text for text in texts if text not in ranked]:
        raise SettingsError(
            f"column {raw.name!r}: {strange[0]!r} is not in ordinal:{order}; give all of its values, the lowest first"
        )
    if len({"", *ranked}) <= len(ranked) or len(ranked) < 2:
        raise SettingsError(f"column {raw.name!r}: expected several different values in ordinal:{order}")
    return ranked


def _category(raw: RawColumn, values: FloatArray, counts: FloatArray, *, guessed: bool) -> tuple[Column | None, str]:
    texts, place = texts_of(raw, values)
    gaps, weight = bool((place == len(texts)).any()), np.bincount(place, counts, len(texts) + 1)[:-1].astype(np.float64)
    present = sorted(np.flatnonzero(weight).tolist(), key=lambda i: (-weight[i], texts[i]))
    if len(present) + gaps < 2:
        return None, f"{'has one value' if present else 'is empty'}; it is left out"
    n_rows = np.bincount(place[counts > 0], minlength=len(texts) + 1)[:-1]
    if guessed and raw.kind == "text" and len(present) > 2 and n_rows.max() == 1 and weight.max() <= 1:
        return None, "has another text in every row; it is left out"
    least = min(RARE, ceil(RARE_SHARE * weight.sum()))
    kept = present if len(present) == 2 else [i for i in present if weight[i] >= least][:MOST_CATEGORIES]
    if not kept and not gaps:
        return None, f"has only texts of fewer than {least} examples; it is left out"
    categories = tuple(texts[i] for i in kept)
    column = Column(raw.name, "category", np.zeros(0), categories, gaps, shared=len(kept) < len(present))
    return column, _looks_like_numbers(raw, weight) if guessed else ""


def _looks_like_numbers(raw: RawColumn, weight: FloatArray) -> str:
    """What should be said of a text column that may be one of numbers, with mistakes."""
    numbers = np.array([is_number(text) for text in raw.texts])
    share = float(weight[numbers].sum() / weight.sum())
    if not MOSTLY_NUMBERS <= share < 1:
        return ""
    odd = raw.texts[np.flatnonzero(~numbers & (weight > 0))[0]]
    return (
        f"is text, though {share:.0%} of its values are numbers, because of {odd!r}; it is taken for categories: "
        f"mend it, or say {raw.name}=number for one sentence on what is none"
    )


def _knots(values: FloatArray, counts: FloatArray, n_intervals: int) -> FloatArray:
    """All values where they are few, else `even_cuts` of them."""
    known = np.isfinite(values)
    if not known.any():
        return np.zeros(1)
    distinct, place = np.unique(values[known], return_inverse=True)
    return even_cuts(distinct, np.bincount(place, counts[known]).astype(np.float64), n_intervals)


def even_cuts(values: FloatArray, counts: FloatArray, n_intervals: int) -> FloatArray:
    """All of the ascending `values` (n,) where they are few; else those that cut their `counts` into intervals as even
    as can be, where a value counts as one interval's share at most, so that frequent ones leave cuts to the others."""
    if len(values) <= n_intervals + 1:
        return values
    if n_intervals == 1:
        return values[[0, -1]]
    for _ in range(_TIMES_CAPPED):
        counts = np.minimum(counts, counts.sum() / n_intervals)
    middle = np.cumsum(counts) - counts / 2
    middle = (middle - middle[0]) / (middle[-1] - middle[0])
    wanted = np.linspace(0, 1, n_intervals + 1)
    behind = np.clip(np.searchsorted(middle, wanted), 1, len(values) - 1)
    nearer = wanted - middle[behind - 1] <= middle[behind] - wanted
    return np.asarray(values[np.unique(behind - nearer)])


_TIMES_CAPPED = 3  # capping a frequent value lowers the sum, and so the cap
