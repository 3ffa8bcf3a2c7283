"""The change of variables against the Hessian worked out in full."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from lcml.backend import Backend, NumpyBackend
from lcml.circuits import vtree as vtrees
from lcml.circuits.parts import initial_part
from lcml.circuits.views import WindowView, window_vtree
from lcml.learning.objective import Objective
from lcml.learning.parameters import Parameters, Parametrisation
from lcml.learning.preconditioner import Preconditioner, _draw
from lcml.learning.solver import SolverSettings, minimise
from lcml.model.head import Link
from lcml.passes.feature_store import FeatureStore

from ..strict import StrictBackend
from ..worlds import examples, grown, independent, whole

CIRCUIT = grown(vtrees.grid(2, 3), seed=4, rounds=3)
NUMPY = NumpyBackend()


def problem(n: int, l2: float, lifted: bool = False, backend: Backend = NUMPY, n_classes: int = 3) -> Objective:
    generator = np.random.default_rng(n)
    parts = [independent(CIRCUIT) if lifted else whole(CIRCUIT)]
    store = FeatureStore(parts, examples(6, n, seed=7), backend, precision="float64")
    parametrisation = Parametrisation(parts, literals=True) if lifted else None
    labels, weights = generator.integers(0, n_classes, n), generator.random(n) + 0.1
    return Objective(store, labels, n_classes, l2=l2, example_weights=weights, parametrisation=parametrisation)


def somewhere(objective: Objective, seed: int = 1) -> Parameters:
    zero = objective.zeros()
    return zero.from_flat(np.random.default_rng(seed).normal(size=zero.flat().size) * 0.3)


def in_full(objective: Objective, at: Parameters, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The Hessian of weight set k by weights and bias, and the matrix of the change of variables."""
    store = objective.features
    features = np.concatenate(list(store.map(lambda _, chunk: chunk.values().T)))[:, store.row_of]
    columns = np.column_stack(
        [objective.parametrisation.adjoint(features, np.ones(len(features))), np.ones(len(features))]
    )
    p = expit(objective.logits(at)[:, k])
    hessian = columns.T @ (columns * (p * (1 - p) * objective.example_weights)[:, None])
    hessian[np.arange(len(hessian) - 1), np.arange(len(hessian) - 1)] += objective.l2
    preconditioner, change = Preconditioner.at(objective, at), []
    for unit in np.eye(len(hessian)):
        sets = np.tile(unit, (objective.n_sets, 1))
        step = preconditioner.step(Parameters(sets[:, :-1], sets[:, -1]))
        change.append(np.append(step.weights[k], step.bias[k]))
    return hessian, np.array(change).T


@pytest.mark.parametrize("lifted", [False, True])
def test_the_change_of_variables_is_invertible_and_frees_the_bias(lifted: bool) -> None:
    objective = problem(60, 0.01, lifted)
    hessian, change = in_full(objective, somewhere(objective), 1)
    assert np.linalg.matrix_rank(change) == len(change)
    rounder = change.T @ hessian @ change
    np.testing.assert_allclose(rounder[-1, :-1], 0, atol=1e-12)  # no feature is correlated with the bias any more
    assert rounder[-1, -1] == pytest.approx(1)
    assert np.all(np.diag(rounder)[:-1] < 1 + 1e-9)  # the scale is by a bound of the curvature
    plain = np.linalg.eigvalsh(hessian / np.sqrt(np.outer(np.diag(hessian), np.diag(hessian))))
    assert np.linalg.eigvalsh(rounder)[-1] < plain[-1] / 3


def test_slope_is_the_adjoint_of_step() -> None:
    objective = problem(60, 0.01, lifted=True)
    preconditioner = Preconditioner.at(objective, somewhere(objective))
    variables, gradient = somewhere(objective, 2), somewhere(objective, 3)
    left = preconditioner.step(variables).flat() @ gradient.flat()
    assert left == pytest.approx(variables.flat() @ preconditioner.slope(gradient).flat(), rel=1e-12)


def test_the_largest_curvature_of_a_sample_of_all_is_evened_out() -> None:
    objective = problem(9, 0.0)  # 3 sqrt(9) examples are sampled, and a fifth of as many directions evened out
    at = somewhere(objective)
    hessian, change = in_full(objective, at, 0)
    before = Preconditioner.at(objective, at)
    scale = np.diag(np.append(before.scale[0], 1.0))
    centred = hessian - np.outer(hessian[-1], hessian[-1]) / hessian[-1, -1]
    expected = np.linalg.eigvalsh(scale @ centred @ scale)
    assert expected[-1] > 1.5 * expected[-2]
    found = np.linalg.eigvalsh((change.T @ hessian @ change)[:-1, :-1])
    np.testing.assert_allclose(found[-2:], expected[-2], rtol=1e-9)
    np.testing.assert_allclose(found[-8:-2], expected[-8:-2], rtol=1e-9, atol=1e-12)


def test_examples_are_drawn_as_often_as_their_curvature_and_weight_say() -> None:
    """Systematic sampling: the count of each differs from what is expected by less than one."""
    size, often = np.random.default_rng(0).exponential(size=50) ** 3, np.arange(50.0)
    chosen, weight = _draw(size, often, 30)
    expected = 30 * (0.1 * often / often.sum() + 0.9 * size / size.sum())
    count = np.zeros(50)
    count[chosen] = weight * expected[chosen]
    np.testing.assert_allclose(count, np.round(count), atol=1e-9)
    assert count.sum() == pytest.approx(30)
    assert np.all(np.abs(count - expected) < 1)
    assert count.max() > 2
    np.testing.assert_array_equal(_draw(size, often, 50), [np.arange(50), np.ones(50)])
    np.testing.assert_allclose(_draw(np.zeros(50), np.ones(50), 10)[1], 5)


def test_no_direction_follows_a_single_example() -> None:
    """Where one example has nearly all of the curvature, its direction is no more than that example's."""
    objective = problem(30, 0.01)
    at = somewhere(objective)
    assert np.any(Preconditioner.at(objective, at).stretch != 0)
    objective.features.label(objective.labels, objective.terms.total * np.where(np.arange(30) == 4, 1.0, 1e-9))
    assert np.all(Preconditioner.at(objective, at).stretch == 0)


def test_steps_on_another_device_are_the_same() -> None:
    host, device = problem(30, 0.1), problem(30, 0.1, backend=StrictBackend())
    # chunks, and so samples, differ: the optimum does not
    settings = SolverSettings(500, 1e-8)
    found = [minimise(objective, objective.zeros(), settings) for objective in (host, device)]
    assert all(solution.converged for solution in found)
    np.testing.assert_allclose(found[0].parameters.flat(), found[1].parameters.flat(), atol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_few_examples(n: int) -> None:
    objective = problem(n, 0.1, n_classes=2)
    found = minimise(objective, objective.zeros(), SolverSettings(500, 1e-8))
    assert found.converged
    gradient = objective.value_and_gradient(found.parameters)[1]
    assert np.max(np.abs(gradient.weights)) < 1e-5


@pytest.mark.parametrize("link", ["sigmoid", "softmax"])
@pytest.mark.parametrize("is_cautious", [True, False])
def test_the_first_step_from_weights_far_off_lowers_the_loss_of_roots(is_cautious: bool, link: Link) -> None:
    """Where halves inherit weights of square roots most labels are wrong, and far: p (1 - p) is near 0 there, so that
    steps which trust it, as those of linear features may, go too far."""
    view = WindowView((1, 6, 6), (3, 3), grid=(2, 2), root=True)
    part = initial_part(view, window_vtree(view))
    store = FeatureStore([part], examples(36, 300, seed=0), NUMPY, precision="float64")
    objective = Objective(store, np.random.default_rng(0).integers(0, 3, 300), 3, link=link, l2=1e-3)
    assert objective.terms.has_roots
    objective.terms = replace(objective.terms, has_roots=is_cautious)
    start = objective.zeros().from_flat(np.random.default_rng(1).normal(size=objective.zeros().flat().size) * 5)
    losses = []

    def measured(at: Parameters, chunks: Sequence[int] | None = None) -> tuple[np.ndarray, Parameters]:
        losses.append(found := Objective.value_and_gradient(objective, at, chunks))
        return found

    objective.value_and_gradient = measured  # type: ignore[method-assign, assignment]
    minimise(objective, start, SolverSettings(1, 1e-9))
    (first, _), (second, _) = losses[:2]
    assert bool(np.all(second < first)) == is_cautious
