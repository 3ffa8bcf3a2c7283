"""A model of a table in MLflow, native and as ONNX: its columns have names and types, and are found in any order."""

import json
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas
import pytest

from lcml.inputs.column import Column
from lcml.inputs.encoders import ScaleEncoder
from tests.export.tables import COLUMNS, PROBABILITIES, ROWS, table_model
from tests.tracking.stores import address
from tests.tracking.test_registry import made, tracked

PAID = Column("paid", "category", np.zeros(0), ("false", "true"))
FLAG = Column("flag", "category", np.zeros(0), ("false", "true"), gaps=True)
CODE = Column("code", "category", np.zeros(0), ("7", "3"), shared=True)
WHEN = Column("when", "date", np.array([0.0, 100.0]), gaps=True)
MODEL = table_model((*COLUMNS, FLAG, CODE, WHEN, PAID))
FRAME = pandas.DataFrame(
    {
        "extra": range(5),
        "paid": [False, True, False, True, True],
        "when": pandas.to_datetime(
            ["1970-01-11", None, "1970-01-03T12:00", "1970-01-01", "1970-02-02"], format="ISO8601"
        ),
        "code": [7.0, 3.0, 4.0, 3.0, 7.0],
        "flag": pandas.Series([True, None, False, False, True], dtype=object),
        **{name: ROWS[name] for name in reversed(ROWS)},
    }
)


@pytest.fixture(scope="module")
def models(empty_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The native model and the exported one, as MLflow loads them."""
    directory = tmp_path_factory.mktemp("tables")
    (directory / "mlruns").mkdir()
    (directory / "mlruns" / "mlflow.db").write_bytes(empty_database.read_bytes())
    uri = address(directory / "mlruns" / "mlflow.db")
    tracked(uri, MODEL, directory, "table")
    onnx_id = made("export", "--run", "table", "--tracking-uri", uri)["model_id"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", uri)
        client = mlflow.MlflowClient(uri)
        logged = client.search_logged_models([client.get_experiment_by_name("lcml").experiment_id])
        ids = {"onnx": onnx_id, "native": next(one.model_id for one in logged if one.model_id != onnx_id)}
        yield {name: mlflow.pyfunc.load_model(f"models:/{model_id}") for name, model_id in ids.items()}


@pytest.mark.parametrize("name", ["native", "onnx"])
def test_the_signature_names_and_types_the_columns(models: dict[str, Any], name: str) -> None:
    columns = models[name].metadata.get_input_schema().to_dict()
    assert [(one["name"], one["type"], one["required"]) for one in columns] == [
        ("age", "double", False),
        ("income", "double", True),
        ("city", "string", False),
        ("size", "string", False),
        ("flag", "string", False),
        ("code", "double", False),
        ("when", "datetime", False),
        ("paid", "boolean", True),
    ]


@pytest.mark.parametrize("name", ["native", "onnx"])
def test_columns_are_found_in_any_order(models: dict[str, Any], name: str) -> None:
    q = np.array(  # of flag: missing, false, true; of code: 7, 3, other; of when: missing, days / 100; of paid: true
        [
            [0, 0, 1, 1, 0, 0, 0, 0.1, 0],
            [1, 0, 0, 0, 1, 0, 1, 0, 1],
            [0, 1, 0, 0, 0, 1, 0, 0.025, 0],
            [0, 1, 0, 0, 1, 0, 0, 0, 1],
            [0, 0, 1, 1, 0, 0, 0, 0.32, 1],
        ]
    )
    every = np.concatenate([PROBABILITIES, q], axis=1)
    n = every.shape[1]
    expected = replace(MODEL, encoder=ScaleEncoder(np.zeros(n), np.ones(n))).predict_proba(every)
    found = models[name].predict(FRAME)
    np.testing.assert_allclose(found["probabilities"], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["native", "onnx"])
def test_mlflows_server_takes_tables(models: dict[str, Any], name: str) -> None:
    from mlflow.pyfunc import scoring_server

    model = models[name]
    body = {"dataframe_split": json.loads(FRAME.to_json(orient="split", date_format="iso"))}
    answer = scoring_server.invocations(json.dumps(body), "application/json", model, model.metadata.get_input_schema())
    assert answer.status == 200, answer.response
    expected = models["native"].predict(FRAME)["probabilities"]
    np.testing.assert_allclose(json.loads(answer.response)["predictions"]["probabilities"], expected, rtol=0, atol=1e-5)


def test_spark_udf(models: dict[str, Any]) -> None:
    """Spark's own workers load the model and find the columns by name in a struct."""
    sql = pytest.importorskip("pyspark.sql", reason="pip install pyspark")
    if shutil.which("java") is None:
        pytest.skip("pyspark needs Java: apt-get install default-jre-headless")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pyspark and MLflow, about themselves
        spark = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
        try:
            frame = spark.createDataFrame(FRAME)
            for name, model in models.items():
                place, chosen = model.metadata.artifact_path, {"output": "probabilities"}
                score = mlflow.pyfunc.spark_udf(spark, place, "array<double>", env_manager="local", model_config=chosen)
                found = frame.select(score(sql.functions.struct(*frame.columns)).alias("p")).toPandas()["p"]
                expected = models["native"].predict(FRAME)["probabilities"]
                np.testing.assert_allclose(np.stack(found), expected, rtol=0, atol=1e-5, err_msg=name)
        finally:
            spark.stop()
