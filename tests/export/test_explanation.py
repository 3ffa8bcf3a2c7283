"""The contributions output and its sidecar."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import initial_circuit
from lcml.explain.contributions import contributions
from lcml.inputs.encoders import ScaleEncoder
from lcml.model.head import predicted_codes
from lcml.model.model import LogisticCircuit
from lcml_export import export_model
from tests.export.models import (
    PASSES,
    PROFILES,
    model_on,
    run_onnxruntime,
    run_reference,
    small_models,
    thinned,
    wide_circuit,
)


def expected_contributions(model: LogisticCircuit, x: Any) -> Any:
    """lcml's contributions to the predicted class's logit (one weight set: to the one logit), the bias last."""
    codes = (
        predicted_codes(model.logits(x, precision="float64")) if len(model.bias) > 1 else np.zeros(len(x), dtype=int)
    )
    features = contributions(model, x)[np.arange(len(x)), codes]
    return np.concatenate([features, model.bias[codes][:, None]], axis=1)


@given(small_models(), st.sampled_from(PROFILES), st.integers(0, 99))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_contributions_are_lcmls_and_sum_to_the_logit(
    tmp_path: Path, model: LogisticCircuit, profile: Any, seed: int
) -> None:
    path = tmp_path / "model.onnx"
    export_model(model, path, profile=profile, explain=True, logits=True, self_check=False)
    x = np.random.default_rng(seed).normal(scale=2, size=(5, model.encoder.n_features)).astype(np.float32)
    expected = expected_contributions(model, x)
    for run in (run_onnxruntime, run_reference):
        found = run(path, x)
        np.testing.assert_allclose(found["contributions"], expected, rtol=0, atol=1e-5)
        logit = found["logits"].max(axis=1) if len(model.bias) > 1 else found["logits"][:, 0]
        np.testing.assert_allclose(found["contributions"].sum(axis=1), logit, rtol=0, atol=1e-4)


@pytest.mark.parametrize("batch", [0, 1, 128, 129])
@pytest.mark.parametrize("profile", PROFILES)
def test_every_batch_size(tmp_path: Path, profile: Any, batch: int) -> None:
    model = model_on(wide_circuit(20), ("a", "b", "c"))
    export_model(model, tmp_path / "model.onnx", profile=profile, explain=True, self_check=False)
    x = np.random.default_rng(0).random((batch, 20)).astype(np.float32)
    found = run_onnxruntime(tmp_path / "model.onnx", x)["contributions"]
    np.testing.assert_allclose(found, expected_contributions(model, x), rtol=0, atol=1e-5)


@pytest.mark.parametrize("profile", ["auto", "flows", "scatter"])
def test_they_can_be_switched_off(tmp_path: Path, profile: Any) -> None:
    model = model_on(wide_circuit(20))
    export_model(model, tmp_path / "model.onnx", profile=profile, explain=True, self_check=False)
    x = np.random.default_rng(0).random((3, 20)).astype(np.float32)
    found = run_onnxruntime(tmp_path / "model.onnx", x, explain=np.array(False))
    assert found["contributions"].shape == (0, model.weights.shape[1] + 1)
    assert found["label"].tolist() == run_onnxruntime(tmp_path / "model.onnx", x)["label"].tolist()


@pytest.mark.parametrize("profile", PASSES)
def test_where_the_root_can_be_below_one(tmp_path: Path, profile: Any) -> None:
    model = model_on(thinned(wide_circuit(8), 2))
    export_model(model, tmp_path / "model.onnx", profile=profile, explain=True, self_check=False)
    x = np.random.default_rng(0).uniform(0.1, 0.9, (20, 8)).astype(np.float32)
    found = run_onnxruntime(tmp_path / "model.onnx", x)["contributions"]
    np.testing.assert_allclose(found, expected_contributions(model, x), rtol=0, atol=1e-5)


def test_sidecar_names_every_contribution(tmp_path: Path) -> None:
    model = model_on(initial_circuit(vtrees.balanced(2)), ("no", "yes"))
    export_model(model, tmp_path / "rain.onnx", explain=True, feature_names=["cloudy", "windy"], self_check=False)
    sidecar = json.loads((tmp_path / "rain.explain.json").read_text())
    assert sidecar["conditions"] == [
        "cloudy",
        "windy",
        "not cloudy",
        "not windy",
        "cloudy and windy",
        "cloudy and not windy",
        "not cloudy and windy",
        "not cloudy and not windy",
        "bias",
    ]
    output = {output.name: output for output in onnx.load(tmp_path / "rain.onnx").graph.output}["contributions"]
    assert output.type.tensor_type.shape.dim[1].dim_value == len(sidecar["conditions"])
    assert sidecar["classes"] == ["no", "yes"]


def test_an_export_without_explanations_leaves_no_old_sidecar(tmp_path: Path) -> None:
    model = model_on(initial_circuit(vtrees.balanced(3)), encoder=ScaleEncoder(np.zeros(3), np.ones(3)))
    for explain in (True, False):
        export_model(model, tmp_path / "model.onnx", explain=explain, self_check=False)
        assert (tmp_path / "model.explain.json").exists() == explain
