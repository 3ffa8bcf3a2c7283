"""Policies for missing inputs in the graph and the service."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from lcml.circuits import vtree as vtrees
from lcml.errors import SettingsError
from lcml.inputs.encoders import BooleanEncoder, ScaleEncoder
from lcml.inputs.table import from_frame
from lcml.model.missing import Missing
from lcml.model.model import LogisticCircuit
from lcml_export import export_model
from lcml_serving import Scorer
from lcml_serving.errors import UnprocessableError
from lcml_serving.mlflow_protocol import parse_invocation
from lcml_serving.models import load_model
from lcml_serving.oip import parse_infer
from tests.export.models import model_on
from tests.export.tables import COLUMNS, ROWS, run_graph, table_model, tensors
from tests.worlds import grown

TRAIN = np.random.default_rng(0).random((20, 3)).round(2)
ASKED: list[list[float | None]] = [[0.2, None, 0.9], [None, None, None], [0.5, 0.1, 0.3]]
PROFILES = ("auto", "portable", "flows")


def matrix_model(kind: str = "scale") -> LogisticCircuit:
    encoder = ScaleEncoder(np.zeros(3), np.ones(3)) if kind == "scale" else BooleanEncoder(np.full(3, 0.5))
    return model_on(grown(vtrees.balanced(3), 1, rounds=1), encoder=encoder)


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("missing") / "m.onnx"
    export_model(matrix_model().with_missing("prior", TRAIN), path, logits=True)
    return path


@pytest.mark.parametrize("kind", ["scale", "boolean"])
@pytest.mark.parametrize("profile", PROFILES)
def test_a_matrix_is_filled_with_means(kind: str, profile: str, tmp_path: Path) -> None:
    """The graph gives for NaN what lcml gives for rows of soft values, the means of TRAIN once encoded."""
    model = matrix_model(kind)
    export_model(model.with_missing("prior", TRAIN), tmp_path / "m.onnx", profile=profile, logits=True, explain=True)
    x = np.array(ASKED, np.float32)
    q = model.encoder.encode(np.nan_to_num(x))
    q = np.where(np.isnan(x), model.encoder.encode(TRAIN).mean(axis=0), q)
    soft = LogisticCircuit(
        ScaleEncoder(np.zeros(3), np.ones(3)), model.parts, model.classes, model.weights, model.bias, model.link
    )
    found = run_graph(tmp_path / "m.onnx", {"features": x})
    assert found["logits"] == pytest.approx(soft.logits(q, precision="float64"), abs=1e-5)


def test_a_table_is_filled_where_training_had_no_gap(tmp_path: Path) -> None:
    """income and city had none: a gap is their variables' means; age and size had: their gap is a value as before."""
    plain = table_model()
    means = np.random.default_rng(1).random(plain.encoder.n_outputs)
    model = LogisticCircuit(
        plain.encoder, plain.parts, plain.classes, plain.weights, plain.bias, plain.link, missing=Missing(means)
    )
    rows = ROWS | {"income": [1.0, None, 9.0, None, 4.0], "city": ["Rome", None, "Paris", None, "Oslo"]}
    with_gaps = model.logits(_table(rows), precision="float64")
    encoded = plain.encoder.encode(_table(rows))
    of_column = np.repeat(np.arange(4), np.diff(plain.encoder.blocks))
    for column in (1, 2):
        gone = [value is None for value in rows[COLUMNS[column].name]]
        encoded[np.ix_(gone, of_column == column)] = means[of_column == column]
    n = plain.encoder.n_outputs
    soft = LogisticCircuit(
        ScaleEncoder(np.zeros(n), np.ones(n)), plain.parts, plain.classes, plain.weights, plain.bias, plain.link
    )
    assert with_gaps == pytest.approx(soft.logits(encoded, precision="float64"), abs=1e-6)
    for profile in PROFILES:
        export_model(model, tmp_path / f"{profile}.onnx", profile=profile, logits=True)
        found = run_graph(tmp_path / f"{profile}.onnx", tensors(rows))
        assert found["logits"] == pytest.approx(with_gaps, abs=1e-5)


def _table(rows: dict[str, list[Any]]) -> Any:
    import pandas as pd

    return from_frame(pd.DataFrame(rows))


def test_expected_has_no_graph(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="the policy expected has no ONNX graph"):
        export_model(matrix_model().with_missing("expected", TRAIN), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_the_service_takes_null_where_the_model_does(matrix: Path, tmp_path: Path) -> None:
    """All forms of a request give the graph NaN; a model that refuses gaps says where null is."""
    served = load_model(matrix, "m", "1", 1).signature
    expected = np.array(ASKED, np.float32)
    tensor = {"name": "features", "shape": [3, 3], "datatype": "FP32", "data": ASKED}
    forms: list[Any] = [
        {"inputs": ASKED},
        {"dataframe_split": {"data": ASKED}},
        {"dataframe_records": [dict(zip("012", row, strict=True)) for row in ASKED]},
    ]
    for form in forms:
        (found,) = parse_invocation(json.dumps(form).encode(), "application/json", served, 10)
        assert np.array_equal(found, expected, equal_nan=True)
    body = json.dumps({"inputs": [tensor]}).encode()
    assert np.array_equal(parse_infer(body, len(body), served, 10).inputs[0], expected, equal_nan=True)
    export_model(matrix_model(), tmp_path / "plain.onnx")
    plain = load_model(tmp_path / "plain.onnx", "m", "1", 1).signature
    with pytest.raises(UnprocessableError, match="row 0, feature 1: expected a finite float32 number, found nan"):
        parse_infer(body, len(body), plain, 10)
    with pytest.raises(UnprocessableError, match="expected numbers"):
        parse_infer(body.replace(b"0.9", b"1" + 400 * b"0"), len(body) + 398, served, 10)
    with pytest.raises(UnprocessableError, match="found something else among them"):
        parse_infer(body.replace(b"0.9", b'"a"'), len(body), served, 10)
    with pytest.raises(UnprocessableError, match="expected a finite float32 number, found inf"):
        Scorer(matrix)(np.full((1, 3), np.inf))


def test_a_batch_with_gaps_is_scored(matrix: Path) -> None:
    assert onnx.load(matrix).metadata_props
    found = Scorer(matrix)(np.array(ASKED))
    model = matrix_model().with_missing("prior", TRAIN)
    assert found["probabilities"] == pytest.approx(model.predict_proba(np.array(ASKED, np.float64)), abs=1e-5)
