"""What Liang & Van den Broeck, *Learning Logistic Circuits*, AAAI 2019, prints: its figures, examples and propositions.

Values are typed from the paper's source. lcml's or gates join elements of two children each; the figures also draw or
gates whose wires come from single literals. There a variable T that is always true is the second child, so that every
wire of a figure is one element here and carries its weight.
"""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from lcml.circuits import vtree as vtrees
from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.circuits.splits import Split, apply_splits
from lcml.circuits.vtree import Vtree
from lcml.errors import CircuitError
from lcml.inputs.encoders import ScaleEncoder
from lcml.model.head import Link
from lcml.model.model import LogisticCircuit
from lcml.model.probabilistic import posterior_weights

from ..worlds import all_worlds, examples, random_circuits, truth, world_probabilities

A, B, C, D, T = range(5)
NOT = 5
"""not X is X + NOT: what literals count to, for the five variables of Fig. 1 and T."""
B_OR_NOT_B, B_OR_NOT_B_2, C_EQUALS_D, C_DIFFERS_FROM_D, LEFT, RIGHT, ROOT = range(2 * NOT, 2 * NOT + 7)

FIGURE_1: dict[int, list[tuple[int, int, float]]] = {
    B_OR_NOT_B: [(B, T, -4), (B + NOT, T, 1)],
    B_OR_NOT_B_2: [(B, T, 3.9), (B + NOT, T, 4)],
    C_EQUALS_D: [(C, D, -0.5), (C + NOT, D + NOT, 0.3)],
    C_DIFFERS_FROM_D: [(C, D + NOT, 1.5), (C + NOT, D, 2.8)],
    LEFT: [(B_OR_NOT_B, C_EQUALS_D, -1), (B_OR_NOT_B_2, C_DIFFERS_FROM_D, 3)],
    RIGHT: [(B_OR_NOT_B_2, C_DIFFERS_FROM_D, 2.3), (B_OR_NOT_B_2, C_EQUALS_D, 4)],
    ROOT: [(A, LEFT, -2.6), (A + NOT, RIGHT, -5.8)],
}
"""Fig. 1(a): under every or gate, bottom-up, its wires as (prime, sub, weight)."""

FIGURE_5 = {
    B_OR_NOT_B: [(0.1, 0.6), (0.9, 0.4)],
    B_OR_NOT_B_2: [(0.8, 0.9), (0.2, 0.1)],
    C_EQUALS_D: [(0.1, 0.8), (0.9, 0.2)],
    C_DIFFERS_FROM_D: [(0.3, 0.5), (0.7, 0.5)],
    LEFT: [(0.2, 0.2), (0.8, 0.8)],
    RIGHT: [(0.6, 0.7), (0.4, 0.3)],
    ROOT: [(0.9, 0.4), (0.1, 0.6)],
}
"""Fig. 5(a), of the same wires: probabilities under Y and under not Y; Fig. 5(b) has ln of their ratio for weight."""
PRIORS = (0.4, 0.6)
"""Fig. 5(a), of not Y and of Y."""


def figure_circuit() -> Circuit:
    """The circuit of Figs. 1 and 5, over the vtree (A ((B T) (C D)))."""
    leaves, b_t, c_d, below_a, root = NOT, 5, 6, 7, 8  # numbers of vtree nodes; leaf v is variable v
    vtree = Vtree(
        np.array([-1] * leaves + [B, C, b_t, A]),
        np.array([-1] * leaves + [T, D, c_d, below_a]),
        np.array([A, B, C, D, T, -1, -1, -1, -1]),
    )
    gates = [[(prime, sub) for prime, sub, _ in wires] for wires in FIGURE_1.values()]
    return circuit_of(vtree, [b_t, b_t, c_d, c_d, below_a, below_a, root], gates)


def circuit_of(vtree: Vtree, or_vtree: list[int], gates: list[list[tuple[int, int]]]) -> Circuit:
    """The circuit whose or gates, bottom-up, have these (prime, sub) elements."""
    start = np.cumsum([0, *map(len, gates)])
    prime, sub = np.array([element for gate in gates for element in gate]).T
    return Circuit(vtree, np.array(or_vtree), start, prime, sub)


def with_t(abcd: Sequence[tuple[int, ...]] | NDArray[np.float64]) -> NDArray[np.float64]:
    """(n_examples, 5): T is true."""
    return np.column_stack([abcd, np.ones(len(abcd))])


def exact(q: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest numbers that encoders, which hand out float32, do not change."""
    return q.astype(np.float32).astype(np.float64)


def boolean_model(circuit: Circuit, weights: ArrayLike, bias: ArrayLike, link: Link = "sigmoid") -> LogisticCircuit:
    n, n_classes = circuit.n_variables, max(2, len(np.asarray(bias)))
    encoder = ScaleEncoder(np.zeros(n), np.ones(n))
    return LogisticCircuit.flat(
        circuit, encoder, tuple(range(n_classes)), np.asarray(weights), None, np.asarray(bias), link
    )


def flows_of(circuit: Circuit, q: ArrayLike) -> NDArray[np.float64]:
    """(n_examples, n_elements): the logits of a model whose weight set k weighs element k alone, with 1."""
    n = circuit.n_elements
    model = boolean_model(circuit, np.eye(n), np.zeros(n), "softmax")
    return np.asarray(model.logits(np.asarray(q, dtype=float), precision="float64"))


def definition_2(circuit: Circuit, weights: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    """g of the root, bottom-up: an element adds up its children, an or gate takes every element plus its weight in the
    share Pr(element | gate) [Def. 2, with Def. 3 for its flow]; probabilities by going through all worlds."""
    true, world = truth(circuit), world_probabilities(q)
    g = [0.0] * circuit.n_literals
    for gate in range(circuit.n_or_gates):
        start, of_gate = circuit.or_start[gate], true[circuit.n_literals + gate] @ world
        total = 0.0
        for i, (p, s) in enumerate(circuit.elements_of(gate)):
            share = (true[p] & true[s]) @ world / of_gate if of_gate else 0.0
            total += share * (g[p] + g[s] + weights[start + i])
        g.append(total)
    return g[-1]


def figure_1() -> LogisticCircuit:
    weights = [[weight for wires in FIGURE_1.values() for *_, weight in wires]]
    return boolean_model(figure_circuit(), weights, [0.0])


@pytest.mark.parametrize(
    ("abcd", "logit", "percent"),
    [((1, 0, 1, 1), -3.1, 4.31), ((0, 1, 1, 0), 1.9, 86.99), ((1, 1, 1, 0), 5.8, 99.70)],
)
def test_figure_1(abcd: tuple[int, ...], logit: float, percent: float) -> None:
    q = with_t([abcd])
    assert figure_1().logits(q)[0, 0] == pytest.approx(logit, abs=1e-5)
    assert 100 * figure_1().predict_proba(q)[0, 1] == pytest.approx(percent, abs=0.005)


def test_figure_1_sums_the_weights_of_the_red_wires() -> None:
    # section 2.2: for A=0, B=1, C=1, D=0 the weight function is -5.8 + 2.3 + 3.9 + 1.5
    flow = flows_of(figure_circuit(), with_t([(0, 1, 1, 0)]))[0]
    weights = figure_1().element_weights[0]
    assert set(flow) == {0.0, 1.0}
    assert sorted(weights[flow == 1]) == [-5.8, 1.5, 2.3, 3.9]


def test_the_probability_of_a_sentence() -> None:
    # section 2.3: with A=0.4, B=0.8, C=0.2, D=0.7 the probability of (not A and D) is (1 - 0.4) 0.7 = 0.42
    circuit = initial_circuit(vtrees.balanced(2))
    element = list(circuit.elements_of(0)).index((2, 1))
    assert flows_of(circuit, [(0.4, 0.7)])[0, element] == pytest.approx(0.42)


@pytest.mark.parametrize(
    ("a", "b", "before", "without_a", "with_a"),
    [(1, 1, 1, 0, 1), (0, 1, 1, 1, 0), (0.5, 0.6, 0.6, 0.30, 0.30), (0.4, 0.8, 0.8, 0.48, 0.32)],
)
def test_figure_3(a: float, b: float, before: float, without_a: float, with_a: float) -> None:
    # (B and (A or not A)) or (not B and (A or not A)), over the variables B, A, T and the vtree (B (A T))
    vtree = vtrees.right_linear(3)
    a_or_not_a = 6
    gates = [[(1, 2), (4, 2)], [(0, a_or_not_a), (3, a_or_not_a)]]
    circuit = circuit_of(vtree, [int(vtree.right[vtree.root]), vtree.root], gates)
    q, f0 = [(b, a, 1)], 2
    assert flows_of(circuit, q)[0, f0] == pytest.approx(before)
    split = apply_splits(circuit, [Split(f0, variable=1)])
    halves = [
        (1 in split.circuit.implied[split.circuit.elem_sub[element]], flow)
        for element, flow in enumerate(flows_of(split.circuit, q)[0])
        if split.origin[element] == f0
    ]
    assert sorted(halves) == [(False, pytest.approx(without_a)), (True, pytest.approx(with_a))]


def test_figure_5_puts_log_ratios_on_the_wires() -> None:
    pairs = [pair for wires in FIGURE_5.values() for pair in wires]
    theta = [[without for _, without in pairs], [with_y for with_y, _ in pairs]]
    weights, bias = posterior_weights(figure_circuit(), theta, PRIORS)
    np.testing.assert_allclose(weights[0], [math.log(with_y / without) for with_y, without in pairs])
    np.testing.assert_allclose(bias, [math.log(0.6 / 0.4)])
    # A=1, B=1, C=1, D=0 by hand: Y has 0.6 x 0.9 0.8 0.8 0.3, not Y has 0.4 x 0.4 0.8 0.9 0.5
    with_y, without = 0.6 * 0.9 * 0.8 * 0.8 * 0.3, 0.4 * 0.4 * 0.8 * 0.9 * 0.5
    found = boolean_model(figure_circuit(), weights, bias).predict_proba(with_t([(1, 1, 1, 0)]))[0, 1]
    assert found == pytest.approx(with_y / (with_y + without), abs=1e-6)


def test_figure_6() -> None:
    # four pixels: a pair of variables makes an element of every joint assignment, two pairs one
    circuit = initial_circuit(vtrees.balanced(4))
    a, b, c, d, none = 0, 1, 2, 3, 4
    assert [sorted(circuit.elements_of(gate)) for gate in range(circuit.n_or_gates)] == [
        sorted([(a, b), (a, b + none), (a + none, b), (a + none, b + none)]),
        sorted([(c, d), (c, d + none), (c + none, d), (c + none, d + none)]),
        [(8, 9)],
    ]


def test_proposition_1_a_logistic_regression_is_a_circuit() -> None:
    # Fig. 2: weights on literals alone, and theta_0 as the bias
    generator = np.random.default_rng(0)
    literals, bias, q = generator.normal(size=(1, 8)), generator.normal(size=1), exact(generator.random((20, 4)))
    circuit = initial_circuit(vtrees.balanced(4))
    encoder = ScaleEncoder(np.zeros(4), np.ones(4))
    model = LogisticCircuit.flat(circuit, encoder, (0, 1), np.zeros((1, circuit.n_elements)), literals, bias)
    regression = 1 / (1 + np.exp(-(q @ literals[0, :4] + (1 - q) @ literals[0, 4:] + bias)))
    np.testing.assert_allclose(model.predict_proba(q, precision="float64")[:, 1], regression, rtol=1e-12)


@settings(deadline=None, max_examples=50)
@given(random_circuits(most=6), st.integers(0, 2**16))
def test_propositions_2_and_4_one_function_bottom_up_and_top_down(circuit: Circuit, seed: int) -> None:
    if not circuit.n_or_gates:
        return
    weights = np.random.default_rng(seed).normal(size=circuit.n_elements)
    q = exact(examples(circuit.n_variables, 3, seed))
    bottom_up = [definition_2(circuit, weights, row) for row in q]
    # Prop. 2: a logistic regression on features that do not depend on its weights; Prop. 4: these are the global flows
    np.testing.assert_allclose(flows_of(circuit, q) @ weights, bottom_up, atol=1e-10)
    model = boolean_model(circuit, weights[None], [0.0])
    np.testing.assert_allclose(model.logits(q, precision="float64")[:, 0], bottom_up, atol=1e-10)


def test_propositions_2_and_4_on_the_circuit_of_figure_1() -> None:
    q = with_t(np.concatenate([all_worlds(4), exact(np.random.default_rng(0).random((10, 4)))]))
    weights = figure_1().element_weights[0]
    expected = [definition_2(figure_circuit(), weights, row) for row in q]
    np.testing.assert_allclose(figure_1().logits(q, precision="float64")[:, 0], expected, atol=1e-12)


@settings(deadline=None)
@given(random_circuits(most=6), st.integers(0, 2**16), st.sampled_from(["two", "softmax"]))
def test_proposition_6_log_ratios_give_bayes_rule(circuit: Circuit, seed: int, kind: str) -> None:
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
