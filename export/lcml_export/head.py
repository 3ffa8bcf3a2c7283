"""From logits to label and probabilities, as `lcml.model.model` defines them."""

import numpy as np

from lcml.model.head import log_odds_of
from lcml.model.model import LogisticCircuit
from lcml_export.graph import Graph


def probabilities(graph: Graph, model: LogisticCircuit, logits: str) -> None:
    """The output `probabilities` (n_examples, n_classes).

    One-vs-rest is the softmax of the logarithms of the sigmoids: it divides no 0 by 0.
    """
    if model.head.is_joint:
        graph.op("Softmax", logits, axis=1, output="probabilities")
    elif len(model.bias) == 1:
        graph.op("Sigmoid", _both(graph, logits), output="probabilities")
    else:
        log_sigmoid = graph.op("Neg", graph.op("Softplus", graph.op("Neg", logits)))
        graph.op("Softmax", log_sigmoid, axis=1, output="probabilities")


def label(graph: Graph, model: LogisticCircuit, logits: str) -> str:
    """The output `label` (n_examples,), int64 or string; returns the name of the class numbers (n_examples,) int64."""
    if shift := log_odds_of(model.threshold):
        logits = graph.op("Sub", logits, graph.constant([0.0] * (len(model.bias) - 1) + [shift], np.float32))
    is_code = list(model.classes) == list(range(len(model.classes)))
    output = "label" if is_code else None
    of_classes = _both(graph, logits) if len(model.bias) == 1 else logits
    codes = graph.op("ArgMax", of_classes, axis=1, keepdims=0, output=output)
    if not is_code:
        graph.op("Gather", graph.constant(list(model.classes)), codes, axis=0, output="label")
    return codes


def _both(graph: Graph, logits: str) -> str:
    """(n_examples, 2) of the one logit there is, which is the second class's."""
    return graph.concat([graph.op("Neg", logits), logits], axis=1)
