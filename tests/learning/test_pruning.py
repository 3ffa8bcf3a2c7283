"""Pruning against losses worked out otherwise: what is dropped costs least, what stays is fitted to the optimum."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from lcml.backend import BackendName, get_backend
from lcml.circuits.circuit import initial_circuit
from lcml.circuits.parts import Part
from lcml.circuits.views import IdentityView, WindowView, window_vtree
from lcml.circuits.vtree import balanced
from lcml.explain.contributions import feature_values
from lcml.inputs.encoders import ScaleEncoder
from lcml.learning.pruning import Penalty, conditions_of, prune, refitted, with_conditions
from lcml.learning.state import EncodedSet
from lcml.model.metrics import quality
from lcml.model.model import LogisticCircuit

NUMPY = get_backend("numpy")


@pytest.fixture(scope="module")
def data() -> tuple[EncodedSet, EncodedSet]:
    """Six truth values; the label is told by the first, and a little by the second."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (600, 6)).astype(np.float64)
    labels = (3 * x[:, 0] + x[:, 1] - 2 + rng.logistic(size=600) > 0).astype(np.int64)
    return EncodedSet(x[:400], labels[:400]), EncodedSet(x[400:], labels[400:])


def literal_model() -> LogisticCircuit:
    """Weights for the literals X_0 to X_5 alone: logistic regression."""
    circuit = initial_circuit(balanced(6))
    weighted = np.arange(circuit.n_literals + circuit.n_elements) < 6
    part = Part(IdentityView(6), circuit, weighted)
    return LogisticCircuit(
        ScaleEncoder(np.zeros(6), np.ones(6)), (part,), ("no", "yes"), np.full((1, 6), 0.1), np.zeros(1)
    )


def loss(theta: np.ndarray, data: EncodedSet, l2: float, anchor: np.ndarray, used: list[int]) -> float:
    logits = data.values[:, used] @ theta[:-1] + theta[-1]
    return float(np.mean(np.logaddexp(0, logits) - data.labels * logits) + l2 / 2 * np.sum((theta[:-1] - anchor) ** 2))


@pytest.mark.parametrize("near", [False, True])
def test_what_stays_is_the_best_pair_and_at_the_optimum(data: tuple[EncodedSet, EncodedSet], near: bool) -> None:
    train, valid = data
    steps = list(prune(literal_model(), train, valid, Penalty(0.01, near), NUMPY, most_conditions=2))
    assert [step.n_conditions for step in steps] == [6, 4, 3, 2]
    last = steps[-1]
    assert last.model.parts[0].flows.tolist() == [0, 1]
    anchor = steps[-2].model.weights[0][np.isin(steps[-2].model.parts[0].flows, [0, 1])] if near else np.zeros(2)
    found = minimize(loss, np.zeros(3), args=(train, 0.01, anchor, [0, 1]), tol=1e-10)
    assert np.append(last.model.weights, last.model.bias) == pytest.approx(found.x, abs=1e-3)
    measured = quality(last.model.logits(valid.values), valid.labels, 2, "sigmoid")
    assert last.valid.log_loss == pytest.approx(measured.log_loss, abs=1e-6)


@pytest.fixture(scope="module")
def windows() -> tuple[LogisticCircuit, EncodedSet]:
    """Windows of 2x2 pixels in four cells and a circuit over all 16, three classes told by two of the pixels."""
    window = WindowView((1, 4, 4), (2, 2), grid=(2, 2))
    parts = (
        Part.full(window, initial_circuit(window_vtree(window))),
        Part.full(IdentityView(16), initial_circuit(balanced(16))),
    )
    rng = np.random.default_rng(1)
    n_features = sum(part.n_features for part in parts)
    x = rng.random((60, 16))
    model = LogisticCircuit(
        ScaleEncoder(np.zeros(16), np.ones(16)), parts, ("a", "b", "c"),
        rng.normal(size=(3, n_features)), np.zeros(3), "softmax",
    )  # fmt: skip
    return model, EncodedSet(x, (x[:, 0] > 0.6).astype(np.int64) + (x[:, 9] > 0.5))


def test_a_limit_on_parameters_drops_conditions_from_cells(windows: tuple[LogisticCircuit, EncodedSet]) -> None:
    """By the second order of the loss, worked out here from all features; a step keeps four fifths of those that are
    left, and what stays is at the optimum: there l2 w = -dloss/dw."""
    model, examples = windows
    steps = list(prune(model, examples, examples, Penalty(0.1), NUMPY, most_parameters=41))
    sizes = [model.weights.shape[1]]
    while sizes[-1] > 12:  # (41 - 3) // 3
        sizes.append(max(12, int(0.8 * sizes[-1])))
    assert [step.model.n_parameters for step in steps] == [3 * size + 3 for size in sizes]

    before, after = steps[0].model, steps[1].model
    x = feature_values(before, examples.values)
    p = before.predict_proba(examples.values, precision="float64")
    h = p * (1 - p)
    spread = h.T @ x**2 - (h.T @ x) ** 2 / h.sum(axis=0)[:, None]
    costs = np.sum(before.weights**2 * spread, axis=0)
    kept = np.zeros_like(costs)
    kept[np.argsort(-costs)[: sizes[1]]] = 1
    n_window = before.parts[0].n_features
    expected = (kept[:n_window].reshape(4, -1), kept[n_window:].reshape(1, -1))
    for found, own in zip(after.flow_weights, expected, strict=True):
        np.testing.assert_array_equal(np.any(found != 0, axis=0), own)

    last = steps[-1].model
    residual = last.predict_proba(examples.values, precision="float64") - np.eye(3)[examples.labels]
    gradient = residual.T @ feature_values(last, examples.values) / len(residual)
    np.testing.assert_allclose(gradient[:, last.carried], -0.1 * last.weights[:, last.carried], atol=1e-4)
    assert np.count_nonzero(last.carried) == 12 < last.weights.shape[1]
    assert steps[-1].n_conditions == len(conditions_of(last)) == len({
        (number, flow)
        for number, weights in enumerate(last.flow_weights)
        for flow in np.flatnonzero(np.any(weights != 0, axis=(0, 1)))
    })  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_cells_compute_what_carries_weights_there(
    windows: tuple[LogisticCircuit, EncodedSet], backend: BackendName
) -> None:
    """The parts of single cells have the features with weights, in order, as worked out over all cells; a cell without
    any has no part."""
    model, examples = windows
    rng = np.random.default_rng(2)
    carries = np.asarray(rng.random(model.weights.shape[1]) < 0.4)
    carries[: model.parts[0].n_features // 4] = False  # the first cell
    pruned = replace(model, weights=model.weights * carries, carries=carries)
    assert [part.view.n_cells for part in pruned.by_cell.parts] == [1, 1, 1, 1]
    assert pruned.by_cell.n_parameters == pruned.n_parameters
    x, device = examples.values, get_backend(backend)
    every = feature_values(model, x)
    np.testing.assert_allclose(feature_values(pruned.by_cell, x), every[:, carries], atol=1e-12)
    expected = every @ pruned.weights.T + pruned.bias
    np.testing.assert_allclose(pruned.logits(x, device, "float64"), expected, atol=1e-9)
    assert model.by_cell is model


def test_parts_without_conditions_go(windows: tuple[LogisticCircuit, EncodedSet]) -> None:
    model, _ = windows
    few = with_conditions(model, np.arange(len(conditions_of(model))) < 2)
    assert [part.view for part in few.parts] == [model.parts[0].view]
    np.testing.assert_array_equal(few.flow_weights[0][..., :2], model.flow_weights[0][..., :2])


def test_a_threshold_chosen_by_a_metric_is_chosen_again(data: tuple[EncodedSet, EncodedSet]) -> None:
    """No cut between the validation rows' probabilities has a better F1 than that of the pruned model."""
    train, valid = data
    told = {"settings": {"threshold": "f1"}}
    model = replace(literal_model(), threshold=0.9, provenance=told)
    for step in prune(model, train, valid, Penalty(0.01), NUMPY, most_conditions=1):
        p = step.model.predict_proba(valid.values)[:, 1]

        def f1(threshold: float, p: np.ndarray = p) -> float:
            right = np.sum((p > threshold) & (valid.labels == 1))
            return float(2 * right / (np.sum(p > threshold) + np.sum(valid.labels == 1)))

        assert f1(step.model.threshold) == pytest.approx(max(f1(cut) for cut in np.linspace(0.001, 0.999, 999)))
        assert step.valid.accuracy == np.mean((p > step.model.threshold) == valid.labels)
    given = replace(model, provenance={"settings": {"threshold": 0.9}})
    steps = prune(given, train, valid, Penalty(0.01), NUMPY, most_conditions=1)
    assert {step.model.threshold for step in steps} == {0.9}


def test_fitting_the_rest_again_undoes_what_was_lost(data: tuple[EncodedSet, EncodedSet]) -> None:
    train, _ = data
    model, _ = refitted(literal_model(), train, Penalty(1e-4), NUMPY)
    half = with_conditions(model, np.arange(6) < 1)
    again, _ = refitted(half, train, Penalty(1e-4), NUMPY)
    losses = [quality(m.logits(train.values), train.labels, 2, "sigmoid").log_loss for m in (model, again, half)]
    assert losses == sorted(losses)
    assert replace(half, weights=again.weights, bias=again.bias).n_parameters == 2
