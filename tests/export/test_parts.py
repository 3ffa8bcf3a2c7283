"""Models of several parts: windows, grids, square roots and channels, in every profile, against lcml."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.circuits.parts import Part
from lcml.circuits.views import IdentityView, WindowView, window_vtree
from lcml.explain.contributions import contributions
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoders import ScaleEncoder
from lcml.model.head import predicted_codes
from lcml.model.model import LogisticCircuit
from lcml_export import export_model, windows
from lcml_export.compiled import compile_model
from lcml_export.verification import has_reference
from tests.export.models import (
    PROFILES,
    models_of_parts,
    run_onnxruntime,
    run_reference,
    thinned,
    weighted_model,
    wide_circuit,
    xor_circuit,
)
from tests.export.test_profiles import assert_agrees
from tests.worlds import grown

HYPOTHESIS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def image_model(seed: int = 0, rounds: int = 6) -> LogisticCircuit:
    """6 x 6 images in two channels: padded 3 x 3 windows on a grid with roots, 2 x 2 windows without, both
    in cells that overlap too, and the whole."""
    encoder = ChannelEncoder(ScaleEncoder(np.zeros(36), np.full(36, 255.0)), (6, 6), ("grey", "x+"))
    shape = encoder.output_shape
    views = [
        WindowView(shape, (3, 3), padding=(1, 1), grid=(2, 3), root=True),
        WindowView(shape, (2, 2), stride=(2, 1), grid=(1, 2), channels=(1,)),
        WindowView(shape, (3, 2), stride=(1, 2), padding=(1, 1), grid=(3, 2), root=True, overlap=(2, 1), channels=(0,)),
        WindowView(shape, (2, 2), stride=(2, 1), padding=(0, 1), grid=(1, 3), overlap=(0, 2), channels=(1,)),
    ]
    parts = [Part.full(view, grown(window_vtree(view), seed, rounds)) for view in views]
    parts.append(Part.full(IdentityView(72), grown(vtrees.balanced(72), seed, rounds)))
    return weighted_model(parts, encoder, (0, 1, 2), "sigmoid", np.random.default_rng(seed))


RUNTIMES = ("onnxruntime", "reference")[: 1 + has_reference()]


def images(n_examples: int, seed: int = 0, n_features: int = 36) -> Any:
    return np.random.default_rng(seed).integers(0, 256, (n_examples, n_features))


@given(models_of_parts(), st.sampled_from(PROFILES), st.integers(0, 99))
@HYPOTHESIS
def test_small_models(tmp_path: Path, model: LogisticCircuit, profile: Any, seed: int) -> None:
    path = tmp_path / "model.onnx"
    export_model(model, path, profile=profile, logits=True, self_check=False)
    for batch in (0, 1, 7):
        x = np.random.default_rng(seed).uniform(-0.5, 2.5, (batch, model.encoder.n_features)).astype(np.float32)
        for run in (run_onnxruntime, run_reference):
            assert_agrees(model, run(path, x), x, atol=5e-4)


@pytest.fixture(scope="module")
def model() -> LogisticCircuit:
    return image_model()


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("input_dtype", ["float32", "uint8", "float64"])
def test_every_batch_size_and_input_type(
    tmp_path: Path, model: LogisticCircuit, profile: Any, input_dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "TABLE_BYTES", 1 << 15)  # a few examples per tile
    monkeypatch.setattr(windows, "BLOCK_BYTES", 1 << 11)
    path = tmp_path / "model.onnx"
    export_model(model, path, profile=profile, input_dtype=input_dtype, logits=True, self_check=False)
    for batch in (0, 1, 7, 300):
        x = images(batch).astype(input_dtype)
        assert_agrees(model, run_onnxruntime(path, x), x, atol=5e-4)
    assert_agrees(model, run_reference(path, x[:5]), x[:5], atol=5e-4)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_self_check_passes(tmp_path: Path, profile: Any) -> None:
    model = image_model(rounds=2)  # onnx's reference scatters one number at a time
    report = export_model(model, tmp_path / "model.onnx", profile=profile, explain=True)
    assert report.n_features == model.weights.shape[1]
    assert all(check.passed for check in report.checks)
    assert max(check.tolerance for check in report.checks) < 0.05
    by_runtime = {runtime: {c.batch for c in report.checks if c.runtime == runtime} for runtime in RUNTIMES}
    assert by_runtime == {"onnxruntime": {0, 1, 2, 127, 128, 129}} | {key: {0, 1, 2, 17} for key in RUNTIMES[1:]}
    metadata = {entry.key: entry.value for entry in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert metadata["lcml.n_elements"] == str(sum(part.circuit.n_elements for part in model.parts))


@pytest.mark.parametrize("profile", PROFILES)
def test_roots_of_flows_that_are_zero_are_zero(tmp_path: Path, profile: Any) -> None:
    # On Boolean images nearly all flows are 0, and a rounding error of 1e-8 there would have a root of 1e-4.
    view = WindowView((1, 6, 6), (4, 4), grid=(3, 3), root=True)
    part = Part.full(view, grown(window_vtree(view), 1, rounds=8))
    encoder = ScaleEncoder(np.zeros(36), np.ones(36))
    model = weighted_model([part], encoder, (0, 1, 2), "sigmoid", np.random.default_rng(0))
    export_model(model, tmp_path / "model.onnx", profile=profile, logits=True, self_check=False)
    x = np.random.default_rng(0).integers(0, 2, (50, 36)).astype(np.float32)
    assert_agrees(model, run_onnxruntime(tmp_path / "model.onnx", x), x, atol=2e-5)


def test_portable_has_no_control_flow(tmp_path: Path, model: LogisticCircuit) -> None:
    export_model(model, tmp_path / "model.onnx", profile="portable", self_check=False)
    graph = onnx.load(tmp_path / "model.onnx").graph
    assert not {node.op_type for node in graph.node} & {"If", "Loop", "Scan", "ScatterElements", "ScatterND"}
    assert {node.domain for node in graph.node} == {""}


def test_only_flows_that_carry_weights_are_computed() -> None:
    # X0 X1, X0 not-X1, not-X0 X1, not-X0 not-X1 are elements 4 to 7 of the flows: under a root one of them, else the
    # three independent ones, each a single term.
    view = WindowView((1, 2, 3), (1, 2), root=True)
    circuit = initial_circuit(vtrees.balanced(2))
    weighted = np.arange(8) == 5
    encoder = ScaleEncoder(np.zeros(6), np.ones(6))
    model = LogisticCircuit(encoder, (Part(view, circuit, weighted),), (0, 1), np.array([[2.0]]), np.zeros(1))
    (part,) = compile_model(model, passes=False).pooled
    assert part.program is not None
    assert (part.flows.tolist(), part.program.n_products) == ([5], 1)


@pytest.mark.parametrize("circuit", [xor_circuit(), thinned(wide_circuit(6), 0)], ids=["not products", "Pr(root) < 1"])
@pytest.mark.parametrize("root", [False, True])
@pytest.mark.parametrize("profile", PROFILES)
def test_circuits_that_are_no_products_go_through_the_passes(
    tmp_path: Path, circuit: Circuit, root: bool, profile: Any
) -> None:
    n = circuit.n_variables
    view = WindowView((1, 1, n + 3), (1, n), grid=(1, 2), root=root)
    encoder = ScaleEncoder(np.zeros(n + 3), np.ones(n + 3))
    model = weighted_model([Part.full(view, circuit)], encoder, (0, 1, 2), "softmax", np.random.default_rng(0))
    export_model(model, tmp_path / "model.onnx", profile=profile, logits=True, self_check=False)
    x = np.random.default_rng(1).uniform(0.1, 0.9, (20, n + 3)).astype(np.float32)
    assert_agrees(model, run_onnxruntime(tmp_path / "model.onnx", x), x)


@given(models_of_parts(), st.sampled_from(PROFILES), st.integers(0, 99))
@HYPOTHESIS
def test_contributions_are_features_times_weights(
    tmp_path: Path, model: LogisticCircuit, profile: Any, seed: int
) -> None:
    path = tmp_path / "model.onnx"
    export_model(model, path, profile=profile, explain=True, logits=True, self_check=False)
    x = np.random.default_rng(seed).uniform(0, 2, (5, model.encoder.n_features)).astype(np.float32)
    codes = predicted_codes(model.logits(x, precision="float64")) * (len(model.bias) > 1)
    features = contributions(model, x)[np.arange(len(x)), codes]
    expected = np.concatenate([features, model.bias[codes][:, None]], axis=1)
    found = run_onnxruntime(path, x)
    np.testing.assert_allclose(found["contributions"], expected, rtol=0, atol=5e-4)


def test_the_sidecar_names_part_cell_and_condition(tmp_path: Path) -> None:
    encoder = ChannelEncoder(ScaleEncoder(np.zeros(4), np.ones(4)), (2, 2), ("grey", "x+"))
    view = WindowView(encoder.output_shape, (1, 2), grid=(2, 1), channels=(1,))
    circuit = initial_circuit(vtrees.balanced(2))
    marks = np.isin(np.arange(8), [0, 5])
    whole = Part.full(IdentityView(8), initial_circuit(vtrees.balanced(8)))
    marks_of_whole = np.arange(len(whole.weighted)) == 7
    parts = [Part(view, circuit, marks), dataclasses.replace(whole, weighted=marks_of_whole)]
    model = weighted_model(parts, encoder, ("no", "yes"), "sigmoid", np.random.default_rng(0))
    export_model(model, tmp_path / "model.onnx", explain=True)
    assert json.loads((tmp_path / "model.explain.json").read_text())["conditions"] == [
        "x+[0,0] in cell (0, 0) of part 0",
        "x+[0,0] and not x+[0,1] in cell (0, 0) of part 0",
        "x+[0,0] in cell (1, 0) of part 0",
        "x+[0,0] and not x+[0,1] in cell (1, 0) of part 0",
        "x+[1,1] in part 1",
        "bias",
    ]
