"""A table: named columns of numbers, dates or text, with gaps, as one matrix of numbers.

    number    its value; of a time of day the hours since midnight, of a span of time days     NaN where there is a gap
    date      days since 1970-01-01 in UTC, with their fraction                                NaN
    text      its place among the column's texts; an empty one is a gap                        NaN

What a column means to a model (its knots, its categories) is the encoder's, `lcml.inputs.columns`, which finds columns
by their names and texts by what they say: two tables may number their texts differently.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, time, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lcml.errors import DataError
from lcml.inputs.rows import Matrix, RowSet, check_features, join, select

RawKind: TypeAlias = Literal["number", "date", "text"]


@dataclass(frozen=True)
class RawColumn:
    """A column as it was read. texts: the different ones, of a text column; ordered: whether their order counts."""

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

    @property
    def is_elsewhere(self) -> bool:
        return isinstance(self.values, RowSet) and self.values.is_elsewhere

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Any:
        return replace(self, values=self.values[rows])

    def select(self, index: NDArray[np.integer]) -> "Table":
        return replace(self, values=select(self.values, index))

    def joined(self, other: Any) -> "Table":
        return replace(self, values=join(self.values, other.values))

    def numbers(self, *, gaps: bool = False) -> Matrix:
        """The values; DataError with the first column that does not hold numbers or, without `gaps`, has a gap."""
        for column in self.columns:
            if column.kind != "number" and column.texts != TRUTH:
                what = (
                    f"column {column.name!r} is not numeric ({column.kind}: {', '.join(column.texts[:3]) or 'dates'})"
                )
                raise DataError(f"{what}; drop it, or choose the encoder columns, which takes text, dates and gaps")
        return check_features(self.values, None, self.names, gaps=gaps)


def stacked(columns: Sequence[tuple[RawColumn, NDArray[Any]]]) -> Table:
    """The table of columns (n,), at least one, numbered as the module says."""
    raw, values = zip(*columns, strict=True)
    return Table(raw, np.stack(values, axis=1, dtype=np.result_type(*values)))


def is_frame(x: Any) -> bool:
    """Whether `from_frame` takes it: it names its columns, and has them by their names, or gives itself to Arrow."""
    named = hasattr(x, "column_names") or hasattr(x, "columns")
    return (named and hasattr(x, "__getitem__")) or hasattr(x, "__arrow_c_stream__")


def from_frame(frame: Any) -> Table:
    """The table in a data frame: pandas, polars, pyarrow, what else gives arrays by the names of its columns, or by
    Arrow's C stream.

    DataError for names that are there twice, and columns of neither numbers, truth values, dates, times nor text.
    """
    if hasattr(frame, "__arrow_c_stream__") and (hasattr(frame, "column_names") or not hasattr(frame, "__getitem__")):
        import pyarrow as pa

        frame = pa.table(frame)
    keys = list(frame.column_names if hasattr(frame, "column_names") else frame.columns)
    names = [str(key) for key in keys]
    if not names:
        raise DataError("the data frame has no columns; give at least one")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataError(f"the column name {twice!r} is there twice; give every column its own name")
    return stacked([raw_column(name, frame[key]) for name, key in zip(names, keys, strict=True)])


def raw_column(name: str, series: Any) -> tuple[RawColumn, NDArray[Any]]:
    """A column of a frame, or an array (n,), and its numbers."""
    dtype = getattr(series, "dtype", None)
    kind: Any = getattr(series, "type", None)
    if hasattr(kind, "index_type"):  # a dictionary of pyarrow's, whose to_numpy fills gaps
        entries = dict.fromkeys(value for chunk in series.chunks for value in chunk.dictionary.to_pylist())
        dtype = SimpleNamespace(categories=[*entries], ordered=kind.ordered)
        series = series.cast(kind.value_type)
    values = np.asarray(series.to_numpy() if hasattr(series, "to_numpy") else series)
    if not hasattr(dtype, "categories"):
        if values.dtype.kind in "iuf":
            return RawColumn(name), values
        if values.dtype.kind == "M":
            return RawColumn(name, "date"), days(values)
        if values.dtype.kind == "m":
            return RawColumn(name), np.where(np.isnat(values), np.nan, values / np.timedelta64(1, "D"))
    listed = values.tolist()
    try:
        distinct = [value for value in dict.fromkeys(listed) if not is_gap(value)]
    except TypeError as error:
        raise DataError(f"column {name!r} holds no single values ({error}); drop it") from error
    if getattr(dtype, "ordered", False):
        raw = RawColumn(name, "text", tuple(map(spelling, dtype.categories)), ordered=True)  # type: ignore[union-attr]
    elif hasattr(dtype, "categories"):
        raw = RawColumn(name, "text", _texts(distinct))
    else:
        raw = _meant(name, distinct)
    try:
        number = dict(zip(distinct, _numbered(raw, distinct), strict=True))
    except OverflowError as error:
        raise DataError(f"column {name!r} holds a number too large for a float ({error}); drop it") from error
    return raw, np.array([number.get(value, np.nan) for value in listed], np.float64)


def _meant(name: str, distinct: Sequence[Any]) -> RawColumn:
    """What a column of these objects is."""
    kinds = {type(value) for value in distinct}
    if kinds and kinds <= {bool, np.bool_}:
        return RawColumn(name, "text", TRUTH)
    if all(issubclass(kind, date) for kind in kinds) and kinds:
        return RawColumn(name, "date")
    if all(issubclass(kind, _MEASURES) for kind in kinds) and bool not in kinds:
        return RawColumn(name)
    if odd := sorted(kind.__name__ for kind in kinds if not issubclass(kind, _WORDS)):
        beside = " beside others" if len(kinds) > 1 else ""
        raise DataError(
            f"column {name!r} holds {odd[0]}{beside}; expected numbers, text, truth values, dates or times: drop it"
        )
    return RawColumn(name, "text", _texts(distinct))


def _texts(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(spelling, values)))


def _numbered(raw: RawColumn, values: Sequence[Any]) -> list[float]:
    """The number of each of several objects, as the module says."""
    if raw.kind == "text":
        place = {text: float(i) for i, text in enumerate(raw.texts)}
        return [place[spelling(value)] for value in values]
    if raw.kind == "date":
        found = [
            value.astimezone(UTC).replace(tzinfo=None) if getattr(value, "tzinfo", 0) else value for value in values
        ]
        listed: list[float] = days(np.array(found, "datetime64[us]")).tolist()
        return listed
    return [_number(value) for value in values]


def _number(value: Any) -> float:
    """A time of day in hours, a span in days, else a number."""
    if isinstance(value, time):
        return value.hour + value.minute / 60 + (value.second + value.microsecond / 1e6) / 3600
    return value / timedelta(days=1) if isinstance(value, timedelta) else float(value)


TRUTH = ("false", "true")
"""How truth values are spelled."""

_MEASURES = (int, float, np.integer, np.floating, Decimal, time, timedelta)
_WORDS = (str, bytes, bool, np.bool_, int, float, np.integer, np.floating, Decimal)


def spelling(value: Any) -> str:
    """The one text of a value of a text column: whole numbers without a point, truth values in small letters."""
    if isinstance(value, bool | np.bool_):
        return TRUTH[int(value)]
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def days(dates: NDArray[Any]) -> NDArray[np.float64]:
    """Days since 1970-01-01 of dates and times, NaN where there is none."""
    gap = np.isnat(dates)
    found: NDArray[np.float64] = (dates - np.datetime64(0, "D")) / np.timedelta64(1, "D")
    return np.where(gap, np.nan, found)


def is_gap(value: Any) -> bool:
    """None, NaN, what pandas writes for them, and the empty text."""
    empty = value is None or (isinstance(value, str | bytes) and not value)
    return empty or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
