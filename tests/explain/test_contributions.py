"""Contributions against logits, brute force and figures worked out by hand."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lcml.circuits.circuit import Circuit, initial_circuit
from lcml.circuits.parts import Part
from lcml.circuits.views import IdentityView, WindowView, window_vtree
from lcml.circuits.vtree import balanced, grid
from lcml.errors import DataError
from lcml.explain import contributions as explain
from lcml.explain.conditions import conditions
from lcml.explain.records import Contribution
from lcml.inputs.encoders import ScaleEncoder
from lcml.inputs.encoding import one_by_one
from lcml.model.model import LogisticCircuit
from tests.model_strategies import circuits
from tests.worlds import brute_flows, examples, random_circuits

NAMES = "abcdefghi"


def model_of(circuit: Circuit, n_sets: int = 1, seed: int = 0, literals: bool = True) -> LogisticCircuit:
    """A model with random weights whose raw features are tenths of the circuit's probabilities."""
    generator = np.random.default_rng(seed)
    n = circuit.n_variables
    return LogisticCircuit.flat(
        circuit=circuit,
        encoder=ScaleEncoder(np.zeros(n), np.full(n, 10.0)),
        classes=("no", "yes") if n_sets == 1 else ("p", "q", "r"),
        element_weights=generator.normal(size=(n_sets, circuit.n_elements)),
        literal_weights=generator.normal(size=(n_sets, 2 * n)) if literals else None,
        bias=generator.normal(size=n_sets),
    )


@pytest.mark.parametrize("n_sets", [1, 3])
@given(circuit=circuits(), seed=st.integers(0, 99), literals=st.booleans())
@settings(max_examples=25, deadline=None)
def test_contributions_sum_to_the_logits(n_sets: int, circuit: Circuit, seed: int, literals: bool) -> None:
    model = model_of(circuit, n_sets, seed, literals)
    x = 10 * examples(circuit.n_variables, 4, seed)
    parts = explain.contributions(model, x)
    assert parts.shape == (4, n_sets, model.weights.shape[1])
    np.testing.assert_allclose(parts.sum(axis=2) + model.bias, model.logits(x, precision="float64"), atol=1e-9)


@given(circuit=random_circuits(most=5), seed=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_a_contribution_is_flow_times_weight(circuit: Circuit, seed: int) -> None:
    if not circuit.n_or_gates:
        return
    model = model_of(circuit, 3, seed)
    q = examples(circuit.n_variables, 1, seed)[0].astype(np.float32).astype(np.float64)
    parts = explain.contributions(model, 10 * q[None, :])[0, :, circuit.n_literals :]
    np.testing.assert_allclose(parts, brute_flows(circuit, q) * model.element_weights, atol=1e-6)


def test_an_explanation_by_hand() -> None:
    """a = 1, b = 0: of the elements only "a and not b" flows, of the literals a and not b."""
    circuit = initial_circuit(balanced(2))
    model = LogisticCircuit.flat(
        circuit=circuit,
        encoder=ScaleEncoder(np.zeros(2), np.ones(2)),
        classes=("no", "yes"),
        element_weights=np.array([[8.0, -3.0, 8.0, 8.0]]),
        literal_weights=np.array([[1.0, 8.0, 8.0, 0.5]]),
        bias=np.array([0.25]),
    )
    found = explain.explain(model, [1.0, 0.0], ("a", "b"), top=2)
    assert found.label == "no"
    assert found.logit == pytest.approx(1.25)
    assert found.bias == -0.25
    assert found.contributions == (
        Contribution("a and not b", 1.0, 3.0, 3.0),
        Contribution("a", 1.0, -1.0, -1.0),
    )
    assert found.rest == pytest.approx(-0.5)
    assert found.probabilities == pytest.approx((1 / (1 + np.exp(-1.25)), 1 / (1 + np.exp(1.25))))
    assert found.baseline == -0.25
    by_default = explain.explain(model, [1.0, 0.0])
    assert [part.condition for part in by_default.contributions] == ["x0 and not x1", "x0", "not x1"]


def test_an_explanation_against_the_average_by_hand() -> None:
    """Of three examples a is true in two, "a and not b" in one. Their logits for "no": 1.25, -3.25 and
    -10.75; what a large bias and a condition that all share add explains none of them."""
    model = LogisticCircuit.flat(
        circuit=initial_circuit(balanced(2)),
        encoder=ScaleEncoder(np.zeros(2), np.ones(2)),
        classes=("no", "yes"),
        element_weights=np.array([[-6.0, -3.0, 2.0, 8.0]]),
        literal_weights=np.array([[1.0, 8.0, 0.5, 0.5]]),
        bias=np.array([0.25]),
    )
    examples = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    assert model.logits(examples)[:, 0].tolist() == [-1.25, 3.25, 10.75]
    average = explain.average_features(model, examples)
    assert average == pytest.approx(np.array([2, 2, 1, 1, 1, 1, 1, 0]) / 3)
    found = explain.explain(model, [1.0, 0.0], ("a", "b"), top=2, average=average)
    assert found.baseline == pytest.approx((1.25 - 3.25 - 10.75) / 3)
    assert [part.condition for part in found.contributions] == ["b", "a and b"]
    assert [part.contribution for part in found.contributions] == pytest.approx([(0 - 2 / 3) * -8, (0 - 1 / 3) * 6])
    assert [(part.flow, part.weight) for part in found.contributions] == [(0.0, -8.0), (0.0, 6.0)]
    assert [part.average for part in found.contributions] == pytest.approx([2 / 3, 1 / 3])
    shown = sum(part.contribution for part in found.contributions)
    assert found.baseline + shown + found.rest == pytest.approx(found.logit)


def test_names_must_be_one_per_feature() -> None:
    with pytest.raises(DataError, match="names: expected one per feature, 4, found 9"):
        explain.top_conditions(model_of(initial_circuit(balanced(4))), NAMES)


def test_features_under_one_condition_are_explained_as_one() -> None:
    """Over the pairs (a, b) and (c, d) the literal a has a condition of its own; the root's element always flows."""
    model = model_of(initial_circuit(balanced(4)), 3)
    found = explain.explain(model, [2.0, 5.0, 7.0, 10.0], NAMES[:4], top=99)
    texts = [part.condition for part in found.contributions]
    assert len(texts) == len(set(texts))
    assert found.rest == pytest.approx(0.0, abs=1e-12)
    assert found.logit == pytest.approx(model.logits([[2.0, 5.0, 7.0, 10.0]], precision="float64").max())
    assert found.label == model.predict([[2.0, 5.0, 7.0, 10.0]])[0]


def test_the_weightiest_conditions() -> None:
    circuit = initial_circuit(balanced(4))
    weights = np.zeros((3, circuit.n_elements))
    weights[0, :2] = 1.0, -2.0
    weights[2, -1] = 9.0  # always flows
    model = LogisticCircuit.flat(
        circuit, ScaleEncoder(np.zeros(4), np.ones(4)), ("p", "q", "r"), weights, None, np.zeros(3), "softmax"
    )
    texts = conditions(circuit, one_by_one(NAMES[:4]))[circuit.n_literals :]
    assert re.fullmatch(r"[a-d] and [a-d]", texts[0])
    found = explain.top_conditions(model, NAMES[:4], top=5)
    assert found == {"p": [(texts[1], -2.0), (texts[0], 1.0)], "q": [], "r": []}
    assert list(explain.top_conditions(model_of(circuit), NAMES[:4], 2)) == ["yes"]


def parts_model() -> LogisticCircuit:
    """On images of 3 x 4: a window of 1 x 2 in a grid of 3 x 2, square-rooted; and the whole."""
    window = WindowView((1, 3, 4), (1, 2), grid=(3, 2), root=True)
    small = initial_circuit(window_vtree(window))
    whole = Part.full(IdentityView(12), initial_circuit(grid(3, 4)))
    small_part = Part(window, small, np.arange(8) >= 4)
    generator = np.random.default_rng(5)
    n_features = small_part.n_features + whole.n_features
    return LogisticCircuit(
        ScaleEncoder(np.zeros(12), np.ones(12)),
        (small_part, whole),
        ("p", "q", "r"),
        generator.normal(size=(3, n_features)),
        generator.normal(size=3),
    )


def test_features_of_windows_by_hand() -> None:
    """Two windows fall into every left cell, one into every right: the mean of the conjunction there, its root."""
    model = parts_model()
    image = np.array([[0.5, 0.25, 1.0, 0.0], [0.0, 1.0, 1.0, 0.5], [0.25, 0.25, 0.75, 1.0]])
    values = explain.feature_values(model, image.reshape(1, 12))
    assert values.shape == (1, model.weights.shape[1])
    both = [(row[i] * row[i + 1]) for row in image for i in range(3)]  # the first element: both pixels
    expected = []
    for row in range(3):
        expected += [np.sqrt((both[3 * row] + both[3 * row + 1]) / 2), np.sqrt(both[3 * row + 2])]
    assert values[0, :24:4] == pytest.approx(expected)


def test_contributions_of_parts_sum_to_the_logits() -> None:
    model = parts_model()
    x = np.random.default_rng(1).random((5, 12))
    found = explain.contributions(model, x)
    assert found.shape == (5, 3, model.weights.shape[1])
    np.testing.assert_allclose(found.sum(axis=2) + model.bias, model.logits(x, precision="float64"), atol=1e-9)


def test_conditions_of_parts_say_where() -> None:
    model = parts_model()
    names = [f"f{j}" for j in range(12)]
    texts = list(explain.feature_conditions(model, names))
    assert texts[:5] == [
        "input[0,0] and input[0,1] in cell (0, 0) of part 0",
        "input[0,0] and not input[0,1] in cell (0, 0) of part 0",
        "not input[0,0] and input[0,1] in cell (0, 0) of part 0",
        "not input[0,0] and not input[0,1] in cell (0, 0) of part 0",
        "input[0,0] and input[0,1] in cell (0, 1) of part 0",
    ]
    assert texts[23] == "not input[0,0] and not input[0,1] in cell (2, 1) of part 0"
    assert texts[24] == "f0 in part 1"
    assert len(texts) == model.weights.shape[1]
    alone = replace(model, parts=model.parts[:1], weights=model.weights[:, :24])
    assert next(explain.feature_conditions(alone, names)) == "input[0,0] and input[0,1] in cell (0, 0)"


def test_an_explanation_of_parts() -> None:
    model = parts_model()
    x = np.random.default_rng(2).random(12)
    names = [f"f{j}" for j in range(12)]
    found = explain.explain(model, x, names, top=10**6)
    assert found.logit == pytest.approx(model.logits(x[None], precision="float64").max())
    assert found.rest == pytest.approx(0, abs=1e-9)
    texts = [part.condition for part in found.contributions]
    assert len(texts) == len(set(texts))
    of_features = dict.fromkeys(texts, 0.0)
    code = model.classes.index(found.label)
    for text, value in zip(
        explain.feature_conditions(model, names), explain.contributions(model, x[None])[0, code], strict=True
    ):
        of_features[text] += value
    assert {part.condition: part.contribution for part in found.contributions} == pytest.approx(of_features)


def test_the_weightiest_conditions_of_parts() -> None:
    model = parts_model()
    weights = np.zeros_like(model.weights)
    weights[1, 5], weights[1, 24], weights[1, 23] = 3.0, -2.0, 1.0
    found = explain.top_conditions(replace(model, weights=weights), [f"f{j}" for j in range(12)], top=2)
    assert found == {
        "p": [],
        "q": [("input[0,0] and not input[0,1] in cell (0, 1) of part 0", 3.0), ("f0 in part 1", -2.0)],
        "r": [],
    }
