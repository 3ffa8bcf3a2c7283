"""A scorer: batches in every form give what the graph gives, here and in another process."""

import multiprocessing
import pickle
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lcml.circuits import vtree as vtrees
from lcml.inputs.column import Column
from lcml.inputs.encoders import ScaleEncoder
from lcml_export import export_model
from lcml_serving import Scorer
from lcml_serving.errors import ModelError, UnprocessableError
from tests.export.models import model_on
from tests.export.tables import ROWS, run_graph, table_model, tensors
from tests.worlds import grown

CLASSES = ("no", "yes", "maybe")
NAMES = ["label", *(f"probability_{name}" for name in CLASSES)]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scorer") / "table.onnx"
    export_model(table_model(), path)
    return path


@pytest.fixture(scope="module")
def expected(table: Path) -> dict[str, Any]:
    """What the graph itself gives for ROWS, column by column."""
    outputs = run_graph(table, tensors(ROWS))
    return dict(zip(NAMES, [outputs["label"], *outputs["probabilities"].T], strict=True))


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scorer") / "matrix.onnx"
    encoder = ScaleEncoder(np.zeros(3), np.full(3, 9.0))
    model = model_on(grown(vtrees.balanced(3), 1, rounds=1), (0, 1), encoder=encoder)
    export_model(model, path, feature_names=("a", "b", "c"))
    return path


def frames() -> list[Any]:
    """ROWS in every form, columns in another order and one too many."""
    rows = {"more": range(5), **{name: ROWS[name] for name in reversed(ROWS)}}
    arrow = pa.table(rows)
    return [
        pd.DataFrame(rows, index=list("vwxyz")),
        pd.DataFrame(rows).convert_dtypes(),
        pl.DataFrame(rows),
        arrow,
        arrow.set_column(arrow.column_names.index("city"), "city", arrow["city"].dictionary_encode()),
        arrow.to_batches()[0],
        {name: np.array(values, object) for name, values in rows.items()},
    ]


def plain(found: Any) -> dict[str, list[Any]]:
    """The columns of predictions as lists."""
    if isinstance(found, pl.DataFrame):
        return found.to_dict(as_series=False)
    return found.to_pydict() if hasattr(found, "to_pydict") else {name: list(found[name]) for name in found}


@pytest.mark.parametrize(
    "batch", frames(), ids=["pandas", "nullable", "polars", "table", "dictionary", "batch", "arrays"]
)
def test_a_batch_is_answered_in_its_own_form(table: Path, expected: dict[str, Any], batch: Any) -> None:
    found = Scorer(table)(batch)
    assert type(found) is type(batch)
    if isinstance(batch, pd.DataFrame):
        assert found.index.equals(batch.index)
    columns = plain(found)
    assert columns == {name: values.tolist() for name, values in expected.items()}


def test_an_array_is_answered_with_the_outputs_of_the_graph(matrix: Path) -> None:
    x = np.arange(12).reshape(4, 3) % 9
    found, graph = Scorer(matrix)(x), run_graph(matrix, {"features": x.astype(np.float32)})
    assert list(found) == list(graph)
    for name, values in graph.items():
        np.testing.assert_array_equal(found[name], values)
    by_name = Scorer(matrix)(pd.DataFrame(x, columns=["a", "b", "c"])[["c", "a", "b"]])
    np.testing.assert_array_equal(by_name["probability_1"], graph["probabilities"][:, 1])


def test_dates_decimals_and_truth_values(tmp_path: Path) -> None:
    columns = (
        Column("when", "date", np.array([0.0, 100.0]), gaps=True),
        Column("price", "number", np.array([0.0, 4.0])),
        Column("paid", "category", np.zeros(0), ("false", "true")),
    )
    path = tmp_path / "dates.onnx"
    export_model(table_model(columns), path)
    scorer = Scorer(path)
    noon = datetime(1970, 1, 11, 12, tzinfo=UTC)
    batches = [
        pd.DataFrame({"when": pd.to_datetime([noon, None], utc=True), "price": [1.5, 3.0], "paid": [True, False]}),
        pa.table({"when": [noon, None], "price": [Decimal("1.5"), Decimal("3")], "paid": [True, False]}),
        pl.DataFrame({"when": [noon, None], "price": [1.5, 3.0], "paid": ["true", "false"]}),
    ]
    feeds = {"when": [10.5, np.nan], "price": [1.5, 3.0], "paid": ["true", "false"]}
    graph = run_graph(
        path,
        {n: np.array(v, object if n == "paid" else None)[:, None] for n, v in feeds.items()}
        | {"price": np.array([[1.5], [3.0]], np.float32)},
    )
    for batch in batches:
        found = plain(scorer(batch))
        assert (found["label"], found["probability_yes"]) == (
            graph["label"].tolist(),
            graph["probabilities"][:, 1].tolist(),
        )


def _score(scorer: Scorer, rows: dict[str, Any]) -> list[float]:
    return list(scorer(pd.DataFrame(rows))["probability_yes"])


def test_another_process_needs_no_file(table: Path, expected: dict[str, Any], tmp_path: Path) -> None:
    copy = tmp_path / "gone.onnx"
    copy.write_bytes(table.read_bytes())
    scorer = Scorer(copy)
    copy.unlink()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_score, (scorer, ROWS)) == list(expected["probability_yes"])
    assert len(pickle.dumps(scorer)) < table.stat().st_size + 1000


def test_what_others_ask_of_it(table: Path, matrix: Path) -> None:
    scorer = Scorer(table)
    assert scorer.spark_schema == "`label` string, " + ", ".join(f"`{name}` float" for name in NAMES[1:])
    assert Scorer(matrix).spark_schema.startswith("`label` long, `probability_0` float")
    assert (len(scorer.empty()), list(scorer.empty())) == (0, NAMES)
    halves = [pd.DataFrame(ROWS)[:2], pd.DataFrame(ROWS)[2:]]
    whole = scorer(pd.DataFrame(ROWS))
    assert pd.concat(scorer.each(halves)).equals(whole)


def test_what_does_not_fit_is_told(table: Path, matrix: Path, tmp_path: Path) -> None:
    with pytest.raises(UnprocessableError, match=r"^1 columns are missing: 'income'$"):
        Scorer(table)(pd.DataFrame(ROWS).drop(columns="income"))
    with pytest.raises(UnprocessableError, match=r"^row 1, column 'age': expected a number, found 'old'$"):
        Scorer(table)(pd.DataFrame(ROWS | {"age": [1, "old", 2, 3, 4]}))
    with pytest.raises(UnprocessableError, match=r"^1 columns are missing: 'b'$"):
        Scorer(matrix)(pd.DataFrame({"a": [1], "c": [2]}))
    with pytest.raises(UnprocessableError, match=r"expected shape \(rows, 3\), found \[1, 2\]"):
        Scorer(matrix)(np.zeros((1, 2)))
    with pytest.raises(
        UnprocessableError, match=r"row 0, feature 1 \('b'\): expected a finite float32 number, found nan"
    ):
        Scorer(matrix)(pd.DataFrame({"a": [1], "b": [np.nan], "c": [2]}))
    with pytest.raises(ModelError, match="is not a regular file"):
        Scorer(tmp_path)
    (tmp_path / "no.onnx").write_bytes(b"no model")
    with pytest.raises(ModelError, match=r"no\.onnx is not a model that onnxruntime can load"):
        Scorer(tmp_path / "no.onnx")
