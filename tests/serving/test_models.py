"""Model files: what is read from them, and what is refused."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from lcml_serving.errors import ModelError
from lcml_serving.models import load_model
from tests.serving.onnx_models import CONDITIONS, LOGITS, PROBABILITIES, X, write_model


def _load(path: Path) -> Any:
    return load_model(path, "iris", "1", 1)


def test_a_model_says_what_it_is(tmp_path: Path) -> None:
    model = _load(write_model(tmp_path / "iris.onnx", classes=["a", "b", "c"], explain=True))
    signature = model.signature
    assert (signature.n_features, signature.input.datatype, model.classes) == (4, "FP32", ("a", "b", "c"))
    assert [(o.name, o.datatype, o.shape) for o in signature.outputs] == [
        ("label", "BYTES", (-1,)),
        ("probabilities", "FP32", (-1, 3)),
        ("logits", "FP32", (-1, 3)),
        ("contributions", "FP32", (-1, 5)),
    ]
    assert signature.predictions == ("label", "probabilities", "logits")
    assert model.conditions == tuple(CONDITIONS)
    assert model.metadata["lcml.profile"] == "portable"
    labels, probabilities, logits = model.run(signature.predictions, np.array(X, np.float32))
    assert labels.tolist() == ["a", "c", "b"]
    np.testing.assert_allclose(probabilities, PROBABILITIES, atol=1e-6)
    np.testing.assert_allclose(logits, LOGITS)


def test_the_sidecar_of_a_repository_is_explain_json(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.onnx", explain=True)
    (tmp_path / "model.explain.json").rename(tmp_path / "explain.json")
    assert _load(path).conditions == tuple(CONDITIONS)


def _rewrite(path: Path, change: Any) -> None:
    model = onnx.load(path)
    change(model)
    onnx.save(model, path)


def _rename_output(model: Any) -> None:
    model.graph.output[1].name = model.graph.node[-1].output[0] = "scores"


def _fix_batch(model: Any) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1


def _second_input(model: Any) -> None:
    model.graph.input.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, ["batch", 4]))


def _wrong_classes(model: Any) -> None:
    helper.set_model_props(model, {"lcml.classes": "[1, 2]"})


def _broken_classes(model: Any) -> None:
    helper.set_model_props(model, {"lcml.classes": "[1, 2"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_rename_output, "expected outputs label and probabilities, found .*'scores'"),
        (_fix_batch, r"expected an input of shape \(batch, n_features\)"),
        (_second_input, "expected one input, found"),
        (_wrong_classes, "lcml.classes should be a list of 3"),
        (_broken_classes, "lcml.classes is not JSON"),
    ],
)
def test_another_kind_of_model_is_refused(change: Any, message: str, tmp_path: Path) -> None:
    path = write_model(tmp_path / "iris.onnx")
    _rewrite(path, change)
    with pytest.raises(ModelError, match=message):
        _load(path)


def _wide(model: Any) -> None:
    """Of 2^40 features, of which the graph takes the sum."""
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 2**40
    model.graph.node[1].CopyFrom(helper.make_node("Mul", ["total", "b"], ["xW"]))
    model.graph.node.insert(1, helper.make_node("ReduceSum", ["x", "axis1"], ["total"], keepdims=1))


def _deep_classes(model: Any) -> None:
    helper.set_model_props(model, {"lcml.classes": "[" * 100_000})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_wide, "expected at most 16777216 features, found 1099511627776"),
        (_deep_classes, "lcml.classes is not JSON: maximum recursion depth"),
    ],
)
def test_sizes_and_depths_beyond_reason_are_refused(change: Any, message: str, tmp_path: Path) -> None:
    path = write_model(tmp_path / "iris.onnx")
    _rewrite(path, change)
    with pytest.raises(ModelError, match=message):
        _load(path)


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "iris.onnx")  # reading it would wait for ever
    with pytest.raises(ModelError, match="not a regular file"):
        _load(tmp_path / "iris.onnx")


def test_an_input_of_another_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"features is tensor\(int32\); expected one of FP32, FP64, UINT8"):
        _load(write_model(tmp_path / "iris.onnx", input_type=TensorProto.INT32))


@pytest.mark.parametrize("cut", [0, 10, 500])
def test_a_truncated_file_is_refused(cut: int, tmp_path: Path) -> None:
    path = write_model(tmp_path / "iris.onnx")
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ModelError, match=r"iris\.onnx"):
        _load(path)


@pytest.mark.parametrize(
    "content", ["{", "[]", "[" * 100_000, "{}", '{"conditions": 3}', json.dumps({"conditions": ["a"]})]
)
def test_a_sidecar_of_another_export_is_refused(content: str, tmp_path: Path) -> None:
    path = write_model(tmp_path / "iris.onnx", explain=True)
    (tmp_path / "iris.explain.json").write_text(content)
    with pytest.raises(ModelError, match=r"iris.explain.json.*(export the model again|different exports)"):
        _load(path)


def test_weights_in_another_file_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime would read them from the current directory, and no signature covers them."""
    path = write_model(tmp_path / "iris.onnx")
    onnx.save(onnx.load(path), path, save_as_external_data=True, location="weights", size_threshold=0)
    assert (tmp_path / "weights").is_file()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=r"iris\.onnx is not a model that onnxruntime can load"):
        _load(path)
