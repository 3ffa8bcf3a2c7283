"""Tables from data frames: what every library calls a column, numbered in one way."""

import sys
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from lcml.errors import DataError
from lcml.inputs.table import RawColumn, Table, from_frame, is_frame, spelling

NAN = float("nan")
ROWS: dict[str, list[Any]] = {
    "n": [1, None, 3],
    "x": [0.5, 1.5, None],
    "word": ["b", None, "a"],
    "truth": [True, None, False],
    "day": [date(1970, 1, 2), None, date(1969, 12, 31)],
    "instant": [datetime(1970, 1, 1, 12), datetime(1970, 1, 2), None],
    "hour": [time(9, 30), None, time(0)],
    "span": [timedelta(days=2), None, timedelta(hours=6)],
    "price": [Decimal("1.25"), Decimal(2), None],
}
EXPECTED = [
    (RawColumn("n"), [1, NAN, 3]),
    (RawColumn("x"), [0.5, 1.5, NAN]),
    (RawColumn("word", "text", ("b", "a")), [0, NAN, 1]),
    (RawColumn("truth", "text", ("false", "true")), [1, NAN, 0]),
    (RawColumn("day", "date"), [1, NAN, -1]),
    (RawColumn("instant", "date"), [0.5, 1, NAN]),
    (RawColumn("hour"), [9.5, NAN, 0]),
    (RawColumn("span"), [2, NAN, 0.25]),
    (RawColumn("price"), [1.25, 2, NAN]),
]


def check(table: Table, expected: list[tuple[RawColumn, list[float]]]) -> None:
    assert list(table.columns) == [raw for raw, _ in expected]
    assert_array_equal(table.values[:], np.array([values for _, values in expected], float).T)


def polars() -> Any:
    return pytest.importorskip("polars", reason="polars is not installed")


@pytest.mark.parametrize(
    "made",
    [
        lambda: pa.table(ROWS),
        lambda: pa.RecordBatch.from_pydict(ROWS),
        lambda: pd.DataFrame(ROWS),
        lambda: pd.DataFrame(ROWS, dtype=object),
        lambda: pa.table(ROWS).to_pandas(),
        lambda: pa.table(ROWS).to_pandas(types_mapper=pd.ArrowDtype),
        lambda: pd.DataFrame(ROWS).convert_dtypes(),
        lambda: polars().DataFrame(ROWS),
        lambda: OnlyArrow(pa.table(ROWS)),
    ],
    ids=["arrow", "batch", "pandas", "objects", "from-arrow", "arrow-dtypes", "nullable", "polars", "stream"],
)
def test_every_frame_is_the_same_table(made: Any) -> None:
    frame = made()
    assert is_frame(frame)
    check(from_frame(frame), EXPECTED)


class OnlyArrow:
    """A frame of a library that is only known to give itself to Arrow."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


def test_categories() -> None:
    sizes = ["mid", "low", None]
    ordered = pd.Categorical(sizes, ["low", "mid", "high"], ordered=True)
    frame = pd.DataFrame(
        {
            "ordered": ordered,
            "plain": pd.Categorical(sizes, ["low", "mid", "high"]),
            "codes": pd.Categorical([3, 1, 3]),
            "bins": pd.cut([1, 5, 9], [0, 3, 6, 9]),
        }
    )
    bins = ("(0, 3]", "(3, 6]", "(6, 9]")
    check(
        from_frame(frame),
        [
            (RawColumn("ordered", "text", ("low", "mid", "high"), ordered=True), [1, 0, NAN]),
            (RawColumn("plain", "text", ("mid", "low")), [0, 1, NAN]),
            (RawColumn("codes", "text", ("3", "1")), [0, 1, 0]),
            (RawColumn("bins", "text", bins, ordered=True), [0, 1, 2]),
        ],
    )
    pl = polars()
    found = from_frame(
        pl.DataFrame({"a": pl.Series(sizes, dtype=pl.Categorical), "b": pl.Series(sizes, dtype=pl.Enum(sizes[:2]))})
    )
    check(found, [(RawColumn(name, "text", ("mid", "low")), [0, 1, NAN]) for name in "ab"])


def test_dictionaries_of_arrow_keep_gaps_and_order() -> None:
    sizes = pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array(["low", "high"]), ordered=True)
    frame = pa.table(
        {"word": pa.array(["b", None, "a"]).dictionary_encode(), "size": sizes, "code": pa.array([5, None, 7])}
    )
    frame = frame.set_column(2, "code", frame["code"].dictionary_encode())
    check(
        from_frame(frame),
        [
            (RawColumn("word", "text", ("b", "a")), [0, NAN, 1]),
            (RawColumn("size", "text", ("low", "high"), ordered=True), [1, NAN, 0]),
            (RawColumn("code", "text", ("5", "7")), [0, NAN, 1]),
        ],
    )


def test_values_of_one_column_of_objects() -> None:
    frame = pd.DataFrame(
        {
            "mixed": pd.Series(["a", 1, 2.5, True, ""], dtype=object),
            "gap": pd.Series(["a", np.float64("nan"), "nan", np.float32("nan"), "a"], dtype=object),
            "numbers": pd.Series([1, 2.5, np.float32(0.5), None, NAN], dtype=object),
            "empty": pd.Series([None] * 5, dtype=object),
            "bytes": pd.Series([b"x", b"x", b"y", b"", None], dtype=object),
            "instant": pd.Series([datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))] * 5, dtype=object),
        }
    )
    check(
        from_frame(frame),
        [
            (RawColumn("mixed", "text", ("a", "1", "2.5")), [0, 1, 2, 1, NAN]),
            (RawColumn("gap", "text", ("a", "nan")), [0, NAN, 1, NAN, 0]),
            (RawColumn("numbers"), [1, 2.5, 0.5, NAN, NAN]),
            (RawColumn("empty"), [NAN] * 5),
            (RawColumn("bytes", "text", ("x", "y")), [0, 0, 1, NAN, NAN]),
            (RawColumn("instant", "date"), [0] * 5),
        ],
    )
    zoned = pd.DataFrame({"t": pd.to_datetime(["1970-01-01T02:00+02:00", None])})
    check(from_frame(zoned), [(RawColumn("t", "date"), [0, NAN])])


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "the column name 'a' is there twice"),
        (pd.DataFrame(index=[0]), "has no columns"),
        (pd.DataFrame({"a": [[1], [2]]}), "column 'a' holds no single values .* drop it"),
        (pd.DataFrame({"a": [1j, 2j]}, dtype=object), "column 'a' holds complex; expected numbers, text"),
        (pd.DataFrame({"a": [10**400, 1]}), "column 'a' holds a number too large for a float"),
        (pd.DataFrame({"a": ["x", date(1970, 1, 1)]}), "column 'a' holds date beside others"),
        (pa.table({"a": [{"b": 1}]}), "column 'a' holds no single values"),
    ],
)
def test_what_is_no_table(frame: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        from_frame(frame)


def test_spelling() -> None:
    values = [1, 1.0, 1.5, True, np.bool_(False), b"x", "1.0", datetime(2026, 1, 31, tzinfo=UTC)]
    found = [spelling(value) for value in values]
    assert found == ["1", "1", "1.5", "true", "false", "x", "1.0", "2026-01-31 00:00:00+00:00"]


def test_no_library_is_loaded_for_a_frame() -> None:
    """What a frame is, is told by what it can do."""
    assert not is_frame(np.eye(2))
    assert not is_frame([[1.0]])
    assert "polars" not in vars(sys.modules["lcml.inputs.table"])
