"""The learner: limits, determinism, resuming, stopping, and what it learns."""

import dataclasses
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

from lcml.backend import CupyBackend, FeaturePrecision, NumpyBackend, cuda_is_available
from lcml.circuits import vtree as vtrees
from lcml.circuits.parts import initial_part
from lcml.circuits.views import IdentityView, View
from lcml.circuits.vtree import Vtree
from lcml.data import load_splits
from lcml.errors import DataError, SettingsError
from lcml.inputs.encoders import fit_encoder
from lcml.learning.learner import Learner
from lcml.learning.objective import Objective
from lcml.learning.parameters import Parametrisation
from lcml.learning.scoring import Criterion, race_splits
from lcml.learning.selection import parts_after
from lcml.learning.settings import LearnSettings, SolverName
from lcml.learning.state import EncodedSet, FitState
from lcml.passes.feature_store import FeatureStore

NUMPY = NumpyBackend()
SETTINGS = LearnSettings(rounds=4, l2=1e-3, l2_path=(1e-2, 1e-4), minimum_support=2, patience=10)


def noisy_rule(n: int, seed: int) -> EncodedSet:
    """Three classes over 9 variables, by conjunctions, with a tenth of the labels drawn at random."""
    generator = np.random.default_rng(seed)
    q = generator.random((n, 9))
    bits = q > 0.5
    labels = np.where(bits[:, 0] & bits[:, 4], 2, np.where(bits[:, 3] ^ bits[:, 7], 1, 0))
    noise = generator.random(n) < 0.1
    return EncodedSet(q, np.where(noise, generator.integers(0, 3, n), labels))


def whole(vtree: Vtree) -> list[tuple[View, Vtree]]:
    """One part that sees every variable."""
    return [(IdentityView(vtree.n_variables), vtree)]


TRAIN, VALID = noisy_rule(300, 1), noisy_rule(100, 2)


def learner(settings: LearnSettings = SETTINGS, vtree: Vtree | None = None, **options: object) -> Learner:
    vtree = vtree or vtrees.grid(3, 3)
    return Learner(whole(vtree), TRAIN, VALID, 3, settings, NUMPY, **options)  # type: ignore[arg-type]


def finished(fresh: Learner) -> FitState:
    for _ in fresh.grow():
        pass
    for _ in fresh.refine():
        pass
    assert fresh.state is not None
    return fresh.state


def assert_same(first: FitState, second: FitState) -> None:
    assert first.history == second.history
    assert (first.best.round, first.best.l2, first.best.valid) == (second.best.round, second.best.l2, second.best.valid)
    np.testing.assert_array_equal(first.parameters.flat(), second.parameters.flat())
    np.testing.assert_array_equal(first.best.parameters.flat(), second.best.parameters.flat())


def test_rounds_grow_the_circuit_and_lower_the_loss() -> None:
    fresh = learner()
    reports = list(fresh.grow())
    assert [report.round for report in reports] == [0, 1, 2, 3, 4]
    assert all(later.n_elements > earlier.n_elements for earlier, later in pairwise(reports))
    assert reports[-1].train_loss < reports[0].train_loss
    # independent elements alone carry weights: one less per or gate
    assert reports[-1].n_parameters == 3 * (reports[-1].n_elements - reports[-1].n_or_gates + 1)
    assert {"score", "split", "features", "fit", "evaluate"} <= reports[-1].seconds.keys()


def test_reported_figures_are_those_of_the_best_weights() -> None:
    fresh = learner()
    finished(fresh)
    parts, best = fresh.best()
    objective = Objective(FeatureStore(parts, VALID.values, NUMPY), VALID.labels, 3)
    predicted = objective.logits(best).argmax(axis=1)
    assert fresh.state is not None
    assert fresh.state.best.valid.accuracy == pytest.approx((predicted == VALID.labels).mean())


def test_the_same_seed_gives_the_same_model() -> None:
    assert_same(finished(learner()), finished(learner()))


@pytest.mark.parametrize("solver", ["lbfgs", "minibatch"])
@pytest.mark.parametrize("budget", [None, 0])
def test_a_resumed_learner_ends_where_an_uninterrupted_one_does(solver: SolverName, budget: int | None) -> None:
    settings = dataclasses.replace(SETTINGS, solver=solver, memory_budget=budget)
    whole = finished(learner(settings))
    for stop_after in range(3):
        first = learner(settings)
        for report in first.grow():
            if report.round == stop_after:
                break
        assert_same(finished(learner(settings, state=first.state)), whole)


def test_history_replays_to_the_circuit() -> None:
    fresh = learner()
    for _ in fresh.grow():
        pass
    assert fresh.state is not None
    start = (initial_part(IdentityView(9), vtrees.grid(3, 3)),)
    (replayed,) = parts_after(start, fresh.state.history, 0)
    assert replayed.circuit.same_as(fresh.parts[0].circuit)
    np.testing.assert_array_equal(replayed.weighted, fresh.parts[0].weighted)


def test_limits_on_elements_parameters_and_rounds() -> None:
    initial = initial_part(IdentityView(9), vtrees.grid(3, 3))
    n_elements = initial.circuit.n_elements
    small = learner(dataclasses.replace(SETTINGS, max_elements=n_elements + 6))
    assert max(report.n_elements for report in small.grow()) in range(n_elements + 1, n_elements + 7)
    limit = 3 * (initial.n_features + 9 + 1)
    few = learner(dataclasses.replace(SETTINGS, max_parameters=limit))
    assert limit // 2 < max(report.n_parameters for report in few.grow()) <= limit
    assert len(list(learner(dataclasses.replace(SETTINGS, rounds=0)).grow())) == 1


@pytest.mark.parametrize("as_they_are", [True, False])
def test_a_refit_is_the_optimum_over_training_and_validation_examples(as_they_are: bool) -> None:
    """Against a fit from zero of a learner that trains on both from the start."""
    settings = dataclasses.replace(SETTINGS, rounds=0, l2=1e-2, l2_path=(1e-2,), precision="float64")
    settings = dataclasses.replace(settings, round_iterations=500, final_iterations=500, tolerance=1e-8)
    fresh = learner(settings)
    before = finished(fresh).best
    both = EncodedSet(np.concatenate([TRAIN.values, VALID.values]), np.concatenate([TRAIN.labels, VALID.labels]))
    (report,) = fresh.refit(None if as_they_are else both)
    assert fresh.state is not None
    after = fresh.state.best
    assert (report.phase, report.l2, report.valid) == ("refit", 1e-2, before.valid)
    assert (after.round, after.valid) == (before.round, before.valid)
    assert after.train_accuracy == report.train_accuracy

    whole_set = Learner(whole(vtrees.grid(3, 3)), both, VALID, 3, settings, NUMPY)
    expected = finished(whole_set).best.parameters.flat()
    np.testing.assert_allclose(after.parameters.flat(), expected, atol=2e-4)
    assert np.abs(before.parameters.flat() - expected).max() > 0.01


def with_copies(images: EncodedSet, n_copies: int) -> EncodedSet:
    """Images, and copies of them with much noise."""
    values = np.asarray(images.values[:])
    noise = np.random.default_rng(7).normal(0, 0.6, (n_copies, *values.shape))
    copies = np.clip(values + noise, 0, 1).reshape(-1, 9)
    labels = np.tile(images.labels, n_copies + 1)
    return EncodedSet(np.concatenate([values, copies]), labels, n_images=len(images.labels))


TO_THE_OPTIMUM = dataclasses.replace(
    SETTINGS,
    rounds=0,
    l2=1e-2,
    l2_path=(1e-2, 1e-3),
    average=True,
    precision="float64",
    metric="log-loss",
    round_iterations=500,
    final_iterations=500,
    tolerance=1e-8,
)


def optimum(examples: EncodedSet, l2: float) -> np.ndarray:
    """The weights that a learner of these examples alone, which averages nothing, ends with."""
    settings = dataclasses.replace(TO_THE_OPTIMUM, l2=l2, l2_path=(l2,), average=False)
    plain = EncodedSet(examples.values, examples.labels)
    return finished(Learner(whole(vtrees.grid(3, 3)), plain, VALID, 3, settings, NUMPY)).best.parameters.flat()


def design(learned: Learner, examples: EncodedSet) -> np.ndarray:
    """(n_examples, n_weights + 1) what the weights of a set, and its bias, are times in its logit."""
    parts, count = learned.parts, len(examples.labels)
    store = FeatureStore(parts, examples.values, NUMPY, precision="float64", budget=1 << 30)
    parametrisation = Parametrisation(parts, SETTINGS.literal_weights)
    objective = Objective(store, examples.labels, 3, parametrisation=parametrisation)
    zeros, columns = objective.zeros(), []
    for place in range(zeros.weights.shape[1]):
        unit = objective.zeros()
        unit.weights[0, place] = 1
        columns.append(objective.logits(unit)[:, 0])
    return np.column_stack([*columns, np.ones(count)])


def least_squares(learned: Learner, examples: EncodedSet, l2: float) -> np.ndarray:
    """The weights under which the mean of (g - (2 t - 1))^2 / 8, and the penalty, are least: of normal equations."""
    phi, n = design(learned, examples), len(examples.labels)
    wanted = 2.0 * (examples.labels[:, None] == np.arange(3)) - 1
    penalty = l2 * np.diag([*np.ones(phi.shape[1] - 1), 0])
    solved = np.linalg.solve(phi.T @ phi / (4 * n) + penalty, phi.T @ wanted / (4 * n)).T
    return np.concatenate([solved[:, :-1].ravel(), solved[:, -1]])


def test_fits_of_both_losses_are_averaged_where_validation_says_so() -> None:
    """The second is of images without copies; against normal equations, and a scale found on a grid."""
    both = TRAIN.joined(VALID)
    everything, joined = with_copies(TRAIN, 3), with_copies(both, 3)
    fresh = Learner(whole(vtrees.grid(3, 3)), everything, VALID, 3, TO_THE_OPTIMUM, NUMPY)
    reports = [*fresh.grow(), *fresh.refine()]
    assert [report.phase for report in reports] == ["grow", "refine", "refine", "average", "average"]
    lost = [report.valid.log_loss for report in reports]
    assert fresh.state is not None
    best = fresh.state.best
    assert best.valid.log_loss == min(lost[3:]) < min(lost[:3])
    assert best.l2 == (1e-2, 1e-3)[int(np.argmin(lost[1:3]))]
    assert best.l2_squares == (1e-2, 1e-3)[int(np.argmin(lost[3:]))]
    fitted, squares = optimum(everything, best.l2), least_squares(fresh, TRAIN, best.l2_squares)
    phi = design(fresh, VALID)

    def lost_under(scale: float) -> float:
        flat = (fitted + scale * squares) / 2
        p = expit(phi @ np.vstack([flat[:-3].reshape(3, -1).T, flat[-3:]]))
        return float(log_loss(VALID.labels, p / p.sum(axis=1, keepdims=True)))

    scales = np.geomspace(0.1, 100, 2000)
    assert best.scale == pytest.approx(scales[np.argmin([*map(lost_under, scales)])], rel=0.02)
    np.testing.assert_allclose(best.parameters.flat(), (fitted + best.scale * squares) / 2, atol=5e-3)
    assert np.abs(fitted - best.parameters.flat()).max() > 0.02

    (report,) = fresh.refit(joined)
    assert (report.phase, report.valid) == ("refit", best.valid)
    expected = (optimum(joined, best.l2) + best.scale * least_squares(fresh, both, best.l2_squares)) / 2
    np.testing.assert_allclose(fresh.state.best.parameters.flat(), expected, atol=5e-3)


def test_a_mean_that_does_worse_is_not_kept() -> None:
    """Without copies the second fit is of the same examples; its loss against that of normal equations."""
    fresh = learner(TO_THE_OPTIMUM)
    reports = [*fresh.grow(), *fresh.refine()]
    means = [report for report in reports if report.phase == "average"]
    assert [report.improved for report in means] == [False, False]
    phi, wanted = design(fresh, TRAIN), 2.0 * (TRAIN.labels[:, None] == np.arange(3)) - 1
    for report in means:
        flat = least_squares(fresh, TRAIN, report.l2)
        residual = phi @ np.vstack([flat[:-3].reshape(3, -1).T, flat[-3:]]) - wanted
        least = np.sum(residual**2) / (8 * len(phi)) + report.l2 / 2 * np.sum(flat[:-3] ** 2)
        assert report.train_loss == pytest.approx(least, rel=1e-6)
    assert fresh.state is not None
    best = fresh.state.best
    assert (best.l2_squares, best.scale) == (None, 1.0)
    np.testing.assert_allclose(best.parameters.flat(), optimum(TRAIN, best.l2), atol=2e-3)


def test_a_cluster_averages_no_fits() -> None:
    with pytest.raises(SettingsError, match="average: this is not done on a cluster; leave it out"):
        learner(TO_THE_OPTIMUM, engine=object())


def test_a_refit_that_is_stopped_before_its_mean_leaves_what_did_best(monkeypatch: pytest.MonkeyPatch) -> None:
    stop = list[bool]()
    fresh = Learner(
        whole(vtrees.grid(3, 3)), with_copies(TRAIN, 1), VALID, 3, TO_THE_OPTIMUM, NUMPY, should_stop=lambda: bool(stop)
    )
    best, opened = finished(fresh).best, fresh._open_images
    assert best.l2_squares is not None

    def stopped(examples: EncodedSet | None) -> None:
        opened(examples)
        stop.append(True)

    monkeypatch.setattr(fresh, "_open_images", stopped)
    assert list(fresh.refit(with_copies(TRAIN.joined(VALID), 1))) == []
    assert fresh.state is not None
    assert fresh.state.best is best


def test_limits_below_the_initial_circuit_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"the initial circuits have .* parameters, more than max_parameters 30"):
        learner(dataclasses.replace(SETTINGS, max_parameters=30))


def test_stopping_keeps_the_last_finished_round() -> None:
    fresh = learner()
    stop = False
    interrupted = learner(should_stop=lambda: stop)
    reports = fresh.grow()
    for report in interrupted.grow():
        expected = next(reports)
        assert report.train_loss == expected.train_loss
        stop = report.round == 2
    assert interrupted.state is not None
    assert interrupted.state.round == 2
    assert list(interrupted.refine()) == []


@pytest.mark.parametrize("criterion", ["gain", "variance"])
def test_a_weight_is_how_often_an_example_is_there(criterion: Criterion, monkeypatch: pytest.MonkeyPatch) -> None:
    """In fitting, in choosing splits with their support, and in validation, where no sample stands between."""
    monkeypatch.setattr("lcml.learning.learner.race_splits", partial(race_splits, screen=1, finalists=99))
    settings = dataclasses.replace(SETTINGS, rounds=2, criterion=criterion, precision="float64", tolerance=1e-9)
    settings = dataclasses.replace(settings, round_iterations=1000, final_iterations=1000, minimum_support=20)
    weighted, repeated, generator = [], [], np.random.default_rng(0)
    for examples in (TRAIN, VALID):
        often = generator.integers(0, 4, len(examples.labels))
        weighted.append(dataclasses.replace(examples, weights=often.astype(float)))
        repeated.append(EncodedSet(np.repeat(examples.values[:], often, axis=0), np.repeat(examples.labels, often)))
    first, second = (
        finished(Learner(whole(vtrees.grid(3, 3)), train, valid, 3, settings, NUMPY))
        for train, valid in (weighted, repeated)
    )
    assert [set(splits) for splits in first.history] == [set(splits) for splits in second.history]
    assert first.round == 2
    assert (first.best.round, first.best.l2) == (second.best.round, second.best.l2)
    assert dataclasses.astuple(first.best.valid) == pytest.approx(dataclasses.astuple(second.best.valid), abs=1e-7)
    assert first.best.train_accuracy == pytest.approx(second.best.train_accuracy)
    np.testing.assert_allclose(first.best.parameters.flat(), second.best.parameters.flat(), atol=1e-5)


@pytest.mark.parametrize("missing", [0, 1])
@pytest.mark.parametrize(("precision", "size"), [("fixed8", 1), ("fixed16", 2)])
def test_both_sets_share_one_budget(
    precision: FeaturePrecision, size: int, missing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What holds the features of both to the byte keeps both; a byte less would hold either, and keeps neither."""
    n_features = initial_part(IdentityView(9), vtrees.grid(3, 3)).n_features
    n_bytes = size * n_features * (len(TRAIN.labels) + len(VALID.labels))
    monkeypatch.setattr(NumpyBackend, "memory_budget", lambda self: n_bytes - missing)
    fresh = learner(dataclasses.replace(SETTINGS, precision=precision))
    stores = [o.features for o in (fresh._sets.train, fresh._sets.valid)]
    assert [isinstance(store, FeatureStore) and store.is_in_memory for store in stores] == [not missing, not missing]


def test_validation_that_stops_improving_ends_growth() -> None:
    patient = learner(dataclasses.replace(SETTINGS, rounds=30, patience=2, growth=1.0))
    reports = list(patient.grow())
    assert len(reports) < 31
    assert not any(report.improved for report in reports[-2:])


def test_the_model_is_the_best_that_was_ever_validated() -> None:
    """Measured anew on what `best` gives: no later round, and no penalty of the path, has taken its place."""
    settings = dataclasses.replace(SETTINGS, metric="log-loss", l2_path=(1.0, 1e-3, 1e-9), precision="float64")
    fresh = learner(settings)
    grown, path = [[-report.valid.log_loss for report in phase()] for phase in (fresh.grow, fresh.refine)]
    parts, best = fresh.best()
    logits = Objective(FeatureStore(parts, VALID.values, NUMPY, precision="float64"), VALID.labels, 3).logits(best)
    p = expit(logits) / expit(logits).sum(axis=1, keepdims=True)
    assert -log_loss(VALID.labels, p) == pytest.approx(max(*grown, *path), abs=1e-12)
    assert min(path[0], path[-1]) < max(*grown, *path) - 0.01
    assert grown[-1] < max(*grown, *path) - 1e-4


def test_planted_rule_is_learned() -> None:
    generator = np.random.default_rng(0)
    q = generator.integers(0, 2, (500, 6)).astype(float)
    labels = ((q[:, 0] * q[:, 3] + q[:, 5]) > 0).astype(np.int64)
    train, valid = EncodedSet(q[:400], labels[:400]), EncodedSet(q[400:], labels[400:])
    fresh = Learner(
        whole(vtrees.balanced(6)), train, valid, 2, dataclasses.replace(SETTINGS, l2=1e-5, l2_path=(1e-5,)), NUMPY
    )
    assert finished(fresh).best.valid.accuracy == 1.0


@pytest.mark.parametrize("n_variables", [1, 2])
def test_one_and_two_variables(n_variables: int) -> None:
    q = np.random.default_rng(0).random((80, n_variables))
    labels = (q[:, 0] > 0.5).astype(np.int64)
    train, valid = EncodedSet(q[:60], labels[:60]), EncodedSet(q[60:], labels[60:])
    fresh = Learner(whole(vtrees.balanced(n_variables)), train, valid, 2, SETTINGS, NUMPY)
    assert finished(fresh).best.valid.accuracy > 0.9


@pytest.mark.parametrize("which", ["training", "validation"])
def test_an_empty_set_is_refused(which: str) -> None:
    empty = EncodedSet(np.zeros((0, 9)), np.zeros(0, dtype=np.int64))
    train, valid = (empty, VALID) if which == "training" else (TRAIN, empty)
    with pytest.raises(DataError, match=f"the {which} set is empty"):
        Learner(whole(vtrees.grid(3, 3)), train, valid, 3, SETTINGS, NUMPY)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"link": "probit"}, "link: expected one of sigmoid, softmax"),
        ({"growth": 0.0}, "growth: expected a finite number of at least"),
        ({"l2": -1.0}, "l2: expected a finite number of at least 0"),
        ({"l2_path": ()}, "l2_path: expected one or more penalties"),
        ({"rounds": -1}, "rounds: expected"),
        ({"depth": -1}, "depth: expected"),
        ({"time_limit": float("nan")}, "time_limit: expected"),
    ],
)
def test_settings_out_of_range_are_named(changes: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        LearnSettings(**changes)  # type: ignore[arg-type]


@pytest.mark.gpu
@pytest.mark.skipif(not cuda_is_available(), reason="no CUDA device answers")
def test_cupy_learns_what_numpy_learns() -> None:
    settings = dataclasses.replace(SETTINGS, precision="float64", rounds=2)
    on_card = Learner(whole(vtrees.grid(3, 3)), TRAIN, VALID, 3, settings, CupyBackend())
    first, second = finished(on_card), finished(learner(settings))
    assert first.history == second.history
    np.testing.assert_allclose(first.best.parameters.flat(), second.best.parameters.flat(), atol=1e-6)


def test_digits_reach_98_percent_of_the_test_set_over_five_seeds() -> None:
    right = []
    for seed in range(5):
        splits = load_splits("digits", seed=seed)
        encoder = fit_encoder("scale", splits.train.features, shared=True)
        train, valid, test = (
            EncodedSet(encoder.encode(part.features), part.labels) for part in (splits.train, splits.valid, splits.test)
        )
        fresh = Learner(whole(vtrees.grid(8, 8)), train, valid, 10, LearnSettings(seed=seed), NUMPY)
        finished(fresh)
        parts, best = fresh.best()
        objective = Objective(FeatureStore(parts, test.values, NUMPY), test.labels, 10)
        right.append((objective.logits(best).argmax(axis=1) == test.labels).mean())
    assert np.mean(right) >= 0.98


def test_data_on_disk_are_streamed(tmp_path: Path) -> None:
    # features are not kept, examples are read from a memory-mapped file chunk by chunk: the same model as from memory
    settings = dataclasses.replace(SETTINGS, solver="minibatch", memory_budget=0, rounds=2)
    np.save(tmp_path / "values.npy", TRAIN.values[:])
    on_disk = EncodedSet(np.load(tmp_path / "values.npy", mmap_mode="r"), TRAIN.labels)
    streamed = Learner(whole(vtrees.grid(3, 3)), on_disk, VALID, 3, settings, NUMPY)
    assert_same(finished(streamed), finished(learner(settings)))
