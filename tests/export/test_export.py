"""What is written: files, metadata, config.pbtxt, the report and the self-check."""

import dataclasses
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas
import pytest

import lcml
from lcml import LogisticCircuitClassifier
from lcml.backend import get_backend
from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import initial_circuit
from lcml.errors import OutputError, SettingsError
from lcml.formats import read_circuit, read_vtree
from lcml.inputs.channels import ChannelEncoder
from lcml.inputs.encoders import BooleanEncoder, ScaleEncoder
from lcml_export import export_model, verification
from lcml_export.export import content_sha256
from tests.export.models import PROFILES, model_on, run_onnxruntime, wide_circuit

MODEL = model_on(wide_circuit(12), ("cat", "dog", "emu"), encoder=BooleanEncoder(np.arange(12) / 16))


def test_metadata_and_documentation(tmp_path: Path) -> None:
    names = [f"whisker {i}" for i in range(12)]
    export_model(MODEL, tmp_path / "model.onnx", profile="throughput", feature_names=names, source_sha256="ab" * 32)
    model = onnx.load(tmp_path / "model.onnx")
    assert {entry.key: entry.value for entry in model.metadata_props} == {
        "lcml.version": lcml.__version__,
        "lcml.profile": "throughput",
        "lcml.classes": '["cat", "dog", "emu"]',
        "lcml.encoder": "boolean",
        "lcml.link": "sigmoid",
        "lcml.n_features": "12",
        "lcml.n_elements": str(MODEL.circuit.n_elements),
        "lcml.n_parameters": str(MODEL.n_parameters),
        "lcml.source_sha256": "ab" * 32,
        "lcml.feature_names": json.dumps(names),
    }
    assert "logistic circuit" in model.doc_string
    assert [value.name for value in model.graph.input] == ["features"]
    assert [value.name for value in model.graph.output] == ["label", "probabilities"]


def test_equal_models_give_equal_bytes_and_the_hash_tells_weights_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        export_model(MODEL, tmp_path / f"{name}.onnx", self_check=False)
    digests = {hashlib.sha256((tmp_path / f"{name}.onnx").read_bytes()).hexdigest() for name in ("a", "b")}
    assert len(digests) == 1
    assert content_sha256(MODEL) != content_sha256(
        model_on(MODEL.circuit, MODEL.classes, encoder=MODEL.encoder, seed=1)
    )


def test_a_repository_for_triton(tmp_path: Path) -> None:
    report = export_model(MODEL, tmp_path, name="pets", version=3, logits=True, explain=True, input_dtype="uint8")
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    folder = "pets/3"
    assert files == [f"{folder}/explain.json", f"{folder}/model.onnx", f"{folder}/report.json", "pets/config.pbtxt"]
    assert report.path == tmp_path / folder / "model.onnx"
    n_contributions = MODEL.weights.shape[1] + 1
    assert (tmp_path / "pets/config.pbtxt").read_text() == (
        'name: "pets"\n'
        'backend: "onnxruntime"\n'
        "max_batch_size: 4096\n"
        "input [\n"
        '  { name: "features", data_type: TYPE_UINT8, dims: [ 12 ] }\n'
        "]\n"
        "output [\n"
        '  { name: "label", data_type: TYPE_STRING, dims: [ 1 ], reshape { shape: [ ] } },\n'
        '  { name: "probabilities", data_type: TYPE_FP32, dims: [ 3 ] },\n'
        '  { name: "logits", data_type: TYPE_FP32, dims: [ 3 ] },\n'
        f'  {{ name: "contributions", data_type: TYPE_FP32, dims: [ {n_contributions} ] }}\n'
        "]\n"
        "dynamic_batching { }\n"
    )


@pytest.mark.parametrize(("name", "version"), [("", 1), ("a/b", 1), ("..", 1), ("pets", 0)])
def test_names_and_versions_no_repository_can_have(tmp_path: Path, name: str, version: int) -> None:
    with pytest.raises(SettingsError, match=r"model (name|version)"):
        export_model(MODEL, tmp_path, name=name, version=version)


def test_the_report_is_stored_and_readable(tmp_path: Path) -> None:
    report = export_model(MODEL, tmp_path / "model.onnx")
    stored = json.loads((tmp_path / "model.report.json").read_text())
    assert stored["n_bytes"] == (tmp_path / "model.onnx").stat().st_size
    assert {(check["runtime"], check["inputs"]) for check in stored["checks"]} == {
        (runtime, kind)
        for runtime in ("onnxruntime", "reference")[: 1 + verification.has_reference()]
        for kind in ("random", "Boolean", "zero", "one", "real", "close")
    }
    assert {c.batch for c in report.checks if c.runtime == "onnxruntime"} == {0, 1, 2, 127, 128, 129, 1000}
    text = "\n".join(report.lines())
    assert "profile auto, opset 18, input float32" in text
    assert "onnxruntime: 12 checks passed" in text


@pytest.mark.parametrize("input_dtype", ["float32", "uint8", "float64"])
@pytest.mark.parametrize("profile", ["auto", "portable", "flows"])
def test_the_self_check_passes(tmp_path: Path, profile: Any, input_dtype: Any) -> None:
    report = export_model(MODEL, tmp_path / "m.onnx", profile=profile, input_dtype=input_dtype, explain=True)
    assert all(check.passed and check.label_errors == 0 for check in report.checks)


def test_the_self_check_finds_a_wrong_weight_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_model(MODEL, tmp_path / "right.onnx", self_check=False)
    wrong = model_on(MODEL.circuit, MODEL.classes, encoder=MODEL.encoder, seed=5)
    content = (tmp_path / "right.onnx").read_bytes()
    with pytest.raises(
        OutputError, match=r"not written: the exported graph differs .* in onnxruntime on random inputs"
    ):
        verification.verify(content, wrong, "float32")
    monkeypatch.setattr(verification, "ROUNDING", -100.0)
    with pytest.raises(OutputError, match="not written"):
        export_model(MODEL, tmp_path / "new.onnx")
    assert not list(tmp_path.glob("new*"))


def test_weights_beyond_float32_are_refused(tmp_path: Path) -> None:
    circuit = initial_circuit(vtrees.balanced(2))
    model = model_on(circuit)
    huge = dataclasses.replace(model, weights=1e300 * model.weights)
    with pytest.raises(OutputError, match="not written"):
        export_model(huge, tmp_path / "huge.onnx")


@pytest.mark.parametrize("label", [2**63, -(2**63) - 1, 2**64])
def test_a_label_beyond_int64_is_refused(tmp_path: Path, label: int) -> None:
    model = dataclasses.replace(MODEL, classes=(0, 1, label))
    with pytest.raises(SettingsError, match=f"class {label}: ONNX has no whole number .* train on labels of text"):
        export_model(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_the_largest_labels_are_exported(tmp_path: Path) -> None:
    model = dataclasses.replace(MODEL, classes=(-(2**63), 0, 2**63 - 1))
    export_model(model, tmp_path / "model.onnx")
    x = np.random.default_rng(0).random((50, 12))
    found = run_onnxruntime(tmp_path / "model.onnx", x)["label"]
    assert found.tolist() == model.predict(x, precision="float64").tolist()


def test_a_fitted_estimator_is_exported_with_the_names_of_its_columns(tmp_path: Path) -> None:
    frame = pandas.DataFrame(np.random.default_rng(0).random((60, 3)), columns=["a", "b", "c"])
    labels = np.where(frame["a"] > 0.5, "high", "low")
    estimator = LogisticCircuitClassifier(rounds=1, backend="numpy").fit(frame, labels)
    export_model(estimator, tmp_path / "model.onnx")
    found = run_onnxruntime(tmp_path / "model.onnx", frame.to_numpy())["label"]
    assert found.tolist() == estimator.predict(frame).tolist()
    metadata = {entry.key: entry.value for entry in onnx.load(tmp_path / "model.onnx").metadata_props}
    assert metadata["lcml.feature_names"] == '["a", "b", "c"]'
    for wrong in (LogisticCircuitClassifier(), 3):
        with pytest.raises(SettingsError, match=f"found a {type(wrong).__name__}: expected a LogisticCircuit or"):
            export_model(wrong, tmp_path / "wrong.onnx")


def test_no_initializer_is_unused(tmp_path: Path) -> None:
    # onnxruntime warns of one: of the roots' mask, where all channels are roots.
    encoder = ChannelEncoder(ScaleEncoder(np.zeros(12), np.ones(12)), (3, 4), ("root-x+", "root-grey"))
    model = model_on(wide_circuit(24), encoder=encoder)
    for profile in PROFILES:
        export_model(model, tmp_path / "model.onnx", profile=profile, explain=True, self_check=False)
        assert unused(onnx.load(tmp_path / "model.onnx").graph) == []


def unused(graph: onnx.GraphProto) -> list[str]:
    """Initializers that no node of their graph reads."""
    read = {name for node in graph.node for name in node.input}
    bodies = [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]
    here = [each.name for each in graph.initializer if each.name not in read]
    return here + [name for body in bodies for name in unused(body)]


def test_importing_lcml_imports_no_onnx() -> None:
    code = "import sys, lcml.model.compact; print(sorted(set(sys.modules) & {'onnx', 'onnxruntime'}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
    code = "import sys, lcml_export; print(sorted(set(sys.modules) & {'onnxruntime'}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.data
def test_the_authors_circuit(tmp_path: Path, data_dir: Path) -> None:
    """99.37% on the MNIST test images, the same label as lcml on each, and the size the project promises."""
    vtree = read_vtree(data_dir / "ucla" / "balanced.vtree")
    model = read_circuit(data_dir / "ucla" / "mnist.circuit", vtree, scale=255.0)
    report = export_model(model, tmp_path / "mnist.onnx", logits=True)
    images, labels = mnist_test_images(data_dir)
    found = run_onnxruntime(tmp_path / "mnist.onnx", images.astype(np.float32))
    assert (found["label"] == labels).mean() == 0.9937
    expected = model.logits(images, get_backend(), precision="float64")
    assert (found["label"] == expected.argmax(axis=1)).all()
    assert np.abs(found["logits"] - expected).max() <= 5e-5
    assert report.n_bytes <= 2.2e6
    one_by_one = [run_onnxruntime(tmp_path / "mnist.onnx", images[i : i + 1].astype(np.float32)) for i in range(3)]
    np.testing.assert_allclose([run["logits"][0] for run in one_by_one], expected[:3], rtol=0, atol=5e-5)


def mnist_test_images(data_dir: Path) -> tuple[Any, Any]:
    import gzip

    raw = [gzip.decompress((data_dir / "mnist" / f"t10k-{name}.gz").read_bytes()) for name in _TEST_FILES]
    images = np.frombuffer(raw[0], dtype=np.uint8, offset=16).reshape(-1, 784)
    return images, np.frombuffer(raw[1], dtype=np.uint8, offset=8)


_TEST_FILES = ("images-idx3-ubyte", "labels-idx1-ubyte")
