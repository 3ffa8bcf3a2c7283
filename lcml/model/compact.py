"""Compaction: the same function with fewer parameters.

The elements of an or gate sum to its flow, and the flow of a gate or literal is the sum of the elements it is a child
of. So one weight per or gate, and every literal's weight, can be pushed to the elements above it, and from the root
into the bias. What stays is one feature per element but one of every gate: n_elements - n_or_gates of them.
"""

from dataclasses import replace

import numpy as np

from lcml.circuits.basis import BasisMap, dependent_elements
from lcml.circuits.parts import Part
from lcml.model.model import LogisticCircuit


def compact(model: LogisticCircuit) -> LogisticCircuit:
    """The same function with weights for independent features alone, and for none of these that no set weights.

    The logits are equal up to rounding, for every circuit (flows are shares of the root's flow whatever Pr(root) is).
    Where features are square roots they are not sums of each other: there only features without a weight other than 0
    go. Over one variable, where there is no element, the literal X_0 keeps its weight.
    """
    parts, weights, bias = [], [], model.bias
    for part, flow_weights in zip(model.parts, model.flow_weights, strict=True):
        circuit = part.circuit
        if not part.view.root:
            if circuit.n_or_gates:
                dropped = dependent_elements(circuit)
                basis, gain = BasisMap(circuit, dropped, literals=True).to_basis(flow_weights)
                of_basis = np.delete(np.arange(circuit.n_elements), dropped) + circuit.n_literals
            else:  # one variable: the literals sum to 1
                positive, gain = flow_weights[..., 0], flow_weights[..., 1]
                basis, of_basis = (positive - gain)[..., None], np.array([0])
            bias = bias + gain.sum(axis=1)
            flow_weights = np.zeros_like(flow_weights)
            flow_weights[..., of_basis] = basis
        weighted = np.any(flow_weights != 0, axis=(0, 1))
        parts.append(Part(part.view, circuit, weighted))
        weights.append(flow_weights[..., weighted].reshape(len(bias), -1))
    return replace(model, parts=tuple(parts), weights=np.concatenate(weights, 1), bias=bias)
