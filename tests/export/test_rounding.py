"""Weights as integers: by hand, in the file, and what they change."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import initial_circuit
from lcml.circuits.parts import Part
from lcml.circuits.views import WindowView
from lcml.errors import OutputError, SettingsError
from lcml.inputs.encoders import ScaleEncoder
from lcml.model.model import LogisticCircuit
from lcml_export import export_model, verification
from lcml_export.compiled import compile_model
from lcml_export.inputs import Inputs
from lcml_export.rounding import rounded
from lcml_serving import Scorer
from tests.export.models import PASSES, PROFILES, model_on, run_onnxruntime, weighted_model, wide_circuit


def one_window() -> LogisticCircuit:
    """One variable read at two places of a row of two: the features q and 1 - q, pooled over both. Two sets."""
    view = WindowView((1, 1, 2), (1, 1), (1, 1), (0, 0), (1, 1))
    part = Part(view, initial_circuit(vtrees.balanced(1)), np.array([True, True]))
    weights = np.array([[1.27, -0.5049], [0.0, 0.0]])
    return LogisticCircuit(
        ScaleEncoder(np.zeros(2), np.ones(2)), (part,), (0, 1), weights, np.array([0.5, 0.0]), "softmax"
    )


def test_a_row_by_hand() -> None:
    # 1.27 / 127 = 0.01 a step: 1.27 is 127 of them, -0.5049 50.49, 0.013 1.3; a row of zeros has a step of 1.
    integers, scale = rounded(np.array([[1.27, -0.5049, 0.013], [0, 0, 0]]), "int8", axis=0)
    assert integers.dtype == np.int8
    assert integers.tolist() == [[127, -50, 1], [0, 0, 0]]
    np.testing.assert_allclose(scale, [[0.01], [1.0]], rtol=1e-12)
    of_columns, scale = rounded(np.array([[3.2767], [-1.00004]]), "int16", axis=1)  # 0.0001 a step
    assert of_columns.tolist() == [[32767], [-10000]]
    np.testing.assert_allclose(scale, [[0.0001]], rtol=1e-12)


def test_the_file_holds_the_integers_and_the_graph_multiplies_them(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    report = export_model(one_window(), path, precision="int8", logits=True, profile="flows")
    found = [each for each in initializers(onnx.load(path).graph) if each.data_type == TensorProto.INT8]
    assert [numpy_helper.to_array(each).tolist() for each in found] == [[[127, -50], [0, 0]]]
    # q = 0.2 and 0.6: pooled 0.4 and 0.6, so 1.27 * 0.4 - 0.5 * 0.6 + 0.5 = 0.708; float32 weights give 0.70506
    logits = run_onnxruntime(path, np.array([[0.2, 0.6]]))["logits"]
    np.testing.assert_allclose(logits, [[0.708, 0.0]], atol=1e-6)
    assert report.rounding is not None
    metadata = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert metadata["lcml.precision"] == "int8"


def initializers(graph: onnx.GraphProto) -> list[onnx.TensorProto]:
    bodies = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    return [*graph.initializer, *(each for body in bodies for each in initializers(body))]


@pytest.mark.parametrize("precision", ["int16", "int8"])
@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_keeps_to_half_a_step_per_weight(tmp_path: Path, profile: str, precision: Any) -> None:
    model = model_on(wide_circuit(12), ("cat", "dog", "emu"))
    x = np.random.default_rng(0).random((40, 12))
    for each in ("float32", precision):
        export_model(model, tmp_path / f"{each}.onnx", profile=profile, precision=each, logits=True, self_check=False)
    exact, found = (run_onnxruntime(tmp_path / f"{each}.onnx", x)["logits"] for each in ("float32", precision))
    # every feature is at most 1, so a logit moves by half a step for each weight at most
    compiled = compile_model(model, passes=profile in PASSES)
    weights = compiled.pooled[0].weights[:, 0] if compiled.whole is None else compiled.whole.weights
    step = np.abs(weights).max() / np.iinfo(precision).max
    assert 0 < np.abs(found - exact).max() <= weights.shape[1] * step / 2
    sizes = [(tmp_path / f"{each}.onnx").stat().st_size for each in ("float32", precision)]
    assert sizes[1] < sizes[0]


def test_contributions_add_up_to_the_logit(tmp_path: Path) -> None:
    model = model_on(wide_circuit(12))
    export_model(model, tmp_path / "m.onnx", precision="int16", profile="flows", explain=True, logits=True)
    outputs = run_onnxruntime(tmp_path / "m.onnx", np.random.default_rng(0).random((20, 12)))
    explained = np.take_along_axis(outputs["logits"], outputs["label"][:, None], axis=1)[:, 0]
    np.testing.assert_allclose(outputs["contributions"].sum(axis=1), explained, atol=1e-4)


def test_the_report_counts_labels_and_says_its_tolerance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_on(wide_circuit(12), seed=2)
    report = export_model(model, tmp_path / "m.onnx", precision="int8")
    export_model(model, tmp_path / "f.onnx")
    found = report.rounding
    assert found is not None
    inputs = [(kind, x) for kind, x in verification.example_inputs(model, Inputs(model.encoder, "float32"), 0)]
    exact, changed = ([run_onnxruntime(tmp_path / f"{name}.onnx", x) for _, x in inputs] for name in "fm")
    errors = [np.abs(a["probabilities"] - b["probabilities"]).max() for a, b in zip(exact, changed, strict=True)]
    labels = [int((a["label"] != b["label"]).sum()) for a, b in zip(exact, changed, strict=True)]
    assert found.probability_error == pytest.approx(max(errors), abs=1e-6)
    assert (found.labels_changed, found.n_examples) == (sum(labels), sum(len(x) for _, x in inputs))
    assert report.lines()[-1] == (
        f"int8: probabilities within {found.probability_error:.2g} of float32 weights (at most 0.5), "
        f"{found.labels_changed} of {found.n_examples} labels changed"
    )
    assert json.loads((tmp_path / "m.report.json").read_text())["rounding"]["tolerance"] == 0.5
    monkeypatch.setattr(verification, "ROUNDING_TOLERANCE", {"int8": found.probability_error / 2})
    with pytest.raises(OutputError, match=r"not written: int8: probabilities within .* choose a finer precision"):
        export_model(model, tmp_path / "n.onnx", precision="int8")
    assert not list(tmp_path.glob("n.*"))
    with pytest.raises(SettingsError, match="unknown precision 'int4': expected one of float32, int16, int8"):
        export_model(model, tmp_path / "n.onnx", precision="int4")


def test_the_service_scores_it(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    view = WindowView((1, 4, 4), (2, 2), (1, 1), (0, 0), (3, 3), True)
    circuit = wide_circuit(4)
    part = Part(view, circuit, np.ones(circuit.n_literals + circuit.n_elements, bool))
    model = weighted_model([part], ScaleEncoder(np.zeros(16), np.ones(16)), ("a", "b", "c"), "softmax", generator)
    x = generator.random((30, 16)).astype(np.float32)
    export_model(model, tmp_path / "model.onnx", precision="int16")
    found = Scorer(tmp_path / "model.onnx")(x)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(x), atol=0.01)
