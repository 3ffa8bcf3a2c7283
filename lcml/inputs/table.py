"""A table: named columns of numbers, dates or text, with gaps, as one matrix of numbers.

    number    its value                                       NaN where there is a gap
    date      days since 1970-01-01, with their fraction      NaN
    text      its place among the column's texts              NaN

What a column means to a model (its knots, its categories) is the encoder's, `lcml.inputs.columns`, which finds columns
by their names and texts by what they say: two tables may number their texts differently.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lcml.errors import DataError
from lcml.inputs.rows import Matrix, RowSet, check_features, join, select

RawKind: TypeAlias = Literal["number", "date", "text"]


@dataclass(frozen=True)
class RawColumn:
    """A column as it was read. texts: the different ones, of a text column; ordered: whether their order means
    something."""

    name: str
    kind: RawKind = "number"
    texts: tuple[str, ...] = ()
    ordered: bool = False


@dataclass(frozen=True, eq=False)
class Table(RowSet):
    """Rows of columns: `values` (n, d) as the module says, an array or rows in a file."""

    columns: tuple[RawColumn, ...]
    values: Matrix

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.values), len(self.columns)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    @property
    def is_stored(self) -> bool:
        return isinstance(self.values, RowSet) and self.values.is_stored

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Any:
        return replace(self, values=self.values[rows])

    def select(self, index: NDArray[np.integer]) -> "Table":
        return replace(self, values=select(self.values, index))

    def joined(self, other: Any) -> "Table":
        return replace(self, values=join(self.values, other.values))

    def numbers(self) -> Matrix:
        """The values, where every column holds numbers and no gap. Raises DataError with the first that does not."""
        for column in self.columns:
            if column.kind != "number" and column.texts != TRUTH:
                what = (
                    f"column {column.name!r} is not numeric ({column.kind}: {', '.join(column.texts[:3]) or 'dates'})"
                )
                raise DataError(f"{what}; drop it, or choose the encoder columns, which takes text, dates and gaps")
        return check_features(self.values, None, self.names)


def stacked(columns: Sequence[tuple[RawColumn, NDArray[Any]]]) -> Table:
    """The table of columns (n,), numbered as the module says."""
    dtype = np.result_type(*(values for _, values in columns)) if columns else np.dtype(np.float64)
    return Table(
        tuple(column for column, _ in columns), np.stack([values for _, values in columns], axis=1, dtype=dtype)
    )


def is_frame(x: Any) -> bool:
    """Whether `from_frame` takes it: it names its columns, and has them by their names."""
    return hasattr(x, "column_names") or (hasattr(x, "columns") and hasattr(x, "__getitem__"))


def from_frame(frame: Any) -> Table:
    """The table in a data frame: pandas, polars, pyarrow or what else gives arrays by the names of its columns.

    Raises DataError for names that are there twice and columns that hold neither numbers, truth values, dates nor text.
    """
    keys = list(frame.column_names if hasattr(frame, "column_names") else frame.columns)
    names = [str(key) for key in keys]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"the column name {twice!r} is there twice; give every column its own name")
    return stacked([raw_column(name, frame[key]) for name, key in zip(names, keys, strict=True)])


def raw_column(name: str, series: Any) -> tuple[RawColumn, NDArray[Any]]:
    """A column of a frame, or an array (n,), and its numbers."""
    order = getattr(getattr(series, "dtype", None), "categories", None)
    ordered = bool(getattr(getattr(series, "dtype", None), "ordered", False))
    values = np.asarray(series.to_numpy() if hasattr(series, "to_numpy") else series)
    if values.dtype.kind in "iuf":
        return RawColumn(name), values
    if values.dtype.kind == "M":
        return RawColumn(name, "date"), days(values)
    if values.dtype.kind == "b":
        return RawColumn(name, "text", TRUTH), values.astype(np.float64)
    listed = values.tolist()
    present = {type(value) for value in listed if not _is_gap(value)}
    if present and present <= {int, float, np.float64, np.int64}:
        return RawColumn(name), np.array([np.nan if _is_gap(value) else value for value in listed], np.float64)
    if present == {bool}:
        return RawColumn(name, "text", TRUTH), np.array([np.nan if _is_gap(v) else v for v in listed], np.float64)
    if any(hasattr(kind, "toordinal") for kind in present):
        return RawColumn(name, "date"), days(np.array([None if _is_gap(v) else v for v in listed], "datetime64[us]"))
    if odd := present - {str, bool, int, float}:
        culprit = min(kind.__name__ for kind in odd)
        raise DataError(f"column {name!r} holds {culprit}; expected numbers, truth values, dates or text: drop it")
    place = {str(text): i for i, text in enumerate(order)} if ordered and order is not None else {}
    codes = [np.nan if _is_gap(value) else place.setdefault(spelling(value), len(place)) for value in listed]
    return RawColumn(name, "text", tuple(place), ordered), np.array(codes, np.float64)


TRUTH = ("false", "true")
"""How truth values are spelled."""


def spelling(value: Any) -> str:
    """The one text of a value of a text column: whole numbers without a point, truth values in small letters."""
    if isinstance(value, bool):
        return TRUTH[value]
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def days(dates: NDArray[Any]) -> NDArray[np.float64]:
    """Days since 1970-01-01 of dates and times, NaN where there is none."""
    gap = np.isnat(dates)
    found: NDArray[np.float64] = (dates - np.datetime64(0, "D")) / np.timedelta64(1, "D")
    return np.where(gap, np.nan, found)


def _is_gap(value: Any) -> bool:
    """None, NaN, and what pandas writes for them."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (value != value) is True
