"""Small ONNX models whose answers can be worked out by hand.

Four features, three classes, logits = x W + b, probabilities = softmax(logits):

    W = [[1, 0, -1], [0, 1, 0], [0.5, 0, 0], [0, 0, 2]]    b = [0, 0.5, -1]

    x = (1, 0, 2, 0): logits (2, 0.5, -2), first class, contributions x_i W_i0 = (1, 0, 1, 0), bias 0
    x = (0, 0, 0, 1): logits (0, 0.5, 1), third class, contributions (0, 0, 0, 2), bias -1
    x = (0, 1, 0, 0): logits (0, 1.5, -1), second class, contributions (0, 1, 0, 0), bias 0.5
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save

WEIGHTS = [[1.0, 0.0, -1.0], [0.0, 1.0, 0.0], [0.5, 0.0, 0.0], [0.0, 0.0, 2.0]]
BIAS = [0.0, 0.5, -1.0]
CONDITIONS = ["a", "b and not a", "c", "d", "always (bias)"]
X = [[1.0, 0.0, 2.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, 0.0]]
LOGITS = [[2.0, 0.5, -2.0], [0.0, 0.5, 1.0], [0.0, 1.5, -1.0]]
# exp(logit) / sum: 7.389056, 1.648721, 0.135335 over 9.173112; 1, 1.648721, 2.718282 over 5.367003;
# 1, 4.481689, 0.367879 over 5.849568
PROBABILITIES = [[0.805513, 0.179734, 0.014753], [0.186324, 0.307196, 0.506480], [0.170953, 0.766157, 0.062890]]


def write_model(
    path: Path,
    *,
    classes: list[int] | list[str] | None = None,
    input_type: int = TensorProto.FLOAT,
    bias: list[float] | None = None,
    explain: bool = False,
    sidecar: bool = True,
    feature_names: list[str] | None = None,
    divide: bool = False,
) -> Path:
    """Write the model; `divide` gives 0/0 for a row of zeros, as a row that contradicts a circuit does."""
    classes = [10, 20, 30] if classes is None else classes
    bias = BIAS if bias is None else bias
    initializers: list[Any] = [
        numpy_helper.from_array(np.array(WEIGHTS, np.float32), "W"),
        numpy_helper.from_array(np.array(WEIGHTS, np.float32).T.copy(), "Wt"),
        numpy_helper.from_array(np.array(bias, np.float32), "b"),
        numpy_helper.from_array(np.array([1], np.int64), "axis1"),
    ]
    text = isinstance(classes[0], str)
    label_type = TensorProto.STRING if text else TensorProto.INT64
    initializers.append(helper.make_tensor("classes", label_type, [3], [c.encode() if text else c for c in classes]))  # type: ignore[union-attr]
    nodes = [
        helper.make_node("Cast", ["features"], ["x"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "W"], ["xW"]),
        helper.make_node("Add", ["xW", "b"], ["logits"]),
        helper.make_node("Softmax", ["logits"], ["softmax"], axis=1),
        helper.make_node("ArgMax", ["logits"], ["best"], axis=1, keepdims=0),
        helper.make_node("Gather", ["classes", "best"], ["label"]),
    ]
    if divide:
        nodes += [
            helper.make_node("ReduceSum", ["x", "axis1"], ["total"], keepdims=1),
            helper.make_node("Div", ["total", "total"], ["one"]),
            helper.make_node("Mul", ["softmax", "one"], ["probabilities"]),
        ]
    else:
        nodes.append(helper.make_node("Identity", ["softmax"], ["probabilities"]))
    outputs = [
        helper.make_tensor_value_info("label", label_type, ["batch"]),
        helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 3]),
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 3]),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    if explain:
        nodes += [
            helper.make_node("Gather", ["Wt", "best"], ["w_best"], axis=0),
            helper.make_node("Mul", ["x", "w_best"], ["products"]),
            helper.make_node("Gather", ["b", "best"], ["b_best"]),
            helper.make_node("Unsqueeze", ["b_best", "axis1"], ["b_column"]),
            helper.make_node("Concat", ["products", "b_column"], ["contributions"], axis=1),
        ]
        outputs.append(helper.make_tensor_value_info("contributions", TensorProto.FLOAT, ["batch", 5]))
        if sidecar:
            path.with_name(f"{path.stem}.explain.json").write_text(json.dumps({"conditions": CONDITIONS}))
    features = helper.make_tensor_value_info("features", input_type, ["batch", 4])
    graph = helper.make_graph(nodes, "logistic", [features], outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    metadata = {"lcml.classes": json.dumps(classes), "lcml.profile": "portable", "lcml.source_sha256": "ab" * 32}
    if feature_names is not None:
        metadata["lcml.feature_names"] = json.dumps(feature_names)
    helper.set_model_props(model, metadata)
    checker.check_model(model)
    temporary = path.with_name(f".{path.name}.new")
    save(model, str(temporary))
    temporary.replace(path)
    return path
