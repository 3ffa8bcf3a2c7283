"""Every profile, as written to disk, against lcml: in onnxruntime and in ONNX's reference evaluator."""

import inspect
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.cli.export import export as export_command
from lcml.errors import CircuitError, SettingsError
from lcml.inputs.encoders import BooleanEncoder, ScaleEncoder
from lcml.inputs.encoding import Encoder
from lcml.model.head import Link
from lcml.model.model import LogisticCircuit
from lcml_export import export_model, profiles
from tests.export.models import (
    PASSES,
    PROFILES,
    input_type_of,
    model_on,
    run_onnxruntime,
    run_reference,
    small_models,
    thinned,
    wide_circuit,
    xor_circuit,
)

BATCHES = [0, 1, 2, 15, 16, 17, 127, 128, 129, 1000]
WIDE = model_on(wide_circuit(), encoder=ScaleEncoder(np.zeros(40), np.full(40, 255.0)))


def inputs_of(kind: str, n_examples: int, n_features: int, top: float = 255.0) -> NDArray[np.float32]:
    generator = np.random.default_rng(n_examples)
    values = {
        "random": generator.uniform(-0.1 * top, 1.1 * top, (n_examples, n_features)),
        "Boolean": top * generator.integers(0, 2, (n_examples, n_features)),
        "zero": np.zeros((n_examples, n_features)),
        "one": np.ones((n_examples, n_features)),
        "real": generator.normal(0, top, (n_examples, n_features)),
    }
    return values[kind].astype(np.float32)


@lru_cache(256)  # every profile is held against them
def _answers(model: LogisticCircuit, content: bytes, dtype: str, shape: tuple[int, ...]) -> tuple[NDArray[Any], ...]:
    """Logits, probabilities and labels of a model, in double precision."""
    x = np.frombuffer(content, dtype).reshape(shape)
    return tuple(ask(x, precision="float64") for ask in (model.logits, model.predict_proba, model.predict))


def assert_agrees(model: LogisticCircuit, found: dict[str, NDArray[Any]], x: NDArray[Any], atol: float = 2e-4) -> None:
    """Logits, probabilities and labels are the model's in double precision; labels where the margin is not rounding."""
    logits, probabilities, labels = _answers(model, x.tobytes(), x.dtype.str, x.shape)
    np.testing.assert_allclose(found["logits"], logits, rtol=0, atol=atol)
    np.testing.assert_allclose(found["probabilities"], probabilities, rtol=0, atol=1e-4)
    best = np.sort(logits, axis=1)
    clear = np.abs(best[:, 0] if best.shape[1] == 1 else best[:, -1] - best[:, -2]) > 2 * atol
    assert found["label"].shape == (len(x),)
    assert found["label"][clear].tolist() == labels[clear].tolist()
    assert found["logits"].dtype == found["probabilities"].dtype == np.float32
    assert found["label"].dtype == (object if isinstance(model.classes[0], str) else np.int64)


@pytest.fixture(scope="module", params=PROFILES)
def wide_export(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / f"{request.param}.onnx"
    export_model(WIDE, path, profile=request.param, logits=True, self_check=False)
    return path


@pytest.mark.parametrize("batch", BATCHES)
def test_onnxruntime_on_every_batch_size(wide_export: Path, batch: int) -> None:
    x = inputs_of("random", batch, 40)
    assert_agrees(WIDE, run_onnxruntime(wide_export, x), x)


@pytest.mark.parametrize("batch", [0, 1, 2, 127, 128, 129])
def test_reference_evaluator_on_every_batch_size(wide_export: Path, batch: int) -> None:
    x = inputs_of("random", batch, 40)
    assert_agrees(WIDE, run_reference(wide_export, x), x)


@pytest.mark.parametrize("kind", ["Boolean", "zero", "one", "real"])
def test_every_kind_of_input(wide_export: Path, kind: str) -> None:
    x = inputs_of(kind, 20, 40)
    assert_agrees(WIDE, run_onnxruntime(wide_export, x), x)
    assert_agrees(WIDE, run_reference(wide_export, x), x)


@given(small_models(), st.sampled_from(PROFILES), st.integers(0, 99))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_small_models(tmp_path: Path, model: LogisticCircuit, profile: Any, seed: int) -> None:
    path = tmp_path / "model.onnx"
    export_model(model, path, profile=profile, logits=True, self_check=False)
    generator = np.random.default_rng(seed)
    for batch in (0, 1, 20):
        x = generator.normal(scale=2, size=(batch, model.encoder.n_features)).astype(np.float32)
        assert_agrees(model, run_onnxruntime(path, x), x)
        assert_agrees(model, run_reference(path, x), x)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(("classes", "link"), [((0, 1), "sigmoid"), (("no", "yes"), "softmax")])
def test_one_variable(tmp_path: Path, profile: Any, classes: Any, link: Link) -> None:
    model = model_on(initial_circuit(vtrees.balanced(1)), classes, link)
    export_model(model, tmp_path / "one.onnx", profile=profile, logits=True, self_check=False)
    x = np.array([[0.0], [1.0], [0.25]], dtype=np.float32)
    assert_agrees(model, run_onnxruntime(tmp_path / "one.onnx", x), x)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_sigmoid_far_from_zero_is_no_nan(tmp_path: Path, profile: Any) -> None:
    circuit = initial_circuit(vtrees.balanced(2))
    weights, bias = np.zeros((3, circuit.n_elements)), np.array([-260.0, -200.0, -240.0])
    model = LogisticCircuit.flat(circuit, ScaleEncoder(np.zeros(2), np.ones(2)), (0, 1, 2), weights, None, bias)
    export_model(model, tmp_path / "far.onnx", profile=profile, self_check=False)
    found = run_onnxruntime(tmp_path / "far.onnx", np.zeros((1, 2), dtype=np.float32))
    np.testing.assert_allclose(found["probabilities"], [[np.exp(-60), 1, np.exp(-40)]], rtol=1e-5)


@pytest.mark.parametrize("circuit", [xor_circuit(), thinned(wide_circuit(8), 1)], ids=["not products", "Pr(root) < 1"])
class TestOtherCircuits:
    @pytest.mark.parametrize("profile", sorted(set(PROFILES) - set(PASSES)))
    def test_a_profile_that_cannot_serve_it_raises(self, tmp_path: Path, circuit: Circuit, profile: Any) -> None:
        with pytest.raises(CircuitError, match="profile 'flows'"):
            export_model(model_on(circuit), tmp_path / "model.onnx", profile=profile)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("profile", PASSES)
    @pytest.mark.parametrize("literals", [False, True])
    def test_the_passes_serve_it(self, tmp_path: Path, circuit: Circuit, literals: bool, profile: Any) -> None:
        model = model_on(circuit, literals=literals)
        export_model(model, tmp_path / "model.onnx", profile=profile, logits=True, self_check=False)
        x = np.random.default_rng(0).random((200, circuit.n_variables)).astype(np.float32)
        assert_agrees(model, run_onnxruntime(tmp_path / "model.onnx", x), x)
        assert_agrees(model, run_reference(tmp_path / "model.onnx", x), x)


@pytest.mark.parametrize("profile", PASSES)
def test_an_example_that_contradicts_the_circuit_gets_nan(tmp_path: Path, profile: Any) -> None:
    whole = initial_circuit(vtrees.balanced(2))
    circuit = Circuit(whole.vtree, whole.or_vtree, np.array([0, 3]), whole.elem_prime[1:], whole.elem_sub[1:])
    export_model(model_on(circuit), tmp_path / "model.onnx", profile=profile, self_check=False)
    found = run_onnxruntime(tmp_path / "model.onnx", np.array([[1, 1], [1, 0]], dtype=np.float32))
    assert np.isnan(found["probabilities"]).all(axis=1).tolist() == [True, False]


def test_scatter_gathers_multiplies_and_scatters(tmp_path: Path) -> None:
    export_model(WIDE, tmp_path / "model.onnx", profile="scatter", self_check=False)
    (scan,) = (node for node in onnx.load(tmp_path / "model.onnx").graph.node if node.op_type == "Scan")
    body = [node.op_type for node in scan.attribute[0].g.node]
    # Up, one sum per level; down, one per level but the root's.
    assert body.count("ScatterElements") == 2 * len(list(WIDE.circuit.levels())) - 1
    assert "Add" not in body


def test_the_option_of_lcml_export_names_every_profile() -> None:
    help_text = inspect.signature(export_command).parameters["profile"].annotation.__metadata__[0].help
    assert list(PROFILES) == list(profiles.PROFILES)
    assert help_text.startswith("auto, throughput, latency, portable, flows or scatter:")


def test_portable_has_neither_control_flow_nor_other_domains(tmp_path: Path) -> None:
    export_model(WIDE, tmp_path / "model.onnx", profile="portable", self_check=False)
    model = onnx.load(tmp_path / "model.onnx")
    assert {node.domain for node in model.graph.node} == {""}
    assert not {node.op_type for node in model.graph.node} & {"If", "Loop", "Scan", "ScatterElements", "ScatterND"}
    assert [entry.domain for entry in model.opset_import] == [""]


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("input_dtype", ["float32", "uint8", "float64"])
@pytest.mark.parametrize(
    "encoder",
    [
        ScaleEncoder(np.zeros(40), np.full(40, 255.0)),
        ScaleEncoder(np.zeros(40), np.zeros(40)),
        ScaleEncoder(np.linspace(0.1, 39.1, 40), np.linspace(0.7, 117.7, 40)),
        BooleanEncoder(np.linspace(-1, 256, 40).round(1).astype(np.float32)),
        BooleanEncoder(np.full(40, 7.0)),
    ],
    ids=["divide", "constant", "columns", "thresholds", "threshold"],
)
def test_input_types_and_encoders(tmp_path: Path, profile: Any, input_dtype: Any, encoder: Encoder) -> None:
    model = model_on(WIDE.circuit, encoder=encoder)
    export_model(
        model, tmp_path / "model.onnx", profile=profile, input_dtype=input_dtype, logits=True, self_check=False
    )
    x = np.random.default_rng(0).integers(0, 256, (20, 40)).astype(input_dtype)
    assert_agrees(model, run_onnxruntime(tmp_path / "model.onnx", x), x)


def test_a_threshold_between_two_float32_is_compared_as_in_double(tmp_path: Path) -> None:
    nearest = np.float32(0.1)  # above 0.1, so that 0.1 as float32 is on the upper side
    model = model_on(initial_circuit(vtrees.balanced(2)), encoder=BooleanEncoder(np.array([0.1, 0.1])))
    export_model(model, tmp_path / "model.onnx", logits=True, self_check=False)
    assert input_type_of(tmp_path / "model.onnx") == onnx.TensorProto.DOUBLE
    x = np.array([[nearest, np.nextafter(nearest, np.float32(0))]], dtype=np.float32)
    assert model.encoder.encode(x).tolist() == [[1, 0]]
    assert_agrees(model, run_onnxruntime(tmp_path / "model.onnx", x), x)


@pytest.mark.parametrize("opset", [16, 18, 22])
@pytest.mark.parametrize("profile", PROFILES)
def test_opsets(tmp_path: Path, profile: Any, opset: int) -> None:
    report = export_model(WIDE, tmp_path / "model.onnx", profile=profile, opset=opset, logits=True, self_check=False)
    model = onnx.load(tmp_path / "model.onnx")
    assert {entry.domain: entry.version for entry in model.opset_import}[""] == opset == report.opset
    x = inputs_of("random", 20, 40)
    assert_agrees(WIDE, run_onnxruntime(tmp_path / "model.onnx", x), x)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"profile": "fast"}, "unknown export profile 'fast': expected one of auto"),
        ({"input_dtype": "int8"}, "unknown input type 'int8': expected one of auto, float32, uint8, float64"),
        ({"input_dtype": "float16"}, "unknown input type 'float16'"),
        ({"opset": 9}, "opset 9: expected 16 to 22"),
        ({"feature_names": ["a"]}, "expected 40 feature names, one per feature, found 1"),
    ],
)
def test_bad_options(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        export_model(WIDE, tmp_path / "model.onnx", **options)


@pytest.mark.parametrize("profile", PROFILES)
def test_labels_of_a_threshold(tmp_path: Path, profile: str) -> None:
    """Of one weight set and of two, of whole numbers and text; verified as it is written."""
    x = inputs_of("random", 64, 40)
    for classes, link, threshold in (((3, 5), "sigmoid", 0.9), (("no", "yes"), "softmax", 0.2)):
        model = replace(model_on(WIDE.circuit, classes, link, WIDE.encoder), threshold=threshold)  # type: ignore[arg-type]
        report = export_model(model, tmp_path / "model.onnx", profile=profile, logits=True)
        assert all(check.label_errors == 0 for check in report.checks)
        found = run_onnxruntime(tmp_path / "model.onnx", x)
        above = model.predict_proba(x, precision="float64")[:, 1] - model.threshold
        clear = np.abs(above) > 1e-4
        expected = np.asarray(model.classes)[(above > 0).astype(int)]
        assert found["label"][clear].tolist() == expected[clear].tolist()
        assert 0 < (above > 0).sum() < len(x)
        assert (above > 0).tolist() != (above + model.threshold > 0.5).tolist()
