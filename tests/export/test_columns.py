"""Models of tables: an input per column, with all encoding in the graph."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from lcml.circuits import vtree as vtrees
from lcml.errors import SettingsError
from lcml.inputs.column import Column
from lcml.inputs.columns import ColumnsEncoder
from lcml.inputs.encoders import ScaleEncoder
from lcml.inputs.table import from_frame
from lcml_export import export_model
from lcml_export.input_types import float32_errors
from tests.export.models import PROFILES, model_on
from tests.export.tables import COLUMNS, ROWS, logits_by_hand, run_graph, table_model, tensors
from tests.worlds import grown

MODEL = table_model()
TEXT_OPSETS = {"portable": 19, "flows": 19, "scatter": 19}


@pytest.mark.parametrize("profile", PROFILES)
def test_rows_worked_out_by_hand(tmp_path: Path, profile: str) -> None:
    path = tmp_path / "table.onnx"
    report = export_model(MODEL, path, profile=profile, logits=True, explain=True)
    assert report.opset == TEXT_OPSETS.get(profile, 18)
    assert (report.inputs, report.input_dtype) == ("columns", "float32")
    assert {check.inputs for check in report.checks} == {"random", "Boolean", "real", "close"}
    graph = onnx.load(path).graph
    taken = {value.name: value.type.tensor_type.elem_type for value in graph.input if value.name != "explain"}
    assert taken == dict(zip(ROWS, [TensorProto.FLOAT] * 2 + [TensorProto.STRING] * 2, strict=True))
    uses_ml = any(node.domain for node in graph.node)
    assert uses_ml == (profile not in TEXT_OPSETS)
    found = run_graph(path, tensors(ROWS))
    np.testing.assert_allclose(found["logits"], logits_by_hand(MODEL), rtol=0, atol=1e-5)
    best = np.take_along_axis(found["logits"], found["logits"].argmax(1)[:, None], axis=1)[:, 0]
    np.testing.assert_allclose(found["contributions"].sum(axis=1), best, rtol=0, atol=1e-5)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_gap_that_training_never_had_is_the_median_knot(tmp_path: Path, profile: str) -> None:
    path = tmp_path / "table.onnx"
    export_model(MODEL, path, profile=profile, logits=True, self_check=False)
    found = run_graph(path, tensors({**ROWS, "income": [1.0, None, 9.0, 2.0, None]}))
    same = run_graph(path, tensors({**ROWS, "income": [1.0, 2.0, 9.0, 2.0, 2.0]}))
    assert found["logits"].tolist() == same["logits"].tolist()
    frame = _Frame({**ROWS, "income": [1.0, None, 9.0, 2.0, None]})
    np.testing.assert_allclose(found["logits"], MODEL.logits(from_frame(frame)), rtol=0, atol=1e-5)


class _Frame:
    """What gives arrays by the names of its columns."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns = list(columns)
        self._values = columns

    def __getitem__(self, name: str) -> Any:
        return np.array(self._values[name], object)


def test_metadata_tell_the_columns(tmp_path: Path) -> None:
    export_model(MODEL, tmp_path / "table", name="table")
    path = tmp_path / "table/table/1/model.onnx"
    metadata = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert json.loads(metadata["lcml.columns"]) == [
        {"name": "age", "kind": "number", "type": "float32", "gaps": True, "range": [0, 30]},
        {"name": "income", "kind": "number", "type": "float32", "gaps": False, "range": [0, 4]},
        {"name": "city", "kind": "category", "type": "text", "gaps": False, "categories": ["Rome", "Oslo"]}
        | {"n_categories": 2},
        {"name": "size", "kind": "ordinal", "type": "text", "gaps": True, "categories": ["s", "m", "l"]}
        | {"n_categories": 3},
    ]
    assert (
        '{ name: "city", data_type: TYPE_STRING, dims: [ 1 ] }' in (tmp_path / "table/table/config.pbtxt").read_text()
    )


def test_dates_are_days_in_double_and_numbers_widen_one_by_one(tmp_path: Path) -> None:
    columns = (
        Column("when", "date", np.array([20000.0, 20001.0]), gaps=True),
        Column("order", "number", np.array([1e9, 1e9 + 1, 1e9 + 9])),
        Column("weight", "number", np.array([0.1, 80.7])),
    )
    model = table_model(columns, (0, 1))
    # float32 between 2^14 and 2^15 are 2^-9 apart, about 1e9 64: more than the interval
    assert float32_errors(model.encoder)[:2].tolist() == [2.0**-10, 1]
    report = export_model(model, tmp_path / "table.onnx", logits=True)
    assert report.input_dtype == "float64"
    declared = onnx.load(tmp_path / "table.onnx").graph.input
    assert [value.type.tensor_type.elem_type for value in declared] == [TensorProto.DOUBLE] * 2 + [TensorProto.FLOAT]
    feeds = tensors({"when": [20000.25, None]}, "float64") | tensors({"order": [1e9 + 0.5, 1e9 + 5]}, "float64")
    found = run_graph(tmp_path / "table.onnx", feeds | tensors({"weight": [40.4, 81.0]}))
    q = np.array([[0, 0.25, 0.5, 0, 0.5], [1, 0, 1, 0.5, 1]])
    plain = model_on(model.circuit, (0, 1), encoder=ScaleEncoder(np.zeros(5), np.ones(5)))
    np.testing.assert_allclose(found["logits"], plain.logits(q, precision="float64"), rtol=0, atol=1e-5)
    with pytest.raises(SettingsError, match="cannot hold the column 'order'"):
        export_model(model, tmp_path / "no.onnx", input_dtype="float32")
    export_model(model, tmp_path / "matrix.onnx", inputs="matrix", logits=True)
    matrix = {"features": np.concatenate([*feeds.values(), np.array([[40.4], [81.0]])], axis=1)}
    np.testing.assert_allclose(
        run_graph(tmp_path / "matrix.onnx", matrix)["logits"], found["logits"], rtol=0, atol=1e-5
    )


@pytest.mark.parametrize("profile", ["auto", "portable"])
def test_many_categories(tmp_path: Path, profile: str) -> None:
    names = tuple(f"c{i}" for i in range(1_000))
    model = model_on(
        grown(vtrees.balanced(1_001), 0, rounds=0),
        (0, 1),
        encoder=ColumnsEncoder((Column("c", "category", np.zeros(0), names, gaps=True),)),
    )
    export_model(model, tmp_path / "many.onnx", profile=profile, self_check=False, logits=True)
    rows = {"c": ["c7", "c999", "new", ""]}
    q = np.zeros((4, 1_001))
    q[[0, 1, 3], [8, 1_000, 0]] = 1
    plain = model_on(model.circuit, (0, 1), encoder=ScaleEncoder(np.zeros(1_001), np.ones(1_001)))
    found = run_graph(tmp_path / "many.onnx", tensors(rows))["logits"]
    np.testing.assert_allclose(found, plain.logits(q, precision="float64"), rtol=1e-5, atol=2e-3)


@pytest.mark.parametrize("profile", ["auto", "portable"])
def test_columns_of_every_kind_of_name(tmp_path: Path, profile: str) -> None:
    names = ("concat_1", "constant_3", "tile_input_20", "Straße & co")
    model = table_model(tuple(Column(name, "number", np.array([0.0, 1.0]), gaps=i > 1) for i, name in enumerate(names)))
    export_model(model, tmp_path / "names.onnx", profile=profile)
    assert [value.name for value in onnx.load(tmp_path / "names.onnx").graph.input] == list(names)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (COLUMNS, {"inputs": "matrix"}, "column 'city' holds categories"),
        (COLUMNS, {"inputs": "frame"}, "unknown inputs 'frame'"),
        (COLUMNS, {"input_dtype": "uint8"}, "uint8 is for images"),
        (COLUMNS, {"input_dtype": "int8"}, "unknown input type 'int8': expected one of auto, float32"),
        (COLUMNS, {"profile": "portable", "opset": 18}, "opset 18: expected 19 to 22: this profile compares"),
        ((Column("label", "number", np.arange(2.0)),), {}, "column 'label': .* rename the column"),
    ],
)
def test_refused(tmp_path: Path, columns: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        export_model(table_model(columns), tmp_path / "no.onnx", **options)
    assert not list(tmp_path.iterdir())


def test_a_matrix_model_has_no_columns(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="encoder 'scale' takes a matrix"):
        export_model(model_on(grown(vtrees.balanced(2), 0, 0)), tmp_path / "no.onnx", inputs="columns")
