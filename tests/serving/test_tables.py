"""A model of a table, exported by lcml: every protocol gives the probabilities that are worked out by hand."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from tritonclient import http as triton

from lcml_export import export_model
from lcml_serving.columns import to_inputs
from lcml_serving.errors import UnprocessableError
from lcml_serving.signature import Column, Signature, TensorSpec
from tests.export.tables import ROWS, logits_by_hand, table_model, tensors
from tests.serving.running import Running, start

MODEL = table_model()
EXPECTED = [pytest.approx(row, abs=1e-5) for row in MODEL.head.probabilities(logits_by_hand(MODEL)).tolist()]
JSON, CSV = {"Content-Type": "application/json"}, {"Content-Type": "text/csv"}
NAMES = ["size", "extra", "income", "city", "age"]  # another order, and one more than the model takes
TABLE = {**ROWS, "extra": [1, "x", None, True, 0.5]}
RECORDS = [{name: TABLE[name][row] for name in NAMES} for row in range(5)]
FORMS: dict[str, Any] = {
    "dataframe_split": {"columns": NAMES, "index": list(range(5)), "data": [[r[n] for n in NAMES] for r in RECORDS]},
    "dataframe_records": [{name: value for name, value in record.items() if value is not None} for record in RECORDS],
    "inputs": {name: TABLE[name] for name in NAMES},
    "instances": RECORDS,
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("tables") / "table.onnx"
    export_model(MODEL, path, explain=True, self_check=False)
    running = start(path, "--max-rows", "100", "--max-batch-delay-ms", "1")
    yield running
    assert running.stop() == 0
    assert [event for event in running.events if "traceback" in event] == []


@pytest.mark.parametrize("form", FORMS)
def test_mlflow_json(tables: Running, form: str) -> None:
    answer = tables.post("/invocations", {form: FORMS[form]}, JSON)
    assert answer.status == 200, answer.body
    assert answer.json()["predictions"]["probabilities"] == EXPECTED


def test_csv(tables: Running) -> None:
    lines = ['size,"ex\ntra",income,city,age', "m,1,1,Rome,5", ',"a\nb",-3.0,"Oslo",NA', "l,,9,Paris,20", "xl,,2,,-1"]
    answer = tables.post("/invocations", "\n".join([*lines, "s,,4.0,Rome,31", ""]).encode(), CSV)
    assert answer.status == 200, answer.body
    assert answer.json()["predictions"]["probabilities"] == EXPECTED


def _infer(**more: Any) -> dict[str, Any]:
    datatypes = {"age": "FP64", "income": "INT64", "city": "BYTES", "size": "BYTES", "extra": "BOOL"}
    columns = {**ROWS, "income": [1, -3, 9, 2, 4], "extra": [True] * 5}
    return {
        "inputs": [
            {"name": name, "datatype": datatypes[name], "shape": [5, 1], "data": columns[name]} for name in NAMES
        ],
        **more,
    }


def test_open_inference_protocol(tables: Running) -> None:
    answer = tables.post("/v2/models/table/infer", _infer())
    assert answer.status == 200, answer.body
    found = {output["name"]: output["data"] for output in answer.json()["outputs"]}
    assert np.reshape(found["probabilities"], (5, 3)).tolist() == EXPECTED


@pytest.mark.parametrize("binary", [True, False])
def test_an_independent_client(tables: Running, binary: bool) -> None:
    client = triton.InferenceServerClient(tables.url)
    inputs = []
    for name, values in tensors(ROWS).items():
        inputs.append(triton.InferInput(name, [5, 1], "BYTES" if values.dtype == object else "FP32"))
        if values.dtype != object and not binary:
            values = np.where(np.isnan(values), 0, values)  # its JSON has no gaps
        inputs[-1].set_data_from_numpy(values, binary_data=binary)
    answer = client.infer("table", inputs)
    client.close()
    rows = slice(None) if binary else [0, 2, 3, 4]
    assert answer.as_numpy("probabilities")[rows].tolist() == [EXPECTED[i] for i in np.arange(5)[rows]]


def test_concurrent_requests_share_runs(tables: Running) -> None:
    def ask(row: int) -> Any:
        record = {"dataframe_records": [RECORDS[row]]}
        return tables.post("/invocations", record, JSON).json()["predictions"]["probabilities"][0]

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(ask, [i % 5 for i in range(40)]))
    assert found == [EXPECTED[i % 5] for i in range(40)]


def test_explanations(tables: Running) -> None:
    rows = tables.post("/v2/models/table/explain", _infer(parameters={"top_k": 1000})).json()["explanations"]
    logits = logits_by_hand(MODEL)
    assert [row["label"] for row in rows] == [MODEL.classes[i] for i in logits.argmax(axis=1)]
    assert [row["logit"] for row in rows] == pytest.approx(logits.max(axis=1).tolist(), abs=1e-5)
    shown = {contribution["condition"] for row in rows for contribution in row["contributions"]}
    assert "city is 'Oslo'" in shown


def test_metadata_and_description_list_the_columns(tables: Running) -> None:
    metadata = tables.get("/v2/models/table").json()
    assert [(one["name"], one["datatype"], one["shape"]) for one in metadata["inputs"]] == [
        ("age", "FP32", [-1, 1]),
        ("income", "FP32", [-1, 1]),
        ("city", "BYTES", [-1, 1]),
        ("size", "BYTES", [-1, 1]),
    ]
    city = {"name": "city", "kind": "category", "gaps": False, "categories": ["Rome", "Oslo"], "n_categories": 2}
    assert metadata["parameters"]["columns"][2] == city
    assert metadata["parameters"]["columns"][1] == {"name": "income", "kind": "number", "gaps": False, "range": [0, 4]}
    row = tables.get("/openapi.json").json()["components"]["schemas"]["RowOf.table"]
    assert row["required"] == ["age", "income", "city", "size"]
    assert row["properties"]["income"] == {"type": ["number", "string", "null"], "description": "number, 0.0 to 4.0"}
    assert row["properties"]["size"]["examples"] == ["s", "m", "l"]
    assert row["properties"]["size"]["type"] == ["string", "boolean", "number", "null"]
    assert b"RowOf.table" in tables.get("/docs").body


def test_description_allows_what_is_taken(tables: Running) -> None:
    description = tables.get("/openapi.json").json()

    def check(name: str, body: Any) -> None:
        schema = {"$ref": f"#/components/schemas/{name}", "components": description["components"]}
        Draft202012Validator(schema).validate(json.loads(json.dumps(body)))

    check("InferRequest", _infer())
    for form, content in FORMS.items():
        if form != "dataframe_records":
            check("InvocationRequest", {form: content})


def test_a_gap_that_training_never_had_is_the_median_knot(tables: Running) -> None:
    def ask(income: Any) -> Any:
        return tables.post("/invocations", {"inputs": {**ROWS, "income": income}}, JSON).json()

    assert ask([1, None, 9, 2, None]) == ask([1, 2, 9, 2, 2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"income": [1, 2, 3, 4, "much"]}, "row 4, column 'income': expected a number, found 'much'"),
        ({"income": [1, 2, 1e39, 4, 5]}, "row 2, column 'income': expected a finite float32 number, found 1e+39"),
        ({"city": [{}, "b", "c", "d", "e"]}, "row 0, column 'city': expected a text, found {}"),
        ({"city": ["a"]}, "column 'city' has 1 rows, others have 5"),
    ],
)
def test_values_that_a_column_cannot_be(tables: Running, change: dict[str, Any], message: str) -> None:
    answer = tables.post("/invocations", {"inputs": {**ROWS, **change}}, JSON)
    assert (answer.status, message in answer.json()["error"]) == (422, True), answer.body


@pytest.mark.parametrize(
    ("payload", "status", "message"),
    [
        ({"inputs": {"age": [1], "city": ["a"]}}, 422, "2 columns are missing: 'income', 'size'"),
        ({"inputs": [[1, 2, "a", "s"]]}, 400, "inputs: expected a list of objects"),
        ({"inputs": {"age": 1}}, 400, "inputs: expected a list of values for column 'age'"),
        ({"dataframe_split": {"data": [[1, 2]]}}, 400, "dataframe_split: expected an object of columns, data"),
        ({"dataframe_split": {"columns": ["age"], "data": [[1, 2]]}}, 422, "names 1 columns, but row 0 has 2 values"),
        ({"dataframe_split": {"columns": ["age", "age"], "data": []}}, 422, "a column is given twice"),
        ({"instances": [RECORDS[0]] * 101}, 422, "expected at most 100 rows"),
        ({"instances": [RECORDS[0] | {"city": "\ud800"}]}, 422, "row 0, column 'city': expected a text, found half"),
    ],
)
def test_requests_that_are_refused(tables: Running, payload: Any, status: int, message: str) -> None:
    answer = tables.post("/invocations", payload, JSON)
    assert (answer.status, message in answer.json()["error"]) == (status, True), answer.body


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        (lambda inputs: inputs.pop(2), 422, "1 columns are missing: 'income'"),
        (lambda inputs: inputs.append(inputs[0]), 422, "column 'size' is given twice"),
        (lambda inputs: inputs[2].update(shape=[5, 2]), 422, "income: expected shape [rows, 1]"),
        (lambda inputs: inputs[2].update(data=[1, 2, 3, 4, 0.5]), 422, "income: expected INT64"),
        (lambda inputs: inputs[3].update(data=[1, 2, 3, 4, 5]), 422, "city: expected texts or null for BYTES"),
        (lambda inputs: inputs[3].update(datatype="TEXT"), 422, "city: expected a datatype among BOOL"),
        (lambda inputs: inputs[3].pop("name"), 400, "expected the name of a column"),
    ],
)
def test_tensors_that_are_refused(tables: Running, change: Any, status: int, message: str) -> None:
    body = _infer()
    change(body["inputs"])
    answer = tables.post("/v2/models/table/infer", body)
    assert (answer.status, message in answer.json()["error"]) == (status, True), answer.body


def test_no_rows(tables: Running) -> None:
    empty: dict[str, Any] = {"label": [], "probabilities": []}
    payloads: list[Any] = [{"instances": []}, {"dataframe_split": {"columns": NAMES, "data": []}}]
    for payload in payloads:
        assert tables.post("/invocations", payload, JSON).json() == {"predictions": empty}


def _one(column: Column, values: Any, datatype: str = "BYTES", dtype: Any = object) -> Any:
    spec = TensorSpec(column.name, datatype, np.dtype(dtype), (-1, 1))
    return to_inputs({column.name: values}, Signature("m", "1", (spec,), (), None, (column,)), 100)[0].ravel().tolist()


def test_dates_are_days_since_1970() -> None:
    column = Column("when", "date", gaps=False)
    values = ["1970-01-02", "1970-01-11T12:00:00Z", 0.25, "19700102", "19783", "19783.5"]
    assert _one(column, values, "FP64", np.float64) == [1, 10.5, 0.25, 1, 19783, 19783.5]
    for wrong in ("today", "31.12.2024", "x", "20241301"):
        with pytest.raises(UnprocessableError, match="row 0, column 'when': expected days since 1970-01-01, or a date"):
            _one(column, [wrong], "FP64", np.float64)


def test_texts_are_spelled_as_lcml_spells_them() -> None:
    assert _one(Column("c", "category", True, ("true", "false"), 2), [True, "False", "maybe"]) == [
        "true",
        "false",
        "maybe",
    ]
    assert _one(Column("c", "category", True, ("3", "x"), 2), [3, 3.0, "3.0", 2.5, None]) == ["3", "3", "3", "2.5", ""]
