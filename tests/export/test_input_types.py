"""Features that float32 cannot hold: the graph takes float64 for them, and labels rows as lcml does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto

from lcml import LogisticCircuitClassifier
from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import initial_circuit
from lcml.errors import OutputError, SettingsError
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoders import BooleanEncoder, ScaleEncoder, fit_encoder
from lcml.inputs.encoding import Encoder
from lcml_export import export_model, inputs
from lcml_export.input_types import chosen_type, float32_errors
from tests.export.models import PROFILES, input_type_of, model_on, run_onnxruntime, run_reference

N_ROWS = 400
COLUMNS: dict[str, NDArray[Any]] = {
    "1e9 + random": 1e9 + np.random.default_rng(0).random(N_ROWS),
    "1e15 + i": 1e15 + np.arange(N_ROWS),
    "order numbers": 2_024_000_000.0 + np.arange(N_ROWS),
    "-1e6 - random": -1e6 - np.random.default_rng(1).random(N_ROWS),
}


@pytest.fixture(scope="module", params=[(name, encoder) for name in COLUMNS for encoder in ("scale", "boolean")])
def trained(request: pytest.FixtureRequest) -> tuple[LogisticCircuitClassifier, NDArray[np.float64]]:
    """A model of a column's upper half and of a column of noise, and its training rows."""
    name, encoder = request.param
    column = COLUMNS[name]
    x = np.column_stack([column, np.random.default_rng(2).random(N_ROWS)])
    estimator = LogisticCircuitClassifier(encoder=encoder, rounds=1, valid_fraction=0, backend="numpy")
    return estimator.fit(x, (column > np.median(column)).astype(int)), x


@pytest.mark.parametrize("profile", PROFILES)
def test_every_row_is_labelled_as_by_lcml(trained: Any, tmp_path: Path, profile: str) -> None:
    estimator, x = trained
    export_model(estimator, tmp_path / "model.onnx", profile=profile)
    assert input_type_of(tmp_path / "model.onnx") == TensorProto.DOUBLE
    assert len(set(estimator.predict(x))) == 2
    for run in (run_onnxruntime, run_reference):
        np.testing.assert_array_equal(run(tmp_path / "model.onnx", x)["label"], estimator.predict(x))


def test_float32_would_label_rows_otherwise_and_is_refused(trained: Any, tmp_path: Path, monkeypatch: Any) -> None:
    estimator, x = trained
    with pytest.raises(SettingsError, match=r"input type float32 cannot hold the feature 'x0': .* auto or float64"):
        export_model(estimator, tmp_path / "model.onnx", input_dtype="float32")
    monkeypatch.setattr(inputs, "chosen_type", lambda *_: "float32")
    export_model(estimator, tmp_path / "model.onnx", self_check=False)
    assert np.any(run_onnxruntime(tmp_path / "model.onnx", x)["label"] != estimator.predict(x))


def test_the_self_check_sees_what_float32_loses(tmp_path: Path, monkeypatch: Any) -> None:
    encoder = ScaleEncoder(np.array([1e9, 0.0]), np.array([1e9 + 1, 1.0]))
    model = model_on(initial_circuit(vtrees.balanced(2)), encoder=encoder)
    monkeypatch.setattr(inputs, "chosen_type", lambda *_: "float32")
    with pytest.raises(OutputError, match=r"not written: .* on random inputs"):
        export_model(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("low", "high", "error"),
    [
        (0.0, 255.0, 2.0**-17 / 255),  # float32 between 128 and 256 are 2^-16 apart
        (1990.0, 2030.0, 2.0**-14 / 40),
        (-2030.0, -1990.0, 2.0**-14 / 40),
        (1e9, 1e9 + 1, 1.0),  # 64 apart: a value can become low or high
        (5.0, 5.0, 0.0),  # a constant is 0 whatever it is
        (0.0, 1e39, 1.0),
        (1e300, 1e300, 0.0),
    ],
)
def test_errors_of_ranges_by_hand(low: float, high: float, error: float) -> None:
    encoder = ScaleEncoder(np.array([low, 0.0]), np.array([high, 1.0]))
    assert float32_errors(encoder)[0] == error
    assert float32_errors(ChannelEncoder(encoder, (1, 2), ("grey",)))[0] == error
    assert chosen_type(encoder, "auto", ["a", "b"]) == ("float64" if error == 1 else "float32")


def test_errors_of_thresholds() -> None:
    errors = float32_errors(BooleanEncoder(np.array([0.5, 0.1, 1e9 + 1, 1e39])))
    assert errors.tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize(
    "column", [np.arange(100) % 256, np.linspace(0, 1, 99), np.full(9, 0.1), 1e-30 * np.arange(7), np.arange(9) / 7]
)
def test_a_threshold_that_float32_can_stand_for_is_one(column: NDArray[Any]) -> None:
    x = column.astype(np.float64)[:, None]
    exact = np.clip(x.mean() + 0.05 * x.std(), x.min(), x.max())
    encoder = fit_encoder("boolean", x)
    assert encoder.encode(x).ravel().tolist() == (x.ravel() >= exact).tolist()
    assert encoder.encode(x.astype(np.float32)).ravel().tolist() == (x.ravel() >= exact).tolist()
    assert chosen_type(encoder, "auto", ["a"]) == "float32"


@pytest.mark.parametrize(
    "encoder",
    [
        ScaleEncoder(np.array([1e15, 0.0]), np.array([1e15 + 9, 1e-300])),
        BooleanEncoder(np.array([1e15 + 0.125, 0.1])),
        ScaleEncoder(np.array([-8e307, -1.0]), np.array([8e307, 1e39])),
    ],
)
@pytest.mark.parametrize("profile", PROFILES)
def test_neighbouring_doubles_are_told_apart(tmp_path: Path, encoder: Encoder, profile: str) -> None:
    model = model_on(initial_circuit(vtrees.balanced(2)), encoder=encoder)
    report = export_model(model, tmp_path / "model.onnx", profile=profile, logits=True)
    assert report.input_dtype == "float64"
    middle = encoder.inputs_at(np.full((3, 2), 0.5))
    x = np.stack([np.nextafter(middle[0], -np.inf), middle[0], np.nextafter(middle[0], np.inf)])
    found = run_onnxruntime(tmp_path / "model.onnx", x)["logits"]
    np.testing.assert_allclose(found, model.logits(x, precision="float64"), rtol=0, atol=1e-5)
