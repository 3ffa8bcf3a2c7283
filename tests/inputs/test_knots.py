"""How the encoder of a table is fitted: kinds, knots, categories, and what is left out and said."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from lcml.errors import DataError, SettingsError
from lcml.inputs.column import Column
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.knots import MOST_CATEGORIES, N_INTERVALS, SAMPLED, fit_columns
from lcml.inputs.phrases import phrase
from lcml.inputs.table import from_frame

N = 200
MONTHS = ["monthly", "yearly"] * (N // 2)


def fitted(values: Any, kind: str | None = None, weights: Any = None) -> tuple[Column, str]:
    """The one column beside another that is always there, and what is said of it."""
    frame = pd.DataFrame({"x": values})
    frame["beside"] = np.arange(len(frame)) % 2
    encoder, notes = fit_columns(from_frame(frame), {} if kind is None else {"x": kind}, weights)
    return encoder.columns[0], "".join(notes)


def test_kinds_are_inferred() -> None:
    frame = pd.DataFrame(
        {
            "number": np.linspace(0, 1, N),
            "flag": [True, False] * (N // 2),
            "contract": MONTHS,
            "day": pd.date_range("2026-01-01", periods=N),
            "size": pd.Categorical(["low", "high"] * (N // 2), ["low", "mid", "high"], ordered=True),
            "note": [f"text {i}" for i in range(N)],
            "constant": 7,
            "same": "x",
            "empty": None,
            "gone": [None, 1.0] * (N // 2),
        }
    )
    encoder, notes = fit_columns(from_frame(frame))
    found = {column.name: (column.kind, column.n_outputs, column.gaps) for column in encoder.columns}
    assert found == {
        "number": ("number", N_INTERVALS, False),
        "flag": ("category", 1, False),
        "contract": ("category", 1, False),
        "day": ("date", N_INTERVALS, False),
        "size": ("ordinal", 2, False),
        "gone": ("number", 1, True),
    }
    assert notes == (
        "column 'note' has another text in every row; it is left out",
        "column 'constant' has one value; it is left out",
        "column 'same' has one value; it is left out",
        "column 'empty' is empty; it is left out",
    )


def test_weights_do_not_make_texts_names() -> None:
    twice = from_frame(pd.DataFrame({"text": list("abcd") * 2, "x": range(8)}))
    once = from_frame(pd.DataFrame({"text": list("abcdefgh"), "x": range(8)}))
    half = np.full(8, 0.5)
    assert fit_columns(twice, None, half)[1] == ()
    assert fit_columns(once, None, half)[1] == ("column 'text' has another text in every row; it is left out",)


def test_kinds_are_chosen() -> None:
    grades = [0, 1, 2, 3] * (N // 4)
    assert fitted(grades)[0].knots.tolist() == [0, 1, 2, 3]
    assert fitted(grades, "category")[0].categories == ("0", "1", "2", "3")
    assert fitted(list(map(str, grades)), "number")[0].knots.tolist() == [0, 1, 2, 3]
    ordinal = fitted(["low", "high", "mid", "mid"] * 50, "ordinal:low<mid<high")[0]
    assert (ordinal.categories, ordinal.knots.tolist()) == (("low", "mid", "high"), [0, 1, 2])
    days = fitted(["2026-01-01", "2026-01-03"] * (N // 2), "date")[0]
    assert (days.kind, days.shown_values) == ("date", ["2026-01-01", "2026-01-03"])
    with pytest.raises(DataError, match="no column tells examples apart: there is none"):
        fit_columns(from_frame(pd.DataFrame({"x": [1, 2]})), {"x": "ignore"})


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("numeric", "column 'x': found the kind 'numeric'; expected number, date, category, ordinal:a<b<c or ignore"),
        ("number:a<b", "found the kind 'number:a<b'"),
        ("ordinal", "found the kind 'ordinal'"),
        ("ordinal:monthly<never", "column 'x': 'yearly' is not in ordinal:monthly<never; give all of its values"),
        ("ordinal:monthly<yearly<monthly", "expected several different values in ordinal:monthly<yearly<monthly"),
    ],
)
def test_kinds_that_a_column_cannot_be(kind: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        fitted(MONTHS, kind)


def test_what_is_no_number_is_named() -> None:
    with pytest.raises(DataError, match=r"column 'x' holds 'abc' \(and 2 more\); expected a number, or nothing"):
        fitted(["1", "2", "abc"] + ["abc"] * 2, "number")
    with pytest.raises(DataError, match=r"column 'x' holds 'monthly'.*; expected a date"):
        fitted(MONTHS, "date")
    with pytest.raises(SettingsError, match="column 'y' is not there; the columns are x"):
        fit_columns(from_frame(pd.DataFrame({"x": [1, 2]})), {"y": "number"})
    with pytest.raises(DataError, match=r"column 'x' cannot be cut between -1\.5e\+308 and 1\.5e\+308"):
        fitted([-1.5e308, 1.5e308])


def test_numbers_with_a_mistake_among_them_are_said() -> None:
    column, note = fitted([str(i % 20) for i in range(98)] + ["abc", "abc"])
    assert column.kind == "category"
    assert note == (
        "column 'x' is text, though 98% of its values are numbers, because of 'abc'; it is taken for categories: mend "
        "it, or say x=number for one sentence on what is none"
    )
    assert fitted(["1", "abc"] * 10)[1] == ""
    assert fitted([str(i % 20) for i in range(98)] + ["abc", "abc"], "category")[1] == ""


def test_rare_categories_are_one() -> None:
    values = ["b"] * 6 + ["a"] * 6 + ["c"] * 5 + ["d"] * 4 + ["e"] * 183 + [None] * 2
    column, _ = fitted(values)
    assert (column.categories, column.shared, column.gaps, column.n_outputs) == (("e", "a", "b", "c"), True, True, 6)
    few, _ = fitted(["a", "a", "b", "b", "c", "c"])  # of few rows what is there twice is not rare
    assert (few.categories, few.shared) == (("a", "b", "c"), False)
    two, _ = fitted(["a"] * 199 + ["b"])
    assert (two.categories, two.shared) == (("a", "b"), False)
    assert "has only texts of fewer than 5 examples; it is left out" in _note_of([f"t{i % 67}" for i in range(N)])
    column, _ = fitted([f"c{i % (2 * MOST_CATEGORIES):05}" for i in range(20 * MOST_CATEGORIES)])
    assert len(column.categories) == MOST_CATEGORIES
    assert column.shared


def _note_of(values: Any) -> str:
    frame = pd.DataFrame({"x": values, "beside": np.arange(len(values))})
    return "".join(fit_columns(from_frame(frame))[1])


def test_weights_are_repeated_rows() -> None:
    """The knots and categories of rows that count twice, or not at all, are those of the rows written so often."""
    rng = np.random.default_rng(0)
    values = {"x": rng.normal(size=60).round(1), "c": rng.choice(list("abcdefgh"), 60)}
    weights = rng.integers(1, 4, 60)
    frame = pd.DataFrame(values)
    repeated = frame.loc[frame.index.repeat(weights)]
    weighted, _ = fit_columns(from_frame(frame), None, weights.astype(float))
    written, _ = fit_columns(from_frame(repeated))
    assert repr([vars(column) for column in weighted.columns]) == repr([vars(column) for column in written.columns])


def test_knots_by_hand() -> None:
    assert fitted(np.arange(9.0))[0].knots.tolist() == list(range(9))
    assert len(fitted(np.arange(1000.0))[0].knots) == N_INTERVALS + 1
    column, _ = fitted([-np.inf, 1, 2, np.inf])
    assert (column.knots.tolist(), column.gaps) == ([1, 2], False)
    assert "has one value" in _note_of([np.inf] * 4) or "is left out" in _note_of([np.inf] * 4)


@pytest.mark.parametrize("few", [np.repeat(0.25, 6), np.zeros(0)])
def test_a_condition_is_true_of_values_beside_whole_knots(few: NDArray[np.float64]) -> None:
    """The knots are whole numbers, and 2.75 is at least the 2.5 between 2 and 3, but no 3."""
    values = np.concatenate([np.repeat(np.arange(9.0), 150), np.repeat([2.25, 2.75], 2), few, [np.nan, np.inf]])
    column, known = fitted(values)[0], values[np.isfinite(values)]
    q = ColumnsEncoder((column,)).encode(from_frame(pd.DataFrame({"x": known})))
    assert column.fractions
    assert column.knots.tolist() == np.round(column.knots).tolist()
    for variable, edge in enumerate((column.knots[:-1] + column.knots[1:]) / 2, start=column.gaps):
        assert phrase(column, "x", {variable}, set()) == f"x >= {edge:g}"
        assert (q[:, variable] >= 0.5).tolist() == (known >= edge).tolist()
    assert not fitted(values[: 9 * 150])[0].fractions
    weights = np.isin(values, np.arange(9.0)).astype(float)
    assert not fit_columns(from_frame(pd.DataFrame({"x": values})), None, weights)[0].columns[0].fractions


def test_a_table_of_many_rows_is_sampled() -> None:
    rows = SAMPLED + 10
    values = np.arange(rows, dtype=np.float32)
    column, _ = fitted(values)
    assert np.abs(np.diff(column.knots) - rows / N_INTERVALS).max() < 0.02 * rows
