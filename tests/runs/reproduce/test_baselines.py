import math
import multiprocessing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sklearn.svm import SVC

from lcml.data import Examples, load_splits
from lcml.errors import LcmlError
from lcml.runs.reproduce.apart import fit_apart
from lcml.runs.reproduce.baselines import QUICK, SETTINGS, fit
from lcml.runs.reproduce.experiments import Row
from lcml.runs.reproduce.runner import Setup, row_settings, run_baseline
from tests.runs.test_training import Recorder


def grey(part: Examples) -> Examples:
    """Digits, whose values are 0 to 16, with those of 0 to 240."""
    return replace(part, features=15 * part.features[:])


SPLITS = load_splits("digits", train_fraction=0.3)
DIGITS = replace(SPLITS, train=grey(SPLITS.train), valid=grey(SPLITS.valid), test=grey(SPLITS.test))


@pytest.mark.parametrize(
    ("key", "layers"), [("logistic-regression", (64, 10)), ("mlp-3", (64, 1000, 500, 250, 10)), ("svm", None)]
)
def test_parameters_are_all_weights_and_biases(key: str, layers: tuple[int, ...] | None) -> None:
    fitted = fit(key, {**SETTINGS[key], **QUICK[key]}, DIGITS, 0)
    if layers is None:
        assert fitted.n_parameters is None
        support = SVC(C=8.0, gamma=0.05).fit(DIGITS.train.features[:] / 255, DIGITS.train.labels).support_
        assert fitted.n_stored == 64 * len(support)
    else:
        weights = sum(map(math.prod, pairwise(layers)))
        assert fitted.n_parameters == weights + sum(layers[1:])


def test_a_cap_is_recorded_and_no_noise() -> None:
    capped = fit("logistic-regression", {"max_iter": 3}, DIGITS, 0)
    assert (capped.n_iterations, capped.converged) == (3, False)
    ended = fit("logistic-regression", SETTINGS["logistic-regression"], DIGITS, 0)
    assert ended.n_iterations is not None
    assert ended.n_iterations < 300
    assert ended.converged
    assert ended.test_accuracy > 0.9
    forest = fit("forest", QUICK["forest"], DIGITS, 0)
    assert (forest.n_iterations, forest.converged, forest.n_parameters) == (None, True, None)
    assert forest.n_stored is not None
    assert forest.n_stored % 2 == 0  # 20 full binary trees, each of an odd number of nodes
    assert forest.n_stored > 20 * 19  # at least ten leaves each


def test_the_accuracies_are_those_of_scikit_learn_on_the_same_division() -> None:
    fitted = fit("svm", SETTINGS["svm"], DIGITS, 0)
    direct = SVC(C=8.0, gamma=0.05).fit(DIGITS.train.features[:] / 255, DIGITS.train.labels)
    assert fitted.valid_accuracy == direct.score(DIGITS.valid.features[:] / 255, DIGITS.valid.labels)
    assert fitted.test_accuracy == direct.score(DIGITS.test.features[:] / 255, DIGITS.test.labels)


def test_the_test_images_change_nothing_but_their_own_accuracy() -> None:
    other = replace(DIGITS, test=Examples(np.zeros_like(DIGITS.test.features), DIGITS.test.labels))
    first, second = (fit("forest", QUICK["forest"], splits, 0) for splits in (DIGITS, other))
    assert first.valid_accuracy == second.valid_accuracy
    assert first.test_accuracy > 0.8 > second.test_accuracy


def test_a_baseline_is_recorded() -> None:
    tracker, row = Recorder(), Row("digits", 1.0, "logistic-regression")
    result = run_baseline(row, Setup(Path("nowhere")), tracker)
    assert result is not None
    assert tracker.started == [("digits-100-logistic-regression", None)]
    assert tracker.params == {
        "data": "digits",
        "model": "logistic-regression",
        "train_fraction": 1.0,
        "seed": 0,
    } | dict(SETTINGS["logistic-regression"])
    ((step, values),) = tracker.points
    assert (step, values["final/test_accuracy"], values["model/n_parameters"]) == (0, result.test_accuracy, 650.0)
    assert tracker.statuses == ["FINISHED"]
    assert (result.n_train, result.n_valid, result.n_test, result.run_id) == (1294, 144, 359, "run-1")
    assert result.settings == row_settings(row, Setup(Path("nowhere")))
    assert result.settings["max_iter"] == 300


def test_a_stopped_baseline_is_recorded_as_killed_and_has_no_result() -> None:
    tracker, row = Recorder(), Row("digits", 1.0, "mlp-5")
    assert run_baseline(row, Setup(Path("nowhere")), tracker, should_stop=lambda: True) is None
    assert (tracker.statuses, tracker.points) == (["KILLED"], [])
    assert not multiprocessing.active_children()


def test_a_process_of_its_own_changes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    here, apart = fit("forest", QUICK["forest"], DIGITS, 3), fit_apart("forest", QUICK["forest"], DIGITS, 3)
    assert apart is not None
    assert replace(apart, seconds=here.seconds) == here
    assert "n_jobs" not in capfd.readouterr().err


def test_a_process_that_fails_is_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LcmlError, match="svm: the process that fitted it ended with exit code 1 and without a result"):
        fit_apart("svm", {"kernel": "none such"}, DIGITS, 0)
    assert "none such" in capfd.readouterr().err
