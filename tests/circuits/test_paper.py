"""Figures that the paper prints or that its definitions fix."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.circuits.splits import Split, apply_splits
from lcml.errors import CircuitError
from lcml.inputs.encoders import ScaleEncoder
from lcml.model.head import HEADS, Link
from lcml.model.model import LogisticCircuit
from lcml.model.probabilistic import posterior_weights

from ..worlds import all_worlds, random_circuits, truth


def boolean_model(circuit: Circuit, weights: np.ndarray, bias: np.ndarray, link: Link = "sigmoid") -> LogisticCircuit:
    n, n_classes = circuit.n_variables, max(2, len(bias))
    encoder = ScaleEncoder(np.zeros(n), np.ones(n))
    return LogisticCircuit.flat(circuit, encoder, tuple(range(n_classes)), weights, None, bias, link)


@pytest.mark.parametrize(("logit", "percent"), [(-3.1, 4.31), (1.9, 86.99), (5.8, 99.70)])
def test_figure_1_turns_weight_functions_into_probabilities(logit: float, percent: float) -> None:
    assert 100 * HEADS["sigmoid"].probabilities(np.array([[logit]]))[0, 1] == pytest.approx(percent, abs=0.005)


def test_figure_1_reads_the_weights_of_the_wires_that_are_on() -> None:
    # four variables A B C D, vtree ((A B) (C D)), split on A; the three rows of Fig. 1 prescribe sums of wire weights
    circuit = apply_splits(initial_circuit(vtrees.balanced(4)), [Split(8, 0)]).circuit
    rows = {(1, 0, 1, 1): -3.1, (0, 1, 1, 0): 1.9, (1, 1, 1, 0): 5.8}
    weights = np.random.default_rng(0).normal(size=(1, circuit.n_elements)).round(1)

    def on(world: tuple[int, ...]) -> list[int]:
        """Elements that a walk from the root meets, by hand."""
        met, stack = [], [circuit.n_or_gates - 1]
        column = int("".join(map(str, world)), 2)
        true = truth(circuit)
        while stack:
            gate = stack.pop()
            for index, (p, s) in enumerate(circuit.elements_of(gate)):
                if true[p, column] and true[s, column]:
                    met.append(int(circuit.or_start[gate]) + index)
                    stack += [c - 8 for c in (p, s) if c >= 8]
        return met

    for world, logit in rows.items():  # make each row's sum what the figure says, by a wire of its own
        own = next(e for e in on(world) if all(e not in on(other) for other in rows if other != world))
        weights[0, own] += logit - weights[0, on(world)].sum()
    model = boolean_model(circuit, weights, np.zeros(1))
    np.testing.assert_allclose(model.logits(np.array(list(rows)))[:, 0], list(rows.values()), atol=1e-6)


@settings(deadline=None)
@given(random_circuits(most=6), st.integers(0, 2**16), st.sampled_from(["two", "softmax"]))
def test_figure_5_log_ratios_give_bayes_rule(circuit: Circuit, seed: int, kind: str) -> None:
    if not circuit.n_or_gates:
        return
    generator = np.random.default_rng(seed)
    n_classes, link = (2, "sigmoid") if kind == "two" else (3, "softmax")
    theta = generator.random((n_classes, circuit.n_elements)) + 0.1
    theta /= np.add.reduceat(theta, circuit.or_start[:-1], axis=1)[:, circuit.elem_or]
    priors = generator.dirichlet(np.ones(n_classes))
    # the generative side by recursion on the definition: Pr(x) of every node, leaves 1 where true
    worlds = all_worlds(circuit.n_variables)
    joint = []
    for k in range(n_classes):
        values = [row.astype(float) for row in truth(circuit)[: circuit.n_literals]]
        for gate in range(circuit.n_or_gates):
            start = circuit.or_start[gate]
            values.append(
                sum(theta[k, start + i] * values[p] * values[s] for i, (p, s) in enumerate(circuit.elements_of(gate)))
            )
        joint.append(priors[k] * values[-1])
    expected = np.array(joint).T / np.sum(joint, axis=0)[:, None]
    assert np.sum(joint) == pytest.approx(1.0)
    weights, bias = posterior_weights(circuit, theta, priors, link)  # type: ignore[arg-type]
    model = boolean_model(circuit, weights, bias, link)  # type: ignore[arg-type]
    np.testing.assert_allclose(model.predict_proba(worlds, precision="float64"), expected, atol=1e-10)


@pytest.mark.parametrize(
    ("theta", "priors", "link", "message"),
    [
        (np.full((2, 3), 0.25), [0.5, 0.5], "sigmoid", r"expected parameters of shape \(2, 4\)"),
        (np.full((3, 4), 0.25), [0.2, 0.3, 0.5], "sigmoid", "use the softmax link"),
        (np.full((2, 4), 0.25), [0.5, 0.6], "sigmoid", "priors that sum to 1"),
        (np.full((2, 4), 0.3), [0.5, 0.5], "sigmoid", "class 0, or gate 0: its parameters sum to 1.2"),
        (np.array([[0, 0, 0.5, 0.5]] * 2), [0.5, 0.5], "sigmoid", "positive parameters"),
    ],
)
def test_refuses_what_is_no_probabilistic_circuit(
    theta: np.ndarray, priors: list[float], link: Link, message: str
) -> None:
    with pytest.raises(CircuitError, match=message):
        posterior_weights(initial_circuit(vtrees.balanced(2)), theta, priors, link)
