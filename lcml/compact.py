"""Compaction: the same function with fewer parameters.

The elements of an or gate sum to its flow, and the flow of a gate or literal is the sum of the elements it is a child
of. So one weight per or gate, and every literal's weight, can be pushed to the elements above it, and from the root
into the bias. What stays is one feature per element but one of every gate: n_elements - n_or_gates of them.
"""

import dataclasses

import numpy as np
from numpy.typing import NDArray

from lcml.circuit import Circuit
from lcml.model import FloatArray, LogisticCircuit
from lcml.vtree import IntArray


def compact(model: LogisticCircuit) -> LogisticCircuit:
    """The same function with exactly zero weights at the first element of every or gate and no literal weights.

    The logits are equal up to rounding, for every circuit (flows are shares of the root's flow whatever Pr(root) is).
    Over one variable, where there is no element, the literal X_0 keeps a weight and its negation gets 0.
    """
    element_weights, bias = push_weights(model, model.circuit.or_start[:-1])
    literal_weights = None
    if model.circuit.n_or_gates == 0 and model.literal_weights is not None:
        positive, negative = model.literal_weights.T
        literal_weights = np.stack([positive - negative, np.zeros_like(negative)], axis=1)
    return dataclasses.replace(model, element_weights=element_weights, literal_weights=literal_weights, bias=bias)


def count_parameters(model: LogisticCircuit) -> int:
    """The weights of every feature to which any set gives a weight other than exactly 0, and the biases."""
    weighted = int(np.any(model.weights != 0, axis=0).sum())
    return (weighted + 1) * len(model.bias)


def push_weights(model: LogisticCircuit, dropped: IntArray) -> tuple[FloatArray, FloatArray]:
    """Element weights (n_sets, n_elements), exactly 0 at `dropped`, and bias (n_sets,) of the same function.

    dropped (n_or_gates,): the element of every or gate whose weight is pushed to the elements above the gate.
    """
    circuit = model.circuit
    pushed = _literal_weights(model, circuit)
    result = np.empty_like(model.element_weights)
    for first, stop in circuit.levels():
        span = slice(int(circuit.or_start[first]), int(circuit.or_start[stop]))
        weight = (
            model.element_weights[:, span] + pushed[:, circuit.elem_prime[span]] + pushed[:, circuit.elem_sub[span]]
        )
        pushed[:, circuit.n_literals + first : circuit.n_literals + stop] = weight[:, dropped[first:stop] - span.start]
        result[:, span] = weight - pushed[:, circuit.n_literals + circuit.elem_or[span]]
    if circuit.n_or_gates == 0:
        return result, model.bias + pushed[:, 1]
    return result, model.bias + pushed[:, -1]


def _literal_weights(model: LogisticCircuit, circuit: Circuit) -> NDArray[np.float64]:
    """(n_sets, n_nodes) what every node hands up: the literals' weights now, the gates' to be filled in."""
    pushed = np.zeros((len(model.bias), circuit.n_nodes))
    if model.literal_weights is not None:
        pushed[:, : circuit.n_literals] = model.literal_weights
    return pushed
