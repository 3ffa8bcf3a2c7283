"""The profile `portable` in other runtimes: it loads, and its numbers and labels are lcml's.

They are heavy, so each test is skipped where its runtime is not installed:

    pip install openvino tract onnx2torch torch onnxsim
    python -m pytest tests/export/test_runtimes.py
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray

from lcml.inputs.encoders import BooleanEncoder, ScaleEncoder
from lcml.model.model import LogisticCircuit
from lcml_export import export_model
from tests.export.models import model_on, run_onnxruntime, wide_circuit
from tests.export.test_parts import image_model
from tests.export.test_profiles import assert_agrees

pytestmark = pytest.mark.filterwarnings("ignore")  # theirs, when they are imported

Outputs = dict[str, NDArray[Any]]

CIRCUIT = wide_circuit(20)
MODELS = {
    "classes": model_on(CIRCUIT, (0, 1, 2), encoder=ScaleEncoder(np.zeros(20), np.full(20, 255.0))),
    "two classes": model_on(CIRCUIT, (7, -3), "sigmoid", ScaleEncoder(np.linspace(-1, 0, 20), np.linspace(1, 255, 20))),
    "thresholds": model_on(CIRCUIT, (0, 1), "softmax", BooleanEncoder(np.full(20, 100.0))),
    "float64": model_on(CIRCUIT, (0, 1), encoder=ScaleEncoder(np.full(20, 1e9), np.full(20, 1e9 + 255))),
    "windows": image_model(),
}


def openvino(path: Path, features: NDArray[Any]) -> Outputs:
    runtime = pytest.importorskip("openvino", reason="pip install openvino")
    compiled = runtime.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return named(path, list(compiled(features).values()))


def tract(path: Path, features: NDArray[Any]) -> Outputs:
    runtime = pytest.importorskip("tract", reason="pip install tract")
    runnable = runtime.onnx().load(str(path)).into_model().into_runnable()
    return named(path, [value.to_numpy() for value in runnable.run([features])])


def onnx2torch(path: Path, features: NDArray[Any]) -> Outputs:
    torch = pytest.importorskip("torch", reason="pip install torch onnx2torch")
    for module in ("torchvision", "torchvision.ops"):  # for operators that no export has; a build for torch is rare
        sys.modules.setdefault(module, MagicMock())
    runtime = pytest.importorskip("onnx2torch", reason="pip install torch onnx2torch")
    found = runtime.convert(onnx.load(path))(torch.from_numpy(features))
    return named(path, [value.detach().numpy() for value in (found if isinstance(found, list | tuple) else [found])])


def onnxsim(path: Path, features: NDArray[Any]) -> Outputs:
    runtime = pytest.importorskip("onnxsim", reason="pip install onnxsim")
    simplified, is_equal = runtime.simplify(onnx.load(path), mutable_initializer=True)
    assert is_equal
    onnx.save(simplified, path.with_name("simplified.onnx"))
    return run_onnxruntime(path.with_name("simplified.onnx"), features)


def named(path: Path, values: list[NDArray[Any]]) -> Outputs:
    return dict(zip((output.name for output in onnx.load(path).graph.output), values, strict=True))


Run = Callable[[Path, NDArray[Any]], Outputs]
RUNTIMES: list[Run] = [openvino, tract, onnx2torch, onnxsim]
CASES = [(run, name) for run in RUNTIMES for name in MODELS]
CASES.remove((openvino, "float64"))  # on the CPU it rounds float64 to float32, whatever it is told


def raw(model: LogisticCircuit, input_dtype: str) -> NDArray[Any]:
    shares = np.random.default_rng(0).uniform(-0.1, 1.1, (30, model.encoder.n_features))
    rows: NDArray[Any] = model.encoder.inputs_at(shares).astype(input_dtype)
    return rows


@pytest.mark.parametrize(("run", "name"), CASES)
def test_portable_agrees(tmp_path: Path, run: Run, name: str) -> None:
    model, path = MODELS[name], tmp_path / "model.onnx"
    report = export_model(model, path, profile="portable", explain=True, logits=True, self_check=False)
    assert report.input_dtype == ("float64" if name == "float64" else "float32")
    x = raw(model, report.input_dtype)
    found = run(path, x)
    assert_agrees(model, found, x)
    np.testing.assert_allclose(found["contributions"], run_onnxruntime(path, x)["contributions"], rtol=0, atol=1e-5)


@pytest.mark.parametrize("run", RUNTIMES)
def test_without_its_label_a_model_of_text_classes_needs_no_text(tmp_path: Path, run: Run) -> None:
    model = model_on(CIRCUIT, ("a", "b", "c"))
    export_model(model, tmp_path / "model.onnx", profile="portable", self_check=False)
    cut = tmp_path / "probabilities.onnx"
    onnx.utils.extract_model(tmp_path / "model.onnx", cut, ["features"], ["probabilities"])
    x = raw(model, "float32")
    expected = model.predict_proba(x, precision="float64")
    np.testing.assert_allclose(run(cut, x)["probabilities"], expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("profile", ["flows", "scatter"])
def test_openvino_runs_the_passes(tmp_path: Path, profile: str) -> None:
    for name in ("classes", "thresholds", "windows"):
        path = tmp_path / f"{name}.onnx"
        export_model(MODELS[name], path, profile=profile, logits=True, self_check=False)
        x = raw(MODELS[name], "float32")
        assert_agrees(MODELS[name], openvino(path, x), x)


@pytest.mark.parametrize("profile", ["auto", "latency", "flows"])
def test_onnxsim_keeps_explanations(tmp_path: Path, profile: str) -> None:
    model, path = MODELS["classes"], tmp_path / "model.onnx"
    export_model(model, path, profile=profile, explain=True, logits=True, self_check=False)
    x = raw(model, "float32")
    assert_agrees(model, onnxsim(path, x), x)
