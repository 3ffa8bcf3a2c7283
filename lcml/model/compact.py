"""Compaction: the same function with fewer parameters.

The elements of an or gate sum to its flow, and the flow of a gate or literal is the sum of the elements it is a child
of. So one weight per or gate, and every literal's weight, can be pushed to the elements above it, and from the root
into the bias. What stays is one feature per element but one of every gate: n_elements - n_or_gates of them.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lcml.arrays import FloatArray
from lcml.circuits.basis import BasisMap, dependent_elements
from lcml.circuits.parts import Part
from lcml.model.model import LogisticCircuit


def compact(model: LogisticCircuit) -> LogisticCircuit:
    """The same function with weights for independent features alone, and for none of these that no set weights.

    The logits are equal up to rounding, for every circuit (flows are shares of the root's flow whatever Pr(root) is).
    Where features are square roots they are not sums of each other: there only features without a weight other than 0
    go, as in a part that weighs fewer features as it is. Over one variable, where there is no element, the literal X_0
    keeps its weight.
    """
    weights, bias = [], model.bias
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
            if np.any(basis, axis=(0, 1)).sum() <= np.any(flow_weights, axis=(0, 1)).sum():  # else literals are fewer
                bias = bias + gain.sum(axis=1)
                flow_weights = np.zeros_like(flow_weights)
                flow_weights[..., of_basis] = basis
        weights.append(flow_weights)
    return _weighted(model, weights, bias)


def without_zeros(model: LogisticCircuit) -> LogisticCircuit:
    """The same function without weights for features that no set weights."""
    return _weighted(model, model.flow_weights, model.bias)


def _weighted(model: LogisticCircuit, flow_weights: Sequence[FloatArray], bias: FloatArray) -> LogisticCircuit:
    """The model with weights (n_sets, n_cells, n_flows) per part, for flows that some set weights alone."""
    used = [np.any(of_part != 0, axis=(0, 1)) for of_part in flow_weights]
    parts = [Part(part.view, part.circuit, own) for part, own in zip(model.parts, used, strict=True)]
    weights = [of_part[..., own].reshape(len(bias), -1) for of_part, own in zip(flow_weights, used, strict=True)]
    joined = np.concatenate(weights, 1)
    carries = None if model.carries is None else np.any(joined != 0, axis=0)
    return replace(model, parts=tuple(parts), weights=joined, bias=bias, carries=carries)
