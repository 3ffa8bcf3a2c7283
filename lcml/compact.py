"""Compaction: the same function with fewer parameters.

The elements of an or gate sum to its flow, and the flow of a gate or literal is the sum of the elements it is a child
of. So one weight per or gate, and every literal's weight, can be pushed to the elements above it, and from the root
into the bias. What stays is one feature per element but one of every gate: n_elements - n_or_gates of them.
"""

import numpy as np

from lcml.basis import dependent_elements, push_weights
from lcml.errors import CircuitError
from lcml.model import LogisticCircuit
from lcml.parts import Part


def compact(model: LogisticCircuit) -> LogisticCircuit:
    """The same function with weights for independent features alone, and for none that no set weights.

    The logits are equal up to rounding, for every circuit (flows are shares of the root's flow whatever Pr(root) is).
    Where features are square roots they are independent: there only features without a weight other than 0 go. Over one
    variable, where there is no element, the literal X_0 keeps its weight.
    """
    parts, weights, bias = [], [], model.bias
    for part, flow_weights in zip(model.parts, model.flow_weights, strict=True):
        if not part.view.root:
            flow_weights, gain = _pushed(part, flow_weights)
            bias = bias + gain.sum(axis=1)
        weighted = np.any(flow_weights != 0, axis=(0, 1))
        parts.append(Part(part.view, part.circuit, weighted))
        weights.append(flow_weights[..., weighted].reshape(len(bias), -1))
    return LogisticCircuit(
        model.encoder, tuple(parts), model.classes, np.concatenate(weights, 1), bias, model.link, model.provenance
    )
