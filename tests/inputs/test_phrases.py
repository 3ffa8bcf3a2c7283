"""What literals of a column say together, worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest

from lcml.inputs.column import Column, shown
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.phrases import phrase
from lcml.inputs.table import TRUTH

NONE = np.zeros(0)
STEPS, ABOVE = np.array([25.0, 47.5]), np.array([False, True])
PRICE = Column("price", "number", np.array([0.5, 1.5, 9.25]))  # edges 1, 5.375
AGE = Column(
    "age", "number", np.array([20.0, 30.0, 50.0]), gaps=True, steps=STEPS, gap_above=ABOVE
)  # edges 25, 40; steps 25, 48
CHILDREN = Column("children", "number", np.arange(4.0))  # edges 0.5, 1.5, 2.5
SINCE = Column("since", "date", np.array([0.0, 365.0, 730.0]))
AT = Column("at", "date", np.array([0.0, 0.5]))
SIZE = Column("size", "ordinal", np.arange(4.0), ("S", "M", "L", "XL"), gaps=True)
STATE = Column("state", "category", NONE, ("a", "b", "c", "d"), gaps=True, shared=True)
PAY = Column("pay", "category", NONE, ("cash", "card"))
SMOKER = Column("smoker", "category", NONE, TRUTH)
HALVES = Column("rooms", "number", np.arange(9.0), steps=np.array([0.5, 2.25]), gap_above=np.zeros(2, bool))
NOON = Column("at", "date", np.arange(9.0), steps=np.array([2.25]), gap_above=np.zeros(1, bool))
INCOME = Column("income", "number", np.arange(9.0), steps=np.array([2.5]), gap_above=np.zeros(1, bool), fractions=True)
ASKED = Column(
    "v", "number", np.array([0.0, 10.0]), gaps=True, steps=np.array([3.0, 7.0]), gap_above=np.array([True, False])
)
REASKED = replace(ASKED, gap_above=np.array([False, True]))
MANY = Column("city", "category", NONE, tuple(f"c{i}" for i in range(30)))


@pytest.mark.parametrize(
    ("column", "true", "false", "words"),
    [
        (PRICE, {0}, set(), "price >= 1"),
        (PRICE, set(), {1}, "price < 5.375"),
        (PRICE, {0}, {1}, "1 <= price < 5.375"),
        (PRICE, {0, 1}, set(), "price >= 5.375"),
        (PRICE, {1}, {0}, "never"),
        (AGE, {1}, {2}, "25 <= age < 40"),
        (AGE, {1}, {2, 0}, "25 <= age < 40"),
        (AGE, set(), {2}, "age < 40 (or missing)"),
        (AGE, set(), {2, 0}, "age < 40"),
        (AGE, set(), {0}, "age is not missing"),
        (AGE, {0}, set(), "age is missing"),
        (AGE, {0}, {1, 2}, "age is missing"),
        (AGE, {0, 1}, set(), "never"),
        (AGE, {3}, {4}, "25 <= age < 48"),
        (AGE, {4}, set(), "age >= 48 (or missing)"),
        (AGE, {4}, {0}, "age >= 48"),
        (AGE, {1, 4}, set(), "age >= 48"),
        (AGE, set(), {4}, "age < 48"),
        (AGE, set(), {3}, "age < 25 (or missing)"),
        (AGE, {0, 4}, {3}, "age is missing"),
        (AGE, {0}, {4}, "never"),
        (CHILDREN, {0}, {1}, "children is 1"),
        (CHILDREN, {0}, {2}, "1 <= children < 3"),
        (CHILDREN, set(), {0}, "children < 1"),
        (CHILDREN, {2}, set(), "children >= 3"),
        (SINCE, {0}, {1}, "1970-07-03 <= since < 1971-07-03"),
        (AT, {0}, set(), "at >= 1970-01-01T06:00:00"),
        (HALVES, {8}, {9}, "0.5 <= rooms < 2.25"),
        (HALVES, {9}, set(), "rooms >= 2.25"),  # 2.5 is there too: it is no 3
        (INCOME, {0}, {1}, "0.5 <= income < 1.5"),
        (INCOME, {8}, set(), "income >= 2.5"),
        (NOON, {8}, set(), "at >= 1970-01-03T06:00:00"),
        (SIZE, {1}, {2}, "size is 'M'"),
        (SIZE, {1}, {3}, "'M' <= size <= 'L'"),
        (SIZE, set(), {2}, "size <= 'M' (or missing)"),
        (SIZE, set(), {1}, "size is 'S' (or missing)"),
        (SIZE, {3}, set(), "size is 'XL'"),
        (SIZE, {2}, set(), "size >= 'L'"),
        (SIZE, {3}, {1}, "never"),
        (STATE, {1}, set(), "state is 'a'"),
        (STATE, {1}, {0, 2, 5}, "state is 'a'"),
        (STATE, {5}, set(), "state is another"),
        (STATE, {1, 2}, set(), "never"),
        (STATE, {0}, set(), "state is missing"),
        (STATE, set(), {1}, "state is not 'a'"),
        (STATE, set(), {1, 2}, "state is none of 'a', 'b'"),
        (STATE, set(), {0, 1}, "state is none of 'a', missing"),
        (STATE, set(), {1, 2, 3}, "state is one of 'd', another, missing"),
        (STATE, set(), {0, 1, 2, 3}, "state is one of 'd', another"),
        (STATE, set(), {1, 2, 3, 4, 5}, "state is missing"),
        (STATE, set(), {0, 1, 2, 3, 4, 5}, "state is unknown"),
        (PAY, {0}, set(), "pay is 'card'"),
        (PAY, set(), {0}, "pay is 'cash'"),
        (ASKED, {2}, {3}, "3 <= v < 7 (or missing)"),
        (REASKED, {3}, {2}, "v is missing"),
        (SMOKER, {0}, set(), "smoker is true"),
        (SMOKER, set(), {0}, "smoker is false"),
        (MANY, set(), set(range(10)), "city is none of 'c0', 'c1', 'c2', 'c3', 'c4', 'c5' and 4 more"),
    ],
)
def test_phrases(column: Column, true: set[int], false: set[int], words: str) -> None:
    assert phrase(column, column.name, true, false) == words


def test_a_conjunction_has_one_text_per_column() -> None:
    encoder = ColumnsEncoder((AGE, PAY, PRICE))
    n = encoder.n_outputs
    assert encoder.blocks.tolist() == [0, 5, 6, 8]
    words = encoder.words(("age of the owner", "pay", "price"))
    assert words([n + 7, 5, 1, n + 2, 6]) == ["25 <= age of the owner < 40", "pay is 'card'", "1 <= price < 5.375"]
    assert encoder.variable_names(encoder.names)[4:] == (
        "age >= 48 (or missing)",
        "pay is 'card'",
        "price >= 1",
        "price >= 5.375",
    )


def test_numbers_are_shown_with_the_digits_that_tell_them_apart() -> None:
    assert shown("number", np.array([0.123456, 1.0, 1234.5678, 2e7, 3e20])) == [
        "0.1235",
        "1",
        "1234.57",
        "20000000",
        "3e+20",
    ]
    assert shown("number", np.array([1.00001, 1.00002])) == ["1.00001", "1.00002"]
    assert shown("number", np.array([100000.001, 100000.002])) == ["100000.001", "100000.002"]
    assert shown("date", np.array([19_000.25, 1e300])) == ["2022-01-08T06:00:00", "275760-09-13"]
