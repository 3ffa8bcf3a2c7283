"""What a model remembers of its training data, counted by hand."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from lcml import LogisticCircuitClassifier, load_model
from lcml.backend import get_backend
from lcml.inputs.table import from_frame
from lcml.runs import reference as module
from lcml.runs.reference import reference
from tests.cli.commands import output
from tests.export.tables import ROWS, table_model

EXPECTED = [
    {"name": "age", "edges": [0.0, 10.0, 30.0], "shares": [0.2, 0.2, 0.2, 0.2, 0.2]},
    {"name": "income", "edges": [0.0, 4.0], "shares": [0.2, 0.4, 0.4, 0.0]},
    {"name": "city", "categories": ["Rome", "Oslo"], "shares": [0.4, 0.2, 0.4, 0.0]},
    {"name": "size", "categories": ["s", "m", "l"], "shares": [0.2, 0.2, 0.2, 0.0, 0.4]},
]


def test_shares_of_every_column_and_class() -> None:
    model, table = table_model(), from_frame(pd.DataFrame(ROWS))
    told = reference(model, table, get_backend("numpy"))
    assert told["columns"] == EXPECTED
    labels = model.predict(table).tolist()
    assert told["classes"] == {name: labels.count(name) / 5 for name in ("no", "yes", "maybe")}


def test_few_categories_are_named_and_few_rows_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CATEGORIES", 1)
    monkeypatch.setattr(module, "_MOST_ROWS", 3)
    told = reference(table_model(), from_frame(pd.DataFrame(ROWS)), get_backend("numpy"))
    assert told["columns"][2] == {"name": "city", "categories": ["Rome"], "shares": [0.666667, 0.333333, 0.0]}


def test_a_training_and_a_fit_remember(tmp_path: Path) -> None:
    frame, y = load_iris(as_frame=True, return_X_y=True)
    frame.assign(label=y).to_csv(tmp_path / "iris.csv", index=False)
    output("train", tmp_path / "iris.csv", "--no-tracking", "--quiet", "--trees", 0, "-o", tmp_path / "iris.lcml")
    told = load_model(tmp_path / "iris.lcml").provenance["reference"]
    assert sum(told["classes"].values()) == pytest.approx(1, abs=1e-5)
    assert [sum(one["shares"]) for one in told["columns"]] == pytest.approx([1] * 4, abs=1e-5)
    fitted = LogisticCircuitClassifier(trees=0).fit(frame, y)
    columns = fitted.model_.provenance["reference"]["columns"]
    for one, (name, values) in zip(columns, frame.items(), strict=True):
        counts, _ = np.histogram(values, [-np.inf, *one["edges"], np.inf])
        assert (one["name"], one["shares"]) == (name, [*(counts / 150).round(6), 0])
