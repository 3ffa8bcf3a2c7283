"""MLflow's scoring protocol, held against MLflow's own scoring code on the same model and the same bodies."""

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lcml_serving
from tests.serving.onnx_models import PROBABILITIES, X
from tests.serving.running import Running, start

JSON = {"Content-Type": "application/json"}
COLUMNS = ["a", "b", "c", "d"]
RECORDS = [dict(zip(COLUMNS, row, strict=True)) for row in X]

PAYLOADS: dict[str, Any] = {
    "split": {"dataframe_split": {"columns": COLUMNS, "index": [0, 1, 2], "data": X}},
    "split without names": {"dataframe_split": {"data": X}},
    "records": {"dataframe_records": RECORDS},
    "inputs": {"inputs": X},
    "named inputs": {"inputs": {"features": X}},
    "instances": {"instances": X},
    "named instances": {"instances": [{"features": row} for row in X]},
}


@pytest.fixture(scope="module")
def mlflow_answers(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What MLflow's scoring server answers to each payload, with a signature that takes it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import mlflow.onnx
        import onnx
        from mlflow.models import ModelSignature
        from mlflow.pyfunc import scoring_server
        from mlflow.types import Schema, TensorSpec

        answers = {}
        for tensor_name in (None, "features"):
            schema = Schema([TensorSpec(np.dtype(np.float32), (-1, 4), tensor_name)])
            place = tmp_path_factory.mktemp("mlflow") / "model"
            mlflow.onnx.save_model(
                onnx.load(repository / "plain/1/model.onnx"),
                str(place),
                signature=ModelSignature(inputs=schema),
                save_as_external_data=False,
                onnx_execution_providers=["CPUExecutionProvider"],
            )
            model = mlflow.pyfunc.load_model(str(place))
            for name in PAYLOADS:
                if name.startswith("named") == (tensor_name is not None):
                    body = json.dumps(PAYLOADS[name])
                    answer = scoring_server.invocations(body, "application/json", model, schema)
                    answers[name] = json.loads(answer.response)
    return answers


@pytest.fixture(scope="module")
def single(repository: Path) -> Iterator[Running]:
    running = start(repository / "plain/1/model.onnx", "--name", "first")
    yield running
    assert running.stop() == 0


@pytest.fixture(scope="module")
def words(repository: Path) -> Iterator[Running]:
    running = start(repository / "words/1/model.onnx")
    yield running
    assert running.stop() == 0


@pytest.mark.parametrize("name", PAYLOADS)
def test_answers_are_mlflows(single: Running, mlflow_answers: dict[str, Any], name: str) -> None:
    answer = single.post("/invocations", PAYLOADS[name], JSON)
    assert answer.status == 200
    assert answer.json() == mlflow_answers[name]


def test_the_highest_version_of_the_default_model_answers(service: Running) -> None:
    predictions = service.post("/invocations", PAYLOADS["records"], JSON).json()["predictions"]
    assert predictions["label"] == [10, 30, 20]
    assert predictions["probabilities"] == [pytest.approx(row, abs=1e-6) for row in PROBABILITIES]


def test_ping_and_version(service: Running) -> None:
    assert service.get("/ping").status == 200
    assert service.get("/version").body == lcml_serving.__version__.encode()


@pytest.mark.parametrize(
    "payload",
    [
        {"inputs": []},
        {"instances": []},
        {"dataframe_records": []},
        {"dataframe_split": {"data": []}},
        {"dataframe_split": {"columns": COLUMNS, "data": []}},
    ],
)
def test_no_rows(service: Running, payload: Any) -> None:
    empty: dict[str, Any] = {"label": [], "probabilities": [], "logits": []}
    assert service.post("/invocations", payload, JSON).json() == {"predictions": empty}


def test_columns_are_taken_by_name_where_the_model_has_names(words: Running) -> None:
    swapped = [{name: record[name] for name in reversed(COLUMNS)} for record in RECORDS]
    for payload in (
        {"dataframe_records": swapped},
        {"dataframe_split": {"columns": COLUMNS[::-1], "data": [row[::-1] for row in X]}},
    ):
        predictions = words.post("/invocations", payload, JSON).json()["predictions"]
        assert predictions["label"] == ["low", "high", "mid"]
    for columns, message in (
        (["a", "b", "c", "e"], "1 columns are missing, the first 'd'"),
        (["a", "b", "c", "d", "e"], "column 'e' is not a feature"),
        (["a", "b", "c", "c"], "a column is given twice"),
    ):
        payload = {"dataframe_split": {"columns": columns, "data": [[0] * len(columns)]}}
        answer = words.post("/invocations", payload, JSON)
        assert answer.status == 422
        assert message in answer.json()["error"]


@pytest.mark.parametrize(
    ("payload", "status", "message"),
    [
        ({}, 400, "expected one of the keys dataframe_split"),
        ({"inputs": X, "instances": X}, 400, "expected one of the keys"),
        ({"inputs": X, "\ud800": 1}, 400, "expected one of the keys"),
        ({"data": X}, 400, "expected one of the keys"),
        ({"inputs": X, "params": {"temperature": 1}}, 422, "the model takes no parameters"),
        ({"inputs": 3}, 422, "inputs: expected a list"),
        ({"inputs": [1, 2, 3, 4]}, 422, "expected shape (rows, 4), found [4]"),
        ({"inputs": [[1, 2, 3]]}, 422, "expected shape (rows, 4), found [1, 3]"),
        ({"inputs": [[1, 2, 3, "4"]]}, 422, "found something else among them"),
        ({"inputs": [[1, 2, 3, None]]}, 422, "row 0, feature 3: expected a finite"),
        ({"inputs": [[1, 2, 3, 1e39]]}, 422, "row 0, feature 3"),
        ({"inputs": {"pixels": X}}, 422, "expected the tensor 'features'"),
        ({"instances": [{"pixels": [1]}]}, 422, "expected rows of the tensor 'features'"),
        ({"instances": [[0, 0, 0, 0]] * 101}, 422, "expected at most 100 rows"),
        ({"dataframe_split": X}, 400, "dataframe_split: expected an object"),
        ({"dataframe_split": {"columns": "abcd", "data": X}}, 400, "columns: expected a list"),
        ({"dataframe_split": {"columns": ["a"], "data": X}}, 422, "1 columns, but rows of shape [4]"),
        ({"dataframe_split": {"columns": ["a"], "data": 1}}, 422, "expected a list, found int"),
        ({"dataframe_records": {"a": 1}}, 400, "expected a list of objects"),
        ({"dataframe_records": [1]}, 400, "expected a list of objects"),
        ({"dataframe_records": [RECORDS[0], {"a": 1}]}, 422, "row 1 has other columns"),
        ({"dataframe_records": [dict(RECORDS[0], a=[1])]}, 422, "dataframe_records: expected numbers"),
    ],
)
def test_malformed_payloads(service: Running, payload: Any, status: int, message: str) -> None:
    answer = service.post("/invocations", payload, JSON)
    assert (answer.status, message in answer.json()["error"]) == (status, True), answer.body


@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON;charset=UTF-8", 200),
        ("application/json; charset=latin-1", 415),
        ("text/plain", 415),
        ("text/csv; charset=latin-1", 415),
        ("", 415),
    ],
)
def test_content_types(service: Running, content_type: str, status: int) -> None:
    assert service.post("/invocations", {"inputs": X}, {"Content-Type": content_type}).status == status


CSV = {"Content-Type": "text/csv; charset=utf-8"}


def test_a_csv_table(words: Running) -> None:
    for body in (
        b"a,b,c,d\n1,0,2,0\n0,0,0,1\n0,1,0,0\n",
        b'\xef\xbb\xbf"d","c","b","a"\r\n0,2.0,"0",1e0\r\n\r\n1,0,0,0\r\n0,0,1,0',
    ):
        answer = words.post("/invocations", body, CSV)
        assert answer.status == 200, answer.body
        assert answer.json()["predictions"]["label"] == ["low", "high", "mid"]
    assert words.post("/invocations", b"a,b,c,d\n", CSV).json()["predictions"]["label"] == []


def test_a_large_csv_table_is_read_by_a_worker(single: Running) -> None:
    """Version 1 has bias 9 for the third class."""
    body = b"0,1,2,3\n" + b"1.00000,0.00000,2.00000,0.00000\n" * 4096
    assert single.post("/invocations", body, CSV).json()["predictions"]["label"] == [30] * 4096
    answer = single.post("/invocations", body + b"0,0,0,0\n" * 5, CSV)
    assert (answer.status, "at most 4096 rows" in answer.json()["error"]) == (422, True)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "the CSV is empty"),
        (b"\xff\n", 400, "not CSV in UTF-8"),
        (b'"a\n', 400, "not CSV"),
        (b"1,0,2,0\n0,0,0,1\n", 422, "the first line of the CSV is numbers ('1', ...); expected the names"),
        (b"a,b,c\n1,0,2\n", 422, "columns are missing, the first 'd'"),
        (b"a,b,c,d\n1,0,2\n", 422, "names 4 columns, but its rows have 3 numbers"),
        (b"a,b,c,d\n1,0,2,0\n1,0\n", 422, "something else than numbers"),
        (b"a,b,c,d\n1,0,2,x\n", 422, "something else than numbers: could not convert string 'x'"),
        (b"a,b,c,d\n1,0,2,\n", 422, "something else than numbers"),
        (b"a,b,c,d\n1,0,2,nan\n", 422, "row 0, feature 3 ('d'): expected a finite"),
    ],
)
def test_what_is_no_csv_table(words: Running, body: bytes, status: int, message: str) -> None:
    answer = words.post("/invocations", body, CSV)
    assert (answer.status, message in answer.json()["error"]) == (status, True), answer.body


def test_numbered_columns_are_put_in_order_where_the_model_has_no_names(service: Running) -> None:
    straight = service.post("/invocations", {"inputs": X}, JSON).json()
    split = {"columns": [3, 0, 2, 1], "data": [[row[3], row[0], row[2], row[1]] for row in X]}
    assert service.post("/invocations", {"dataframe_split": split}, JSON).json() == straight
    records = [{str(place): row[place] for place in (2, 3, 1, 0)} for row in X]
    assert service.post("/invocations", {"dataframe_records": records}, JSON).json() == straight


def test_long_input_is_not_repeated(service: Running) -> None:
    long = "x" * 25_000
    for payload, content_type in (
        ({long: 1}, "application/json"),
        ({"inputs": {long: [1]}}, "application/json"),
        ({"dataframe_split": {"columns": [long], "data": [[1]]}}, "application/json"),
        ({"inputs": X}, "application/" + long),
        (f"a,b,c,d\n1,2,3,{long}\n".encode(), "text/csv"),
    ):
        answer = service.post("/invocations", payload, {"Content-Type": content_type})
        assert 400 <= answer.status < 500
        assert len(answer.body) < 500
    for path in (f"/v2/models/{long}/infer", f"/v2/models/plain/versions/{long}", f"/v2/repository/models/{long}/load"):
        assert len(service.post(path, {}).body) < 500
    assert max(len(str(event)) for event in service.events) < 2_000


def test_several_models_need_a_default(launch: Callable[..., Running], repository: Path) -> None:
    answer = launch(repository).post("/invocations", {"inputs": X}, JSON)
    assert answer.status == 404
    assert "--default-model" in answer.json()["error"]
