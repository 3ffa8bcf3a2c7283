"""What the exported circuits are compared with, as ONNX: the paper's MLP, two convolutional networks, LightGBM and a
random forest on MNIST. Networks have random weights, which take as long as trained ones.

The trees are converted by hand to ai.onnx.ml.TreeEnsembleClassifier: nothing but the trees is timed.
"""

import gzip
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

MLP_LAYERS = (784, 1000, 500, 250, 10)
N_TREES = 500
N_TRAINED = 54_000
"""Training images of the trees: as many as the circuit of `mnist-100-flat` has, for their depth decides their speed."""

Trees = dict[str, list[Any]]


def mnist(data_dir: Path, split: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Images (n, 784) and labels of `split`: "train" or "t10k"."""
    names = ("images-idx3-ubyte", "labels-idx1-ubyte")
    raw = [gzip.decompress((data_dir / "mnist" / f"{split}-{name}.gz").read_bytes()) for name in names]
    return np.frombuffer(raw[0], np.uint8, offset=16).reshape(-1, 784), np.frombuffer(raw[1], np.uint8, offset=8)


def mlp() -> onnx.ModelProto:
    """The paper's MLP: ReLU and a softmax."""
    generator = np.random.default_rng(0)
    nodes, constants, value = [], [], "features"
    for i, (width, following) in enumerate(pairwise(MLP_LAYERS)):
        weights = generator.normal(scale=1 / (255 if i == 0 else width), size=(width, following))
        constants += [numpy_helper.from_array(weights.astype(np.float32), f"w{i}")]
        constants += [numpy_helper.from_array(np.zeros(following, np.float32), f"b{i}")]
        nodes.append(helper.make_node("Gemm", [value, f"w{i}", f"b{i}"], [f"z{i}"]))
        value = "probabilities" if following == MLP_LAYERS[-1] else f"a{i}"
        nodes.append(helper.make_node("Softmax" if value == "probabilities" else "Relu", [f"z{i}"], [value]))
    nodes.append(helper.make_node("ArgMax", [value], ["label"], axis=1, keepdims=0))
    return _model(nodes, constants)


def lenet5() -> onnx.ModelProto:
    """LeNet-5 with ReLU, convolutions that keep the image's size, and maxima of 2 x 2: 107,786 parameters."""
    return _convolutional((6, 16), 5, (120, 84))


def cnn() -> onnx.ModelProto:
    """As `lenet5`, with 32 and 64 channels of 3 x 3 and 128 hidden units: 421,642 parameters."""
    return _convolutional((32, 64), 3, (128,))


def _convolutional(channels: Sequence[int], width: int, hidden: Sequence[int]) -> onnx.ModelProto:
    generator, side = np.random.default_rng(0), 28
    shape = numpy_helper.from_array(np.array([-1, 1, side, side]), "shape")
    nodes, constants, value = [helper.make_node("Reshape", ["features", "shape"], ["images"])], [shape], "images"

    def weights(*sizes: int) -> list[str]:
        scale, number = 1 / np.sqrt(np.prod(sizes[1:])), len(constants)
        constants.append(numpy_helper.from_array(generator.normal(size=sizes, scale=scale).astype("f4"), f"w{number}"))
        constants.append(numpy_helper.from_array(np.zeros(sizes[0], np.float32), f"b{number}"))
        return [f"w{number}", f"b{number}"]

    for i, (before, after) in enumerate(pairwise((1, *channels))):
        of_layer = weights(after, before, width, width)
        nodes += [
            helper.make_node("Conv", [value, *of_layer], [f"c{i}"], pads=[width // 2] * 4),
            helper.make_node("Relu", [f"c{i}"], [f"r{i}"]),
            helper.make_node("MaxPool", [f"r{i}"], [f"p{i}"], kernel_shape=[2, 2], strides=[2, 2]),
        ]
        value, side = f"p{i}", side // 2
    nodes.append(helper.make_node("Flatten", [value], ["flat"]))
    value = "flat"
    for i, (before, after) in enumerate(pairwise((channels[-1] * side**2, *hidden, 10))):
        nodes.append(helper.make_node("Gemm", [value, *weights(after, before)], [f"z{i}"], transB=1))
        value = f"z{i}" if after == 10 else f"h{i}"
        nodes += [helper.make_node("Relu", [f"z{i}"], [value])] * (after != 10)
    nodes.append(helper.make_node("Softmax", [value], ["probabilities"]))
    nodes.append(helper.make_node("ArgMax", ["probabilities"], ["label"], axis=1, keepdims=0))
    return _model(nodes, constants)


def n_weights(network: onnx.ModelProto) -> int:
    """Numbers of a network's weights and biases."""
    return sum(int(np.prod(each.dims)) for each in network.graph.initializer if each.data_type == TensorProto.FLOAT)


def lightgbm(images: NDArray[Any], labels: NDArray[Any]) -> onnx.ModelProto:
    """LightGBM with its defaults: 100 rounds of ten trees of 31 leaves."""
    import lightgbm

    data = lightgbm.Dataset(images.astype(np.float32), labels)
    settings = {"objective": "multiclass", "num_class": 10, "verbose": -1, "seed": 0, "num_threads": 2}
    booster = lightgbm.train(settings, data, 100).dump_model()
    trees: Trees = _empty()
    for number, info in enumerate(booster["tree_info"]):
        _add_lightgbm(trees, number, info["tree_structure"], [0])
    return _ensemble(trees, "SOFTMAX")


def forest(images: NDArray[Any], labels: NDArray[Any]) -> onnx.ModelProto:
    """scikit-learn's random forest of 500 full trees."""
    from sklearn.ensemble import RandomForestClassifier

    fitted = RandomForestClassifier(N_TREES, random_state=0, n_jobs=2).fit(images.astype(np.float32), labels)
    trees = _empty()
    for number, estimator in enumerate(fitted.estimators_):
        tree = estimator.tree_
        for node in range(tree.node_count):
            if tree.children_left[node] < 0:
                shares = tree.value[node, 0] / tree.value[node, 0].sum()
                _add_leaf(trees, number, node, {int(k): float(shares[k]) / N_TREES for k in np.flatnonzero(shares)})
            else:
                children = (int(tree.children_left[node]), int(tree.children_right[node]))
                _add_branch(trees, number, node, int(tree.feature[node]), float(tree.threshold[node]), children)
    return _ensemble(trees, "NONE")


def _add_lightgbm(trees: Trees, number: int, root: dict[str, Any], counter: list[int]) -> int:
    node, counter[0] = counter[0], counter[0] + 1
    if "leaf_value" in root:
        _add_leaf(trees, number, node, {number % 10: float(root["leaf_value"])})
        return node
    place = len(trees["nodes_nodeids"])
    _add_branch(trees, number, node, int(root["split_feature"]), float(root["threshold"]), (0, 0))
    trees["nodes_truenodeids"][place] = _add_lightgbm(trees, number, root["left_child"], counter)
    trees["nodes_falsenodeids"][place] = _add_lightgbm(trees, number, root["right_child"], counter)
    return node


def _empty() -> Trees:
    nodes = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    return {f"nodes_{n}": [] for n in nodes} | {f"class_{n}": [] for n in ("treeids", "nodeids", "ids", "weights")}


def _add_node(trees: Trees, *values: Any) -> None:
    for name, value in zip(list(trees)[:7], values, strict=True):
        trees[name].append(value)


def _add_branch(trees: Trees, tree: int, node: int, feature: int, threshold: float, children: tuple[int, int]) -> None:
    _add_node(trees, tree, node, feature, threshold, "BRANCH_LEQ", *children)


def _add_leaf(trees: Trees, tree: int, node: int, weights: dict[int, float]) -> None:
    _add_node(trees, tree, node, 0, 0.0, "LEAF", 0, 0)
    for label, weight in weights.items():
        for name, value in zip(list(trees)[7:], (tree, node, label, weight), strict=True):
            trees[name].append(value)


def _ensemble(trees: Trees, post_transform: str) -> onnx.ModelProto:
    node = helper.make_node(
        "TreeEnsembleClassifier",
        ["features"],
        ["label", "probabilities"],
        domain="ai.onnx.ml",
        classlabels_int64s=list(range(10)),
        post_transform=post_transform,
        **trees,
    )
    return _model([node], [])


def _model(nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto]) -> onnx.ModelProto:
    features = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["batch", 784])
    label = helper.make_tensor_value_info("label", TensorProto.INT64, ["batch"])
    probabilities = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])
    graph = helper.make_graph(nodes, "baseline", [features], [label, probabilities], constants)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)
