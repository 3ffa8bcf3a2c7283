"""How examples are divided, and how classes become codes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from lcml.data import load_examples, load_splits
from lcml.data.division import divide
from lcml.data.labels import code_labels
from lcml.data.raw import RawSet
from lcml.data.stratify import apportion, draw
from lcml.errors import DataError


def test_apportion_by_largest_remainder() -> None:
    # Quotas 1.5, 2.1, 0.4 of a total of 4: floors 1, 2, 0; the one seat left goes to .5.
    assert apportion(np.array([15, 21, 4]), 0.1).tolist() == [2, 2, 0]
    assert apportion(np.array([15, 21, 4]), 0.1, least=1).tolist() == [2, 2, 1]
    assert apportion(np.array([3, 30]), 0.9, leave=2).tolist() == [1, 27]


@given(
    counts=st.lists(st.integers(2, 200), min_size=1, max_size=6), fraction=st.floats(0, 1), seed=st.integers(0, 2**32)
)
def test_a_drawn_part_is_in_proportion(counts: list[int], fraction: float, seed: int) -> None:
    sizes = np.array(counts)
    codes = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    n_chosen = apportion(sizes, fraction)
    assert n_chosen.sum() == round(fraction * int(sizes.sum()))
    assert np.all(np.abs(n_chosen - fraction * sizes) < 1 + 1e-9)
    others, chosen = draw(codes, n_chosen, np.random.default_rng(seed))
    assert sorted([*others, *chosen]) == list(range(len(codes)))
    assert np.bincount(codes[chosen], minlength=len(sizes)).tolist() == n_chosen.tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"train_fraction": 0.0}, "train_fraction must be above 0"),
        ({"train_fraction": 1.5}, "train_fraction must be above 0 and at most 1; found 1.5"),
        ({"train_fraction": float("nan")}, "train_fraction must be above 0"),
        ({"train_fraction": 0.02}, r"keeps 0 of 40 examples of class 'virginica'.*need 2; use at least 0\.05"),
        ({"valid_fraction": 1.0}, "valid_fraction must be at least 0 and below 1"),
        ({"test_fraction": -0.1}, "test_fraction must be at least 0"),
        ({"seed": -1}, "the seed must be 0 or"),
    ],
)
def test_fractions_out_of_range(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load_splits("iris", **arguments)


def test_the_suggested_train_fraction_is_enough() -> None:
    assert len(load_splits("iris", train_fraction=0.05).train) == 3


def test_fractions_of_zero_leave_those_parts_empty() -> None:
    splits = load_splits("iris", valid_fraction=0, test_fraction=0)
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (150, 0, 0)
    assert splits.valid.features.shape == (0, 4)
    with pytest.raises(DataError, match="has no test examples"):
        load_examples("iris", test_fraction=0)


@pytest.mark.parametrize(
    ("labels", "classes", "codes"),
    [
        (np.array([7, 3, 7], np.uint8), (3, 7), [1, 0, 1]),
        (np.array(["10", "9", "10"]), (9, 10), [1, 0, 1]),
        (np.array(["b", "10", "a"]), ("10", "a", "b"), [2, 0, 1]),
        (np.array([1.0, -2.0]), (-2, 1), [1, 0]),
        (np.array(["1.0", "1", "2"]), (1, 2), [0, 0, 1]),
        (np.array(["01", "1", "2"]), ("01", "1", "2"), [0, 1, 2]),
        (np.array(["+1", "2"]), ("+1", "2"), [0, 1]),
        (np.array(["0", "-0.0", "10"]), (0, 10), [0, 0, 1]),
        (np.array(["True", "False", "true"]), ("false", "true"), [1, 0, 1]),
        (np.array(["True", "False", "maybe"]), ("False", "True", "maybe"), [1, 0, 2]),
        (np.array([True, False], object), ("false", "true"), [1, 0]),
        (np.array([b"no", b"yes"]), ("no", "yes"), [0, 1]),
        (np.array(["NA", "CH"]), ("CH", "NA"), [1, 0]),
        (np.array(["18446744073709551616", "1"]), ("1", "18446744073709551616"), [1, 0]),
        (np.array([2**63, 1], np.uint64), ("1", "9223372036854775808"), [1, 0]),
        (np.array(["2026-01-31", "2025-12-24"], "M8[D]"), ("2025-12-24", "2026-01-31"), [1, 0]),
        (np.array(["2026-01-31T12:30", "2026-01-31"], "M8[m]"), ("2026-01-31 00:00", "2026-01-31 12:30"), [1, 0]),
        (np.array([True, False]), ("false", "true"), [1, 0]),
        (np.array(["x", "y"], object), ("x", "y"), [0, 1]),
    ],
)
def test_classes_are_sorted_ints_or_text(labels: NDArray[Any], classes: tuple[int | str, ...], codes: Any) -> None:
    found, coded = code_labels(labels, "here")
    assert found == classes
    assert [type(value) for value in found] == [type(value) for value in classes]
    assert coded.tolist() == codes
    assert coded.dtype == np.int64


def test_labels_are_coded_by_the_classes_of_a_model() -> None:
    assert code_labels(np.array([5, 1]), "here", (1, 3, 5))[1].tolist() == [2, 0]
    assert code_labels(np.array([5, 1]), "here", ("1", "5", "a"))[1].tolist() == [1, 0]
    assert code_labels(np.array([True, False]), "here", ("False", "True"))[1].tolist() == [1, 0]
    assert code_labels(np.array(["TRUE", "FALSE"]), "here", ("false", "true"))[1].tolist() == [1, 0]
    with pytest.raises(DataError, match=r"here: row 1 has the label 4, .*the classes are 1, 3, 5"):
        code_labels(np.array([5, 4, 1]), "here", (1, 3, 5))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([0.5, 1.0]), r"the label 0\.5 is not a whole number"),
        (np.array(["0.5", "1e3"]), r"the label 0\.5 is not a whole number"),
        (np.array([np.nan, 1.0]), "missing or not finite"),
        (np.array(["a", " "]), "a label is missing"),
        (np.array(["1", "NA", "0"]), r"a label is missing \(NA\)"),
        (np.array(["1", "null", "0"]), r"a label is missing \(null\)"),
        (np.array(["2026-01-31", "NaT"], "M8[D]"), "a label is missing"),
        (np.array([b"\xff", b"a"]), "no text in UTF-8"),
        (np.array([1, "a"], object), "found a mixture"),
        (np.array([1j]), "found type complex128"),
    ],
)
def test_labels_that_are_no_classes(labels: NDArray[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        code_labels(labels, "here")


@pytest.mark.parametrize(
    ("n_examples", "fractions", "message"),
    [
        (2, (0.1, 0.2), "2 example.* but 3 are needed, one for each of training and validation and test; .* test_frac"),
        (1, (0.1, 0.2), "1 example.* but 3 are needed, .* merge it with another$"),
        (1, (0.1, 0.0), "1 example.* but 2 are needed, one for each of training and validation; .* with another$"),
        (
            1,
            (0.0, 0.2),
            "1 example.* but 2 are needed, one for each of training and test; .* or set test_fraction to 0",
        ),
    ],
)
def test_a_class_too_small_is_told_what_helps(n_examples: int, fractions: tuple[float, float], message: str) -> None:
    labels = np.array(["many"] * 9 + ["few"] * n_examples)
    raw = RawSet(
        name="some", source="some.npz", features=np.zeros((len(labels), 2)), labels=labels, feature_names=("a", "b")
    )
    with pytest.raises(DataError, match=f"some.npz: class 'few' has {message}"):
        divide(raw, *fractions, train_fraction=1, seed=0)
