"""The passes over a circuit: probabilities bottom-up, flows top-down.

All work on a chunk of examples laid out (node, example), so that a gather moves whole rows. Sources: Liang & Van den
Broeck, AAAI 2019, Algorithms 1 and 2 and Corollary 5; Darwiche, JACM 2003, for the derivative form of the down pass.
"""

import numpy as np

from lcml.backend import Array
from lcml.errors import ContradictionError, DataError
from lcml.passes.plan import FlowPlan


def literal_rows(plan: FlowPlan, chunk: Array) -> Array:
    """Literal probabilities (2 n_variables, n_examples) of `chunk` (n_examples, n_variables): q above 1 - q."""
    positive = plan.backend.xp.asarray(chunk).T
    return plan.backend.xp.concat([positive, 1 - positive], axis=0)


def check_probabilities(values: np.ndarray, n_variables: int) -> None:
    """Raise DataError unless `values` has shape (n_examples, n_variables) and lies in [0, 1]."""
    if values.ndim != 2 or values.shape[1] != n_variables:
        raise DataError(f"expected examples of {n_variables} variables, found an array of shape {values.shape}")
    bad = ~((values >= 0) & (values <= 1))
    if bad.any():
        row, column = np.argwhere(bad)[0]
        what = f"row {row}, variable {column}: {values[row, column]}"
        raise DataError(f"{what} is no probability; encode the inputs to [0, 1] first")


def node_probabilities(plan: FlowPlan, literals: Array) -> Array:
    """Up pass. Pr(n) of every node, (n_nodes, n_examples), from the literals' (2 n_variables, n_examples).

    Pr(X) = q, Pr(not X) = 1 - q, Pr(element) = Pr(prime) Pr(sub), Pr(or gate) = sum of its elements. [Algorithm 1]
    """
    xp, n_literals = plan.backend.xp, plan.circuit.n_literals
    probability = plan.backend.empty((plan.circuit.n_nodes, literals.shape[1]), literals.dtype)
    probability[:n_literals, :] = literals
    for level in plan.levels:
        rows = xp.take(probability, level.prime, axis=0) * xp.take(probability, level.sub, axis=0)
        gates = slice(n_literals + level.first, n_literals + level.stop)
        probability[gates, :] = plan.backend.segment_sum(rows, level.offsets)
    return probability


def or_derivatives(plan: FlowPlan, probability: Array) -> Array:
    """Down pass. c(g) = dPr(root)/dPr(g) of every or gate, (n_or_gates, n_examples).

    c(root) = 1; c(g) = sum over the elements that have g as a child of c(their gate) Pr(sibling). Never divides.
    """
    xp = plan.backend.xp
    derivative = plan.backend.empty((plan.circuit.n_or_gates, probability.shape[1]), probability.dtype)
    for level in reversed(plan.levels):
        if level.wire_parent is None:
            derivative[level.first : level.stop, :] = 1
        else:
            rows = xp.take(derivative, level.wire_parent, axis=0) * xp.take(probability, level.wire_sibling, axis=0)
            derivative[level.first : level.stop, :] = plan.backend.segment_sum(rows, level.wire_offsets)
    return derivative


def flows(plan: FlowPlan, literals: Array) -> Array:
    """Flows of all literals, then of all elements: (2 n_variables + n_elements, n_examples).

    The flow of element e under gate g is c(g) Pr(e) / Pr(root), that of a literal c(l) Pr(l) / Pr(root): the share of
    the root's flow of 1 that reaches it [Algorithm 2]. An example with Pr(root) = 0 raises ContradictionError.
    """
    circuit, xp = plan.circuit, plan.backend.xp
    result = plan.backend.empty((circuit.n_literals + circuit.n_elements, literals.shape[1]), literals.dtype)
    result[: circuit.n_literals, :] = literals
    if circuit.n_or_gates == 0:
        return result
    probability = node_probabilities(plan, literals)
    derivative = or_derivatives(plan, probability)
    result[circuit.n_literals :, :] = (
        xp.take(derivative, plan.elem_or, axis=0)
        * xp.take(probability, plan.elem_prime, axis=0)
        * xp.take(probability, plan.elem_sub, axis=0)
    )
    if not circuit.is_tautology:
        wires = xp.take(derivative, plan.literal_parent, axis=0) * xp.take(probability, plan.literal_sibling, axis=0)
        pulled = plan.backend.segment_sum(wires, plan.literal_offsets)
        pulled = xp.concat([pulled, xp.zeros_like(pulled[:1, :])], axis=0)
        result[: circuit.n_literals, :] = xp.take(pulled, plan.literal_segment, axis=0) * literals
        result = result / _root_probability(plan, probability)
    return result


def example_flows(plan: FlowPlan, examples: Array) -> Array:
    """`flows` of examples (n_examples, n_variables), by the backend's kernel where it has one."""
    if plan.backend.flows is None:
        return flows(plan, literal_rows(plan, examples))
    return _uncontradicted(*plan.backend.flows(plan.structure, examples))


def weighted_flows(plan: FlowPlan, examples: Array, weights: Array) -> Array:
    """weights (n_sets, 2 n_variables + n_elements) @ flows of examples (n_examples, n_variables), by the backend's
    kernel where it has one."""
    if plan.backend.weighted_flows is None:
        return weights @ example_flows(plan, examples)
    return _uncontradicted(*plan.backend.weighted_flows(plan.structure, examples, weights))


def _root_probability(plan: FlowPlan, probability: Array) -> Array:
    """Pr(root) (n_examples,); ContradictionError where one is 0."""
    xp, root = plan.backend.xp, probability[-1, :]
    impossible = root == 0
    first = int(xp.argmax(xp.astype(impossible, xp.int8))) if bool(xp.any(impossible)) else -1
    return _uncontradicted(root, first)


def _uncontradicted(result: Array, contradiction: int) -> Array:
    """The result of a pass whose first example with Pr(root) = 0 is `contradiction`, if not -1."""
    if contradiction >= 0:
        raise ContradictionError(
            f"example {contradiction} of the chunk contradicts the circuit: Pr(root) = 0, so its flows are not defined"
        )
    return result
