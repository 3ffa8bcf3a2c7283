"""The measures and the protocol of `python -m tests.bench.tables`, against values worked out by hand."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier

from tests.bench.contenders import CONTENDERS, categories, texts
from tests.bench.tables import (
    MEASURES,
    accuracy,
    auc,
    between_markers,
    log_loss,
    markdown,
    mean_ranks,
    measured,
)

LABELS = np.array([0, 0, 1, 2])
P = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3], [0.2, 0.8, 0.0], [0.7, 0.3, 0.0]])


def test_auc_is_the_mean_over_classes_of_pairs_in_order() -> None:
    # class 0: of its 4 pairs .5 > .2 alone is in order; class 1: .8 above all; class 2: 0 below .2 and .3, ties with 0
    assert auc(LABELS, P) == pytest.approx((1 / 4 + 1 + 0.5 / 3) / 3)
    two = np.array([0, 1, 1])
    assert auc(two, np.array([[0.6, 0.4], [0.5, 0.5], [0.7, 0.3]])) == 1 / 2


def test_log_loss_is_clipped() -> None:
    assert log_loss(LABELS, P) == pytest.approx(-(math.log(0.5 * 0.1 * 0.8) + math.log(1e-6)) / 4)


def test_accuracy_and_calibration_error() -> None:
    ece = MEASURES["ECE"]
    assert accuracy(LABELS, P) == 2 / 4
    # each top probability in a bin of its own: |1 - .5|, |0 - .6|, |1 - .8|, |0 - .7|
    assert ece(LABELS, P) == pytest.approx((0.5 + 0.6 + 0.2 + 0.7) / 4)
    # .94 and 1 share the last bin (14/15, 1], .5 has its own: |1/2 - .97| of two thirds, |1 - .5| of a third
    shared = np.array([[0.94, 0.06], [0.0, 1.0], [0.5, 0.5]])
    assert ece(np.array([0, 0, 0]), shared) == pytest.approx(2 / 3 * 0.47 + 1 / 3 * 0.5)


def test_ranks_share_ties() -> None:
    values = np.array([[0.9, 0.8, 0.8], [0.7, 0.6, 0.5]])
    assert mean_ranks(values, higher_is_better=True).tolist() == [1.0, 2.25, 2.75]
    assert mean_ranks(values, higher_is_better=False).tolist() == [3.0, 1.75, 1.25]


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Twenty rows of two classes; a number and a category with gaps that say nothing of the class."""
    return pd.DataFrame(
        {
            "age": pd.array([30, None, 40, 50] * 5, dtype="Int64"),
            "kind": pd.array([None, "a", "b", "a"] * 5, dtype="string"),
            "target": ["no"] * 10 + ["yes"] * 10,
        }
    )


def test_encodings(table: pd.DataFrame) -> None:
    frame = table.drop(columns="target")
    native, spelled = categories(frame), texts(frame)
    assert native["age"].dtype == spelled["age"].dtype == float
    assert native["kind"].cat.categories.tolist() == ["a", "b"]
    assert native.isna().sum().tolist() == [5, 5]
    assert spelled["kind"].tolist() == ["", "a", "b", "a"] * 5


def test_protocol(table: pd.DataFrame) -> None:
    prior = replace(CONTENDERS["logistic"], make=lambda _: DummyClassifier(strategy="prior"), size=lambda _: 1)
    entry = measured(prior, table)
    assert entry["AUC"] == {"all": 0.5, "folds": [0.5] * 5}
    assert entry["log loss"]["folds"] == pytest.approx([math.log(2)] * 5)
    assert len(entry["seconds"]) == 5
    # a number, the mark of its gaps, three categories (a gap is one), the intercept
    assert measured(CONTENDERS["logistic"], table)["size"] == [6] * 5


def test_tables_stand_between_the_markers() -> None:
    def entry(value: float) -> dict[str, object]:
        found = {"all": value, "folds": [value - 0.1, value, value + 0.1, value, value]}
        names = ("AUC", "log loss", "accuracy", "ECE")
        return {"version": "1.0", "seconds": [0.1] * 5, "size": [1000, 1002], **dict.fromkeys(names, found)}

    tables = markdown({"credit": {"hgb": entry(0.8), "lcml": entry(0.85)}, "vehicle": {"lcml": entry(0.9)}})
    auc_table, log_loss_table, *_, sizes, releases = tables.split("\n\n")
    assert auc_table.splitlines() == [  # folds that spread by sqrt(0.02 / 4) have a mean known to sqrt(0.005 / 5)
        "| AUC | HistGradientBoosting | lcml |",
        "| --- | --- | --- |",
        "| credit | .8000 ±.0316 | **.8500** ±.0316 |",
        "| vehicle | - | **.9000** ±.0316 |",
        "| mean rank (n = 1) | 2.00 | **1.00** |",
    ]
    assert log_loss_table.splitlines()[-1] == "| mean rank (n = 1) | **1.00** | 2.00 |"
    assert sizes.splitlines()[2] == "| credit | 1,001 | 1,001 |"
    assert releases == "Releases: lcml 1.0, scikit-learn 1.0."
    begin, end = "<!-- tests.bench.tables: begin -->", "<!-- tests.bench.tables: end -->"
    assert between_markers(f"a\n{begin}\nold\n{end}\nb\n", "new") == f"a\n{begin}\n\nnew\n\n{end}\nb\n"
    with pytest.raises(SystemExit, match="expected the lines"):
        between_markers("no markers", "new")
