"""Loss, gradient and curvature against finite differences and scikit-learn; the solvers against the optimum."""

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from lcml.backend import NumpyBackend
from lcml.circuits import vtree as vtrees
from lcml.errors import DataError
from lcml.learning.minibatch import minimise_minibatch
from lcml.learning.objective import Objective
from lcml.learning.parameters import Parameters, Parametrisation
from lcml.learning.solver import SolverSettings, minimise
from lcml.model.head import HEADS, Link
from lcml.model.metrics import quality
from lcml.passes.feature_store import FeatureStore
from lcml.passes.flows import flows, literal_rows
from lcml.passes.plan import compile_plan

from ..strict import StrictBackend
from ..worlds import examples, grown, independent, whole

CIRCUIT = grown(vtrees.grid(2, 3), seed=4, rounds=3)
NUMPY = NumpyBackend()
CASES: list[tuple[int, Link, bool]] = [
    (2, "sigmoid", True),
    (2, "softmax", False),
    (3, "sigmoid", False),
    (3, "softmax", True),
]
"""Classes, link, and whether weights of all literals and elements stand over independent features."""


def problem(
    n_classes: int, link: Link, lifted: bool = False, l2: float = 0.01, n: int = 60, budget: int | None = None
) -> Objective:
    generator = np.random.default_rng(n_classes)
    q = examples(6, n, seed=7)
    labels = generator.integers(0, n_classes, n)
    weights = generator.random(n) + 0.1
    parts = [independent(CIRCUIT) if lifted else whole(CIRCUIT)]
    store = FeatureStore(parts, q, NUMPY, precision="float64", budget=budget)
    parametrisation = Parametrisation(parts, literals=True) if lifted else None
    return Objective(
        store, labels, n_classes, link=link, l2=l2, example_weights=weights, parametrisation=parametrisation
    )


def features_of(objective: Objective) -> np.ndarray:
    plan = compile_plan(CIRCUIT, NUMPY)
    return np.asarray(flows(plan, literal_rows(plan, examples(6, len(objective.labels), seed=7))).T)


@pytest.mark.parametrize(("n_classes", "link", "lifted"), CASES)
def test_gradient_matches_finite_differences(n_classes: int, link: Link, lifted: bool) -> None:
    objective = problem(n_classes, link, lifted)
    zero = objective.zeros()
    theta = np.random.default_rng(1).normal(size=zero.flat().size) * 0.3
    error = check_grad(
        lambda t: objective.value_and_gradient(zero.from_flat(t))[0].sum(),
        lambda t: objective.value_and_gradient(zero.from_flat(t))[1].flat(),
        theta,
    )
    assert error < 1e-6


@pytest.mark.parametrize(("n_classes", "link", "lifted"), CASES)
def test_curvature_bound_by_its_formula(n_classes: int, link: Link, lifted: bool) -> None:
    objective = problem(n_classes, link, lifted)
    zero = objective.zeros()
    theta = zero.from_flat(np.random.default_rng(1).normal(size=zero.flat().size) * 0.3)
    p = HEADS["softmax"].probabilities(objective.logits(theta)) if link == "softmax" else expit(objective.logits(theta))
    h = p * (1 - p) * objective.example_weights[:, None]
    found = objective.curvature_bound(theta)
    np.testing.assert_allclose(found.weights, h.T @ features_of(objective) + objective.l2, atol=1e-12)
    np.testing.assert_allclose(found.bias, h.sum(axis=0), atol=1e-12)


@pytest.mark.parametrize("link", ["sigmoid", "softmax"])
def test_independent_features_stand_for_all(link: Link) -> None:
    # the same loss, the same gradient and so the same optimum, over fewer than half the features
    few, every = problem(3, link, lifted=True), problem(3, link)
    assert few.features.n_features < every.features.n_features / 2
    theta = few.zeros().from_flat(np.random.default_rng(1).normal(size=few.zeros().flat().size))
    np.testing.assert_allclose(few.logits(theta), every.logits(theta), atol=1e-12)
    (loss, gradient), (other_loss, other_gradient) = (o.value_and_gradient(theta) for o in (few, every))
    np.testing.assert_allclose(loss, other_loss, rtol=1e-12)
    np.testing.assert_allclose(gradient.flat(), other_gradient.flat(), atol=1e-12)


def test_loss_worked_by_hand() -> None:
    # two examples of weight 1 and 3, logits 0 by zero weights: each loses log 2; the bias moves them together
    store = FeatureStore([whole(CIRCUIT)], examples(6, 2, seed=0), NUMPY, precision="float64")
    objective = Objective(store, np.array([1, 0]), 2, l2=0.5, example_weights=np.array([1.0, 3.0]))
    zero = objective.zeros()
    assert objective.value_and_gradient(zero)[0].sum() == pytest.approx(np.log(2))
    moved = Parameters(zero.weights + 0.1, np.array([0.0]))
    penalty = 0.25 * 0.01 * zero.weights.size
    logit = objective.logits(moved)[:, 0]
    expected = (np.log1p(np.exp(-logit[0])) + 3 * np.log1p(np.exp(logit[1]))) / 4 + penalty
    assert objective.value_and_gradient(moved)[0].sum() == pytest.approx(expected)


@pytest.mark.parametrize(("n_classes", "link"), [(2, "sigmoid"), (3, "softmax")])
def test_optimum_is_scikit_learns(n_classes: int, link: Link) -> None:
    objective = problem(n_classes, link, l2=0.01)
    found = minimise(objective, objective.zeros(), SolverSettings(2000, 1e-9))
    assert found.converged
    # scikit-learn minimises C sum_i w_i l_i + |theta|^2 / 2: C = 1 / (l2 W), with weights that sum to 1 here
    reference = LogisticRegression(C=1 / 0.01, tol=1e-10, max_iter=10000)
    reference.fit(features_of(objective), objective.labels, sample_weight=objective.example_weights)
    logits = objective.logits(found.parameters)
    expected = reference.decision_function(features_of(objective)).reshape(logits.shape)
    if n_classes > 2:  # the softmax does not see a constant added to every class
        logits, expected = (g - g.mean(axis=1, keepdims=True) for g in (logits, expected))
    np.testing.assert_allclose(logits, expected, atol=1e-4)


def test_one_vs_rest_is_three_binary_problems() -> None:
    objective = problem(3, "sigmoid", l2=0.01)
    found = minimise(objective, objective.zeros(), SolverSettings(2000, 1e-9))
    for k in range(3):
        reference = LogisticRegression(C=1 / 0.01, tol=1e-10, max_iter=10000)
        reference.fit(features_of(objective), objective.labels == k, sample_weight=objective.example_weights)
        expected = reference.decision_function(features_of(objective))
        np.testing.assert_allclose(objective.logits(found.parameters)[:, k], expected, atol=1e-4)


@pytest.mark.parametrize(("n_classes", "link", "lifted"), CASES)
def test_optimum_does_not_depend_on_the_start(n_classes: int, link: Link, lifted: bool) -> None:
    objective = problem(n_classes, link, lifted)
    zero = objective.zeros()
    far = zero.from_flat(np.random.default_rng(3).normal(size=zero.flat().size) * 3)
    settings = SolverSettings(3000, 1e-9)
    first, second = minimise(objective, zero, settings), minimise(objective, far, settings)
    assert first.loss == pytest.approx(second.loss, abs=1e-9)
    np.testing.assert_allclose(first.parameters.weights, second.parameters.weights, atol=1e-3)


def test_recomputed_features_give_the_same_numbers() -> None:
    kept, recomputed = problem(3, "sigmoid"), problem(3, "sigmoid", budget=0)
    theta = kept.zeros().from_flat(np.random.default_rng(2).normal(size=kept.zeros().flat().size))
    (loss, gradient), (other_loss, other_gradient) = (o.value_and_gradient(theta) for o in (kept, recomputed))
    np.testing.assert_array_equal(loss, other_loss)
    np.testing.assert_array_equal(gradient.weights, other_gradient.weights)


def test_a_copy_of_an_example_is_a_weight_of_two() -> None:
    q, labels = examples(6, 20, seed=1), np.random.default_rng(0).integers(0, 3, 20)
    twice = np.concatenate([np.arange(20), np.arange(5)])
    copies = Objective(FeatureStore([whole(CIRCUIT)], q[twice], NUMPY, precision="float64"), labels[twice], 3, l2=0.1)
    weights = np.where(np.arange(20) < 5, 2.0, 1.0)
    weighted = Objective(
        FeatureStore([whole(CIRCUIT)], q, NUMPY, precision="float64"), labels, 3, l2=0.1, example_weights=weights
    )
    theta = copies.zeros().from_flat(np.random.default_rng(5).normal(size=copies.zeros().flat().size))
    assert copies.value_and_gradient(theta)[0] == pytest.approx(weighted.value_and_gradient(theta)[0], abs=1e-12)


def test_minibatches_come_close_to_the_optimum() -> None:
    generator = np.random.default_rng(0)
    q = generator.random((20 * NUMPY.chunk_examples, 6))
    labels = (q[:, 0] * q[:, 1] + 0.2 * generator.random(len(q)) > 0.4).astype(np.int64)
    store = FeatureStore([whole(CIRCUIT)], q, NUMPY, precision="float64", budget=0)
    objective = Objective(store, labels, 2, l2=1e-4)
    best = minimise(objective, objective.zeros(), SolverSettings(500, 1e-7))
    found = minimise_minibatch(objective, objective.zeros(), SolverSettings(160, 0.0), seed=1)
    assert found.loss < 1.02 * best.loss
    again = minimise_minibatch(objective, objective.zeros(), SolverSettings(160, 0.0), seed=1)
    np.testing.assert_array_equal(found.parameters.weights, again.parameters.weights)


def test_a_short_chunk_counts_by_its_examples() -> None:
    objective = problem(2, "sigmoid", n=NUMPY.chunk_examples + 8)
    theta = objective.zeros().from_flat(np.random.default_rng(3).normal(size=objective.zeros().flat().size))
    loss, gradient = objective.value_and_gradient(theta)
    estimates = [objective.value_and_gradient(theta, [chunk]) for chunk in (0, 1)]
    np.testing.assert_allclose(np.mean([of for of, _ in estimates], axis=0), loss, rtol=1e-9)
    np.testing.assert_allclose(np.mean([slope.flat() for _, slope in estimates], axis=0), gradient.flat(), atol=1e-9)


def test_solver_stops_when_asked() -> None:
    objective = problem(3, "sigmoid")
    found = minimise(objective, objective.zeros(), SolverSettings(100, 0.0), should_stop=lambda: True)
    assert found.n_iterations <= 1
    assert not found.converged


def test_training_stays_on_the_device() -> None:
    q, labels = examples(6, 10, seed=1), np.random.default_rng(0).integers(0, 3, 10)
    on_device = Objective(FeatureStore([whole(CIRCUIT)], q, StrictBackend(), precision="float64"), labels, 3, l2=0.1)
    on_host = Objective(FeatureStore([whole(CIRCUIT)], q, NUMPY, precision="float64"), labels, 3, l2=0.1)
    theta = on_host.zeros().from_flat(np.random.default_rng(5).normal(size=on_host.zeros().flat().size))
    assert on_device.value_and_gradient(theta)[0] == pytest.approx(on_host.value_and_gradient(theta)[0])
    np.testing.assert_allclose(on_device.logits(theta), on_host.logits(theta), atol=1e-12)
    np.testing.assert_allclose(
        on_device.curvature_bound(theta).weights, on_host.curvature_bound(theta).weights, atol=1e-12
    )


@pytest.mark.parametrize(
    ("labels", "weights", "message"),
    [
        (np.zeros(3, int), None, "expected 10 labels"),
        (np.zeros(10, int), -np.ones(10), "weights of 0 or more"),
        (np.zeros(10, int), np.zeros(10), "sum to 0"),
    ],
)
def test_refuses_labels_and_weights_that_do_not_fit(labels: np.ndarray, weights: np.ndarray, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Objective(FeatureStore([whole(CIRCUIT)], examples(6, 10, seed=1), NUMPY), labels, 2, example_weights=weights)


def test_quality_matches_scikit_learn() -> None:
    from sklearn.metrics import accuracy_score, f1_score, log_loss

    generator = np.random.default_rng(0)
    logits, labels = generator.normal(size=(50, 3)), generator.integers(0, 3, 50)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    found = quality(logits, labels, 3, "softmax")
    predicted = logits.argmax(axis=1)
    assert found.accuracy == pytest.approx(accuracy_score(labels, predicted))
    assert found.f1_macro == pytest.approx(f1_score(labels, predicted, average="macro"))
    assert found.log_loss == pytest.approx(log_loss(labels, p))
    weights = generator.exponential(size=50)
    weighted = quality(logits, labels, 3, "softmax", weights)
    assert weighted.accuracy == pytest.approx(accuracy_score(labels, predicted, sample_weight=weights))
    assert weighted.f1_macro == pytest.approx(f1_score(labels, predicted, average="macro", sample_weight=weights))
    assert weighted.log_loss == pytest.approx(log_loss(labels, p, sample_weight=weights))
    binary = quality(logits[:, :1], (labels > 1).astype(np.int64), 2, "sigmoid")
    assert binary.log_loss == pytest.approx(log_loss(labels > 1, 1 / (1 + np.exp(-logits[:, 0]))))


def test_macro_f1_is_of_the_classes_at_hand() -> None:
    """As scikit-learn: a class that neither occurs nor is predicted is no class of the mean."""
    from sklearn.metrics import f1_score

    logits, labels = np.array([[3.0, 0, 0, 0], [0, 3, 0, 0], [3, 0, 0, 0]]), np.array([0, 1, 1])
    assert quality(logits, labels, 4, "softmax").f1_macro == f1_score(labels, [0, 1, 0], average="macro")
