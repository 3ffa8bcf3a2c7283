"""Growth on samples of the training examples: which those are, and that the rest of learning is what it was."""

import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

from lcml.backend import NumpyBackend
from lcml.circuits import vtree as vtrees
from lcml.circuits.views import IdentityView
from lcml.errors import SettingsError
from lcml.learning.learner import Learner
from lcml.learning.objective import Objective
from lcml.learning.sampling import sample_size, stratified_order
from lcml.learning.settings import LearnSettings, SolverName
from lcml.learning.state import EncodedSet
from lcml.passes.feature_store import FeatureStore

from .test_learner import assert_same, finished

NUMPY = NumpyBackend()
SETTINGS = LearnSettings(
    rounds=3, growth=0.8, l2=1e-3, l2_path=(1e-3,), minimum_support=2, growth_examples=38, patience=10
)


def examples(n: int, seed: int) -> EncodedSet:
    """Two of three classes are conjunctions of 9 variables."""
    q = np.random.default_rng(seed).random((n, 9))
    return EncodedSet(q, np.where(q[:, 0] * q[:, 4] > 0.4, 2, np.where(q[:, 3] * q[:, 7] > 0.3, 1, 0)))


TRAIN, VALID = examples(1300, 1), examples(200, 2)


def learner(settings: LearnSettings = SETTINGS, train: EncodedSet = TRAIN, **options: object) -> Learner:
    places = [(IdentityView(9), vtrees.grid(3, 3))]
    return Learner(places, train, VALID, 3, settings, NUMPY, **options)  # type: ignore[arg-type]


def counts(labels: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    return np.bincount(labels[:n], minlength=3)


def test_every_beginning_of_the_order_has_the_classes_in_proportion() -> None:
    labels = np.repeat([0, 1, 2], [600, 300, 100])
    order = stratified_order(labels, 0)
    np.testing.assert_array_equal(np.sort(order), np.arange(1000))
    for n in range(1, 1001):
        assert np.all(np.abs(counts(labels[order], n) - n * np.array([0.6, 0.3, 0.1])) <= 2), n
    np.testing.assert_array_equal(counts(labels[order], 1000), [600, 300, 100])
    np.testing.assert_array_equal(order, stratified_order(labels, 0))
    assert not np.array_equal(order, stratified_order(labels, 1))


@pytest.mark.parametrize(("per_feature", "n"), [(None, 5000), (2.0, 1024), (5.12, 1536), (5.2, 2048), (50, 5000)])
def test_a_sample_is_whole_chunks_of_so_many_per_feature(per_feature: float | None, n: int) -> None:
    assert sample_size(per_feature, 300, 5000, 512) == n  # of 300 features: 600, 1536, 1560, 15000


def test_growth_sees_a_growing_sample_and_the_last_fit_all() -> None:
    fresh, sizes = learner(dataclasses.replace(SETTINGS, metric="log-loss")), []
    for _ in fresh.grow():
        store = fresh._sets.train.features
        sizes.append((store.n_features, store.n_examples))
        shares = counts(fresh._sets.train.labels, store.n_examples) / store.n_examples
        np.testing.assert_allclose(shares, counts(TRAIN.labels, 1300) / 1300, atol=0.005)
    assert sizes == [(13, 512), (16, 1024), (19, 1024), (19, 1024)]  # 38 times 13, 16, 19: 494, 608, 722
    (report,) = fresh.refine()
    assert report.improved
    parts, best = fresh.best()
    everything = Objective(FeatureStore(parts, TRAIN.values, NUMPY), TRAIN.labels, 3)
    accuracy, log_loss = everything.reached(best)
    assert (report.train_accuracy, report.train_log_loss) == pytest.approx((accuracy, log_loss), abs=1e-4)
    slope = everything.with_l2(1e-3).value_and_gradient(best)[1].bias  # not penalised: at the optimum of all it is 0
    np.testing.assert_allclose(slope, 0, atol=1e-4)


def test_a_sample_of_everything_changes_nothing() -> None:
    many, every = (dataclasses.replace(SETTINGS, growth_examples=n) for n in (1000.0, None))
    assert_same(finished(learner(many)), finished(learner(every)))


@pytest.mark.parametrize(("solver", "budget"), [("lbfgs", None), ("lbfgs", 0), ("minibatch", None)])
def test_a_resumed_learner_sees_the_same_examples(solver: SolverName, budget: int | None) -> None:
    weighted = dataclasses.replace(TRAIN, weights=np.linspace(0.5, 2, 1300))
    settings = dataclasses.replace(SETTINGS, solver=solver, memory_budget=budget)
    whole = finished(learner(settings, weighted))
    assert whole.round == 3
    for stop_after in range(3):
        first = learner(settings, weighted)
        for report in first.grow():
            if report.round == stop_after:
                break
        assert_same(finished(learner(settings, weighted, state=first.state)), whole)


def test_a_cluster_has_no_sample() -> None:
    with pytest.raises(SettingsError, match="growth_examples: on a cluster every machine works on the examples"):
        learner(engine=object())
