"""The encoder of tables: variables and the worlds they make, against values worked out by hand and by enumeration."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import initial_circuit
from lcml.errors import DataError, FormatError
from lcml.formats import load_model, save_model
from lcml.inputs.column import Column
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoding import State
from lcml.inputs.registry import stored_encoder
from lcml.inputs.table import TRUTH, RawColumn, Table
from lcml.model.model import LogisticCircuit

NONE = np.zeros(0)
NAN = float("nan")
AGE = Column("age", "number", np.array([20.0, 30.0, 50.0]))
SINCE = Column("since", "date", np.array([0.0, 10.0]), gaps=True, fractions=True)
SIZE = Column("size", "ordinal", np.arange(3.0), ("low", "mid", "high"))
STATE = Column("state", "category", NONE, ("a", "b", "c"), gaps=True, shared=True)
SMOKER = Column("smoker", "category", NONE, TRUTH)
ALL = ColumnsEncoder((AGE, SINCE, SIZE, STATE, SMOKER))


def one(column: Column, raw: RawColumn, *values: float) -> list[list[float]]:
    table = Table((raw,), np.array(values)[:, None])
    found: list[list[float]] = ColumnsEncoder((column,)).encode(table).tolist()
    return found


def texts(name: str, *values: str | None) -> tuple[RawColumn, list[float]]:
    """A raw column of texts, numbered in the order of the alphabet backwards."""
    known = sorted({value for value in values if value is not None}, reverse=True)
    return RawColumn(name, "text", tuple(known)), [NAN if v is None else float(known.index(v)) for v in values]


def test_numbers_by_hand() -> None:
    rows = one(AGE, RawColumn("age"), -np.inf, 10, 20, 25, 30, 40, 50, 99, np.inf)
    assert rows == [[0, 0], [0, 0], [0, 0], [0.5, 0], [1, 0], [1, 0.5], [1, 1], [1, 1], [1, 1]]


def test_gaps_by_hand() -> None:
    """The first variable says it; where training had none the middle knot stands in, for a text a rare one."""
    assert one(SINCE, RawColumn("since", "date"), NAN, 5) == [[1, 0], [0, 0.5]]
    assert one(AGE, RawColumn("age"), NAN) == [[1, 0]]  # as 30
    raw, values = texts("size", None, "huge", "mid")
    assert one(SIZE, raw, *values) == [[1, 0]] * 3
    raw, values = texts("state", None, "a", "b", "c", "d")
    of_state = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]]
    assert one(STATE, raw, *values) == of_state


def test_unknown_categories_where_none_were_rare() -> None:
    raw, values = texts("state", "a", "b", "c", "d", None)
    plain = Column("state", "category", NONE, ("b", "a", "c"))
    assert one(plain, raw, *values) == [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    with_gaps = Column("state", "category", NONE, ("b", "a"), gaps=True)
    assert one(with_gaps, raw, *values) == [[0, 0, 1], [0, 1, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]]
    raw, values = texts("smoker", "false", "true", "perhaps", None)
    assert one(SMOKER, raw, *values) == [[0], [1], [0], [0]]  # those unknown as the first, the more frequent one


def test_steps_by_hand() -> None:
    """A step is reached at its threshold; a gap lies above the steps that say so."""
    stepped = Column("age", "number", np.array([0.0, 1.0]), gaps=True, steps=np.array([3.0, 3.0, 5.0]))
    stepped = Column(**{**vars(stepped), "gap_above": np.array([False, True, False])})
    rows = one(stepped, RawColumn("age"), 2.9, 3, 5, NAN)
    assert rows == [[0, 1, 0, 0, 0], [0, 1, 1, 1, 0], [0, 1, 1, 1, 1], [1, 0, 0, 1, 0]]
    assert ColumnsEncoder((stepped,)).is_additive.tolist() == [True, True, False, False, False]


knots_of = st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=6, unique=True).map(sorted)


@given(knots_of, st.floats(-2e6, 2e6))
def test_worlds_are_hat_functions(knots: list[float], x: float) -> None:
    """Of the 2^m worlds of a number, drawn as independent variables, those in order have the probability of the hat at
    their knot, and all others 0."""
    q = np.array(one(Column("x", "number", np.array(knots)), RawColumn("x"), x)[0])
    inside = min(max(x, knots[0]), knots[-1])
    for world in product([True, False], repeat=len(q)):
        probability = float(np.prod(np.where(world, q, 1 - q)))
        height = sum(world)
        if list(world) != [True] * height + [False] * (len(q) - height):
            assert probability == 0
            continue
        away = inside - knots[height]
        near = knots[height + 1] if away > 0 else knots[height - 1] if away < 0 else knots[height] + 1
        hat = max(0.0, 1 - abs(away) / abs(near - knots[height]))
        assert_allclose(probability, hat, atol=1e-6)


def test_an_additive_circuit_over_a_column_is_piecewise_linear() -> None:
    """With weights on q_1 and q_2 the logit at 20, 30, 50 is 0, w1, w1 + w2, and linear between them."""
    encoder = ColumnsEncoder((AGE,))
    circuit = initial_circuit(vtrees.balanced(2))
    literals = np.array([[2.0, -6.0, 0.0, 0.0]])
    model = LogisticCircuit.flat(
        circuit, encoder, (0, 1), np.zeros((1, circuit.n_elements)), literals, bias=np.array([1.0])
    )
    x = np.linspace(15, 55, 41)
    assert_allclose(model.logits(x[:, None])[:, 0], 1 + np.interp(x, [20, 30, 50], [0, 2, -4]), atol=1e-5)


def test_columns_are_found_by_name_whatever_numbers_texts_have() -> None:
    state, smoker = RawColumn("state", "text", ("b", "never seen", "a")), RawColumn("smoker", "text", TRUTH)
    size = RawColumn("size", "text", ("mid", "high", "low"), ordered=True)
    extra = RawColumn("note", "text", ("x",))
    columns = (extra, smoker, state, size, RawColumn("since", "date"), RawColumn("age"))
    values = np.array([[0, 1, 2, 1, 5, 25], [0, 0, 1, 2, NAN, 60]])
    expected = [[0.5, 0, 0, 0.5, 1, 1, 0, 1, 0, 0, 0, 1], [1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0]]
    assert ALL.encode(Table(columns, values)).tolist() == expected
    with pytest.raises(DataError, match="the column 'age' is not there; give the columns trained on, in any order"):
        ALL.encode(Table(columns[:-1], values[:, :-1]))


def test_numbers_given_as_text_and_texts_as_numbers() -> None:
    raw, values = texts("age", "25", "4e1", None)
    assert one(AGE, raw, *values) == [[0.5, 0], [1, 0.5], [1, 0]]
    raw, values = texts("since", "1970-01-06", None, "1969-12-31T12:00")
    assert one(SINCE, raw, *values) == [[0, 0.5], [1, 0], [0, 0]]
    grade = Column("grade", "category", NONE, ("1", "2", "2.5"))
    assert one(grade, RawColumn("grade"), 2.5, 1, 3) == [[0, 0, 1], [1, 0, 0], [0, 0, 0]]
    day = Column("day", "category", NONE, ("1970-01-02", "1970-01-03T12:00:00"), gaps=True)
    assert one(day, RawColumn("day", "date"), 1, 2.5, NAN) == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    raw, values = texts("age", "25", "abc", "abc")
    with pytest.raises(DataError, match=r"column 'age' holds 'abc' \(and 1 more\); expected a number, or nothing"):
        one(AGE, raw, *values)
    with pytest.raises(DataError, match="column 'age' holds dates; expected numbers"):
        one(AGE, RawColumn("age", "date"), 1)


def test_a_matrix_stands_for_a_table_of_numbers() -> None:
    encoder = ColumnsEncoder((AGE, SINCE))
    assert encoder.encode([[25, NAN]]).tolist() == [[0.5, 0, 1, 0]]
    with pytest.raises(DataError, match="expected 2 features per example, found 1"):
        encoder.encode([[25.0]])
    with pytest.raises(DataError, match="the column 'size' holds categories; give a table or data frame"):
        ALL.encode(np.zeros((1, 5)))


def test_random_shares_reach_every_variable_both_ways() -> None:
    """What verification of an export tries."""
    shares = np.random.default_rng(0).uniform(-0.1, 1.1, (400, 5))
    q = ALL.encode(ALL.inputs_at(shares))
    assert q.min(axis=0).tolist() == [0] * 12
    assert q.max(axis=0).tolist() == [1] * 12
    codes = np.array([[25.0, NAN, 1.0, 3.0, 0.0]])
    assert_allclose(ALL.codes(ALL.examples(codes)), codes)


def test_a_model_of_a_table_is_saved(tmp_path: Path) -> None:
    circuit = initial_circuit(vtrees.over_blocks(vtrees.balanced(5), ALL.blocks))
    elements, literals = (
        np.random.default_rng(0).normal(size=(1, n)) for n in (circuit.n_elements, circuit.n_literals)
    )
    model = LogisticCircuit.flat(circuit, ALL, ("no", "yes"), elements, literals, bias=np.array([0.5]))
    save_model(model, tmp_path / "table.lcml")
    loaded = load_model(tmp_path / "table.lcml")
    rows = ALL.inputs_at(np.random.default_rng(1).uniform(-0.2, 1.2, (50, 5)))
    assert loaded.logits(rows).tolist() == model.logits(rows).tolist()
    assert isinstance(loaded.encoder, ColumnsEncoder)
    for before, after in zip(ALL.columns, loaded.encoder.columns, strict=True):
        assert repr(vars(before)) == repr(vars(after))


def test_files_before_fractions_say_nothing_of_them() -> None:
    assert "fractions" not in ColumnsEncoder((AGE, SIZE)).state()
    older = {name: array for name, array in ALL.state().items() if name != "fractions"}
    encoder = stored_encoder("columns", older)
    assert isinstance(encoder, ColumnsEncoder)
    assert not any(column.fractions for column in encoder.columns)


STATE_OF_ALL = ALL.state()
VALUES: list[Any] = [*(np.array([v]) for v in (0, 1, -1, 2**31 - 1, -5.0, NAN, np.inf, 1e308)), np.array([["a"]])]


@given(st.data())
def test_a_damaged_state_is_refused_or_encodes_probabilities(data: st.DataObject) -> None:
    damaged: dict[str, Any] = dict(STATE_OF_ALL)
    name = data.draw(st.sampled_from(sorted(damaged)))
    array = damaged[name].copy()
    how = data.draw(st.sampled_from(["gone", "cut", "longer", "replaced", "other"]))
    if how == "gone":
        del damaged[name]
    elif how == "cut":
        damaged[name] = array[: data.draw(st.integers(0, max(0, len(array) - 1)))]
    elif how == "longer":
        damaged[name] = np.concatenate([array, array[:1]])
    elif how == "replaced" and len(array):
        source = data.draw(st.sampled_from([STATE_OF_ALL["names"], STATE_OF_ALL["kinds"]]))
        numbers = st.sampled_from([0, 1, -1, 3, 2**31 - 1, np.nan, np.inf])
        value = source[0] if array.dtype.kind == "T" else data.draw(numbers)
        if array.dtype.kind == "i" and not np.isfinite(value):
            value = 7
        array[data.draw(st.integers(0, len(array) - 1))] = value
        damaged[name] = array
    else:
        damaged[name] = data.draw(st.sampled_from(VALUES))
    _refused_or_right(damaged)


def _refused_or_right(state: State) -> None:
    try:
        encoder = stored_encoder("columns", state)
    except FormatError:
        return
    q = encoder.encode(encoder.inputs_at(np.linspace(-0.5, 1.5, 9)[:, None].repeat(encoder.n_features, axis=1)))
    assert q.shape == (9, encoder.n_outputs)
    assert np.all((q >= 0) & (q <= 1))


@pytest.mark.parametrize(
    "column",
    [
        Column("x", "number", np.array([2.0, 1.0])),
        Column("x", "number", np.array([1.0])),
        Column("x", "number", np.array([-1.5e308, 1.5e308])),
        Column("x", "number", np.array([0.0, 1.0]), shared=True),
        Column("x", "number", np.array([0.0, 1.0]), ("a",)),
        Column("x", "number", np.array([0.0, 1.0]), steps=np.array([NAN]), gap_above=np.array([True])),
        Column("x", "ordinal", np.array([0.0, 2.0]), ("a", "b")),
        Column("x", "category", NONE, ("a", "a")),
        Column("x", "category", NONE),
        Column("x", "category", NONE, ("a", "b"), steps=np.array([1.0]), gap_above=np.array([True])),
        Column("x", "spline", np.array([0.0, 1.0])),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_columns_that_a_file_cannot_hold(column: Column) -> None:
    with pytest.raises(FormatError, match="encoder 'columns': column 'x': no "):
        stored_encoder("columns", ColumnsEncoder((column,)).state())


def test_names_of_a_state_are_different() -> None:
    with pytest.raises(FormatError, match="names of their own"):
        stored_encoder("columns", ColumnsEncoder((AGE, AGE)).state())
