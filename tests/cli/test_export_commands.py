"""The commands that bring a model elsewhere: compact, export, serve, and train --export."""

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tritonclient.http as triton

from lcml.circuits.circuit import initial_circuit
from lcml.circuits.vtree import balanced
from lcml.formats import load_model, save_model
from lcml.inputs.encoders import ScaleEncoder
from lcml.model.model import LogisticCircuit
from tests.cli.commands import output, refused, run
from tests.forked import Forked
from tests.serving.running import Running, infer_body

NAMES = ["height", "width", "weight", "age"]
QUICK = ("--rounds", "1", "--round-iterations", "3", "--final-iterations", "3", "--l2-path", "0.1", "--quiet")


@pytest.fixture(scope="module")
def model() -> LogisticCircuit:
    generator, circuit = np.random.default_rng(0), initial_circuit(balanced(4))
    return LogisticCircuit.flat(
        circuit=circuit,
        encoder=ScaleEncoder(np.zeros(4), np.array([200.0, 50.0, 100.0, 120.0])),
        classes=("cat", "dog", "owl"),
        element_weights=generator.normal(size=(3, circuit.n_elements)),
        literal_weights=generator.normal(size=(3, 8)),
        bias=np.array([1.0, 2.0, 3.0]),
        provenance={"data": {"feature_names": NAMES}},
    )


@pytest.fixture
def path(model: LogisticCircuit, tmp_path: Path) -> Path:
    save_model(model, tmp_path / "animals.lcml")
    return tmp_path / "animals.lcml"


@pytest.fixture(scope="module")
def animals() -> Any:
    return np.random.default_rng(1).uniform(0, 120, (9, 4)).astype(np.float32)


def outputs(path: Path, features: Any) -> dict[str, Any]:
    """What onnxruntime makes of an exported file."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, {"features": features}), strict=True))


def metadata(path: Path) -> dict[str, str]:
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


def test_a_file_that_predicts_what_the_model_predicts(model: LogisticCircuit, path: Path, animals: Any) -> None:
    target = path.with_suffix(".onnx")
    lines = output("export", path, "-o", target, "--logits").splitlines()
    assert lines[0] == f"{target}: profile auto, opset 18, input float32, {target.stat().st_size} bytes"
    assert [line.partition(":")[0] for line in lines[2:]] == ["onnxruntime", "reference"]
    assert "checks passed" in lines[2]
    found = outputs(target, animals)
    assert found["label"].tolist() == model.predict(animals).tolist()
    np.testing.assert_allclose(found["logits"], model.logits(animals, precision="float64"), atol=1e-5)
    about = metadata(target)
    assert json.loads(about["lcml.feature_names"]) == NAMES
    assert about["lcml.source_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()


def test_weights_of_eight_bits(path: Path) -> None:
    target = path.with_suffix(".onnx")
    lines = output("export", path, "-o", target, "--precision", "int8").splitlines()
    assert f"weights int8, {target.stat().st_size} bytes" in lines[0]
    assert lines[-1].startswith("int8: probabilities within ")
    assert metadata(target)["lcml.precision"] == "int8"


def test_a_repository_with_all_that_was_asked_for(model: LogisticCircuit, path: Path, animals: Any) -> None:
    models = path.parent / "models"
    options = ("--profile", "portable", "--input-dtype", "float64", "--explain", "--opset", "17", "--no-self-check")
    found = json.loads(output("export", path, "-o", models, "--version", 3, *options, "--json"))
    target = models / "animals" / "3" / "model.onnx"
    assert (found["path"], found["profile"], found["opset"], found["checks"]) == (str(target), "portable", 17, [])
    assert (found["input_dtype"], found["run_id"], found["model_id"]) == ("float64", None, None)
    assert (models / "animals" / "config.pbtxt").read_text().startswith('name: "animals"\n')
    conditions = json.loads((target.parent / "explain.json").read_text())["conditions"]
    assert conditions[:2] + conditions[-1:] == ["height near 200", "width near 50", "bias"]
    made = outputs(target, animals.astype(np.float64))
    logits = model.logits(animals, precision="float64").max(axis=1)
    np.testing.assert_allclose(made["contributions"].sum(axis=1), logits, atol=1e-5)

    assert "Error: " not in output("export", path, "-o", models, "--name", "zoo")
    assert (models / "zoo" / "1" / "model.onnx").is_file()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-o", "a.onnx", "--profile", "fast"), "unknown export profile 'fast': expected one of auto, throughput"),
        (("-o", "a.onnx", "--input-dtype", "int4"), "unknown input type 'int4': expected one of auto, float32"),
        (("-o", "a.onnx", "--precision", "int4"), "unknown precision 'int4': expected one of float32, int16, int8"),
        (("-o", "a.onnx", "--opset", "9"), "opset 9: expected 16 to"),
        (("-o", "a.onnx", "--name", "b"), "--name and --version are for a repository, but a.onnx is a file"),
        (("-o", "a", "--name", "b/c"), "model name 'b/c'"),
        (("-o", "a", "--name", "b c"), "model name 'b c'"),
        (("-o", "-"), "expected FILE.onnx or a DIR for them, not - (standard output)"),
        ((), "expected MODEL and -o DIR or FILE.onnx, or --run RUN"),
        (("--run", "a"), "leave MODEL, -o, --name, --version out"),
    ],
)
def test_wrong_exports_are_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(path.parent)
    assert message in refused("export", path, *options)
    assert list(path.parent.iterdir()) == [path]


def test_a_missing_or_damaged_model_is_refused(path: Path, tmp_path: Path) -> None:
    for command in ("export", "compact"):
        assert "No such file" in refused(command, tmp_path / "none.lcml", "-o", tmp_path / "a.onnx")
    path.write_bytes(path.read_bytes()[:-9])
    for command in ("export", "compact"):
        assert "truncated or damaged" in refused(command, path, "-o", tmp_path / "a.onnx")


@pytest.mark.parametrize(
    ("package", "extra", "arguments"),
    [
        ("onnx", "export", ("export", "a.lcml", "-o", "a.onnx")),
        ("onnxruntime", "export", ("train", "iris", "--export", "--no-tracking")),
        ("uvicorn", "serving", ("serve", "a.onnx")),
    ],
)
def test_a_missing_package_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, package: str, extra: str, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    assert f"needs the package {package}: pip install 'lcml[{extra}]'" in refused(*arguments)
    assert list(tmp_path.iterdir()) == []


def test_compact_keeps_the_function(model: LogisticCircuit, path: Path, animals: Any) -> None:
    target = path.with_name("small.lcml")
    found = json.loads(output("compact", path, "-o", target, "--json"))
    # Two or gates of 4 elements over pairs of variables, and the root's one element: 8 literals, 9 elements and a bias
    # per class before; one element less per or gate and no literals after.
    expected_counts = {"n_elements": 9, "n_or_gates": 3, "n_parameters_before": 54, "n_parameters_after": 21}
    assert found == {"model_path": str(path), "output": str(target), **expected_counts}
    expected = model.logits(animals, precision="float64")
    np.testing.assert_allclose(load_model(target).logits(animals, precision="float64"), expected, atol=1e-12)
    assert "21 parameters instead of 54" in output("compact", path, "-o", target)


def test_training_ends_with_an_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "settings.toml").write_text("export = true\nno-tracking = true\n")
    found = json.loads(output("train", "iris", "--config", "settings.toml", "--json", *QUICK))
    assert (found["onnx_path"], found["onnx_model_id"]) == ("iris.onnx", None)
    assert set(outputs(tmp_path / "iris.onnx", np.zeros((2, 4), np.float32))) == {"label", "probabilities"}
    settings = load_model("iris.lcml").provenance["settings"]
    assert "export" not in settings

    text = output("train", "iris", "--config", "settings.toml", "-o", "b.lcml", *QUICK)
    assert "\nONNX       b.onnx\n" in text
    assert "lcml serve b.onnx" in text
    found = json.loads(output("train", "iris", "--config", "settings.toml", "--no-export", "--json", *QUICK))
    assert found["onnx_path"] is None


def test_a_tracking_server_that_does_not_answer_costs_only_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("train", "iris", "--export", "--json", "--tracking-uri", "http://127.0.0.1:9", *QUICK)
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["onnx_path"], found["onnx_model_id"]) == ("iris.onnx", None)
    assert "iris.onnx is not logged: no run has been recorded at http://127.0.0.1:9 yet" in result.stderr
    assert "lcml export --run RUN" in result.stderr
    assert (tmp_path / "iris.onnx").is_file()


def serve(*arguments: object) -> Running:
    """`lcml serve` in a process of its own, once it listens."""
    command = ["-m", "lcml", "serve", *map(str, arguments), "--port", "0", "--drain-seconds", "0"]
    running = Running(Forked(*command))
    running.port = running.wait_for("listening")["port"]
    return running


def test_serve_passes_its_arguments_on(path: Path, model: LogisticCircuit, animals: Any) -> None:
    output("export", path, "-o", path.with_suffix(".onnx"))
    service = serve(path.with_suffix(".onnx"), "--name", "zoo", "--max-rows", "9")
    try:
        answer = service.post("/v2/models/zoo/infer", infer_body(animals.tolist())).json()
        labels = next(tensor["data"] for tensor in answer["outputs"] if tensor["name"] == "label")
        assert labels == model.predict(animals).tolist()
        assert service.post("/v2/models/zoo/infer", infer_body([[0.0] * 4] * 10)).status == 422
    finally:
        assert service.stop() == 0


def test_numbers_that_float32_cannot_hold_are_served_as_float64(tmp_path: Path) -> None:
    # Four columns of order numbers 20 apart; float32 are 128 apart there.
    circuit, low = initial_circuit(balanced(4)), np.full(4, 2_024_000_000.0)
    weights = np.random.default_rng(7).normal(size=(2, circuit.n_elements))
    numbers = LogisticCircuit.flat(
        circuit, ScaleEncoder(low, low + 20), ("a", "b"), weights, None, np.zeros(2), "softmax"
    )
    save_model(numbers, tmp_path / "numbers.lcml")
    output("export", tmp_path / "numbers.lcml", "-o", tmp_path / "numbers.onnx")
    x = low + np.random.default_rng(1).integers(0, 21, (50, 4))
    service = serve(tmp_path / "numbers.onnx", "--name", "numbers")
    try:
        client = triton.InferenceServerClient(f"127.0.0.1:{service.port}")
        assert client.get_model_metadata("numbers")["inputs"][0]["datatype"] == "FP64"
        labels = []
        for binary in (False, True):
            tensor = triton.InferInput("features", x.shape, "FP64")
            tensor.set_data_from_numpy(x, binary_data=binary)
            labels.append([label.decode() for label in client.infer("numbers", [tensor]).as_numpy("label")])
        answer = service.post("/invocations", {"inputs": x.tolist()}, {"Content-Type": "application/json"}).json()
        client.close()
    finally:
        assert service.stop() == 0
    labels.append(answer["predictions"]["label"])
    expected = numbers.predict(x, precision="float64").tolist()
    assert set(expected) == {"a", "b"}
    assert labels == [expected] * 3


def test_serve_says_what_is_wrong(tmp_path: Path) -> None:
    result = run("serve", tmp_path / "none.onnx")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "none.onnx does not exist" in result.stderr
    assert run("serve", "--nonsense").exit_code == 2
    assert "nothing to serve" in run("serve").stderr
    store = f"sqlite:///{tmp_path}/none.db"
    assert "none.db does not exist" in refused("serve", "models:/a@b", "--tracking-uri", store)


def test_serve_shows_the_options_of_the_service() -> None:
    shown = output("serve", "--help")
    for option in ("models:/NAME@ALIAS", "--tracking-uri", "--max-batch-delay-ms"):
        assert option in shown
